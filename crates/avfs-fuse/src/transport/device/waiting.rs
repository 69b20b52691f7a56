//! Waiting for a request, so that the kernel wakes one thread and always the same one first.
//!
//! Each thread has an epoll set of its own in which the connection is marked as exclusive. The kernel goes
//! through the sets in the order in which they were made, and stops at the first whose thread sleeps. A
//! blocking read would wake the threads in turn, each time another one that has been asleep for longest.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

pub struct Waiting(OwnedFd);

impl Waiting {
    /// `stop` becomes readable when nothing is to be waited for any more.
    pub fn new(connection: impl AsFd, stop: BorrowedFd<'_>) -> std::io::Result<Waiting> {
        let set = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&set, connection, EventData::new_u64(0), EventFlags::IN | EventFlags::EXCLUSIVE)?;
        epoll::add(&set, stop, EventData::new_u64(1), EventFlags::IN)?;
        Ok(Waiting(set))
    }

    /// Returns when there may be a request, which another thread may have taken, when the mount is gone, or
    /// when serving is to stop.
    pub fn wait(&self) {
        let mut room = [MaybeUninit::uninit(); 1];
        // An interrupted wait says nothing, as if another thread had taken the request.
        let _ = epoll::wait(&self.0, &mut room, None);
    }
}
