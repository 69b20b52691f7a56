//! Polls many streams with a single call to the kernel.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

/// How many streams are reported at a time. The others are reported next.
const AT_ONCE: usize = 64;

/// Identifies a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PollToken {
    /// The socket to the stage.
    Outbox,
    Of(u64, ProcessStream),
}

/// Which stream of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcessStream {
    Input,
    Stdout,
    Stderr,
}

#[derive(Debug)]
pub(super) struct Poller(OwnedFd);

impl Poller {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(epoll::create(CreateFlags::CLOEXEC)?))
    }

    pub(super) fn add(&self, fd: impl AsFd, token: PollToken, flags: EventFlags) -> io::Result<()> {
        let data = EventData::new_u64(token.number());
        Ok(epoll::add(&self.0, fd, data, flags)?)
    }

    /// Stops polling it. A child may hold a copy of the descriptor for a moment, so closing it is not enough.
    pub(super) fn remove(&self, fd: impl AsFd) {
        // It may not have been polled.
        epoll::delete(&self.0, fd).ok();
    }

    /// The streams that are ready.
    pub(super) fn ready(&self) -> io::Result<Vec<PollToken>> {
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut events = [MaybeUninit::<Event>::uninit(); AT_ONCE];
        match epoll::wait(&self.0, &mut events, Some(&at_once)) {
            Ok((ready, _)) => Ok(ready
                .iter()
                .map(|event| PollToken::of(event.data.u64()))
                .collect()),
            Err(rustix::io::Errno::INTR) => Ok(Vec::new()),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl PollToken {
    /// Numbers of processes begin with one.
    fn number(self) -> u64 {
        match self {
            Self::Outbox => 0,
            Self::Of(id, ProcessStream::Input) => id << 2,
            Self::Of(id, ProcessStream::Stdout) => (id << 2) | 1,
            Self::Of(id, ProcessStream::Stderr) => (id << 2) | 2,
        }
    }

    fn of(number: u64) -> Self {
        let side = match number & 3 {
            0 if number == 0 => return Self::Outbox,
            0 => ProcessStream::Input,
            1 => ProcessStream::Stdout,
            _ => ProcessStream::Stderr,
        };
        Self::Of(number >> 2, side)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_the_way_through_the_kernel() {
        let sides = [ProcessStream::Input, ProcessStream::Stdout, ProcessStream::Stderr];
        let all = [1, 7, 1 << 40]
            .into_iter()
            .flat_map(|id| sides.map(|side| PollToken::Of(id, side)));
        for token in all.chain([PollToken::Outbox]) {
            assert_eq!(PollToken::of(token.number()), token);
        }
    }
}
