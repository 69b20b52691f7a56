//! Bytes from and to a command, without ever waiting for it.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

use super::super::pipes::Feed;
use crate::output::{Capture, Captured};

/// Output of a command until its end.
pub(super) struct Stream {
    pipe: Option<OwnedFd>,
    capture: Capture,
}

impl Stream {
    pub(super) fn new(pipe: OwnedFd, capture: Capture) -> Self {
        Self { pipe: Some(pipe), capture }
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Takes one piece, so that a flood on one stream does not keep others waiting. Answers whether there was one.
    pub(super) fn read(&mut self, mut tell: impl FnMut(&[u8])) -> io::Result<bool> {
        let Some(pipe) = &self.pipe else { return Ok(false) };
        // Most looks find nothing: memory that nobody has touched costs them nothing.
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

    /// Takes all that is there. For when nobody is left to write more.
    pub(super) fn drain(&mut self, mut tell: impl FnMut(&[u8])) -> io::Result<()> {
        while self.read(&mut tell)? {}
        Ok(())
    }

    /// Takes nothing more: whoever writes meets a closed pipe.
    pub(super) fn close(&mut self) {
        self.pipe = None;
    }

    /// The beginning of what came.
    pub(super) fn so_far(&self) -> &[u8] {
        self.capture.head()
    }

    pub(super) fn finish(self) -> Captured {
        self.capture.finish()
    }
}

/// Gives the command as much as it takes, and the end of it.
pub(super) fn feed(feed: &mut Option<Feed>) {
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
