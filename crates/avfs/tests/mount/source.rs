//! A tree for programs to copy and pack: a little of everything, the same each time.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags};

/// Makes it, unless another run has.
pub fn source(top: &Path) {
    if top.exists() {
        return;
    }
    for index in 0..300 {
        let directory = top.join(format!("d{}/e{}", index % 7, index % 3));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(format!("file {index}")), text(index)).unwrap();
    }
    fs::write(top.join("large"), text(99).repeat(20_000)).unwrap();
    fs::write(top.join("empty"), b"").unwrap();
    fs::write(top.join("\u{202e} näme\n"), b"strange").unwrap();
    fs::write(top.join("n".repeat(255)), b"long").unwrap();
    sparse(&top.join("sparse"));
    links(top);
    modes(top);
    rustix::fs::setxattr(top.join("large"), "user.note", b"one\0two", XattrFlags::empty()).unwrap();
    rustix::fs::setxattr(top.join("d1"), "user.note", &[7; 900], XattrFlags::empty()).unwrap();
    let fifo = Mode::from_raw_mode(0o640);
    rustix::fs::mknodat(CWD, top.join("fifo"), FileType::Fifo, fifo, 0).unwrap();
    set_old_times(top, 0);
}

pub fn text(index: usize) -> String {
    (0..index % 40 + 1)
        .map(|line| format!("{index}: line {} of some text\n", line * index))
        .collect()
}

fn sparse(path: &Path) {
    let file = File::create(path).unwrap();
    file.set_len(8 << 20).unwrap();
    for offset in [0, 1 << 20, (8 << 20) - 5] {
        file.write_all_at(b"data!", offset).unwrap();
    }
}

fn links(top: &Path) {
    fs::hard_link(top.join("large"), top.join("d0/also large")).unwrap();
    fs::hard_link(top.join("large"), top.join("d3/large too")).unwrap();
    symlink("d1/e1", top.join("into")).unwrap();
    symlink("/nonexistent/\u{e4}", top.join("nowhere")).unwrap();
    symlink("t".repeat(1000), top.join("long target")).unwrap();
}

fn modes(top: &Path) {
    let modes = [
        ("d2", 0o2750),
        ("d4", 0o1777),
        ("d5", 0o555),
        ("empty", 0o000),
        ("d0/e0/file 0", 0o6755),
    ];
    for (name, mode) in modes {
        fs::set_permissions(top.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
}

/// Every entry gets a time of its own, long ago, with nanoseconds, children before their directories.
fn set_old_times(path: &Path, mut count: u64) -> u64 {
    if fs::symlink_metadata(path).unwrap().is_dir() {
        let mut names: Vec<_> = fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        names.sort();
        count = names.iter().fold(count, |count, name| set_old_times(name, count));
    }
    let time = Timespec {
        tv_sec: 1_000_000_000 + count as i64 * 7919,
        tv_nsec: (count as i64 * 104_729) % 1_000_000_000,
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
    count + 1
}

/// When a file was modified.
pub fn mtime(path: &Path) -> Duration {
    fs::symlink_metadata(path)
        .unwrap()
        .modified()
        .unwrap()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
}
