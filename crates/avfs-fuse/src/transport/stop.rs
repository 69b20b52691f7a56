//! Ends serving a connection that the kernel does not end.
//!
//! A removed mount lives on in mount namespaces that have a copy of it, and only root can make the kernel end
//! it nevertheless. Every server can close its descriptors of the connection: then each use of a copy fails.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::EventfdFlags;

/// Ends the threads of a connection. Clones refer to the same connection.
#[derive(Clone, Debug)]
pub struct ServingStop {
    asked: Arc<AtomicBool>,
    /// Readable from the moment at which the end was requested. It is never read, so that every thread sees
    /// it.
    bell: Arc<OwnedFd>,
}

impl ServingStop {
    pub(super) fn new() -> std::io::Result<ServingStop> {
        let bell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(ServingStop {
            asked: Arc::default(),
            bell: Arc::new(bell),
        })
    }

    /// Each thread ends when it has answered its current request.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::Release);
        // The first ring is permanent.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    pub(super) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
