//! Bytes from and to a command, without ever blocking on it.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

use super::super::pipes::InputFeed;
use crate::output::{CapturedOutput, OutputCapture};

/// Output of a command until its end.
pub(super) struct OutputStream {
    pipe: Option<OwnedFd>,
    capture: OutputCapture,
}

impl OutputStream {
    pub(super) fn new(pipe: OwnedFd, capture: OutputCapture) -> Self {
        Self {
            pipe: Some(pipe),
            capture,
        }
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Reads one piece, so that a flood on one stream does not keep others waiting. Returns whether there was
    /// one.
    pub(super) fn read(&mut self, mut tell: impl FnMut(&[u8])) -> io::Result<bool> {
        let Some(pipe) = &self.pipe else { return Ok(false) };
        // Most reads find nothing: uninitialised memory costs them nothing.
        let mut buffer = [MaybeUninit::<u8>::uninit(); 64 << 10];
        match rustix::io::read(pipe, &mut buffer) {
            Ok(([], _)) => {
                self.pipe = None;
                Ok(false)
            }
            Ok((bytes, _)) => {
                self.capture.add(bytes);
                tell(bytes);
                Ok(true)
            }
            Err(Errno::AGAIN) => Ok(false),
            Err(Errno::INTR) => Ok(true),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Reads everything that is available. Used when no writer is left.
    pub(super) fn drain(&mut self, mut tell: impl FnMut(&[u8])) -> io::Result<()> {
        while self.read(&mut tell)? {}
        Ok(())
    }

    /// Stops reading: writers get a closed pipe.
    pub(super) fn close(&mut self) {
        self.pipe = None;
    }

    /// The beginning of the output.
    pub(super) fn so_far(&self) -> &[u8] {
        self.capture.head()
    }

    pub(super) fn finish(self) -> CapturedOutput {
        self.capture.finish()
    }
}

/// Writes as much input as the command accepts, and closes it at the end.
pub(super) fn feed(feed: &mut Option<InputFeed>) {
    let Some(open) = feed else { return };
    match rustix::io::write(&open.pipe, &open.bytes[open.sent..]) {
        Ok(count) => open.sent += count,
        Err(Errno::AGAIN | Errno::INTR) => return,
        // It does not want more.
        Err(_) => open.sent = open.bytes.len(),
    }
    if open.sent == open.bytes.len() {
        *feed = None;
    }
}
