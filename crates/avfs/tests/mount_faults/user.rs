//! An ordinary user mounts by `fusermount3`.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::FlockOperation;
use rustix::process::Signal;

use crate::ground::{Mount, is_mounted, is_running, signal};
use crate::program::{LIMIT, await_that, end_of, good};

/// The user `nobody`: `fusermount3` serves only users that have a name.
const UID: u32 = 65_534;

/// Lets everybody open `/dev/fuse` for a while. One test at a time does so.
struct OpenDevice {
    mode: u32,
    _lock: File,
}

const DEVICE: &str = "/dev/fuse";

impl OpenDevice {
    fn new() -> OpenDevice {
        let lock = File::open(DEVICE).expect("/dev/fuse is needed, and root to open it");
        rustix::fs::flock(&lock, FlockOperation::LockExclusive).unwrap();
        let mode = lock.metadata().unwrap().mode();
        fs::set_permissions(DEVICE, Permissions::from_mode(0o666)).unwrap();
        OpenDevice { mode, _lock: lock }
    }
}

impl Drop for OpenDevice {
    fn drop(&mut self) {
        _ = fs::set_permissions(DEVICE, Permissions::from_mode(self.mode & 0o7777));
    }
}

/// A user's home with a store in it, and the binary where the user may execute it.
struct User {
    home: tempfile::TempDir,
    _device: OpenDevice,
}

impl User {
    fn new() -> User {
        let home = tempfile::tempdir().unwrap();
        fs::copy(assert_cmd::cargo::cargo_bin!("avfs"), home.path().join("avfs")).unwrap();
        chown(home.path(), Some(UID), Some(UID)).unwrap();
        let user = User { home, _device: OpenDevice::new() };
        user.avfs(&["vault", "create", "work", "--use"]);
        user
    }

    fn command(&self, program: &Path, words: &[&str]) -> Command {
        let mut setpriv = Command::new("setpriv");
        setpriv.args(["--reuid", &UID.to_string(), "--regid", &UID.to_string(), "--clear-groups", "--"]);
        setpriv.arg(program).args(words).current_dir(self.home.path());
        setpriv.env("HOME", self.home.path()).env("AVFS_HOME", self.home.path().join("store"));
        setpriv.env_remove("AVFS_VAULT").env_remove("XDG_RUNTIME_DIR").env("XDG_CONFIG_HOME", "/nonexistent");
        setpriv
    }

    #[track_caller]
    fn avfs(&self, words: &[&str]) -> String {
        String::from_utf8(good(self.command(&self.home.path().join("avfs"), words), b"")).unwrap()
    }

    #[track_caller]
    fn sh(&self, script: &str) -> String {
        String::from_utf8(good(self.command("/bin/sh".as_ref(), &["-euc", script]), b"")).unwrap()
    }

    fn dir(&self) -> PathBuf {
        self.home.path().join("place")
    }

    #[track_caller]
    fn mount(&self) -> Mount {
        self.sh("mkdir -p place");
        let guard = Mount::guarding(self.dir());
        let said = self.avfs(&["mount", "work", "place", "--json"]);
        let said: serde_json::Value = serde_json::from_str(&said).unwrap();
        guard.served_by(said["pid"].as_i64().unwrap())
    }
}

#[test]
fn an_ordinary_user_mounts_works_and_unmounts() {
    let user = User::new();
    let mount = user.mount();
    user.sh("cd place; mkdir -p a/b; echo one >a/b/c; mv a/b/c d; ln -s d e; test \"$(cat e)\" = one");
    assert_eq!(user.avfs(&["cat", "d"]), "one\n");
    assert!(fs::metadata(mount.path("d")).is_err(), "not even root is let in");
    user.avfs(&["unmount", "place"]);
    assert!(!is_mounted(&mount.dir));
    mount.await_server_end();
    assert_eq!(user.avfs(&["cat", "d"]), "one\n");
}

#[test]
fn what_an_ordinary_users_dead_server_left_is_cleaned_up() {
    let user = User::new();
    for round in 0..3 {
        let mount = user.mount();
        user.sh(&format!("echo {round} >place/file; sync place/file"));
        mount.kill_server();
        assert_eq!(user.avfs(&["cat", "file"]), format!("{round}\n"));
        assert!(!is_mounted(&mount.dir), "round {round}");
    }
    user.avfs(&["fsck"]);
}

#[test]
fn an_ordinary_user_unmounts_what_is_in_use_by_force() {
    let user = User::new();
    let mount = user.mount();
    let mut sitting = user.command("/bin/sh".as_ref(), &["-c", "cd place; exec sleep 1000"]).spawn().unwrap();
    let inside = format!("/proc/{}/cwd", sitting.id());
    await_that("it sits there", LIMIT, || fs::read_link(&inside).is_ok_and(|dir| dir == mount.dir));
    let ended = end_of(user.command(&user.home.path().join("avfs"), &["unmount", "place"]), b"");
    assert!(ended.err.contains("is in use"), "{}", ended.err);
    user.avfs(&["unmount", "place", "--force"]);
    assert!(!is_mounted(&mount.dir));
    assert!(is_running(mount.server), "who sits there is still served");
    signal(sitting.id() as i32, Signal::KILL);
    sitting.wait().unwrap();
    mount.await_server_end();
}

#[test]
fn an_ordinary_user_may_not_let_others_in_unless_the_system_says_so() {
    let settings = fs::read_to_string("/etc/fuse.conf").unwrap_or_default();
    if settings.lines().any(|line| line.trim() == "user_allow_other") {
        println!("this system allows it");
        return;
    }
    let user = User::new();
    user.sh("mkdir place");
    let _guard = Mount::guarding(user.dir());
    let words = ["mount", "work", "place", "--allow-other"];
    let ended = end_of(user.command(&user.home.path().join("avfs"), &words), b"");
    assert!(!ended.status.success());
    assert!(ended.err.contains("user_allow_other") && ended.err.contains("/etc/fuse.conf"), "{}", ended.err);
    assert!(!is_mounted(&user.dir()));
    user.avfs(&["mounts"]);
    user.avfs(&["mount", "work", "place"]);
    user.avfs(&["unmount", "place"]);
}
