//! An ordinary user of this machine, who mounts with `fusermount3`.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::FlockOperation;

use crate::ground::Mount;
use crate::program::good;

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
pub struct User {
    pub home: tempfile::TempDir,
    _device: OpenDevice,
}

impl User {
    pub fn new() -> User {
        let home = tempfile::tempdir().unwrap();
        fs::copy(assert_cmd::cargo::cargo_bin!("avfs"), home.path().join("avfs")).unwrap();
        chown(home.path(), Some(UID), Some(UID)).unwrap();
        let user = User {
            home,
            _device: OpenDevice::new(),
        };
        user.avfs(&["vault", "create", "work", "--use"]);
        user
    }

    pub fn command(&self, program: &Path, words: &[&str]) -> Command {
        let mut setpriv = Command::new("setpriv");
        setpriv.args([
            "--reuid",
            &UID.to_string(),
            "--regid",
            &UID.to_string(),
            "--clear-groups",
            "--",
        ]);
        setpriv.arg(program).args(words).current_dir(self.home.path());
        setpriv
            .env("HOME", self.home.path())
            .env("AVFS_HOME", self.home.path().join("store"));
        setpriv
            .env_remove("AVFS_VAULT")
            .env_remove("XDG_RUNTIME_DIR")
            .env("XDG_CONFIG_HOME", "/nonexistent");
        setpriv
    }

    /// The binary, where the user may execute it.
    pub fn program(&self) -> PathBuf {
        self.home.path().join("avfs")
    }

    /// Writes a file that the user can read; returns its path.
    pub fn write(&self, name: &str, text: &str) -> String {
        let path = self.home.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    #[track_caller]
    pub fn avfs(&self, words: &[&str]) -> String {
        String::from_utf8(good(self.command(&self.program(), words), b"")).unwrap()
    }

    #[track_caller]
    pub fn sh(&self, script: &str) -> String {
        String::from_utf8(good(self.command("/bin/sh".as_ref(), &["-euc", script]), b"")).unwrap()
    }

    pub fn dir(&self) -> PathBuf {
        self.home.path().join("place")
    }

    #[track_caller]
    pub fn mount(&self) -> Mount {
        self.sh("mkdir -p place");
        let guard = Mount::guarding(self.dir());
        let said = self.avfs(&["mount", "work", "place", "--json"]);
        let said: serde_json::Value = serde_json::from_str(&said).unwrap();
        guard.served_by(said["pid"].as_i64().unwrap())
    }
}
