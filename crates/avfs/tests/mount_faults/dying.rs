//! The disk under the store stops taking writes. Needs root and loop devices.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::symlink;

use avfs_testkit::DyingDisk;
use rustix::io::Errno;

use crate::ground::{Ground, Mount, is_mounted, is_running};
use crate::program::{LIMIT, await_that};

const DISK: u64 = 128 << 20;

fn written_and_synced(mount: &Mount, name: &str) -> io::Result<()> {
    let mut file = File::create(mount.path(name))?;
    file.write_all(b"synced")?;
    file.sync_all()
}

#[track_caller]
fn assert_fails<T>(what: &str, result: io::Result<T>) {
    let error = result.err().unwrap_or_else(|| panic!("{what} succeeded"));
    assert_eq!(
        error.raw_os_error(),
        Some(Errno::IO.raw_os_error()),
        "{what}: {error}"
    );
}

#[test]
fn everything_that_changes_fails_after_the_first_failure_and_the_mount_can_be_ended() {
    let disk = DyingDisk::new(DISK);
    let ground = Ground::with_home(&disk.path().join("store"));
    ground.avfs(&["vault", "create", "work", "--use"]);
    let mount = ground.mount("work", "place");
    fs::create_dir(mount.path("directory")).unwrap();
    fs::write(mount.path("other"), "other").unwrap();
    written_and_synced(&mount, "before").unwrap();
    disk.die();
    assert_fails("a write with a sync", written_and_synced(&mount, "first"));
    assert_fails("mkdir", fs::create_dir(mount.path("new")));
    assert_fails("rename", fs::rename(mount.path("before"), mount.path("after")));
    assert_fails("unlink", fs::remove_file(mount.path("other")));
    assert_fails("rmdir", fs::remove_dir(mount.path("directory")));
    assert_fails("symlink", symlink("to", mount.path("link")));
    assert_fails("link", fs::hard_link(mount.path("other"), mount.path("another")));
    assert_fails("write", fs::write(mount.path("before"), "late"));
    assert_fails(
        "sync of a directory",
        File::open(&mount.dir).and_then(|directory| directory.sync_all()),
    );
    assert_fails("a second write with a sync", written_and_synced(&mount, "second"));
    assert_eq!(fs::read_to_string(mount.path("before")).unwrap(), "synced");
    assert_eq!(fs::read_to_string(mount.path("other")).unwrap(), "other");

    let ended = ground.ended(&["unmount", &mount.dir.display().to_string()]);
    assert!(!is_mounted(&mount.dir), "{}", ended.err);
    assert!(ended.err.contains("may be lost"), "{}", ended.err);
    mount.await_server_end();
    disk.revive();
    let mount = ground.mount("work", "place");
    assert_eq!(fs::read_to_string(mount.path("before")).unwrap(), "synced");
    assert_eq!(fs::read_to_string(mount.path("other")).unwrap(), "other");
    assert!(mount.path("directory").exists() && !mount.path("after").exists());
    ground.unmount(mount);
    ground.assert_sound();
}

#[test]
fn store_on_a_read_only_file_system_is_mounted_to_be_read() {
    let disk = DyingDisk::new(DISK);
    let ground = Ground::with_home(&disk.path().join("store"));
    ground.avfs(&["vault", "create", "work", "--use"]);
    ground.avfs(&["write", "file", "then"]);
    ground.avfs(&["checkpoint", "save", "kept"]);
    ground.avfs(&["write", "file", "now"]);
    disk.make_read_only();
    fs::create_dir(ground.path("refused")).unwrap();
    let refused = ground.ended(&["mount", "work", &ground.path("refused").display().to_string()]);
    assert!(!refused.status.success());
    assert!(refused.err.contains("Read-only file system"), "{}", refused.err);
    let now = ground.mount_with("work", "now", &["--read-only"]);
    let then = ground.mount_with("work", "then", &["--at", "kept"]);
    assert_eq!(fs::read_to_string(now.path("file")).unwrap(), "now\n");
    assert_eq!(fs::read_to_string(then.path("file")).unwrap(), "then\n");
    let changed = fs::write(now.path("file"), "late").unwrap_err();
    assert_eq!(changed.raw_os_error(), Some(Errno::ROFS.raw_os_error()));
    for mount in [now, then] {
        let server = mount.server;
        ground.unmount(mount);
        await_that("the server has ended", LIMIT, || !is_running(server));
    }
}
