//! Waiting for a request, so that the kernel wakes one thread and always the same one first.
//!
//! Each thread has an epoll set of its own in which the connection is marked as exclusive. The kernel goes
//! through the sets in the order in which they were made, and stops at the first whose thread sleeps. A
//! blocking read would wake the threads in turn, each time another one that has been asleep for longest.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

const REQUEST: EventData = EventData::new_u64(0);
const STOP: EventData = EventData::new_u64(1);

pub struct Waiting(OwnedFd);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// There may be a request, or another thread has taken it.
    Request,
    Stop,
}

impl Waiting {
    pub fn new(connection: impl AsFd, stop: impl AsFd) -> std::io::Result<Waiting> {
        let set = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&set, connection, REQUEST, EventFlags::IN | EventFlags::EXCLUSIVE)?;
        epoll::add(&set, stop, STOP, EventFlags::IN)?;
        Ok(Waiting(set))
    }

    pub fn wait(&self) -> Next {
        let mut room = [MaybeUninit::uninit(); 2];
        match epoll::wait(&self.0, &mut room, None) {
            Ok((events, _)) if events.iter().any(|event| event.data.u64() == STOP.u64()) => Next::Stop,
            // An interrupted wait says nothing, as if another thread had taken the request.
            _ => Next::Request,
        }
    }
}
