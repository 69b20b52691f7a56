//! The protocol between launcher and stage: frames of a kind, a length and that many bytes, over a stream
//! socket.
//!
//! A command is started once and ends once; processes of a sandbox that stays open each have a number. Output
//! is never sent here; it has pipes of its own, whose ends arrive as descriptors with the first byte of a
//! frame.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::SendFlags;

use super::codec::{SpecDecoder, SpecEncoder};
use super::handing::{receive_part, send_part};
use super::spawn::{ProcessReport, SignalOrder, SpawnOrder};
use super::spec::StageSpec;

/// A request of a launcher.
#[derive(Debug, PartialEq, Eq)]
pub enum StageOrder {
    /// Confine and start this. The first order, given once.
    Start(StageSpec),
    /// Ask every process of the run to end.
    Terminate,
    /// End every process of the run.
    Kill,
    /// Start one more process. Only if the work consists of orders, like the next one.
    Spawn(SpawnOrder),
    /// Signal a process that was spawned.
    Signal(SignalOrder),
    /// Stop every process, until they are to continue. Answered when each of them has been told.
    Pause,
    /// Have every stopped process go on.
    Continue,
}

impl StageOrder {
    /// The whole frame, for a sender that does not block.
    pub fn frame(&self) -> io::Result<Vec<u8>> {
        match self {
            StageOrder::Start(spec) => frame(0, &spec.encode()),
            StageOrder::Terminate => frame(1, &[]),
            StageOrder::Kill => frame(2, &[]),
            StageOrder::Spawn(order) => frame(3, &order.encode()),
            StageOrder::Signal(order) => frame(4, &order.encode()),
            StageOrder::Pause => frame(5, &[]),
            StageOrder::Continue => frame(6, &[]),
        }
    }
}

/// The outcome of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StageReport {
    /// The command runs.
    Started,
    /// The command could not be started, for the reason that the kernel reported.
    NotStarted {
        /// The error number.
        errno: i32,
    },
    /// The working directory does not exist, and the command was not started.
    NoDirectory,
    /// The stage could not confine the command, and did not start it.
    NotConfined {
        /// The step that failed, and why.
        reason: String,
    },
    /// The command has ended by itself.
    Exited {
        /// Its exit status.
        code: i32,
    },
    /// A signal has ended the command.
    Signaled {
        /// The number of the signal.
        signal: i32,
    },
    /// About one of the ordered processes.
    Process(ProcessReport),
    /// Every process was told to stop, as ordered.
    Paused,
}

/// A longer order is not one of ours.
const LONGEST_ORDER: usize = 64 << 20;

/// The same for a report. The longest is a line of text.
const LONGEST_REPORT: usize = 64 << 10;

/// The number of descriptors that may wait for their frames. More do not come from a sender of ours.
const MOST_WAITING: usize = 64;

const HEADER: usize = 5;

/// One end of the socket, with the received part of the next frame.
pub struct StageChannel {
    socket: OwnedFd,
    arrived: Vec<u8>,
    descriptors: VecDeque<OwnedFd>,
}

