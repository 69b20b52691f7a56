//! Checks of mode and owner, where the kernel leaves them to the server, compared with a directory of the
//! host.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::time::{Duration, Instant};

use avfs_fuse::Errno;
use avfs_fuse::abi::Opcode;
use rustix::fs::{Access, AtFlags, CWD, Gid, Mode, OFlags, Timestamps, Uid, XattrFlags};

use crate::fixture::{Mounted, empty_tree, errno};

const OWNER: u32 = 1000;
const OTHER: u32 = 1500;
const GROUP: u32 = 2000;

/// Runs an action as an ordinary user, who is in one additional group. To the kernel, credentials belong to a
/// thread.
fn as_owner<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let uid = Uid::from_raw(OWNER);
            let gid = Gid::from_raw(OWNER);
            rustix::thread::set_thread_groups(&[Gid::from_raw(GROUP)]).unwrap();
            rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
            rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            act()
        });
        thread.join().unwrap()
    })
}

fn set(path: &Path, owner: u32, group: u32, mode: u32) {
    chown(path, Some(owner), Some(group)).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Files and directories of two owners with all kinds of modes, each directory with a file and a directory in it.
fn fill(top: &Path) {
    set(top, OWNER, OWNER, 0o755);
    for (owner, name) in [(OWNER, "own"), (OTHER, "other")] {
        for mode in [0o000, 0o111, 0o222, 0o444, 0o640, 0o604, 0o750, 0o705, 0o777] {
            let file = top.join(format!("{name} file {mode:o}"));
            fs::write(&file, "contents").unwrap();
            rustix::fs::setxattr(&file, "user.set", b"1", XattrFlags::empty()).unwrap();
            set(&file, owner, GROUP, mode);
        }
        for mode in [0o000, 0o111, 0o222, 0o333, 0o444, 0o555, 0o750, 0o777, 0o1777] {
            let directory = top.join(format!("{name} directory {mode:o}"));
            fs::create_dir(&directory).unwrap();
            for entry in ["file", "another", "third"] {
                fs::write(directory.join(entry), "contents").unwrap();
                set(&directory.join(entry), OTHER, OTHER, 0o666);
            }
            fs::create_dir(directory.join("inner")).unwrap();
            set(&directory.join("inner"), OWNER, OWNER, 0o555);
            set(&directory, owner, GROUP, mode);
        }
    }
}

type Answer = Option<Errno>;

fn of<T>(result: Result<T, Errno>) -> Answer {
    result.err()
}

fn opened(path: &Path, flags: OFlags) -> Answer {
    of(rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty()))
}

/// Every action on a file that depends on its mode, each with its name.
fn try_file(path: &Path) -> Vec<(&'static str, Answer)> {
    let time = |seconds| rustix::fs::Timespec {
        tv_sec: seconds,
        tv_nsec: 0,
    };
    let then = time(1);
    let now = rustix::fs::Timespec {
        tv_sec: 0,
        tv_nsec: rustix::fs::UTIME_NOW,
    };
    let times = |at: rustix::fs::Timespec| Timestamps {
        last_access: at,
        last_modification: at,
    };
    let touch = |at| of(rustix::fs::utimensat(CWD, path, &times(at), AtFlags::empty()));
    let access = |wanted| of(rustix::fs::accessat(CWD, path, wanted, AtFlags::empty()));
    let owner = |uid: u32| of(rustix::fs::chown(path, Some(Uid::from_raw(uid)), None));
    let group = |gid: u32| of(rustix::fs::chown(path, None, Some(Gid::from_raw(gid))));
    vec![
        ("open to read", opened(path, OFlags::RDONLY)),
        ("open to write", opened(path, OFlags::WRONLY)),
        ("open to do both", opened(path, OFlags::RDWR)),
        ("open to append", opened(path, OFlags::WRONLY | OFlags::APPEND)),
        ("access to read", access(Access::READ_OK)),
        ("access to write", access(Access::WRITE_OK)),
        ("access to execute", access(Access::EXEC_OK)),
        (
            "attribute",
            of(rustix::fs::getxattr(path, "user.set", &mut [0_u8; 8][..])),
        ),
        (
            "set attribute",
            of(rustix::fs::setxattr(path, "user.new", b"2", XattrFlags::empty())),
        ),
        ("remove attribute", of(rustix::fs::removexattr(path, "user.new"))),
        ("touch", touch(now)),
        ("touch with a time", touch(then)),
        ("own", owner(OWNER)),
        ("give away", owner(OTHER)),
        ("give to a group", group(GROUP)),
        ("give to another's group", group(OTHER)),
        (
            "truncate",
            errno(
                File::options()
                    .write(true)
                    .open(path)
                    .and_then(|file| file.set_len(3)),
            ),
        ),
        (
            "truncate a file that is open for reading",
            opened(path, OFlags::RDONLY | OFlags::TRUNC),
        ),
        ("chmod", of(rustix::fs::chmod(path, Mode::from_raw_mode(0o2600)))),
    ]
}

