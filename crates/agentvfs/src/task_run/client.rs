//! The side of the clients of a run: its terminal, its output, its end.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::SendFlags;

use super::output::RunOutput;
use super::record::{self, RunRecord};
use super::wire::{Frames, Joined, RunFrameKind, RunRequest, WindowSize, frame};
use crate::control::place;
use crate::error::{Error, Result, TaskError};

/// A run of a task: an active one under another process, or one that has ended.
#[derive(Clone, Debug)]
pub struct TaskRun {
    record: RunRecord,
    place: PathBuf,
    patience: Duration,
}

impl TaskRun {
    pub(super) fn new(record: RunRecord, place: PathBuf, patience: Duration) -> TaskRun {
        TaskRun {
            record,
            place,
            patience,
        }
    }

    /// What is known of the run.
    pub fn record(&self) -> &RunRecord {
        &self.record
    }

    pub(super) fn place(&self) -> &Path {
        &self.place
    }

    /// Whether it has not ended.
    pub fn is_going_on(&self) -> bool {
        self.record.end.is_none()
    }

    /// The stored part of its output, also after its end.
    pub fn output(&self) -> RunOutput {
        RunOutput::new(&self.place)
    }

    /// Shares its terminal. Fails for a run that has ended, and for one without a terminal.
    pub fn attach(&self, size: WindowSize) -> Result<Attachment> {
        if !self.record.has_terminal {
            return Err(Error::Task(TaskError::NoTerminal {
                task: self.record.vault.clone(),
            }));
        }
        let stream = self
            .ask(&RunRequest::Attach { size })?
            .ok_or_else(|| self.not_running())?;
        Ok(Attachment::new(stream))
    }

    /// Hears of more output, and of the end.
    pub fn watch(&self) -> Result<TaskRunWatch> {
        Ok(TaskRunWatch {
            stream: self.ask(&RunRequest::Watch)?,
            frames: Frames::default(),
            place: self.place.clone(),
        })
    }

    /// Waits for its end; nothing if it does not end in time.
    pub fn wait(&self, most: Option<Duration>) -> Result<Option<RunRecord>> {
        if !self.is_going_on() {
            return Ok(Some(self.record.clone()));
        }
        self.until_end(self.watch()?, most)
    }

    /// Asks the program to end, kills it if it is still there after `kill_after`, and waits until its work is stored.
    pub fn stop(&self, kill_after: Duration) -> Result<RunRecord> {
        if !self.is_going_on() {
            return Err(self.not_running());
        }
        let kill_after_ms = u64::try_from(kill_after.as_millis()).unwrap_or(u64::MAX);
        let stream = self.ask(&RunRequest::Stop { kill_after_ms })?;
        let watch = TaskRunWatch {
            stream,
            frames: Frames::default(),
            place: self.place.clone(),
        };
        self.until_end(watch, None)?.ok_or_else(|| self.not_running())
    }

