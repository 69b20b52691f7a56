//! Waiting for a request, so that the kernel wakes one thread and always the same one first.
//!
//! Each thread has an epoll set of its own in which the connection is marked as exclusive. The kernel goes
//! through the sets in the order in which the connection came into them, and stops at the first whose thread sleeps. A
//! blocking read would wake the threads in turn, each time another one that has been asleep for longest.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec};

pub struct Waiting {
    set: OwnedFd,
    connection: Arc<OwnedFd>,
}

impl Waiting {
    /// At the end of the line.
    pub fn new(connection: &Arc<OwnedFd>) -> std::io::Result<Waiting> {
        let waiting = Waiting::outside(connection)?;
        waiting.enter()?;
        Ok(waiting)
    }

    /// Not in the line yet.
    pub fn outside(connection: &Arc<OwnedFd>) -> std::io::Result<Waiting> {
        Ok(Waiting { set: epoll::create(CreateFlags::CLOEXEC)?, connection: connection.clone() })
    }

    /// Goes to the end of the line. If there is a request already, it is seen.
    pub fn enter(&self) -> std::io::Result<()> {
        let exclusive = EventFlags::IN | EventFlags::EXCLUSIVE;
        Ok(epoll::add(&self.set, &*self.connection, EventData::new_u64(0), exclusive)?)
    }

    /// Leaves the line: a thread that waits is not woken for requests.
    pub fn leave(&self) -> std::io::Result<()> {
        Ok(epoll::delete(&self.set, &*self.connection)?)
    }

    /// Whether there are requests that no thread has read.
    pub fn has_requests(&self) -> bool {
        let mut connection = [PollFd::new(&*self.connection, PollFlags::IN)];
        rustix::event::poll(&mut connection, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// Returns from now on as well while a bell rings.
    pub fn listen(&self, bell: impl AsFd) -> std::io::Result<()> {
        Ok(epoll::add(&self.set, bell, EventData::new_u64(1), EventFlags::IN)?)
    }

    /// Returns when there may be a request, which another thread may have taken, when the mount is gone, or
    /// when serving is to stop.
    pub fn wait(&self) {
        let mut room = [MaybeUninit::uninit(); 1];
        // An interrupted wait says nothing, as if another thread had taken the request.
        let _ = epoll::wait(&self.set, &mut room, None);
    }
}
