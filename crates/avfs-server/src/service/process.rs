//! A command that was started in a sandbox.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agentvfs::ErrorKind;
use agentvfs::exec::FinishedRun;
use agentvfs::exec::sandbox::processes::{ProcessError, SandboxProcess};
use agentvfs::exec::sandbox::terminal::TerminalSize;
use tokio::sync::watch;

use super::error::{ServiceError, ServiceResult};
use super::output::{OutputListener, OutputLog};
use super::threads::on_a_thread;

/// How long one request may wait for a process to read its input.
const READING: Duration = Duration::from_secs(30);

/// A process. It ends with its sandbox, at the latest; its run is written down whether somebody waits for it or not.
pub struct Process {
    process: SandboxProcess,
    /// The id of its run, in the audit log and the history. No other process ever has it.
    pub run: String,
    /// Its words, as far as they are text.
    pub command: Vec<String>,
    /// When it was started, in milliseconds since 1970.
    pub started: i64,
    /// Its input and output are a terminal.
    pub has_terminal: bool,
    pub(super) log: Arc<OutputLog>,
    finished: Mutex<Option<Arc<FinishedRun>>>,
    /// Held while input is written: one thread at most waits for a process that reads none.
    input: tokio::sync::Mutex<()>,
    over: watch::Sender<bool>,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessEnding {
    /// Its exit status, unless a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// It was ended because its time was over.
    pub timed_out: bool,
}

impl Process {
    pub(super) fn new(
        process: SandboxProcess,
        run: String,
        command: Vec<String>,
        started: i64,
        has_terminal: bool,
    ) -> Process {
        Process {
            process,
            run,
            command,
            started,
            has_terminal,
            log: Arc::default(),
            finished: Mutex::default(),
            input: tokio::sync::Mutex::default(),
            over: watch::Sender::new(false),
        }
    }

    /// Its number as programs inside see it.
    pub fn pid(&self) -> Option<i32> {
        self.process.pid()
    }

    pub(super) fn finish(&self, finished: Arc<FinishedRun>) {
        *self.finished.lock().unwrap_or_else(PoisonError::into_inner) = Some(finished);
        self.log.end();
        self.over.send_replace(true);
    }

    /// Everything about its run, once that is over.
    pub fn finished(&self) -> Option<Arc<FinishedRun>> {
        self.finished
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// How much of its output is in memory.
    pub(super) fn kept_bytes(&self) -> usize {
        let finished = self.finished();
        let outcome = finished
            .as_ref()
            .and_then(|finished| finished.outcome.process.as_ref());
        let captured = outcome.map_or(0, |outcome| {
            let kept = [&outcome.stdout, &outcome.stderr].map(|output| output.head.len() + output.tail.len());
            kept.iter().sum()
        });
        self.log.kept_bytes() + captured
    }

    /// How it ended, once it has.
    pub fn ending(&self) -> Option<ProcessEnding> {
        use agentvfs::exec::sandbox::launch::CommandEnd;
        let finished = self.finished()?;
        let outcome = finished.outcome.process.as_ref();
        let (exit_code, signal) = match outcome.map(|outcome| outcome.end) {
            Some(CommandEnd::Exited(code)) => (Some(code), None),
            Some(CommandEnd::Signaled(signal)) => (None, Some(signal)),
            Some(end @ CommandEnd::NotStarted { .. }) => (Some(end.status()), None),
            None => (None, None),
        };
        Some(ProcessEnding {
            exit_code,
            signal,
            timed_out: outcome.is_some_and(agentvfs::exec::ProcessOutcome::timed_out),
        })
    }

    /// Waits until its run is written down.
    pub async fn ended(&self) -> Option<Arc<FinishedRun>> {
        // The sender is in `self`: it cannot be gone.
        let _ = self.over.subscribe().wait_for(|over| *over).await;
        self.finished()
    }

    /// Hears its output after the piece with this number; 0 means all that is kept.
    pub fn listen(&self, after: u64) -> OutputListener {
        OutputListener::new(Arc::clone(&self.log), after)
    }

    /// Gives it these bytes to read, and waits while it does not take in those before.
    pub async fn write_stdin(&self, bytes: Vec<u8>) -> ServiceResult<()> {
        let waiting = tokio::time::timeout(READING, self.input.lock()).await;
        let _turn = waiting.map_err(|_| failed(ProcessError::InputFull))?;
        let process = self.process.clone();
        on_a_thread(move || process.write_stdin(&bytes, Some(READING)).map_err(failed)).await
    }

    /// Ends its input after the bytes that it was given.
    pub fn close_stdin(&self) {
        self.process.close_stdin();
    }

    /// Changes the size of its terminal.
    pub fn resize(&self, rows: u16, columns: u16) -> ServiceResult<()> {
        self.process
            .resize(TerminalSize { rows, columns })
            .map_err(failed)
    }

    /// Sends a signal to its process group. Returns whether it was still running.
    pub fn signal(&self, signal: i32) -> ServiceResult<bool> {
        if self.finished().is_some() {
            return Ok(false);
        }
        match self.process.signal_group(signal) {
            Ok(()) => Ok(true),
            Err(ProcessError::Ended) => Ok(false),
            Err(error) => Err(failed(error)),
        }
    }

    /// Kills it and what it has started.
    pub fn kill(&self) {
        // It may have ended by now.
        let _ = self.process.kill_group();
    }
}

fn failed(error: ProcessError) -> ServiceError {
    let (code, kind) = match error {
        ProcessError::InputClosed => ("stdin-closed", ErrorKind::Conflict),
        ProcessError::InputFull => ("stdin-full", ErrorKind::Busy),
        ProcessError::Ended => ("process-ended", ErrorKind::Conflict),
        _ => ("invalid", ErrorKind::BadInput),
    };
    ServiceError::new(code, kind, error.to_string())
}