    fn until_end(&self, mut watch: TaskRunWatch, most: Option<Duration>) -> Result<Option<RunRecord>> {
        let until = most.map(|most| Instant::now() + most);
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            match watch.next(left)? {
                Some(News::Ended(record)) => return Ok(Some(*record)),
                Some(News::Grown) => {}
                None => return Ok(None),
            }
        }
    }

    /// A connection to the process that supervises it; nothing if it has ended.
    fn ask(&self, request: &RunRequest) -> Result<Option<UnixStream>> {
        let failed = |source| {
            Error::Task(TaskError::SupervisorSilent {
                task: self.record.vault.clone(),
                source,
            })
        };
        if !self.is_going_on() {
            return Ok(None);
        }
        let Some(stream) = place::connect_in(&self.place, self.patience).map_err(failed)? else {
            return Ok(None);
        };
        // A process of another user could have put a socket there.
        if !place::may_answer(&stream, &self.place).map_err(failed)? {
            return Err(failed(io::ErrorKind::PermissionDenied.into()));
        }
        let bytes = serde_json::to_vec(request).map_err(|error| failed(error.into()))?;
        match send(&stream, &frame(RunFrameKind::Request, &bytes)) {
            Ok(()) => Ok(Some(stream)),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    fn not_running(&self) -> Error {
        Error::Task(TaskError::NotRunning {
            task: self.record.vault.clone(),
        })
    }
}

/// A message of a run to a client.
#[derive(Debug)]
pub enum News {
    /// There is more output to read.
    Grown,
    /// It has ended.
    Ended(Box<RunRecord>),
}

/// A connection on which a run reports its output and its end.
pub struct TaskRunWatch {
    /// Nothing: it has ended.
    stream: Option<UnixStream>,
    frames: Frames,
    place: PathBuf,
}

impl TaskRunWatch {
    /// The next message; `None` on a timeout.
    pub fn next(&mut self, most: Option<Duration>) -> Result<Option<News>> {
        let failed = |source| record::host("listening to the run in", &self.place, source);
        let until = most.map(|most| Instant::now() + most);
        loop {
            match self.frames.next().map_err(failed)? {
                Some((RunFrameKind::Ended, bytes)) => {
                    let ended = serde_json::from_slice(&bytes).map_err(|error| failed(error.into()))?;
                    return Ok(Some(News::Ended(Box::new(ended))));
                }
                Some((RunFrameKind::Grown, _)) => return Ok(Some(News::Grown)),
                Some(_) => continue,
                None => {}
            }
            let Some(stream) = &self.stream else {
                return self.recorded_end().map(Some);
            };
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if !is_readable(stream, left).map_err(failed)? {
                return Ok(None);
            }
            let mut buffer = [0; 4096];
            match (&mut &*stream).read(&mut buffer) {
                // Frames that are already buffered are still delivered; then the record tells how it ended.
                Ok(0) => self.stream = None,
                Ok(count) => self.frames.push(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.stream = None,
            }
        }
    }

    /// The supervisor is gone: its last record, or nothing if it was killed.
    fn recorded_end(&self) -> Result<News> {
        let mut record =
            record::read(&self.place).map_err(|source| record::host("reading", &self.place, source))?;
        record.end.get_or_insert_with(record::RunEnd::abnormal);
        Ok(News::Ended(Box::new(record)))
    }
}

/// A message of a run to an attached terminal.
#[derive(Debug)]
pub enum FromRun {
    /// From now on output is shown and keys are taken. It comes again when the terminal was too slow to be shown all.
    Joined(Joined),
    /// Bytes for the terminal.
    Shown(Vec<u8>),
    /// The program has stopped, as by Ctrl-Z. It continues on request.
    Stopped,
    /// The program's terminal is gone.
    Closed,
    /// The run has ended.
    Ended(Box<RunRecord>),
}

/// One end of a shared terminal.
#[derive(Debug)]
pub struct Attachment {
    stream: UnixStream,
    frames: Frames,
    /// Bytes that the supervisor has not accepted yet.
    pending: Vec<u8>,
}

impl Attachment {
    fn new(stream: UnixStream) -> Attachment {
        Attachment {
            stream,
            frames: Frames::default(),
            pending: Vec::new(),
        }
    }

    /// Joins a run over a connection that its supervisor was given when it began.
    pub fn join(stream: UnixStream, size: WindowSize) -> io::Result<Attachment> {
        let request = serde_json::to_vec(&RunRequest::Attach { size })?;
        send(&stream, &frame(RunFrameKind::Request, &request))?;
        Ok(Attachment::new(stream))
    }

    /// Reads available bytes; waits if there are none. Returns whether the other side is still there.
    pub fn receive(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 32 << 10];
        match self.stream.read(&mut buffer) {
            Ok(0) => Ok(false),
            Ok(count) => {
                self.frames.push(&buffer[..count]);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
            Err(error) if is_gone(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The next message that has arrived.
    pub fn next_heard(&mut self) -> io::Result<Option<FromRun>> {
        loop {
            let Some((kind, bytes)) = self.frames.next()? else {
                return Ok(None);
            };
            let heard = match kind {
                RunFrameKind::Joined => FromRun::Joined(serde_json::from_slice(&bytes)?),
                RunFrameKind::Shown => FromRun::Shown(bytes),
                RunFrameKind::Stopped => FromRun::Stopped,
                RunFrameKind::Closed => FromRun::Closed,
                RunFrameKind::Ended => FromRun::Ended(Box::new(serde_json::from_slice(&bytes)?)),
                RunFrameKind::Request
                | RunFrameKind::Typed
                | RunFrameKind::Size
                | RunFrameKind::GoOn
                | RunFrameKind::Detach
                | RunFrameKind::Grown => {
                    continue;
                }
            };
            return Ok(Some(heard));
        }
    }

    /// Sends what the user types.
    pub fn type_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.tell(RunFrameKind::Typed, bytes)
    }

    /// Tells the program that the terminal has another size.
    pub fn resize(&mut self, size: WindowSize) -> io::Result<()> {
        self.tell(RunFrameKind::Size, &serde_json::to_vec(&size)?)
    }

    /// Lets a stopped program go on.
    pub fn go_on(&mut self) -> io::Result<()> {
        self.tell(RunFrameKind::GoOn, b"")
    }

    /// Detaches; the program continues.
    pub fn detach(mut self) -> io::Result<()> {
        let last = [
            std::mem::take(&mut self.pending),
            frame(RunFrameKind::Detach, b""),
        ]
        .concat();
        send(&self.stream, &last)
    }

    /// The number of bytes that the supervisor has not accepted yet: the program may be slow to read.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Gives as much of that as is taken now.
    pub fn flush(&mut self) -> io::Result<()> {
        while !self.pending.is_empty() {
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match rustix::net::send(&self.stream, &self.pending, flags) {
                Ok(count) => drop(self.pending.drain(..count)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    fn tell(&mut self, kind: RunFrameKind, bytes: &[u8]) -> io::Result<()> {
        self.pending.extend(frame(kind, bytes));
        match self.flush() {
            // If it has gone, the missing answer shows it.
            Err(error) if is_gone(&error) => Ok(()),
            flushed => flushed,
        }
    }
}

impl AsFd for Attachment {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn is_readable(stream: &UnixStream, most: Option<Duration>) -> io::Result<bool> {
    let until = most.map(|most| Instant::now() + most);
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut [PollFd::new(stream, PollFlags::IN)], timeout.as_ref()) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Without SIGPIPE if the other side is gone.
fn send(stream: &UnixStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::net::send(stream, bytes, SendFlags::NOSIGNAL) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected, UnexpectedEof};
    matches!(
        error.kind(),
        BrokenPipe | ConnectionReset | NotConnected | UnexpectedEof
    )
}
