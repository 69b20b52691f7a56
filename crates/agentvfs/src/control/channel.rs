//! Lines through a socket, and descriptors that travel with them.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A longer line is not a message of ours.
const LINE_MAX: usize = 256 << 10;

/// How long sending a message may take: the other side has room for it, unless it does not read at all.
const SENDING: Duration = Duration::from_secs(10);

/// How many descriptors may arrive together; the kernel drops those for which there is no room.
const DESCRIPTORS: usize = 4;

pub(super) struct Channel {
    stream: UnixStream,
    /// Bytes that arrived after the last complete line.
    buffer: Vec<u8>,
    descriptors: VecDeque<OwnedFd>,
}

impl Channel {
    pub(super) fn new(stream: UnixStream) -> Channel {
        Channel {
            stream,
            buffer: Vec::new(),
            descriptors: VecDeque::new(),
        }
    }

    /// Sends a message, with a descriptor if there is one.
    pub(super) fn send(
        &mut self,
        message: &impl Serialize,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.stream.set_write_timeout(Some(SENDING))?;
        let descriptors: Vec<BorrowedFd<'_>> = descriptor.into_iter().collect();
        let mut sent = 0;
        while sent < line.len() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            // They go with the first bytes; sent again with the rest, they would arrive twice.
            if sent == 0 && !descriptors.is_empty() {
                ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
            }
            let part = [IoSlice::new(&line[sent..])];
            match sendmsg(&self.stream, &part, &mut ancillary, SendFlags::NOSIGNAL) {
                Ok(len) => sent += len,
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(timed_out(errno)),
            }
        }
        Ok(())
    }

    /// The next message; `None` when the other side is done. All of it must arrive in time, however slowly.
    pub(super) fn receive<T: DeserializeOwned>(&mut self, within: Duration) -> io::Result<Option<T>> {
        let deadline = Instant::now() + within;
        let mut searched = 0;
        loop {
            if let Some(end) = self.buffer[searched..].iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=searched + end).collect();
                return Ok(Some(serde_json::from_slice(&line)?));
            }
            // What was searched once has no line end; a long line is not searched from its beginning each
            // time.
            searched = self.buffer.len();
            if searched > LINE_MAX {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a line is too long"));
            }
            if self.receive_more(deadline)? == 0 {
                return if self.buffer.is_empty() {
                    Ok(None)
                } else {
                    Err(io::ErrorKind::UnexpectedEof.into())
                };
            }
        }
    }

    fn receive_more(&mut self, deadline: Instant) -> io::Result<usize> {
        let mut chunk = [0u8; 8 << 10];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            // The deadline is for the whole message, so each read gets what is left of it.
            self.stream.set_read_timeout(Some(left))?;
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let mut parts = [IoSliceMut::new(&mut chunk)];
            match recvmsg(&self.stream, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                Ok(received) => {
                    self.keep_descriptors(&mut ancillary);
                    self.buffer.extend_from_slice(&chunk[..received.bytes]);
                    return Ok(received.bytes);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(timed_out(errno)),
            }
        }
    }

    fn keep_descriptors(&mut self, ancillary: &mut RecvAncillaryBuffer<'_>) {
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors);
            }
        }
        // No message of ours brings more: a sender must not fill our descriptor table.
        self.descriptors.truncate(DESCRIPTORS);
    }

    /// The descriptor that came with the last message, if one did; any other is closed.
    pub(super) fn take_descriptor(&mut self) -> Option<OwnedFd> {
        let first = self.descriptors.pop_front();
        self.descriptors.clear();
        first
    }
}

/// A timeout of a socket shows as an operation that would block.
fn timed_out(errno: rustix::io::Errno) -> io::Error {
    match errno {
        rustix::io::Errno::AGAIN => io::ErrorKind::TimedOut.into(),
        errno => errno.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, Write};
    use std::os::fd::AsFd;

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    fn pair() -> (Channel, UnixStream) {
        let (one, other) = UnixStream::pair().unwrap();
        (Channel::new(one), other)
    }

    #[test]
    fn a_descriptor_travels_with_its_message() {
        let (mut one, other) = pair();
        let mut other = Channel::new(other);
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"through the socket").unwrap();
        file.rewind().unwrap();
        one.send(&"with", Some(file.as_fd())).unwrap();
        one.send(&"without", None).unwrap();
        assert_eq!(other.receive::<String>(SOON).unwrap().unwrap(), "with");
        let mut received = std::fs::File::from(other.take_descriptor().unwrap());
        let mut text = String::new();
        received.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through the socket");
        assert_eq!(other.receive::<String>(SOON).unwrap().unwrap(), "without");
        assert!(other.take_descriptor().is_none());
        drop(one);
        assert_eq!(other.receive::<String>(SOON).unwrap(), None);
    }

    #[test]
    fn line_in_pieces_is_one_message_and_an_unfinished_line_is_no_message() {
        let (mut one, mut other) = pair();
        other.write_all(b"\"in pie").unwrap();
        other.write_all(b"ces\"\n\"ha").unwrap();
        assert_eq!(one.receive::<String>(SOON).unwrap().unwrap(), "in pieces");
        drop(other);
        assert_eq!(
            one.receive::<String>(SOON).unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
    }

    #[test]
    fn silence_and_endless_lines_end_in_an_error() {
        let (mut one, mut other) = pair();
        let late = one.receive::<String>(Duration::from_millis(1)).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        let writer = std::thread::spawn(move || while other.write_all(&[b'x'; 4096]).is_ok() {});
        assert_eq!(
            one.receive::<String>(SOON).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
        drop(one);
        writer.join().unwrap();
    }
}