impl StageChannel {
    /// This end of a stream socket.
    pub fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            arrived: Vec::new(),
            descriptors: VecDeque::new(),
        }
    }

    /// Sends an order to the stage.
    pub fn order(&self, order: &StageOrder) -> io::Result<()> {
        self.send(&order.frame()?, &[])
    }

    /// Sends a report to the launcher.
    pub fn report(&self, report: &StageReport) -> io::Result<()> {
        self.report_with(report, None)
    }

    /// The same with a descriptor.
    pub fn report_with(&self, report: &StageReport, fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let (kind, bytes) = match report {
            StageReport::Started => (0, Vec::new()),
            StageReport::NotStarted { errno } => (1, number(*errno)),
            StageReport::NotConfined { reason } => (2, reason.clone().into_bytes()),
            StageReport::Exited { code } => (3, number(*code)),
            StageReport::Signaled { signal } => (4, number(*signal)),
            StageReport::NoDirectory => (5, Vec::new()),
            StageReport::Process(report) => (6, report.encode()),
            StageReport::Paused => (7, Vec::new()),
        };
        self.send(&frame(kind, &bytes)?, fd.as_slice())
    }

    /// The next order, if it has arrived completely.
    pub fn next_order(&mut self) -> io::Result<Option<StageOrder>> {
        let Some((kind, bytes)) = self.next(LONGEST_ORDER)? else {
            return Ok(None);
        };
        let order = match kind {
            0 if !StageSpec::is_understood(&bytes) => return Err(other_build()),
            0 => StageSpec::decode(&bytes).map(StageOrder::Start),
            1 => Some(StageOrder::Terminate),
            2 => Some(StageOrder::Kill),
            3 => SpawnOrder::decode(&bytes).map(StageOrder::Spawn),
            4 => SignalOrder::decode(&bytes).map(StageOrder::Signal),
            5 => Some(StageOrder::Pause),
            6 => Some(StageOrder::Continue),
            _ => None,
        };
        order.map(Some).ok_or_else(broken)
    }

    /// The next report, if it has arrived completely.
    pub fn next_report(&mut self) -> io::Result<Option<StageReport>> {
        let Some((kind, bytes)) = self.next(LONGEST_REPORT)? else {
            return Ok(None);
        };
        let code = || {
            SpecDecoder::new(&bytes)
                .number()
                .and_then(|number| i32::try_from(number).ok())
        };
        let report = match kind {
            0 => Some(StageReport::Started),
            1 => code().map(|errno| StageReport::NotStarted { errno }),
            2 => String::from_utf8(bytes.clone())
                .ok()
                .map(|reason| StageReport::NotConfined { reason }),
            3 => code().map(|code| StageReport::Exited { code }),
            4 => code().map(|signal| StageReport::Signaled { signal }),
            5 => Some(StageReport::NoDirectory),
            6 => ProcessReport::decode(&bytes).map(StageReport::Process),
            7 => Some(StageReport::Paused),
            _ => None,
        };
        report.map(Some).ok_or_else(broken)
    }

    /// The descriptors that came with the last frame.
    pub fn take_descriptors(&mut self, count: usize) -> io::Result<Vec<OwnedFd>> {
        if self.descriptors.len() < count {
            return Err(broken());
        }
        Ok(self.descriptors.drain(..count).collect())
    }

    /// Reads the available bytes. Returns whether the other side is still there.
    pub fn receive(&mut self) -> io::Result<bool> {
        if self.arrived.is_empty() {
            // Left over from a frame without descriptors: they will not be used.
            self.descriptors.clear();
        }
        let mut buffer = [0_u8; 16 << 10];
        let descriptors = &mut self.descriptors;
        match receive_part(&self.socket, &mut buffer, |fd| descriptors.push_back(fd)) {
            Ok(0) | Err(Errno::CONNRESET) => Ok(false),
            Ok(_) if self.descriptors.len() > MOST_WAITING => Err(broken()),
            Ok(count) => {
                self.arrived.extend_from_slice(&buffer[..count]);
                Ok(true)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(true),
            Err(errno) => Err(errno.into()),
        }
    }

    fn send(&self, frame: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let (mut rest, mut fds) = (frame, fds);
        while !rest.is_empty() {
            match send_part(&self.socket, rest, fds, SendFlags::empty()) {
                Ok(count) => {
                    rest = &rest[count..];
                    fds = &[];
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    fn next(&mut self, longest: usize) -> io::Result<Option<(u8, Vec<u8>)>> {
        let Some((&kind, rest)) = self.arrived.split_first() else {
            return Ok(None);
        };
        let Some((length, rest)) = rest.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length) as usize;
        if length > longest {
            return Err(broken());
        }
        let Some(bytes) = rest.get(..length) else {
            return Ok(None);
        };
        let frame = (kind, bytes.to_vec());
        self.arrived.drain(..HEADER + length);
        Ok(Some(frame))
    }
}

impl AsFd for StageChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn frame(kind: u8, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let length = u32::try_from(bytes.len()).map_err(|_| broken())?;
    let mut frame = vec![kind];
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(bytes);
    Ok(frame)
}

fn number(code: i32) -> Vec<u8> {
    SpecEncoder::default()
        .number(u64::from(code.unsigned_abs()))
        .finish()
}

fn other_build() -> io::Error {
    io::Error::other(
        "the first program of the sandbox comes from another build of agentvfs than its launcher",
    )
}

fn broken() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "a frame that no build of this version makes",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (StageChannel, StageChannel) {
        let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
        (StageChannel::new(one.into()), StageChannel::new(other.into()))
    }

    #[test]
    fn reports_arrive_one_by_one_and_then_the_end() {
        let (stage, mut launcher) = pair();
        let all = [
            StageReport::Started,
            StageReport::NotStarted { errno: 2 },
            StageReport::NotConfined { reason: "no".into() },
            StageReport::Exited { code: 255 },
            StageReport::Signaled { signal: 9 },
            StageReport::NoDirectory,
            StageReport::Process(ProcessReport::Exited { id: 3, code: 7 }),
            StageReport::Paused,
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
        stage.send(&frame(3, &[1]).unwrap(), &[]).unwrap();
        launcher.receive().unwrap();
        launcher.next_report().unwrap_err();
        launcher.arrived = vec![3, 8, 0, 0, 0, 1];
        assert_eq!(launcher.next_report().unwrap(), None);
        launcher.arrived = vec![3, 0xff, 0xff, 0xff, 0xff];
        launcher.next_report().unwrap_err();
        // Not longer than an order may be, but longer than a report.
        launcher.arrived = vec![2, 0, 0, 0, 1];
        launcher.next_report().unwrap_err();
    }

    #[test]
    fn descriptors_come_with_their_frames() {
        let (launcher, mut stage) = pair();
        let files = [(); 3].map(|()| tempfile::tempfile().unwrap());
        for (index, file) in files.iter().enumerate() {
            file.set_len(index as u64).unwrap();
        }
        let fds = files.each_ref().map(|file| file.as_fd());
        launcher.order(&StageOrder::Kill).unwrap();
        launcher
            .send(&StageOrder::Terminate.frame().unwrap(), &fds[1..])
            .unwrap();
        launcher.order(&StageOrder::Kill).unwrap();
        launcher
            .send(&StageOrder::Terminate.frame().unwrap(), &fds[..1])
            .unwrap();
        drop(launcher);
        let sizes = |taken: Vec<OwnedFd>| {
            let size = |fd| std::fs::File::from(fd).metadata().unwrap().len();
            taken.into_iter().map(size).collect::<Vec<_>>()
        };
        while stage.receive().unwrap() {}
        assert_eq!(stage.next_order().unwrap(), Some(StageOrder::Kill));
        assert_eq!(stage.next_order().unwrap(), Some(StageOrder::Terminate));
        assert_eq!(sizes(stage.take_descriptors(2).unwrap()), [1, 2]);
        assert_eq!(stage.next_order().unwrap(), Some(StageOrder::Kill));
        assert_eq!(stage.next_order().unwrap(), Some(StageOrder::Terminate));
        assert_eq!(sizes(stage.take_descriptors(1).unwrap()), [0]);
        stage.take_descriptors(1).unwrap_err();
    }
}
