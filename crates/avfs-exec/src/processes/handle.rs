//! One process, for its callers.

use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{
    NotWritten, OutputEvents, OutputSoFar, ProcessEnd, ProcessError, ProcessHandle, ProcessPhase,
    ProcessTable, SignalTarget,
};
use crate::terminal::TerminalSize;

/// The highest number of a signal.
const LAST_SIGNAL: i32 = 64;

/// A handle on a process in a [`ProcessSandbox`](super::ProcessSandbox). Clones are handles on the same process, and
/// dropping them changes nothing for it.
#[derive(Clone)]
pub struct SandboxProcess {
    process: Arc<ProcessHandle>,
    table: Arc<ProcessTable>,
}

/// The state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessState {
    /// It runs.
    Running,
    /// It has ended, in this way.
    Ended(ProcessEnd),
}

impl SandboxProcess {
    pub(super) fn new(process: Arc<ProcessHandle>, table: Arc<ProcessTable>) -> Self {
        Self { process, table }
    }

    /// Its number in this sandbox. Numbers are never reused.
    pub fn id(&self) -> u64 {
        self.process.id
    }

    /// Its number as processes inside see it. After its end, another process may get it.
    pub fn pid(&self) -> Option<i32> {
        self.process.pid()
    }

    /// The program and its arguments.
    pub fn command(&self) -> &[OsString] {
        &self.process.command
    }

    /// Whether it runs, and how it ended.
    pub fn state(&self) -> ProcessState {
        match self.process.phase() {
            ProcessPhase::Ended(end) => ProcessState::Ended(end),
            ProcessPhase::Starting | ProcessPhase::Failed { .. } | ProcessPhase::Running => {
                ProcessState::Running
            }
        }
    }

    /// Waits for its end, at most for the timeout if one is given. Its own output is complete then.
    pub fn wait(&self, timeout: Option<Duration>) -> Option<ProcessEnd> {
        match self.process.wait_while(
            |phase| matches!(phase, ProcessPhase::Starting | ProcessPhase::Running),
            timeout,
        ) {
            ProcessPhase::Ended(end) => Some(end),
            ProcessPhase::Starting | ProcessPhase::Failed { .. } | ProcessPhase::Running => None,
        }
    }

    /// Its output until now, as far as it was kept.
    pub fn output(&self) -> OutputSoFar {
        self.process.so_far()
    }

    /// Its output until now, and everything from now on.
    pub fn subscribe(&self) -> OutputEvents {
        OutputEvents::new(Arc::clone(&self.process))
    }

    /// Gives it all of these bytes as input. Waits while too much input is pending, at most for the timeout
    /// if one is given; after a timeout, some of the bytes may have been given.
    pub fn write_stdin(&self, bytes: &[u8], timeout: Option<Duration>) -> Result<(), ProcessError> {
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = &rest[self.try_write_stdin(rest)?..];
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if !rest.is_empty() && !self.process.wait_for_room(left) {
                return Err(ProcessError::InputFull);
            }
        }
        Ok(())
    }

    /// Gives it as many of these bytes as there is room for, without waiting, and returns the number.
    pub fn try_write_stdin(&self, bytes: &[u8]) -> Result<usize, ProcessError> {
        match self.process.write(bytes) {
            Ok(count) => Ok(count),
            Err(NotWritten::Full) => Ok(0),
            Err(NotWritten::Closed) => Err(ProcessError::InputClosed),
        }
    }

    /// Ends its input after the pending bytes. On a terminal, this is what `Ctrl-D` does.
    pub fn close_stdin(&self) {
        self.process.close_input();
    }

    /// Changes the size of its terminal.
    pub fn resize(&self, size: TerminalSize) -> Result<(), ProcessError> {
        match self.process.resize(size) {
            Ok(true) => Ok(()),
            Ok(false) => Err(ProcessError::NoTerminal),
            Err(error) => Err(ProcessError::Resize(error)),
        }
    }

    /// Sends a signal to the process alone.
    pub fn signal(&self, signal: i32) -> Result<(), ProcessError> {
        if let ProcessState::Ended(_) = self.state() {
            return Err(ProcessError::Ended);
        }
        self.send(signal, SignalTarget::Process)
    }

    /// Sends a signal to its process group, which may outlive the process.
    pub fn signal_group(&self, signal: i32) -> Result<(), ProcessError> {
        self.send(signal, SignalTarget::Group)
    }

    /// Kills the process and the processes that it has started, also after its end: its process group, and
    /// other groups of its session, such as the jobs of a shell. Processes that created a session of their
    /// own (`setsid`) continue.
    pub fn kill_group(&self) -> Result<(), ProcessError> {
        self.send(libc::SIGKILL, SignalTarget::Session)
    }

    fn send(&self, signal: i32, target: SignalTarget) -> Result<(), ProcessError> {
        if !(1..=LAST_SIGNAL).contains(&signal) {
            return Err(ProcessError::NoSignal { signal });
        }
        Ok(self.table.signal(self.process.id, signal, target)?)
    }
}

impl fmt::Debug for SandboxProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SandboxProcess")
            .field("id", &self.id())
            .field("pid", &self.pid())
            .field("command", &self.command())
            .field("state", &self.state())
            .finish()
    }
}
