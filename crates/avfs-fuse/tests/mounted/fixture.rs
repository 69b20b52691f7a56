//! A working tree in memory, mounted on a temporary directory and unmounted at the end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use avfs_core::rules::{Rule, Rules};
use avfs_core::{Entry, EntryName, Meta, Root, Totals};
use avfs_fuse::abi::Opcode;
use avfs_fuse::mounting::{FuseMountOptions, MountError, UnmountMode, mount, unmount};
use avfs_fuse::transport::{FuseServing, ServingOptions, Transport};
use avfs_fuse::{FuseService, FuseSession, MountAccess, SessionLog, SessionSettings, Skin, SkinOptions};
use avfs_store::MemoryStore;
use avfs_tree::{BaseTree, Ino, NewEntry, Objects, SystemClock, WorkTree};

/// Nothing here takes this long, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

pub struct Mounted {
    directory: tempfile::TempDir,
    serving: Option<FuseServing>,
    skin: Arc<Skin>,
    /// Another door to the tree than the one of the mount.
    pub tree: Arc<WorkTree>,
    log: Arc<Mutex<Vec<String>>>,
}

impl Mounted {
    pub fn new() -> Mounted {
        Mounted::of(empty_tree(), false)
    }

    pub fn read_only(tree: Arc<WorkTree>) -> Mounted {
        Mounted::of(tree, true)
    }

    /// Seen through rules, in the syntax of the command line.
    pub fn through(rules: &[&str]) -> Mounted {
        Mounted::made(empty_tree(), false, Some(compiled(rules)), |skin| skin)
    }

    /// A mount whose modes are checked by the server and not by the kernel.
    pub fn checking_modes(tree: Arc<WorkTree>) -> Mounted {
        Mounted::made_with(tree, false, None, true, |skin| skin)
    }

    pub fn of(tree: Arc<WorkTree>, read_only: bool) -> Mounted {
        Mounted::made(tree, read_only, None, |skin| skin)
    }

    /// A mount that is served by the service that `wrap` makes of the skin.
    pub fn made<S: FuseService + 'static>(
        tree: Arc<WorkTree>,
        read_only: bool,
        rules: Option<Rules>,
        wrap: impl FnOnce(Arc<Skin>) -> Arc<S>,
    ) -> Mounted {
        Mounted::made_with(tree, read_only, rules, false, wrap)
    }

    fn made_with<S: FuseService + 'static>(
        tree: Arc<WorkTree>,
        read_only: bool,
        rules: Option<Rules>,
        checks_modes: bool,
        wrap: impl FnOnce(Arc<Skin>) -> Arc<S>,
    ) -> Mounted {
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let log: SessionLog = {
            let lines = lines.clone();
            Arc::new(move |line| lines.lock().unwrap().push(line.to_owned()))
        };
        let directory = tempfile::tempdir().unwrap();
        let is_ruled = rules.is_some();
        let access = if read_only {
            MountAccess::Past
        } else {
            MountAccess::Everything
        };
        let options = SkinOptions {
            access,
            rules,
            owner: None,
            exclusive: crate::EXCLUSIVE,
            checks_modes,
            free_bytes: Arc::new(|| 1 << 40),
            log: log.clone(),
        };
        let skin = Skin::new(&tree, options);
        let session = FuseSession::new(
            wrap(skin.clone()),
            SessionSettings {
                log,
                ..SessionSettings::default()
            },
        );
        let options = FuseMountOptions {
            read_only,
            allow_other: true,
            // If there are rules, they must be checked, and not the modes by the kernel.
            default_permissions: !is_ruled && !checks_modes,
            ..FuseMountOptions::new("a vault")
        };
        let connection = mount(directory.path(), &options).unwrap();
        let serving = FuseServing::start(Arc::new(session), connection, serving_options()).unwrap();
        skin.watch(serving.notifier());
        let tree = Arc::new(tree.another_door());
        Mounted {
            directory,
            serving: Some(serving),
            skin,
            tree,
            log: lines,
        }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub fn session(&self) -> &Arc<FuseSession> {
        self.serving.as_ref().unwrap().session()
    }

    /// Changes the rules of the mount; when this returns, the kernel has been notified.
    pub fn set_rules(&self, rules: &[&str]) {
        self.skin.set_rules(compiled(rules));
        self.flush();
    }

    /// Waits until the kernel has been notified of changes through other doors.
    pub fn flush(&self) {
        self.serving.as_ref().unwrap().notifier().flush(PATIENCE).unwrap();
    }

    /// Waits until the mount knows that files were closed, which the kernel reports asynchronously.
    pub fn until_closed(&self) {
        let started = Instant::now();
        while self.skin.open_files() > 0 {
            assert!(started.elapsed() < PATIENCE, "a file is still open");
            std::thread::yield_now();
        }
    }

    /// The requests that an action costs. Those that the kernel sends asynchronously, when a file is released
    /// or a node forgotten, are left out.
    pub fn requests_of(&self, action: impl FnOnce()) -> Vec<(Opcode, u64)> {
        let asynchronous = [
            Opcode::Release,
            Opcode::Releasedir,
            Opcode::Forget,
            Opcode::BatchForget,
            Opcode::Interrupt,
        ];
        let count = |opcode: Opcode| self.session().counters().requests(opcode);
        let before: Vec<u64> = Opcode::ALL.iter().map(|opcode| count(*opcode)).collect();
        action();
        let after = Opcode::ALL
            .iter()
            .zip(before)
            .map(|(opcode, before)| (*opcode, count(*opcode) - before));
        after
            .filter(|(opcode, requests)| *requests > 0 && !asynchronous.contains(opcode))
            .collect()
    }

    /// How many requests needed data that was not in memory.
    pub fn deferred(&self) -> u64 {
        self.skin.deferred()
    }

    /// After unmounting: returns when the last request has been served.
    pub fn wait(&mut self) {
        self.serving.take().unwrap().wait();
    }

    /// Unmounts and waits until everything is released; returns what was logged.
    pub fn end(mut self) -> Vec<String> {
        // Other programs examine all mounts of a machine, and use this one for a moment.
        let started = Instant::now();
        while let Err(error) = unmount(self.directory.path(), UnmountMode::IfUnused) {
            let is_busy = matches!(error, MountError::Busy { .. });
            assert!(is_busy && started.elapsed() < PATIENCE, "{error}");
            std::thread::sleep(Duration::from_millis(10));
        }
        self.serving.take().unwrap().wait();
        std::mem::take(&mut *self.log.lock().unwrap())
    }
}