/// Every action on a directory that depends on its mode.
fn try_directory(path: &Path, beside: &Path) -> Vec<(&'static str, Answer)> {
    let at = |name: &str| path.join(name);
    vec![
        (
            "list",
            errno(fs::read_dir(path).and_then(|mut entries| entries.next().transpose())),
        ),
        ("stat in it", errno(fs::metadata(at("file")))),
        ("stat what is missing", errno(fs::metadata(at("missing")))),
        ("read in it", errno(fs::read(at("file")))),
        (
            "enter",
            of(rustix::fs::accessat(CWD, path, Access::EXEC_OK, AtFlags::empty())),
        ),
        ("create", errno(File::create(at("new")))),
        ("make a directory", errno(fs::create_dir(at("newer")))),
        ("link", errno(std::os::unix::fs::symlink("target", at("link")))),
        ("rename", errno(fs::rename(at("another"), at("renamed")))),
        ("move away", errno(fs::rename(at("third"), beside.join("moved")))),
        (
            "move a directory away",
            errno(fs::rename(at("inner"), beside.join("inner"))),
        ),
        ("remove", errno(fs::remove_file(at("file")))),
        ("remove what is missing", errno(fs::remove_file(at("missing")))),
    ]
}

fn answers(top: &Path) -> Vec<(String, Vec<(&'static str, Answer)>)> {
    let mut names: Vec<_> = fs::read_dir(top)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    let one = |name: &std::ffi::OsString| {
        let path = top.join(name);
        let text = name.to_str().unwrap().to_owned();
        let tried = if text.contains("directory") {
            let beside = top.join(format!("beside {text}"));
            fs::create_dir(&beside).unwrap();
            try_directory(&path, &beside)
        } else {
            try_file(&path)
        };
        (text, tried)
    };
    names.iter().map(one).collect()
}

#[test]
fn modes_allow_what_they_allow_at_the_host() {
    let host = tempfile::tempdir().unwrap();
    let filled = Mounted::new();
    [host.path(), filled.path()].into_iter().for_each(fill);
    let tree = filled.tree.clone();
    filled.end();
    // Mounted again: only one user has access, so the kernel has cached nothing that another user looked up.
    let mounted = Mounted::checking_modes(tree);
    let [there, here] = [host.path(), mounted.path()].map(|top| as_owner(|| answers(top)));
    for ((name, there), (_, here)) in there.iter().zip(&here) {
        for ((what, expected), (_, answer)) in there.iter().zip(here) {
            assert_eq!(answer, expected, "{name}: {what}");
        }
    }
    assert_eq!(here.len(), there.len());
}

#[test]
fn set_group_id_is_given_by_members_of_the_group() {
    let mounted = Mounted::checking_modes(empty_tree());
    for (group, expected) in [(GROUP, 0o2755), (OTHER, 0o755)] {
        let file = mounted.at(&format!("of {group}"));
        fs::write(&file, "").unwrap();
        set(&file, OWNER, group, 0o755);
        as_owner(|| fs::set_permissions(&file, Permissions::from_mode(0o2755)).unwrap());
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o7777,
            expected
        );
    }
}

#[test]
fn a_file_that_was_opened_to_be_written_is_shortened_whatever_its_mode() {
    let mounted = Mounted::checking_modes(empty_tree());
    set(mounted.path(), OWNER, OWNER, 0o755);
    as_owner(|| {
        let read_only = Mode::from_raw_mode(0o444);
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(mounted.at("file"), flags, read_only).unwrap());
        file.set_len(100).unwrap();
        assert_eq!(
            errno(File::options().write(true).open(mounted.at("file"))),
            Some(Errno::ACCESS)
        );
    });
}

#[test]
fn names_in_a_directory_that_was_closed_are_soon_not_found() {
    let mounted = Mounted::checking_modes(empty_tree());
    set(mounted.path(), OWNER, OWNER, 0o755);
    let directory = mounted.at("directory");
    let file = mounted.at("directory/file");
    as_owner(|| {
        fs::create_dir(&directory).unwrap();
        fs::write(&file, "contents").unwrap();
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        fs::set_permissions(&directory, Permissions::from_mode(0o600)).unwrap();
        let started = Instant::now();
        while fs::metadata(&file).is_ok() {
            assert!(
                started.elapsed() < Duration::from_secs(20),
                "the kernel still finds it"
            );
            std::thread::yield_now();
        }
        // Its names may be read, but not the attributes of its entries.
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        assert_eq!(errno(fs::metadata(&file)), Some(Errno::ACCESS));
        fs::set_permissions(&directory, Permissions::from_mode(0o700)).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"contents");
    });
}

#[test]
fn changes_in_a_directory_do_not_make_the_kernel_look_at_it_again() {
    let mounted = Mounted::checking_modes(empty_tree());
    set(mounted.path(), OWNER, OWNER, 0o755);
    as_owner(|| {
        fs::write(mounted.at("first"), "a").unwrap();
        let requests = mounted.requests_of(|| {
            for number in 0..10 {
                let name = format!("file {number}");
                let renamed = format!("renamed {number}");
                fs::write(mounted.at(&name), "contents").unwrap();
                fs::rename(mounted.at(&name), mounted.at(&renamed)).unwrap();
                fs::remove_file(mounted.at(&renamed)).unwrap();
            }
        });
        let asked = |opcode| {
            requests
                .iter()
                .filter(|(asked, _)| *asked == opcode)
                .map(|(_, count)| count)
                .sum::<u64>()
        };
        assert_eq!(asked(Opcode::Getattr), 0, "{requests:?}");
        // LOOKUP, CREATE, GETXATTR, WRITE, FLUSH; LOOKUP, RENAME; UNLINK.
        let total: u64 = requests.iter().map(|(_, count)| count).sum();
        assert!(total <= 80, "{requests:?}");
    });
}
