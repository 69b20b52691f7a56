//! Answers that come later, from other threads than the one that received the request.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[macro_use]
mod support;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use avfs_fuse::null::{FILE_SIZE, NullFilesystem};
use avfs_fuse::transport::Transport;
use avfs_fuse::{Answered, Errno, FuseOperation, FuseReply, FuseRequest, FuseService};
use rustix::fs::FlockOperation;
use rustix::mount::UnmountFlags;
use support::{Fixture, eventually};

over_both_transports! {
    reads_are_answered_by_other_threads,
    requests_that_hang_hold_up_no_others,
    an_ended_connection_does_not_wait_for_requests_that_hang,
}

/// The null file system, except that locks are not granted before they are released, and that contents are
/// read by other threads.
#[derive(Default)]
struct Hanging {
    null: NullFilesystem,
    held: Mutex<Vec<FuseReply<'static>>>,
}

impl FuseService for Hanging {
    fn serve(&self, request: &FuseRequest<'_>, reply: FuseReply<'_>) -> Answered {
        match request.operation {
            FuseOperation::SetLock { wait: true, .. } => {
                let (answered, later) = reply.defer();
                self.held.lock().unwrap().push(later);
                answered
            }
            FuseOperation::Read(read) => {
                let (answered, later) = reply.defer();
                std::thread::spawn(move || {
                    let fill = |buffer: &mut [u8]| {
                        let numbers = read.offset..;
                        buffer
                            .iter_mut()
                            .zip(numbers)
                            .for_each(|(byte, number)| *byte = pattern(number));
                        Ok(buffer.len())
                    };
                    let _ = later.read(read.size as usize, fill);
                });
                answered
            }
            _ => self.null.serve(request, reply),
        }
    }
}

impl Hanging {
    fn held(&self) -> usize {
        self.held.lock().unwrap().len()
    }

    fn release(&self) {
        for reply in self.held.lock().unwrap().drain(..) {
            let _ = reply.error(Errno::ACCESS);
        }
    }
}

fn pattern(number: u64) -> u8 {
    (number ^ (number >> 8) ^ (number >> 16)) as u8
}

fn reads_are_answered_by_other_threads(transport: Transport) {
    let mounted = Fixture::mount(Arc::<Hanging>::default(), transport);
    let file = File::open(mounted.path().join("file")).unwrap();
    let mut buffer = vec![0; FILE_SIZE as usize / 4];
    file.read_exact_at(&mut buffer, 12_345).unwrap();
    assert!(
        buffer
            .iter()
            .zip(12_345..)
            .all(|(byte, number)| *byte == pattern(number))
    );
    drop(file);
    assert_eq!(mounted.end(), Vec::<String>::new());
}

/// More than all entries of all rings.
const HANGING: usize = 64;

/// Threads that wait for a lock, until they are refused.
fn lock(mounted: &Fixture, hanging: &Hanging) -> Vec<JoinHandle<Result<(), Errno>>> {
    let path = mounted.path().join("file");
    let callers = (0..HANGING).map(|_| {
        let file = File::open(&path).unwrap();
        std::thread::spawn(move || rustix::fs::flock(&file, FlockOperation::LockExclusive))
    });
    let callers = callers.collect();
    eventually("all requests arrive", || hanging.held() == HANGING);
    callers
}

fn requests_that_hang_hold_up_no_others(transport: Transport) {
    let hanging = Arc::<Hanging>::default();
    let mounted = Fixture::mount(hanging.clone(), transport);
    for _ in 0..2 {
        let callers = lock(&mounted, &hanging);
        for _ in 0..100 {
            std::fs::metadata(mounted.path().join("file")).unwrap();
        }
        hanging.release();
        for caller in callers {
            assert_eq!(caller.join().unwrap(), Err(Errno::ACCESS));
        }
    }
    assert_eq!(mounted.end(), Vec::<String>::new());
}

fn an_ended_connection_does_not_wait_for_requests_that_hang(transport: Transport) {
    let hanging = Arc::<Hanging>::default();
    let mut mounted = Fixture::mount(hanging.clone(), transport);
    let callers = lock(&mounted, &hanging);
    rustix::mount::unmount(mounted.path(), UnmountFlags::FORCE | UnmountFlags::DETACH).unwrap();
    for caller in callers {
        let error = caller.join().unwrap().unwrap_err();
        assert!(matches!(error, Errno::CONNABORTED | Errno::NOTCONN), "{error}");
    }
    mounted.wait();
    // The receiver of these answers is gone.
    hanging.release();
}