/// For scenarios that the kernel serves from its cache without a request. It may drop pages at any time, even
/// needlessly (DAMON reclaims pages that seem idle), and then sends requests: a bug of ours shows every time.
pub fn unless_pages_are_reclaimed(scenario: impl Fn()) {
    const TRIES: usize = 5;
    let is_seen = (1..TRIES).any(|_| catch_unwind(AssertUnwindSafe(&scenario)).is_ok());
    if !is_seen {
        scenario();
    }
}

impl Drop for Mounted {
    /// Must not wait for files that a failed test has left open.
    fn drop(&mut self) {
        if let Some(serving) = self.serving.take() {
            let _ = unmount(self.directory.path(), UnmountMode::Force);
            serving.wait();
        }
    }
}

pub fn compiled(rules: &[&str]) -> Rules {
    Rules::new(rules.iter().map(|rule| Rule::parse(rule).unwrap()).collect()).unwrap()
}

pub fn empty_root() -> Root {
    let meta = Meta {
        mode: 0o755,
        ..Meta::default()
    };
    Root {
        directory: Entry::empty_directory(meta),
        links: None,
        totals: Totals::default(),
    }
}

pub fn empty_tree() -> Arc<WorkTree> {
    let objects = Objects::new(Arc::new(MemoryStore::new()));
    Arc::new(
        WorkTree::in_memory(
            objects,
            BaseTree {
                root: empty_root(),
                inodes: None,
            },
            Arc::new(SystemClock),
        )
        .unwrap(),
    )
}

/// The errno with which a call failed.
pub fn errno<T>(result: std::io::Result<T>) -> Option<avfs_fuse::Errno> {
    result
        .err()
        .and_then(|error| error.raw_os_error())
        .map(avfs_fuse::Errno::from_raw_os_error)
}

/// FUSE over io_uring has a switch for the whole system. Root switches it on, and leaves it on: that has no
/// effect on mounts that do not request it.
fn serving_options() -> ServingOptions {
    const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";
    let transport = crate::TRANSPORT;
    if transport == Transport::Uring && !std::fs::read(SWITCH).is_ok_and(|state| state.starts_with(b"Y")) {
        std::fs::write(SWITCH, "Y").expect("root can switch FUSE over io_uring on (Linux 6.14 or later)");
    }
    ServingOptions {
        transport,
        ..ServingOptions::default()
    }
}

pub fn name(text: &str) -> EntryName {
    EntryName::new(text.as_bytes()).unwrap()
}

/// Creates a file with contents through the other door.
pub fn put(mounted: &Mounted, text: &str, bytes: &[u8]) -> Ino {
    let ino = mounted
        .tree
        .create(Ino::ROOT, &name(text), NewEntry::file(0o644))
        .unwrap()
        .ino;
    mounted.tree.write(ino, 0, bytes).unwrap();
    mounted.flush();
    ino
}
