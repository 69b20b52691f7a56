//! A store and its mounts, created and queried through the binary.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::program::{Ended, await_that, end_of, good};

/// How long a mount may be used. Then it is removed, and blocked processes continue with an error.
const MOUNT_LIMIT: Duration = Duration::from_secs(110);

/// How long the end of a killed process takes at most.
const DYING: Duration = Duration::from_secs(20);

pub struct Ground {
    root: tempfile::TempDir,
    home: PathBuf,
}

impl Ground {
    pub fn new() -> Ground {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().join("store");
        Ground { root, home }
    }

    /// With a store at a place of its own.
    pub fn with_home(home: &Path) -> Ground {
        Ground {
            root: tempfile::tempdir().unwrap(),
            home: home.to_owned(),
        }
    }

    /// With an empty vault.
    pub fn with_vault(vault: &str) -> Ground {
        let ground = Ground::new();
        ground.avfs(&["vault", "create", vault, "--use"]);
        ground
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub fn home(&self) -> &Path {
        &self.home
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut avfs = Command::new(assert_cmd::cargo::cargo_bin!("avfs"));
        avfs.args(words).current_dir(self.root.path());
        avfs.env("AVFS_HOME", &self.home)
            .env_remove("AVFS_VAULT")
            .env("XDG_CONFIG_HOME", "/nonexistent");
        avfs
    }

    /// Runs a command, which must succeed; returns its output.
    #[track_caller]
    pub fn avfs(&self, words: &[&str]) -> String {
        self.avfs_given(words, b"")
    }

    #[track_caller]
    pub fn avfs_given(&self, words: &[&str], input: &[u8]) -> String {
        String::from_utf8(good(self.command(words), input)).unwrap()
    }

    #[track_caller]
    pub fn ended(&self, words: &[&str]) -> Ended {
        end_of(self.command(words), b"")
    }

    /// Asserts that the store is complete and consistent.
    #[track_caller]
    pub fn assert_sound(&self) {
        self.avfs(&["fsck"]);
    }

    /// Mounts a vault at a directory of this name.
    #[track_caller]
    pub fn mount(&self, vault: &str, name: &str) -> Mount {
        self.mount_with(vault, name, crate::MOUNT_FLAGS)
    }

    #[track_caller]
    pub fn mount_with(&self, vault: &str, name: &str, more: &[&str]) -> Mount {
        let dir = self.path(name);
        // A directory with a dead mount cannot be examined.
        _ = std::fs::create_dir(&dir);
        let guard = Mount::guarding(dir);
        let shown = guard.dir.display().to_string();
        let said = self.avfs(&[&["mount", vault, &shown, "--json"], more].concat());
        let said: serde_json::Value = serde_json::from_str(&said).unwrap();
        guard.served_by(said["pid"].as_i64().unwrap())
    }

    #[track_caller]
    pub fn unmount(&self, mount: Mount) {
        self.avfs(&["unmount", &mount.dir.display().to_string()]);
        assert!(
            !is_mounted(&mount.dir),
            "{} is still mounted",
            mount.dir.display()
        );
    }
}

/// A mount that is removed with this value, in any case.
pub struct Mount {
    pub dir: PathBuf,
    /// The process that serves it.
    pub server: i32,
    _watchdog: Sender<()>,
}

impl Mount {
    /// Removes a present or future mount there at the end, or on a timeout.
    pub fn guarding(dir: PathBuf) -> Mount {
        let (alive, ended) = channel();
        let watched = dir.clone();
        std::thread::spawn(move || {
            if ended.recv_timeout(MOUNT_LIMIT) == Err(RecvTimeoutError::Timeout) {
                tear_down(&watched);
            }
        });
        Mount {
            dir,
            server: 0,
            _watchdog: alive,
        }
    }

    pub fn served_by(mut self, process: i64) -> Mount {
        self.server = process.try_into().unwrap();
        self
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Ends the server as a crash would.
    pub fn kill_server(&self) {
        signal(self.server, Signal::KILL);
        self.await_server_end();
    }

    pub fn await_server_end(&self) {
        await_that("the server has ended", DYING, || !is_running(self.server));
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        tear_down(&self.dir);
    }
}

/// Force ends the connection, so that blocked processes continue with an error.
fn tear_down(dir: &Path) {
    for flags in ["-f", "-l"] {
        if is_mounted(dir) {
            _ = Command::new("umount").arg(flags).arg(dir).output();
        }
    }
}

pub fn signal(process: i32, signal: Signal) {
    rustix::process::kill_process(Pid::from_raw(process).unwrap(), signal).unwrap();
}

/// A zombie does not run: its parent may never wait for it. A process whose first thread is a zombie runs as
/// long as its other threads do, and holds its locks.
pub fn is_running(process: i32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task"))
        .into_iter()
        .flatten()
        .flatten();
    threads
        .map(|thread| std::fs::read_to_string(thread.path().join("stat")))
        .any(|status| {
            status.is_ok_and(|line| {
                !line
                    .rsplit(')')
                    .next()
                    .unwrap_or("")
                    .trim_start()
                    .starts_with(['Z', 'X'])
            })
        })
}

/// Asks the table of mounts, not the mount, which may not answer.
pub fn is_mounted(dir: &Path) -> bool {
    count_mounts(dir) > 0
}

pub fn count_mounts(dir: &Path) -> usize {
    let table = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let dir = dir.display().to_string();
    table
        .lines()
        .filter(|line| line.split(' ').nth(1) == Some(&dir))
        .count()
}
