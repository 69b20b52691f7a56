//! The terminal of a command, created inside: its outer side is passed to the process that has the user's
//! terminal, which is never visible inside.
//!
//! The stage leads the session and the command is a job in it, as under a shell: a command that leads its own
//! session could not be stopped by Ctrl-Z, because no process in the session would be there to continue it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::process::{Pid, Signal, kill_process_group};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetpgrp, tcsetwinsize};

use super::handing::{give, take, tell};
use super::signals;

/// Sent by the stage: the command has stopped.
pub const STOPPED: u8 = b'S';
/// Sent to the stage: the command may begin, or continue.
pub const GO_ON: u8 = b'G';

/// The size of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
}

impl TerminalSize {
    /// Sets the size of a terminal. Its foreground job receives `SIGWINCH`.
    pub fn apply(self, terminal: impl AsFd) -> io::Result<()> {
        let size = Winsize {
            ws_row: self.rows,
            ws_col: self.columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        Ok(tcsetwinsize(terminal, size)?)
    }
}

/// The inner side, and the socket to the process with the outer side.
pub(super) struct InnerTerminal {
    line: OwnedFd,
    over: OwnedFd,
}

impl InnerTerminal {
    /// Creates it, and waits until the other side has set its size.
    pub(super) fn open(over: OwnedFd) -> io::Result<InnerTerminal> {
        let (outer, line) = make()?;
        rustix::process::setsid()?;
        rustix::process::ioctl_tiocsctty(&line)?;
        // The stage is never in the foreground, and decides which job is.
        signals::hold(libc::SIGTTOU)?;
        give(&outer, &over)?;
        match take(&over)?.byte {
            Some(GO_ON) => Ok(InnerTerminal { line, over }),
            Some(_) | None => Err(io::Error::other("the other side of the terminal is closed")),
        }
    }

    pub(super) fn line(&self) -> BorrowedFd<'_> {
        self.line.as_fd()
    }

    /// The socket from which the other side is read.
    pub(super) fn over(&self) -> BorrowedFd<'_> {
        self.over.as_fd()
    }

    pub(super) fn tell_stopped(&self) -> io::Result<()> {
        tell(STOPPED, &self.over)
    }

    /// Carries out a request of the other side. Returns whether it is still there.
    pub(super) fn obey(&self, command: Pid) -> io::Result<bool> {
        match take(&self.over)?.byte {
            Some(GO_ON) => {
                // If the job has ended meanwhile, its end is reported elsewhere.
                tcsetpgrp(&self.line, command).ok();
                kill_process_group(command, Signal::CONT).ok();
                Ok(true)
            }
            Some(_) => Ok(true),
            None => Ok(false),
        }
    }
}

/// A terminal of this sandbox: its outer and its inner side.
pub(super) fn make() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let outer = openpt(flags)?;
    unlockpt(&outer)?;
    let line = ioctl_tiocgptpeer(&outer, flags)?;
    Ok((outer, line))
}

/// In the child: makes it the foreground job. Called while its signals are still blocked: until it is in the
/// foreground, this call would stop it.
pub(super) fn become_foreground(line: BorrowedFd<'_>) -> io::Result<()> {
    rustix::process::setpgid(None, None)?;
    Ok(tcsetpgrp(line, rustix::process::getpid())?)
}
