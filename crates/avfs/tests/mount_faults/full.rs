//! No room: on the disk under the store, or by the quota of the vault.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use avfs_testkit::{SmallDisk, noise};
use rustix::io::Errno;

use crate::ground::{Ground, Mount};

const DISK: u64 = 64 << 20;
/// More than what is left: a checkpoint needs as much room again as what is written.
const BALLAST: usize = 40 << 20;
const PIECE: usize = 64 << 10;

/// Writes pieces into new files until there is no room; returns how many are whole, and why it ended.
fn fill(mount: &Mount, prefix: &str) -> (usize, io::Error) {
    for number in 0.. {
        let written = File::create(mount.path(&format!("{prefix}-{number}"))).and_then(|mut file| {
            file.write_all(&noise(number as u64, PIECE))?;
            file.sync_all()
        });
        if let Err(error) = written {
            return (number, error);
        }
        assert!(number < DISK as usize / PIECE, "the disk does not get full");
    }
    unreachable!("numbers do not end")
}

#[track_caller]
fn assert_filled(mount: &Mount, prefix: &str, count: usize) {
    for number in 0..count {
        let found = fs::read(mount.path(&format!("{prefix}-{number}"))).unwrap();
        assert!(found == noise(number as u64, PIECE), "{prefix}-{number} is something else");
    }
}

#[test]
fn a_full_disk_harms_nothing_that_was_there() {
    SmallDisk::with("full::a_full_disk_harms_nothing_that_was_there", DISK, |disk| {
        let ground = Ground::with_home(&disk.join("store"));
        ground.avfs(&["vault", "create", "work", "--use"]);
        fs::write(disk.join("ballast"), vec![1; BALLAST]).unwrap();
        let mount = ground.mount("work", "place");
        fs::write(mount.path("before"), "kept").unwrap();
        let (count, error) = fill(&mount, "piece");
        assert_eq!(error.raw_os_error(), Some(Errno::NOSPC.raw_os_error()), "{error}");
        assert!(count > 10, "{count} pieces fit");
        while_full(&mount, count);

        fs::remove_file(disk.join("ballast")).unwrap();
        let mut more = File::create(mount.path("more")).unwrap();
        more.write_all(b"there is room again").unwrap();
        more.sync_all().unwrap();
        assert_filled(&mount, "piece", count);
        ground.avfs(&["checkpoint", "save", "again"]);
        File::create(mount.path("last"))
            .and_then(|mut last| last.write_all(b"synced").and(last.sync_all()))
            .unwrap();
        mount.kill_server();
        let mount = ground.mount("work", "place");
        assert_filled(&mount, "piece", count);
        assert_eq!(fs::read_to_string(mount.path("before")).unwrap(), "kept");
        assert_eq!(fs::read_to_string(mount.path("more")).unwrap(), "there is room again");
        assert_eq!(fs::read_to_string(mount.path("last")).unwrap(), "synced");
        ground.unmount(mount);
        ground.assert_sound();
    });
}

/// Whatever was there is read, and no attempt to write leaves more than it says.
fn while_full(mount: &Mount, count: usize) {
    assert_filled(mount, "piece", count);
    assert_eq!(fs::read_to_string(mount.path("before")).unwrap(), "kept");
    let before = OpenOptions::new().write(true).open(mount.path("before")).unwrap();
    for _ in 0..20 {
        match before.write_at(&noise(3, PIECE), 4) {
            Ok(written) => before.set_len(4 + written as u64).and_then(|()| before.set_len(4)).unwrap(),
            Err(error) => assert_eq!(error.raw_os_error(), Some(Errno::NOSPC.raw_os_error()), "{error}"),
        }
        assert_eq!(fs::read_to_string(mount.path("before")).unwrap(), "kept");
    }
    assert!(fs::read_dir(&mount.dir).unwrap().count() >= count);
}

#[test]
fn a_killed_server_on_a_full_disk_loses_nothing_that_was_synced() {
    let name = "full::a_killed_server_on_a_full_disk_loses_nothing_that_was_synced";
    SmallDisk::with(name, DISK, |disk| {
        let ground = Ground::with_home(&disk.join("store"));
        ground.avfs(&["vault", "create", "work", "--use"]);
        fs::write(disk.join("ballast"), vec![1; BALLAST]).unwrap();
        let mount = ground.mount("work", "place");
        let (count, _) = fill(&mount, "piece");
        mount.kill_server();
        fs::remove_file(disk.join("ballast")).unwrap();
        let mount = ground.mount("work", "place");
        assert_filled(&mount, "piece", count);
        fs::write(mount.path("more"), "there is room again").unwrap();
        ground.unmount(mount);
        ground.assert_sound();
    });
}

#[test]
fn a_vault_over_its_quota_says_so_at_the_write() {
    let ground = Ground::with_vault("work");
    let mount = ground.mount("work", "place");
    fs::write(mount.path("before"), "kept").unwrap();
    let file = File::create(mount.path("file")).unwrap();
    file.write_all_at(&[1; 50_000], 0).unwrap();
    ground.avfs(&["quota", "set", "--bytes", "100000"]);
    file.write_all_at(&[1; 90_000], 0).unwrap();
    // The kernel may give a part of it that fits.
    assert_refused(file.write_all_at(&[2; 20_000], 90_000));
    assert!(file.metadata().unwrap().len() < 100_000, "a refused write leaves nothing");
    assert_refused(file.set_len(200_000));
    assert_refused(
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 200_000)
            .map_err(io::Error::from),
    );
    assert_eq!(fs::read_to_string(mount.path("before")).unwrap(), "kept");
    // What takes no more room goes on.
    file.write_all_at(&[3; 90_000], 0).unwrap();
    fs::rename(mount.path("before"), mount.path("after")).unwrap();
    file.set_len(10).unwrap();
    fs::write(mount.path("more"), vec![1; 80_000]).unwrap();
    ground.avfs(&["quota", "set", "--bytes", "none"]);
    file.write_all_at(&[1; 300_000], 0).unwrap();
    drop(file);
    ground.unmount(mount);
    ground.assert_sound();
}

#[test]
fn a_vault_with_too_many_files_says_so_when_one_is_made() {
    let ground = Ground::with_vault("work");
    let mount = ground.mount("work", "place");
    for number in 0..5 {
        fs::write(mount.path(&number.to_string()), "").unwrap();
    }
    ground.avfs(&["quota", "set", "--files", "5"]);
    assert_refused(File::create(mount.path("one too many")));
    assert_missing(&mount.path("one too many"));
    fs::remove_file(mount.path("0")).unwrap();
    fs::write(mount.path("instead"), "fits").unwrap();
    ground.unmount(mount);
    ground.assert_sound();
}

#[track_caller]
fn assert_refused<T>(result: io::Result<T>) {
    let error = result.err().expect("over the quota");
    assert_eq!(error.raw_os_error(), Some(Errno::DQUOT.raw_os_error()), "{error}");
}

#[track_caller]
fn assert_missing(path: &Path) {
    assert!(!path.exists(), "{} is there", path.display());
}
