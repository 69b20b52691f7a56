//! What tests of mounts share.

#![allow(dead_code, unused_macros, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use avfs_fuse::mounting::{MountOptions, Unmount, mount, unmount};
use avfs_fuse::transport::{Serving, ServingOptions, Transport};
use avfs_fuse::{Service, Session, Settings};
use rustix::mount::UnmountFlags;

/// What the table of mounts shows; the comma must not begin another option.
pub const SOURCE: &str = "a file, system";

/// Nothing here takes as long as this, even on a machine that does much else.
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

/// FUSE over io_uring has a switch for the whole system. Root switches it on, and leaves it on: that does
/// nothing to mounts which do not ask for it.
pub fn switch_on(transport: Transport) {
    const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";
    if transport == Transport::Uring && !std::fs::read(SWITCH).is_ok_and(|state| state.starts_with(b"Y")) {
        std::fs::write(SWITCH, "Y").expect("root can switch FUSE over io_uring on (Linux 6.14 or later)");
    }
}

/// Waits for what happens soon.
pub fn eventually(what: &str, condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < PATIENCE, "{what}");
        std::thread::yield_now();
    }
}

/// Does something that must come to an end.
pub fn in_time<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("{what}: {error}"))
}

/// A service, mounted on a directory of its own.
pub struct Fixture {
    directory: tempfile::TempDir,
    serving: Option<Serving>,
    log: Arc<Mutex<Vec<String>>>,
}

impl Fixture {
    pub fn mount(service: Arc<dyn Service>, transport: Transport) -> Fixture {
        switch_on(transport);
        let directory = tempfile::tempdir().unwrap();
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let lines = log.clone();
        let settings = Settings {
            log: Arc::new(move |line| lines.lock().unwrap().push(line.to_owned())),
            ..Settings::default()
        };
        let connection = mount(directory.path(), &MountOptions::new(SOURCE)).unwrap();
        let options = ServingOptions { transport, ..ServingOptions::default() };
        let session = Arc::new(Session::new(service, settings));
        let serving = Serving::start(session, connection, options).unwrap();
        Fixture { directory, serving: Some(serving), log }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn serving(&self) -> &Serving {
        self.serving.as_ref().unwrap()
    }

    pub fn session(&self) -> &Arc<Session> {
        self.serving().session()
    }

    /// Unmounts and waits; returns what was logged.
    pub fn end(mut self) -> Vec<String> {
        self.unmount();
        std::mem::take(&mut *self.log.lock().unwrap())
    }

    /// After it was unmounted: returns when the last request is served.
    pub fn wait(&mut self) {
        let serving = self.serving.take().unwrap();
        in_time("the end of serving", || serving.wait());
    }

    fn unmount(&mut self) {
        if let Some(serving) = self.serving.take() {
            unmount(self.directory.path(), Unmount::Detach).unwrap();
            in_time("the end of serving", || serving.wait());
        }
    }
}

/// A test that fails leaves neither requests nor callers that hang.
impl Drop for Fixture {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = rustix::mount::unmount(self.path(), UnmountFlags::FORCE | UnmountFlags::DETACH);
        } else {
            self.unmount();
        }
    }
}
