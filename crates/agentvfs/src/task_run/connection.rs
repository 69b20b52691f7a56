//! A client of a run, on the side of the run's supervisor.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::SendFlags;
use serde::Serialize;

use super::wire::{Frames, RunFrameKind, frame};

/// How much output may be pending for a terminal before the program must wait for it.
const PENDING_MAX: usize = 256 << 10;
/// How long the program waits for a terminal that reads nothing: its connection may be dead.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionRole {
    /// Its request has not arrived yet.
    Unknown,
    /// It shares the program's terminal.
    Terminal { is_shown: bool },
    /// It hears of output and of the end.
    Watcher,
}

pub(super) struct Connection {
    stream: UnixStream,
    frames: Frames,
    pending: Vec<u8>,
    /// Since when it has not read any pending output.
    stuck_since: Option<Instant>,
    /// It was too slow; it gets the current screen when it has read the pending output.
    is_behind: bool,
    pub(super) role: ConnectionRole,
    /// The terminal that the run was started from.
    pub(super) is_starter: bool,
    /// It announced that it would leave.
    pub(super) has_left: bool,
    is_gone: bool,
}

impl Connection {
    pub(super) fn new(stream: UnixStream, is_starter: bool) -> Option<Connection> {
        stream.set_nonblocking(true).ok()?;
        Some(Connection {
            stream,
            frames: Frames::default(),
            pending: Vec::new(),
            stuck_since: None,
            is_behind: false,
            role: ConnectionRole::Unknown,
            is_starter,
            has_left: false,
            is_gone: false,
        })
    }

    pub(super) fn flags(&self, takes_keys: bool) -> PollFlags {
        let mut flags = PollFlags::empty();
        if takes_keys || !matches!(self.role, ConnectionRole::Terminal { .. }) {
            flags |= PollFlags::IN;
        }
        if !self.pending.is_empty() {
            flags |= PollFlags::OUT;
        }
        flags
    }

    pub(super) fn receive(&mut self) {
        let mut buffer = [0; 8 << 10];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.is_gone = true,
            Ok(count) => self.frames.push(&buffer[..count]),
            Err(error) if is_for_later(&error) => {}
            Err(_) => self.is_gone = true,
        }
    }

    /// The next whole frame. Who sends anything else is dropped.
    pub(super) fn next(&mut self) -> Option<(RunFrameKind, Vec<u8>)> {
        self.frames.next().unwrap_or_else(|_| {
            self.is_gone = true;
            None
        })
    }

    pub(super) fn send(&mut self, kind: RunFrameKind, bytes: &[u8]) {
        self.pending.extend(frame(kind, bytes));
        self.flush();
    }

    pub(super) fn send_json(&mut self, kind: RunFrameKind, value: &impl Serialize) {
        if let Ok(bytes) = serde_json::to_vec(value) {
            self.send(kind, &bytes);
        }
    }

    /// Shows output, unless it is behind.
    pub(super) fn show(&mut self, bytes: &[u8]) {
        if !self.is_behind {
            self.send(RunFrameKind::Shown, bytes);
        }
    }

    pub(super) fn flush(&mut self) {
        while !self.pending.is_empty() {
            match rustix::net::send(
                &self.stream,
                &self.pending,
                SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
            ) {
                Ok(count) => {
                    self.pending.drain(..count);
                    self.stuck_since = None;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    // The time of the first failure counts, not that of the last attempt.
                    self.stuck_since.get_or_insert_with(Instant::now);
                    return;
                }
                Err(_) => {
                    self.pending.clear();
                    self.is_gone = true;
                }
            }
        }
    }

    /// Whether the program must wait for it.
    pub(super) fn is_full(&self) -> bool {
        matches!(self.role, ConnectionRole::Terminal { .. })
            && !self.is_behind
            && self.pending.len() >= PENDING_MAX
    }

    /// When it is waited for no longer.
    pub(super) fn gives_up_at(&self) -> Option<Instant> {
        self.stuck_since
            .filter(|_| self.is_full())
            .map(|since| since + PATIENCE)
    }

    /// Whether it was behind and can get the current screen again.
    pub(super) fn catches_up(&mut self, now: Instant) -> bool {
        if self.gives_up_at().is_some_and(|at| now >= at) {
            self.is_behind = true;
        }
        // Only with nothing pending: otherwise the new screen would be mixed with old output.
        let catches_up = self.is_behind && self.pending.is_empty();
        self.is_behind &= !catches_up;
        catches_up
    }

    pub(super) fn leave(&mut self) {
        self.has_left = true;
        self.is_gone = true;
    }

    pub(super) fn drop_out(&mut self) {
        self.is_gone = true;
    }

    pub(super) fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Whether it has read everything that was sent.
    pub(super) fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn is_for_later(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads all that is there.
    fn drain(stream: &mut UnixStream) -> usize {
        stream.set_nonblocking(true).unwrap();
        let (mut buffer, mut count) = (vec![0; 64 << 10], 0);
        while let Ok(read @ 1..) = stream.read(&mut buffer) {
            count += read;
        }
        count
    }

    #[test]
    fn a_terminal_that_takes_nothing_is_waited_for_only_so_long_and_caught_up_with_later() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut terminal = Connection::new(ours, false).unwrap();
        terminal.role = ConnectionRole::Terminal { is_shown: true };
        while !terminal.is_full() {
            terminal.show(&[b'x'; 16 << 10]);
        }
        let now = Instant::now();
        assert!(!terminal.catches_up(now));
        assert!(terminal.is_full(), "the program waits for it");
        assert!(!terminal.catches_up(now + PATIENCE));
        assert!(!terminal.is_full(), "the program waits no longer");
        let pending = terminal.pending.len();
        terminal.show(b"not kept for it");
        assert_eq!(terminal.pending.len(), pending);
        while !terminal.is_idle() {
            assert!(drain(&mut theirs) > 0);
            terminal.flush();
        }
        assert!(
            terminal.catches_up(now + PATIENCE),
            "it is shown again where the program is"
        );
        terminal.show(b"kept");
        assert!(drain(&mut theirs) > 4);
    }

    #[test]
    fn one_that_left_is_told_from_one_that_was_killed() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut killed = Connection::new(ours, true).unwrap();
        drop(theirs);
        killed.receive();
        assert!(killed.is_gone() && !killed.has_left);
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let mut left = Connection::new(ours, true).unwrap();
        left.leave();
        assert!(left.is_gone() && left.has_left);
    }
}
