//! The outer side of a run's terminal, in the process with the user's own terminal.
//!
//! The command's terminal is created inside ([`avfs_inside`]), and its outer side is sent over a socket.
//! The process that has the user's terminal copies bytes between the two. It is notified when the command has
//! stopped, and decides when it may continue; when it ends, so does the run.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

pub use avfs_inside::TerminalSize;
use avfs_inside::{GO_ON, STOPPED, take, tell};

/// One side of the socket.
#[derive(Debug)]
pub struct Console {
    over: OwnedFd,
}

/// A message from inside.
#[derive(Debug)]
pub enum ConsoleMessage {
    /// The outer side of the terminal. The command begins on request.
    Opened(OwnedFd),
    /// The command itself has stopped. It continues on request.
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

    /// Waits for the next message.
    pub fn hear(&self) -> io::Result<ConsoleMessage> {
        loop {
            let taken = take(&self.over)?;
            match (taken.fd, taken.byte) {
                (Some(outer), _) => return Ok(ConsoleMessage::Opened(outer)),
                (None, Some(STOPPED)) => return Ok(ConsoleMessage::Stopped),
                (None, Some(_)) => {}
                (None, None) => return Ok(ConsoleMessage::Gone),
            }
        }
    }

    /// Lets a program go on that has stopped.
    pub fn go_on(&self) -> io::Result<()> {
        tell(GO_ON, &self.over)
    }
}

impl AsFd for Console {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.over.as_fd()
    }
}
