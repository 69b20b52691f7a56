//! The end of serving a connection that the kernel does not end.
//!
//! A mount that was taken away lives on in namespaces of mounts that have a copy of it, and only root can have the kernel end
//! it all the same. Every server can close its descriptors of the connection: then each use of a copy fails.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::EventfdFlags;

/// Has the threads of a connection end. Clones are about the same connection.
#[derive(Clone, Debug)]
pub struct ServingStop {
    asked: Arc<AtomicBool>,
    /// Readable from the moment at which it was asked for. Nobody reads it, so that every thread sees it.
    bell: Arc<OwnedFd>,
}

impl ServingStop {
    pub(super) fn new() -> std::io::Result<ServingStop> {
        let bell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(ServingStop { asked: Arc::default(), bell: Arc::new(bell) })
    }

    /// Each thread ends when it has answered the request that it is at.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::Release);
        // It rings for good with the first one.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    pub(super) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
