//! The side of the users of a session.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use avfs_exec::{Cancel, RunEvent};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use super::SessionCommand;
use super::frames::{self, SessionFrameKind, ShellRequest};
use super::record::{Activity, SessionRecord, SessionState, lives, millis};
use crate::control::place;
use crate::error::{Error, Result, SessionError};

/// How long the end of a session may take: it may have much to store.
const ENDING: Duration = Duration::from_secs(120);

/// A session that another process hosts.
pub struct SessionClient {
    record: SessionRecord,
    place: PathBuf,
    patience: Duration,
}

/// The envelope of a command, as the session wrote it.
#[derive(Clone, Debug)]
pub struct SessionAnswer {
    /// One line of JSON.
    pub line: String,
    /// The envelope of the command.
    pub envelope: serde_json::Value,
}

impl SessionClient {
    pub(super) fn new(record: SessionRecord, place: PathBuf, patience: Duration) -> SessionClient {
        SessionClient {
            record,
            place,
            patience,
        }
    }

    /// What is known of the session.
    pub fn record(&self) -> &SessionRecord {
        &self.record
    }

    /// Runs a command. If this process ends meanwhile, the command is stopped.
    pub fn exec(
        &self,
        command: &SessionCommand,
        events: &mut dyn FnMut(RunEvent<'_>),
    ) -> Result<SessionAnswer> {
        self.exec_on(&self.connect()?, command, events)
    }

    /// The same for a command that can be cancelled. Then it is stopped, and the answer is that nobody knows its end.
    pub fn exec_until(
        &self,
        command: &SessionCommand,
        cancel: &Cancel,
        events: &mut dyn FnMut(RunEvent<'_>),
    ) -> Result<SessionAnswer> {
        let stream = self.connect()?;
        let over = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|errno| self.failed(errno.into()))?;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut fds = [
                    PollFd::new(cancel, PollFlags::IN),
                    PollFd::new(&over, PollFlags::IN),
                ];
                while poll(&mut fds, None) == Err(rustix::io::Errno::INTR) {}
                if !fds[0].revents().is_empty() {
                    // The host stops a command whose caller is gone.
                    let _ = stream.shutdown(Shutdown::Both);
                }
            });
            let answer = self.exec_on(&stream, command, events);
            // It fails only when it was called 2^64 times.
            let _ = rustix::io::write(&over, &1_u64.to_ne_bytes());
            answer
        })
    }

    fn exec_on(
        &self,
        stream: &UnixStream,
        command: &SessionCommand,
        events: &mut dyn FnMut(RunEvent<'_>),
    ) -> Result<SessionAnswer> {
        let request = ShellRequest::Exec {
            command: (&command.command).into(),
            timeout_ms: command.timeout.map(millis),
            has_input: command.stdin.is_some(),
            wait: command.wait,
        };
        self.ask(stream, &request)?;
        if let Some(bytes) = &command.stdin {
            frames::send(stream, SessionFrameKind::Input, bytes).map_err(|error| self.failed(error))?;
        }
        let line = self.answer(stream, events)?;
        let envelope = serde_json::from_str(&line).map_err(|error| self.failed(error.into()))?;
        Ok(SessionAnswer { line, envelope })
    }

    /// Its current activity.
    pub fn state(&self) -> Result<SessionState> {
        let asked = || -> Result<SessionState> {
            let stream = self.connect()?;
            let within = |error| self.failed(error);
            stream
                .set_read_timeout(Some(self.patience.max(Duration::from_secs(1))))
                .map_err(within)?;
            self.ask(&stream, &ShellRequest::Status)?;
            let line = self.answer(&stream, &mut |_| ())?;
            serde_json::from_str(&line).map_err(|error| self.failed(error.into()))
        };
        match asked() {
            Err(Error::Session(SessionError::Silent { .. })) => Ok(SessionState {
                record: self.record.clone(),
                activity: Activity::Silent,
                idle_ms: 0,
                commands: 0,
            }),
            answered => answered,
        }
    }

    /// Ends it; nothing of it is left when this returns.
    pub fn stop(&self) -> Result<()> {
        let stream = self.connect()?;
        stream
            .set_read_timeout(Some(ENDING))
            .map_err(|error| self.failed(error))?;
        self.ask(&stream, &ShellRequest::Stop)?;
        // The connection ends when the session has.
        while frames::receive(&stream)
            .map_err(|error| self.failed(error))?
            .is_some()
        {}
        let start = Instant::now();
        while lives(&self.place) {
            if start.elapsed() > ENDING {
                return Err(self.failed(io::ErrorKind::TimedOut.into()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn connect(&self) -> Result<UnixStream> {
        let found = place::connect_in(&self.place, self.patience).map_err(|error| self.failed(error))?;
        let stream = found.ok_or_else(|| self.gone())?;
        match place::may_answer(&stream, &self.place) {
            Ok(true) => Ok(stream),
            Ok(false) => Err(self.failed(io::ErrorKind::PermissionDenied.into())),
            Err(_) => Err(self.gone()),
        }
    }

    fn ask(&self, stream: &UnixStream, request: &ShellRequest) -> Result<()> {
        let bytes = serde_json::to_vec(request).map_err(|error| self.failed(error.into()))?;
        frames::send(stream, SessionFrameKind::Request, &bytes).map_err(|error| self.failed(error))
    }

    fn answer(&self, stream: &UnixStream, events: &mut dyn FnMut(RunEvent<'_>)) -> Result<String> {
        loop {
            match frames::receive(stream).map_err(|error| self.failed(error))? {
                Some((SessionFrameKind::Stdout, bytes)) => events(RunEvent::Stdout(&bytes)),
                Some((SessionFrameKind::Stderr, bytes)) => events(RunEvent::Stderr(&bytes)),
                Some((SessionFrameKind::Answer, bytes)) => {
                    // It is read to the end, and more is not expected.
                    let _ = stream.shutdown(Shutdown::Both);
                    let bad = |_| self.failed(io::ErrorKind::InvalidData.into());
                    return String::from_utf8(bytes).map_err(bad);
                }
                Some((SessionFrameKind::Request | SessionFrameKind::Input, _)) => {
                    return Err(self.failed(io::ErrorKind::InvalidData.into()));
                }
                None => return Err(self.gone()),
            }
        }
    }

    fn gone(&self) -> Error {
        Error::Session(SessionError::Unknown {
            id: self.record.id.clone(),
        })
    }

    fn failed(&self, source: io::Error) -> Error {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        match source.kind() {
            BrokenPipe | ConnectionReset | UnexpectedEof => self.gone(),
            _ => Error::Session(SessionError::Silent {
                id: self.record.id.clone(),
                source,
            }),
        }
    }
}
