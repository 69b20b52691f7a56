//! Shared by the tests of mounts.

#![allow(dead_code, unused_macros, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use avfs_fuse::mounting::{FuseMountOptions, UnmountMode, mount, unmount};
use avfs_fuse::transport::{FuseServing, ServingOptions, Transport};
use avfs_fuse::{FuseService, FuseSession, SessionSettings};
use rustix::mount::UnmountFlags;

/// The source in the table of mounts; the comma must not begin another option.
pub const SOURCE: &str = "a file, system";

/// Nothing here takes this long, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Makes two tests of each function that takes a [`Transport`].
macro_rules! over_both_transports {
    ($($name:ident,)*) => {
        mod over_device {
            $(#[test] fn $name() { super::$name(avfs_fuse::transport::Transport::Device) })*
        }

        mod over_io_uring {
            $(#[test] fn $name() { super::$name(avfs_fuse::transport::Transport::Uring) })*
        }
    };
}

/// FUSE over io_uring has a switch for the whole system. Root switches it on, and leaves it on: that has no
/// effect on mounts that do not request it.
pub fn switch_on(transport: Transport) {
    const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";
    if transport == Transport::Uring && !std::fs::read(SWITCH).is_ok_and(|state| state.starts_with(b"Y")) {
        std::fs::write(SWITCH, "Y").expect("root can switch FUSE over io_uring on (Linux 6.14 or later)");
    }
}

/// Waits for a condition that soon becomes true.
pub fn eventually(what: &str, condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < PATIENCE, "{what}");
        std::thread::yield_now();
    }
}

/// Runs work that must come to an end.
pub fn in_time<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(work()));
    receiver
        .recv_timeout(PATIENCE)
        .unwrap_or_else(|error| panic!("{what}: {error}"))
}

/// A service, mounted on a directory of its own.
pub struct Fixture {
    directory: tempfile::TempDir,
    serving: Option<FuseServing>,
    log: Arc<Mutex<Vec<String>>>,
}

impl Fixture {
    pub fn mount(service: Arc<dyn FuseService>, transport: Transport) -> Fixture {
        switch_on(transport);
        let directory = tempfile::tempdir().unwrap();
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let lines = log.clone();
        let settings = SessionSettings {
            log: Arc::new(move |line| lines.lock().unwrap().push(line.to_owned())),
            ..SessionSettings::default()
        };
        let connection = mount(directory.path(), &FuseMountOptions::new(SOURCE)).unwrap();
        let options = ServingOptions {
            transport,
            ..ServingOptions::default()
        };
        let session = Arc::new(FuseSession::new(service, settings));
        let serving = FuseServing::start(session, connection, options).unwrap();
        Fixture {
            directory,
            serving: Some(serving),
            log,
        }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn serving(&self) -> &FuseServing {
        self.serving.as_ref().unwrap()
    }

    pub fn session(&self) -> &Arc<FuseSession> {
        self.serving().session()
    }

    /// Unmounts and waits; returns what was logged.
    pub fn end(mut self) -> Vec<String> {
        self.unmount();
        std::mem::take(&mut *self.log.lock().unwrap())
    }

    /// After unmounting: returns when the last request has been served.
    pub fn wait(&mut self) {
        let serving = self.serving.take().unwrap();
        in_time("the end of serving", || serving.wait());
    }

    fn unmount(&mut self) {
        if let Some(serving) = self.serving.take() {
            unmount(self.directory.path(), UnmountMode::Detach).unwrap();
            in_time("the end of serving", || serving.wait());
        }
    }
}

/// A test that fails leaves no hanging requests or callers behind.
impl Drop for Fixture {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = rustix::mount::unmount(self.path(), UnmountFlags::FORCE | UnmountFlags::DETACH);
        } else {
            self.unmount();
        }
    }
}
