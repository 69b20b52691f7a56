//! The outer side of a run's terminal: where the user's own one is.
//!
//! The command's terminal is made inside ([`crate::inside`]), and its outer side comes over a socket. The process that
//! has the user's terminal copies bytes between the two. It is told when the command has stopped, and says when it may
//! go on; when it ends, so does the run.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::inside::{GO_ON, STOPPED, take, tell};

/// One side of the socket.
#[derive(Debug)]
pub struct Console {
    over: OwnedFd,
}

/// What is heard from inside.
#[derive(Debug)]
pub enum News {
    /// The outer side of the terminal. The command begins when it is told to go on.
    Opened(OwnedFd),
    /// The command itself has stopped. It goes on when it is told to.
    Stopped,
    /// Nothing is left inside.
    Gone,
}

impl Console {
    /// Both sides: this one, and the one for [`Stdin::Terminal`](crate::Stdin::Terminal).
    pub fn pair() -> io::Result<(Console, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC;
        let (over, inner) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok((Console { over }, inner))
    }

    /// The next piece of news. Waits for it.
    pub fn hear(&self) -> io::Result<News> {
        loop {
            let taken = take(&self.over)?;
            match (taken.fd, taken.byte) {
                (Some(outer), _) => return Ok(News::Opened(outer)),
                (None, Some(STOPPED)) => return Ok(News::Stopped),
                (None, Some(_)) => {}
                (None, None) => return Ok(News::Gone),
            }
        }
    }

    pub fn go_on(&self) -> io::Result<()> {
        tell(GO_ON, &self.over)
    }
}

impl AsFd for Console {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.over.as_fd()
    }
}
