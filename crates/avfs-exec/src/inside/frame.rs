//! What launcher and stage say to each other: frames of a kind, a length and that many bytes, over a stream socket.
//!
//! A command is started once and has one end. Output never travels here; it has pipes of its own.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use super::codec::{Decoder, Encoder};
use super::spec::Spec;

/// What a launcher wants.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Confine and start this. The first order, and given once.
    Start(Spec),
    /// Ask every process of the run to end.
    Terminate,
    /// End every process of the run.
    Kill,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// The command runs.
    Started,
    /// The command could not be started, with the reason that the kernel gave.
    NotStarted {
        errno: i32,
    },
    /// There is no such working directory, and the command was not started.
    NoDirectory,
    /// The stage could not confine the command, and did not start it.
    NotConfined {
        reason: String,
    },
    Exited {
        code: i32,
    },
    Signaled {
        signal: i32,
    },
}

/// A frame longer than this is no frame of ours.
const LONGEST: usize = 64 << 20;

const HEADER: usize = 5;

/// One end of the socket, with what has arrived of the next frame.
pub(crate) struct Channel {
    socket: OwnedFd,
    arrived: Vec<u8>,
}

impl Channel {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self { socket, arrived: Vec::new() }
    }

    pub(crate) fn order(&self, order: &Order) -> io::Result<()> {
        match order {
            Order::Start(spec) => self.send(0, &spec.encode()),
            Order::Terminate => self.send(1, &[]),
            Order::Kill => self.send(2, &[]),
        }
    }

    pub(crate) fn report(&self, report: &Report) -> io::Result<()> {
        let (kind, bytes) = match report {
            Report::Started => (0, Vec::new()),
            Report::NotStarted { errno } => (1, number(*errno)),
            Report::NotConfined { reason } => (2, reason.clone().into_bytes()),
            Report::Exited { code } => (3, number(*code)),
            Report::Signaled { signal } => (4, number(*signal)),
            Report::NoDirectory => (5, Vec::new()),
        };
        self.send(kind, &bytes)
    }

    /// The next order, if all of it has arrived.
    pub(crate) fn next_order(&mut self) -> io::Result<Option<Order>> {
        let Some((kind, bytes)) = self.next()? else { return Ok(None) };
        let order = match kind {
            0 => Spec::decode(&bytes).map(Order::Start),
            1 => Some(Order::Terminate),
            2 => Some(Order::Kill),
            _ => None,
        };
        order.map(Some).ok_or_else(broken)
    }

    /// The next report, if all of it has arrived.
    pub(crate) fn next_report(&mut self) -> io::Result<Option<Report>> {
        let Some((kind, bytes)) = self.next()? else { return Ok(None) };
        let code = || Decoder::new(&bytes).number().and_then(|number| i32::try_from(number).ok());
        let report = match kind {
            0 => Some(Report::Started),
            1 => code().map(|errno| Report::NotStarted { errno }),
            2 => String::from_utf8(bytes.clone()).ok().map(|reason| Report::NotConfined { reason }),
            3 => code().map(|code| Report::Exited { code }),
            4 => code().map(|signal| Report::Signaled { signal }),
            5 => Some(Report::NoDirectory),
            _ => None,
        };
        report.map(Some).ok_or_else(broken)
    }

    /// Reads what is there. Answers whether the other side is still there.
    pub(crate) fn receive(&mut self) -> io::Result<bool> {
        let mut buffer = [0_u8; 16 << 10];
        match rustix::net::recv(&self.socket, &mut buffer[..], RecvFlags::empty()) {
            Ok((0, _)) | Err(Errno::CONNRESET) => Ok(false),
            Ok((count, _)) => {
                self.arrived.extend_from_slice(&buffer[..count]);
                Ok(true)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(true),
            Err(errno) => Err(errno.into()),
        }
    }

    fn send(&self, kind: u8, bytes: &[u8]) -> io::Result<()> {
        let length = u32::try_from(bytes.len()).map_err(|_| broken())?;
        let mut frame = vec![kind];
        frame.extend_from_slice(&length.to_le_bytes());
        frame.extend_from_slice(bytes);
        let mut rest = frame.as_slice();
        while !rest.is_empty() {
            match rustix::net::send(&self.socket, rest, SendFlags::NOSIGNAL) {
                Ok(count) => rest = &rest[count..],
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    fn next(&mut self) -> io::Result<Option<(u8, Vec<u8>)>> {
        let Some((&kind, rest)) = self.arrived.split_first() else { return Ok(None) };
        let Some((length, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > LONGEST {
            return Err(broken());
        }
        let Some(bytes) = rest.get(..length) else { return Ok(None) };
        let frame = (kind, bytes.to_vec());
        self.arrived.drain(..HEADER + length);
        Ok(Some(frame))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn number(code: i32) -> Vec<u8> {
    Encoder::default().number(u64::from(code.unsigned_abs())).finish()
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a frame that no build of this version makes")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Channel, Channel) {
        let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
        (Channel::new(one.into()), Channel::new(other.into()))
    }

    #[test]
    fn reports_arrive_one_by_one_and_then_the_end() {
        let (stage, mut launcher) = pair();
        let all = [
            Report::Started,
            Report::NotStarted { errno: 2 },
            Report::NotConfined { reason: "no".into() },
            Report::Exited { code: 255 },
            Report::Signaled { signal: 9 },
            Report::NoDirectory,
        ];
        all.iter().for_each(|report| stage.report(report).unwrap());
        drop(stage);
        while launcher.receive().unwrap() {}
        for report in all {
            assert_eq!(launcher.next_report().unwrap(), Some(report));
        }
        assert_eq!(launcher.next_report().unwrap(), None);
    }

    #[test]
    fn nonsense_is_an_error_and_half_a_frame_is_nothing_yet() {
        let (stage, mut launcher) = pair();
        stage.send(3, &[1]).unwrap();
        launcher.receive().unwrap();
        launcher.next_report().unwrap_err();
        launcher.arrived = vec![3, 8, 0, 0, 0, 1];
        assert_eq!(launcher.next_report().unwrap(), None);
        launcher.arrived = vec![3, 0xff, 0xff, 0xff, 0xff];
        launcher.next_report().unwrap_err();
    }
}
