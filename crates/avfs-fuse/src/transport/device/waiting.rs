//! Waits for a request in such a way that the kernel wakes one thread, and always the same one first.
//!
//! Each thread has its own epoll set in which the connection is registered with EPOLLEXCLUSIVE. The kernel
//! goes through the sets in the order in which the connection was added to them, and stops at the first whose
//! thread sleeps. A blocking read would wake the threads in turn, each time the one that has slept longest.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec};

pub(super) struct DeviceWaiting {
    set: OwnedFd,
    connection: Arc<OwnedFd>,
}

impl DeviceWaiting {
    /// At the end of the line.
    pub(super) fn new(connection: &Arc<OwnedFd>) -> std::io::Result<DeviceWaiting> {
        let waiting = DeviceWaiting::outside(connection)?;
        waiting.enter()?;
        Ok(waiting)
    }

    /// Not in the line yet.
    pub(super) fn outside(connection: &Arc<OwnedFd>) -> std::io::Result<DeviceWaiting> {
        Ok(DeviceWaiting {
            set: epoll::create(CreateFlags::CLOEXEC)?,
            connection: connection.clone(),
        })
    }

    /// Goes to the end of the line. If a request is already there, it is seen.
    pub(super) fn enter(&self) -> std::io::Result<()> {
        let exclusive = EventFlags::IN | EventFlags::EXCLUSIVE;
        Ok(epoll::add(
            &self.set,
            &*self.connection,
            EventData::new_u64(0),
            exclusive,
        )?)
    }

    /// Leaves the line: a thread that waits is not woken for requests.
    pub(super) fn leave(&self) -> std::io::Result<()> {
        Ok(epoll::delete(&self.set, &*self.connection)?)
    }

    /// Whether there are requests that no thread has read.
    pub(super) fn has_requests(&self) -> bool {
        let mut connection = [PollFd::new(&*self.connection, PollFlags::IN)];
        rustix::event::poll(&mut connection, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// From now on, waiting also returns while a bell rings.
    pub(super) fn listen(&self, bell: impl AsFd) -> std::io::Result<()> {
        Ok(epoll::add(
            &self.set,
            bell,
            EventData::new_u64(1),
            EventFlags::IN,
        )?)
    }

    /// Returns when there may be a request, which another thread may have taken, when the mount is gone, or
    /// when serving is stopped.
    pub(super) fn wait(&self) {
        let mut room = [MaybeUninit::uninit(); 1];
        // An interrupted wait means nothing, as if another thread had taken the request.
        let _ = epoll::wait(&self.set, &mut room, None);
    }
}
