//! Where a scenario runs: in a directory of the host, then in a mount at the same path, because programs write
//! their own paths into files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use crate::compare::{Freedom, Side, Span, assert_same};
use crate::shell::{end_of, good};

/// Whether the second run is in a mount. Otherwise it is in another directory of the host, which validates
/// the scenarios and the comparison.
const IN_A_MOUNT: bool = true;

const VAULT: &str = "work";

/// The environment of a scenario.
pub struct Run<'a> {
    /// The directory that it works in, empty at first.
    pub dir: &'a Path,
    /// Another way into the same directory, for scenarios with two doors: a second mount of the same vault, if
    /// `dir` is a mount that can have one beside it.
    pub door: &'a Path,
    /// A directory of the host that both runs share, for things that need not be built twice.
    pub aside: &'a Path,
}

/// Runs the scenario in both places. Its results must be equal, also after the mount was closed and opened.
#[track_caller]
pub fn in_both(freedom: &Freedom, scenario: impl Fn(&Run<'_>)) {
    in_both_through(&["work"], freedom, scenario);
}

/// The same with a second way in.
#[track_caller]
pub fn in_both_through_two_doors(freedom: &Freedom, scenario: impl Fn(&Run<'_>)) {
    in_both_through(&["work", "door"], freedom, scenario);
}

#[track_caller]
fn in_both_through(doors: &'static [&'static str], freedom: &Freedom, scenario: impl Fn(&Run<'_>)) {
    let ground = Ground::new(doors);
    let span = ground.run(&scenario, &Opened(Vec::new()));
    fs::rename(ground.path("work"), ground.path("control")).unwrap();
    _ = fs::remove_file(ground.path("door"));
    let control = Side {
        dir: ground.path("control"),
        span,
    };

    let place = ground.open();
    let span = ground.run(&scenario, &place);
    let side = Side {
        dir: ground.path("work"),
        span,
    };
    assert_same(&control, &side, freedom);
    let place = place.again(&ground);
    assert_same(&control, &side, freedom);
    place.close();
}

/// Runs a scenario that checks its own results, in a mount only.
pub fn in_a_mount(work: impl FnOnce(&Run<'_>)) {
    let ground = Ground::new(&["work"]);
    let place = ground.open();
    ground.run(work, &place);
    place.close();
}

/// A temporary directory with everything in it. Other users may pass through: some programs refuse root.
struct Ground {
    root: tempfile::TempDir,
    /// Where the vault is mounted.
    doors: &'static [&'static str],
}

impl Ground {
    fn new(doors: &'static [&'static str]) -> Ground {
        let ground = Ground {
            root: tempfile::tempdir().unwrap(),
            doors,
        };
        fs::set_permissions(ground.root.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(ground.path("aside")).unwrap();
        ground
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn run(&self, scenario: impl FnOnce(&Run<'_>), place: &Opened) -> Span {
        let (dir, door) = (self.path("work"), self.path("door"));
        if place.0.is_empty() {
            fs::create_dir(&dir).unwrap();
        }
        if place.0.len() < 2 {
            std::os::unix::fs::symlink(&dir, &door).unwrap();
        }
        let from = SystemTime::now();
        scenario(&Run {
            dir: &dir,
            door: &door,
            aside: &self.path("aside"),
        });
        Span {
            from,
            to: SystemTime::now(),
        }
    }

    fn open(&self) -> Opened {
        if !IN_A_MOUNT {
            return Opened(Vec::new());
        }
        self.avfs(&["vault", "create", VAULT]);
        self.mount()
    }

    fn mount(&self) -> Opened {
        let doors = if crate::MOUNT_FLAGS.contains(&"--alone") {
            1
        } else {
            self.doors.len()
        };
        Opened(
            self.doors[..doors]
                .iter()
                .map(|name| Mounted::new(self, self.path(name)))
                .collect(),
        )
    }

    #[track_caller]
    fn avfs(&self, arguments: &[&str]) {
        let mut avfs = avfs();
        avfs.args(arguments)
            .env("AVFS_HOME", self.path("store"))
            .current_dir(self.root.path());
        good(avfs);
    }
}

fn avfs() -> Command {
    let mut avfs = Command::new(assert_cmd::cargo::cargo_bin!("avfs"));
    avfs.env_remove("AVFS_VAULT")
        .env("XDG_CONFIG_HOME", "/nonexistent");
    avfs
}

/// The mounts that a run has, none of them for one on the host.
struct Opened(Vec<Mounted>);

impl Opened {
    /// Closed and opened: the contents now come from the store.
    fn again(self, ground: &Ground) -> Opened {
        if self.0.is_empty() {
            return self;
        }
        self.close();
        ground.mount()
    }

    fn close(self) {
        self.0.into_iter().for_each(Mounted::close);
    }
}

/// A mount that is removed with this value, in any case.
struct Mounted {
    dir: PathBuf,
    store: PathBuf,
}

impl Mounted {
    fn new(ground: &Ground, dir: PathBuf) -> Mounted {
        fs::create_dir_all(&dir).unwrap();
        let shown = dir.display().to_string();
        // Root allows other users, because some scenarios switch users.
        let is_root = rustix::process::geteuid().is_root();
        let for_others: &[&str] = if is_root { &["--allow-other"] } else { &[] };
        let arguments = [&["mount", VAULT, &shown], crate::MOUNT_FLAGS, for_others].concat();
        ground.avfs(&arguments);
        Mounted {
            dir,
            store: ground.path("store"),
        }
    }

    /// Unmounts it, which must succeed: no process uses it any longer.
    #[track_caller]
    fn close(self) {
        let mut unmount = avfs();
        unmount
            .arg("unmount")
            .arg(&self.dir)
            .env("AVFS_HOME", &self.store);
        let ended = end_of(unmount, Duration::from_secs(60));
        assert!(ended.status.success(), "{}", ended.text);
        assert!(!is_mounted(&self.dir), "{} is still mounted", self.dir.display());
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if !is_mounted(&self.dir) {
            return;
        }
        // Force ends the connection, so that blocked processes continue with an error.
        for flags in [&["-f"][..], &["-l"]] {
            let mut umount = Command::new("umount");
            umount
                .args(flags)
                .arg(&self.dir)
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            _ = umount.status();
        }
    }
}

/// Asks the table of mounts, not the mount, which may not answer.
fn is_mounted(dir: &Path) -> bool {
    let table = fs::read_to_string("/proc/self/mounts").unwrap();
    let dir = dir.display().to_string();
    table.lines().any(|line| line.split(' ').nth(1) == Some(&dir))
}
