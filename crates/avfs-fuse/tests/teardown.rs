//! The end of connections: unmounted while in use, over and over, and servers that are killed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[macro_use]
mod support;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use avfs_fuse::mounting::{FuseMountOptions, UnmountMode, clean_up, mount, unmount};
use avfs_fuse::null::NullFilesystem;
use avfs_fuse::transport::{FuseServing, ServingOptions, Transport};
use avfs_fuse::{FuseSession, SessionSettings};
use avfs_testkit::{TestChild, acknowledge, child_task};
use rustix::mount::UnmountFlags;
use support::{eventually, in_time, switch_on};

over_both_transports! {
    mounts_come_and_go,
    a_killed_server_leaves_room_for_the_next,
}

fn serve(at: &Path, transport: Transport) -> FuseServing {
    let connection = mount(at, &FuseMountOptions::new("teardown")).unwrap();
    let session = FuseSession::new(Arc::new(NullFilesystem::default()), SessionSettings::default());
    let options = ServingOptions {
        transport,
        ..ServingOptions::default()
    };
    FuseServing::start(Arc::new(session), connection, options).unwrap()
}

/// Threads that use a path until they are stopped, ignoring errors.
struct Users {
    stop: Arc<AtomicBool>,
    uses: Arc<AtomicUsize>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Users {
    fn start(path: &Path) -> Users {
        let stop = Arc::<AtomicBool>::default();
        let uses = Arc::<AtomicUsize>::default();
        let threads = ["file", "nothing", "directory"].map(|name| {
            let path = path.join(name);
            let stop = stop.clone();
            let uses = uses.clone();
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let _ = std::fs::read_dir(&path);
                    let _ = std::fs::symlink_metadata(&path);
                    uses.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        Users {
            stop,
            uses,
            threads: threads.into(),
        }
    }

    fn at_work(&self) {
        let before = self.uses.load(Ordering::Relaxed);
        eventually("the mount is used", || {
            self.uses.load(Ordering::Relaxed) > before + 20
        });
    }

    fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        in_time("the users of the mount", || {
            self.threads.into_iter().for_each(|user| user.join().unwrap())
        });
    }
}

/// A third of the mounts is unused when it goes, a third is detached while programs use it, and a third is
/// ended by force in the middle of requests.
fn mounts_come_and_go(transport: Transport) {
    switch_on(transport);
    let directory = tempfile::tempdir().unwrap();
    for round in 0..200 {
        let serving = serve(directory.path(), transport);
        match round % 3 {
            0 => {
                std::fs::metadata(directory.path().join("file")).unwrap();
                unmount(directory.path(), UnmountMode::IfUnused).unwrap();
            }
            way => {
                let users = Users::start(directory.path());
                users.at_work();
                let force = if way == 1 {
                    UnmountFlags::empty()
                } else {
                    UnmountFlags::FORCE
                };
                rustix::mount::unmount(directory.path(), UnmountFlags::DETACH | force).unwrap();
                users.stop();
            }
        }
        in_time("the end of serving", || serving.wait());
    }
}

/// Not a test itself: the code that children run.
#[test]
fn the_child() {
    let Some((place, script)) = child_task() else {
        return;
    };
    let transport = if script == "uring" {
        Transport::Uring
    } else {
        Transport::Device
    };
    let serving = serve(&place, transport);
    acknowledge("mounted");
    serving.wait();
}

fn a_killed_server_leaves_room_for_the_next(transport: Transport) {
    switch_on(transport);
    let directory = tempfile::tempdir().unwrap();
    let script = if transport == Transport::Uring {
        "uring"
    } else {
        "device"
    };
    for _ in 0..50 {
        let mut child = TestChild::start("the_child", directory.path(), script);
        assert_eq!(child.acknowledged().as_deref(), Some("mounted"));
        let users = Users::start(directory.path());
        users.at_work();
        let _ = child.kill();
        let place = directory.path().to_owned();
        in_time("the dead mount", move || {
            assert!(clean_up(&place).unwrap(), "the mount of the dead is there");
            let serving = serve(&place, transport);
            std::fs::metadata(place.join("file")).unwrap();
            unmount(&place, UnmountMode::Detach).unwrap();
            serving.wait();
        });
        users.stop();
    }
}
