//! A disk that gets full: a file system of a few megabytes, in memory.

use std::path::Path;
use std::process::Command;

const INSIDE: &str = "AVFS_TEST_INSIDE_NAMESPACE";

/// A mounted file system that is removed with this value.
pub struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// Calls `test` with a disk of this many bytes. Mounting needs root: an ordinary user gets it in a
    /// separate namespace, in which the test `name` of this binary runs again.
    pub fn with(name: &str, bytes: u64, test: impl FnOnce(&Path)) {
        let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
        if !is_root && std::env::var_os(INSIDE).is_none() {
            return SmallDisk::run_in_namespace(name);
        }
        let disk = SmallDisk::mount(bytes);
        test(disk.0.path());
    }

    fn run_in_namespace(name: &str) {
        let status = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount"])
            .arg(std::env::current_exe().unwrap())
            .args([name, "--exact", "--nocapture"])
            .env(INSIDE, "1")
            .status()
            .unwrap();
        assert!(
            status.success(),
            "{name} failed in a user namespace, or none could be had: run it as root"
        );
    }

    fn mount(bytes: u64) -> SmallDisk {
        let dir = tempfile::tempdir().unwrap();
        let options = format!("size={bytes}");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(dir.path())
            .status();
        assert!(mount.unwrap().success(), "a small disk cannot be mounted");
        SmallDisk(dir)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        _ = Command::new("umount").arg(self.0.path()).status();
    }
}
