//! The terminal of a command, made inside: its outer side goes to whoever has the user's terminal, which nothing inside
//! ever sees.
//!
//! The stage leads the session and the command is a job in it, as under a shell: a command that leads its own session
//! could not be stopped by Ctrl-Z, because nobody in the session would be there to let it go on.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::process::{Pid, Signal, kill_process_group};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::tcsetpgrp;

use super::handing::{give, take, tell};
use super::signals;

/// What the stage tells: the command has stopped.
pub(crate) const STOPPED: u8 = b'S';
/// What the stage is told: the command may begin, or go on.
pub(crate) const GO_ON: u8 = b'G';

/// The inner side, and the socket to the other one.
pub(super) struct Terminal {
    line: OwnedFd,
    over: OwnedFd,
}

impl Terminal {
    /// Makes it, and waits until the other side has given it its size.
    pub(super) fn open(over: OwnedFd) -> io::Result<Terminal> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let outer = openpt(flags)?;
        unlockpt(&outer)?;
        let line = ioctl_tiocgptpeer(&outer, flags)?;
        rustix::process::setsid()?;
        rustix::process::ioctl_tiocsctty(&line)?;
        // The stage is never in the foreground, and decides who is.
        signals::hold(libc::SIGTTOU)?;
        give(&outer, &over)?;
        match take(&over)?.byte {
            Some(GO_ON) => Ok(Terminal { line, over }),
            Some(_) | None => Err(io::Error::other("nobody has the other side of the terminal")),
        }
    }

    pub(super) fn line(&self) -> BorrowedFd<'_> {
        self.line.as_fd()
    }

    /// Where the other side is heard.
    pub(super) fn over(&self) -> BorrowedFd<'_> {
        self.over.as_fd()
    }

    pub(super) fn tell_stopped(&self) -> io::Result<()> {
        tell(STOPPED, &self.over)
    }

    /// Does what the other side wants. Answers whether it is still there.
    pub(super) fn obey(&self, command: Pid) -> io::Result<bool> {
        match take(&self.over)?.byte {
            Some(GO_ON) => {
                // Whatever has become of the job meanwhile is seen by its end.
                tcsetpgrp(&self.line, command).ok();
                kill_process_group(command, Signal::CONT).ok();
                Ok(true)
            }
            Some(_) => Ok(true),
            None => Ok(false),
        }
    }
}

/// In the child: it becomes the job in the foreground. Before its signals are as usual: until it is in the foreground
/// it is told to stop.
pub(super) fn become_foreground(line: BorrowedFd<'_>) -> io::Result<()> {
    rustix::process::setpgid(None, None)?;
    Ok(tcsetpgrp(line, rustix::process::getpid())?)
}
