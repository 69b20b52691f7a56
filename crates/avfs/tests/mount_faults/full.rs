//! No room: on the disk under the store, or by the quota of the vault.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use avfs_testkit::{SmallDisk, noise};
use rustix::io::Errno;
use serde_json::Value;

use crate::ground::{Ground, Mount, is_mounted};

const DISK: u64 = 64 << 20;
/// More than the free space: a checkpoint needs as much space again as the written bytes.
const BALLAST: usize = 40 << 20;
const PIECE: usize = 64 << 10;

/// Writes pieces into new files until there is no space; returns how many are complete, and the error.
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
        assert!(
            found == noise(number as u64, PIECE),
            "{prefix}-{number} is something else"
        );
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
        assert_eq!(
            fs::read_to_string(mount.path("more")).unwrap(),
            "there is room again"
        );
        assert_eq!(fs::read_to_string(mount.path("last")).unwrap(), "synced");
        ground.unmount(mount);
        ground.assert_sound();
    });
}

/// Existing files are readable, and a failed write leaves no more than it reports.
fn while_full(mount: &Mount, count: usize) {
    assert_filled(mount, "piece", count);
    assert_eq!(fs::read_to_string(mount.path("before")).unwrap(), "kept");
    let before = OpenOptions::new().write(true).open(mount.path("before")).unwrap();
    for _ in 0..20 {
        match before.write_at(&noise(3, PIECE), 4) {
            Ok(written) => before
                .set_len(4 + written as u64)
                .and_then(|()| before.set_len(4))
                .unwrap(),
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

/// Takes every byte that is left.
fn take_all_room(disk: &Path) {
    let mut ballast = File::options()
        .create(true)
        .append(true)
        .open(disk.join("the rest"))
        .unwrap();
    for piece in [1 << 20, 4096, 1] {
        while ballast.write_all(&vec![1; piece]).is_ok() {}
    }
    let room = rustix::fs::statvfs(disk).unwrap();
    assert_eq!(room.f_bavail, 0, "there is room left");
}

/// Whether something was accepted; if not, the error must be a lack of space.
#[track_caller]
fn is_accepted<T>(result: io::Result<T>) -> bool {
    let refused = result.err().map(|error| error.raw_os_error());
    assert!(
        refused.is_none_or(|errno| errno == Some(Errno::NOSPC.raw_os_error())),
        "{refused:?}"
    );
    refused.is_none()
}

fn end_by_command(ground: &Ground, mount: &Mount) {
    let ended = ground.ended(&["unmount", &mount.dir.display().to_string()]);
    assert_eq!(ended.status.code(), Some(7), "{}", ended.err);
    assert!(ended.err.contains("stays in its journal"), "{}", ended.err);
}

fn end_by_the_kernel(_: &Ground, mount: &Mount) {
    assert!(Command::new("umount").arg(&mount.dir).status().unwrap().success());
}

fn check_accepted_operations(disk: &Path, end: fn(&Ground, &Mount)) {
    let ground = Ground::with_home(&disk.join("store"));
    ground.avfs(&["vault", "create", "work", "--use"]);
    ["moved", "removed", "emptied"]
        .iter()
        .for_each(|name| drop(ground.avfs(&["write", name, "text"])));
    let mount = ground.mount("work", "place");
    take_all_room(disk);
    fs::remove_file(mount.path("removed")).unwrap();
    File::options()
        .write(true)
        .open(mount.path("emptied"))
        .unwrap()
        .set_len(0)
        .unwrap();
    let is_moved = is_accepted(fs::rename(mount.path("moved"), mount.path("there")));
    // More than the buffer of the journal holds.
    let made: Vec<bool> = (0..400)
        .map(|number| {
            let name = format!("made-{number}");
            let file = File::create(mount.path(&name)).and_then(|mut file| file.write_all(&[b'a'; 1000]));
            let is_made = is_accepted(file);
            if !is_made && mount.path(&name).exists() {
                fs::remove_file(mount.path(&name)).unwrap();
            }
            is_made
        })
        .collect();
    // Space that was reserved for removals may have become available to other operations.
    take_all_room(disk);
    end(&ground, &mount);
    mount.await_server_end();
    assert!(!is_mounted(&mount.dir));
    fs::remove_file(disk.join("the rest")).unwrap();
    let mount = ground.mount("work", "place");
    assert!(!mount.path("removed").exists(), "the removed file exists again");
    assert_eq!(fs::metadata(mount.path("emptied")).unwrap().len(), 0);
    assert_eq!(mount.path("there").exists(), is_moved);
    assert_eq!(mount.path("moved").exists(), !is_moved);
    for (number, is_made) in made.into_iter().enumerate() {
        let found = fs::read(mount.path(&format!("made-{number}"))).ok();
        assert_eq!(found, is_made.then(|| vec![b'a'; 1000]), "file {number}");
    }
    ground.unmount(mount);
    ground.assert_sound();
}

#[test]
fn accepted_operations_on_a_full_disk_survive_an_unmount() {
    let name = "full::accepted_operations_on_a_full_disk_survive_an_unmount";
    SmallDisk::with(name, DISK, |disk| check_accepted_operations(disk, end_by_command));
}

#[test]
fn accepted_operations_on_a_full_disk_survive_a_plain_umount() {
    let name = "full::accepted_operations_on_a_full_disk_survive_a_plain_umount";
    SmallDisk::with(name, DISK, |disk| {
        check_accepted_operations(disk, end_by_the_kernel)
    });
}

#[test]
fn stored_states_are_shown_while_there_is_no_room_for_the_work_in_the_journal() {
    let name = "full::stored_states_are_shown_while_there_is_no_room_for_the_work_in_the_journal";
    SmallDisk::with(name, DISK, |disk| {
        let ground = Ground::with_home(&disk.join("store"));
        ground.avfs(&["vault", "create", "work", "--use"]);
        ground.avfs(&["write", "file", "text"]);
        ground.avfs(&["checkpoint", "save", "kept"]);
        let id = ground.avfs(&["log", "--json"]);
        let id = serde_json::from_str::<Value>(&id).unwrap()["entries"][0]["snapshot"].clone();
        fs::write(disk.join("ballast"), vec![1; BALLAST]).unwrap();
        let mount = ground.mount("work", "place");
        let large = noise(1, 16 << 20);
        let mut file = File::create(mount.path("large")).unwrap();
        file.write_all(&large).and_then(|()| file.sync_all()).unwrap();
        drop(file);
        end_by_command(&ground, &mount);
        mount.await_server_end();

        let refused = ground.ended(&["ls"]);
        assert_eq!(refused.status.code(), Some(7), "{}", refused.err);
        assert!(
            refused.err.contains("`avfs mount work DIR` shows all of it"),
            "{}",
            refused.err
        );
        let log = ground.ended(&["log"]);
        assert_eq!(log.status.code(), Some(0), "{}", log.err);
        assert!(
            log.err
                .contains("MiB of work in the journal of 'work' is not stored yet"),
            "{}",
            log.err
        );
        let printed = String::from_utf8(log.out).unwrap();
        assert!(printed.contains("write"), "{printed}");
        for words in [
            &["log", "file"][..],
            &["ls", "--at", "kept"],
            &["ls", "--at", "@~0"],
            &["ls", "--at", id.as_str().unwrap()],
        ] {
            let shown = ground.ended(words);
            assert_eq!(shown.status.code(), Some(0), "{words:?}: {}", shown.err);
        }
        let list = ground.avfs(&["vault", "list"]);
        assert!(list.contains("MiB not stored yet)"), "{list}");
        let list: Value = serde_json::from_str(&ground.avfs(&["vault", "list", "--json"])).unwrap();
        assert!(
            list["vaults"][0]["unstored_bytes"].as_u64() > Some(16 << 20),
            "{list}"
        );

        let mount = ground.mount("work", "place");
        assert!(
            fs::read(mount.path("large")).unwrap() == large,
            "the mount shows something else"
        );
        fs::remove_file(disk.join("ballast")).unwrap();
        ground.unmount(mount);
        let list: Value = serde_json::from_str(&ground.avfs(&["vault", "list", "--json"])).unwrap();
        assert_eq!(list["vaults"][0]["unstored_bytes"], 0);
        ground.assert_sound();
    });
}

#[test]
fn commands_that_take_away_work_without_a_byte_of_room() {
    let name = "full::commands_that_take_away_work_without_a_byte_of_room";
    let removals: [&[&str]; 5] = [
        &["rm", "file"],
        &["checkpoint", "delete", "kept"],
        &["prune"],
        &["vault", "delete", "work", "--yes"],
        &["gc"],
    ];
    for words in removals {
        SmallDisk::with(name, DISK, |disk| {
            let ground = Ground::with_home(&disk.join("store"));
            ground.avfs(&["vault", "create", "work", "--use"]);
            ground.avfs(&["write", "file", "text"]);
            ground.avfs(&["checkpoint", "save", "kept"]);
            take_all_room(disk);
            ground.avfs(words);
            fs::remove_file(disk.join("the rest")).unwrap();
            ground.assert_sound();
        });
    }
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
    assert!(
        file.metadata().unwrap().len() < 100_000,
        "a refused write leaves nothing"
    );
    assert_refused(file.set_len(200_000));
    assert_refused(
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 200_000)
            .map_err(io::Error::from),
    );
    assert_eq!(fs::read_to_string(mount.path("before")).unwrap(), "kept");
    // Writes that need no more space succeed.
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
