//! A command that goes on beside its caller.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use agentvfs::exec::FinishedRun;
use agentvfs::exec::sandbox::processes::{OutputEvent, OutputEvents, ProcessError, SandboxProcess};
use agentvfs::exec::sandbox::terminal::TerminalSize;
use agentvfs::{SandboxCommand, Streams};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{self, own};
use crate::options::seconds;
use crate::run::RunReport;
use crate::sandbox::Shared;
use crate::waiting::HANDLING;

/// A command that was started. Its run is written down when it ends, whether somebody waits for it or not.
#[pyclass(frozen, module = "agentvfs._native")]
pub struct Process {
    process: SandboxProcess,
    run: String,
    end: Arc<End>,
}

/// The end of a run, once there is one.
#[derive(Default)]
struct End {
    finished: Mutex<Option<Box<FinishedRun>>>,
    came: Condvar,
}

impl Process {
    pub fn start(
        py: Python<'_>,
        sandbox: &Arc<Shared>,
        command: SandboxCommand,
        streams: Streams,
    ) -> PyResult<Process> {
        let end = Arc::new(End::default());
        let (sandbox, its_end) = (Arc::clone(sandbox), Arc::clone(&end));
        let (told, heard) = sync_channel(1);
        // One thread for each: it holds the sandbox open until the run is written down.
        let thread = std::thread::Builder::new().name("sandbox-run".into());
        let spawned = thread.spawn(move || {
            let open = sandbox.get();
            let Some(open) = open.as_ref() else {
                // The receiver waits.
                let _ = told.send(Ok(None));
                return;
            };
            match open.start(command, streams) {
                Ok(started) => {
                    let handle = (started.process().clone(), started.run().to_owned());
                    let _ = told.send(Ok(Some(handle)));
                    started.process().wait(None);
                    its_end.put(Box::new(started.finish()));
                }
                Err(finished) => {
                    let _ = told.send(Err(finished));
                }
            }
        });
        spawned.map_err(|error| own(py, "system_error", format!("starting a thread: {error}")))?;
        match py.detach(move || heard.recv()) {
            Ok(Ok(Some((process, run)))) => Ok(Process { process, run, end }),
            Ok(Ok(None)) | Err(_) => Err(errors::closed(py)),
            Ok(Err(finished)) => {
                let status = RunReport::of(py, &finished)?.status();
                let reason = if status == 127 {
                    "there is no such program"
                } else {
                    "it is not executable"
                };
                Err(own(
                    py,
                    "not-started",
                    format!("the command did not start: {reason}"),
                ))
            }
        }
    }

    fn failed(py: Python<'_>, error: &ProcessError) -> PyErr {
        let code = match error {
            ProcessError::InputClosed => "stdin-closed",
            ProcessError::Ended => "process-ended",
            _ => "invalid",
        };
        own(py, code, error.to_string())
    }
}

impl End {
    fn lock(&self) -> MutexGuard<'_, Option<Box<FinishedRun>>> {
        self.finished.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, finished: Box<FinishedRun>) {
        *self.lock() = Some(finished);
        self.came.notify_all();
    }

    /// Waits for it, no longer than that.
    fn wait(&self, most: Duration) -> bool {
        let waited = self
            .came
            .wait_timeout_while(self.lock(), most, |finished| finished.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.is_some()
    }
}

#[pymethods]
impl Process {
    /// Its number in this sandbox.
    #[getter]
    fn id(&self) -> u64 {
        self.process.id()
    }

    /// The id of its run.
    #[getter]
    fn run(&self) -> &str {
        &self.run
    }

    #[getter]
    fn is_running(&self) -> bool {
        self.end.lock().is_none()
    }

    /// Waits for its end, as long as that; nothing, if it does not come.
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<RunReport>> {
        let timeout = seconds(py, "timeout", timeout)?;
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let step = left.map_or(HANDLING, |left| left.min(HANDLING));
            if py.detach(|| self.end.wait(step)) {
                let finished = self.end.lock();
                return finished
                    .as_ref()
                    .map(|finished| RunReport::of(py, finished))
                    .transpose();
            }
            py.check_signals()?;
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
        }
    }

    /// Its output from its beginning, as far as it was kept, piece by piece.
    fn listen(&self) -> OutputReader {
        let events = self.process.subscribe();
        let so_far = events.so_far();
        let first = [(so_far.stderr.bytes(), false), (so_far.stdout.bytes(), true)];
        let first = first.into_iter().filter(|(bytes, _)| !bytes.is_empty());
        let first = first.collect();
        OutputReader(Mutex::new(Output { first, events }))
    }

    /// What it has written until now, as far as it is kept: standard output and standard error.
    fn output(&self, py: Python<'_>) -> (Py<PyBytes>, Py<PyBytes>) {
        let so_far = self.process.output();
        let bytes =
            |kept: &agentvfs::exec::sandbox::output::CapturedOutput| PyBytes::new(py, &kept.bytes()).unbind();
        (bytes(&so_far.stdout), bytes(&so_far.stderr))
    }

    /// Gives it these bytes to read. Waits while it does not take in those before.
    fn write_stdin(&self, py: Python<'_>, bytes: &[u8]) -> PyResult<()> {
        let mut rest = bytes;
        loop {
            let taken = py.detach(|| {
                let taken = self.process.try_write_stdin(rest)?;
                if taken == 0 && !rest.is_empty() {
                    // There is room, or a signal is looked at.
                    match self.process.write_stdin(&rest[..1], Some(HANDLING)) {
                        Ok(()) => return Ok(1),
                        Err(ProcessError::InputFull) => return Ok(0),
                        Err(error) => return Err(error),
                    }
                }
                Ok(taken)
            });
            rest = &rest[taken.map_err(|error| Process::failed(py, &error))?..];
            if rest.is_empty() {
                return Ok(());
            }
            py.check_signals()?;
        }
    }

    fn close_stdin(&self) {
        self.process.close_stdin();
    }

    fn resize(&self, py: Python<'_>, rows: u16, columns: u16) -> PyResult<()> {
        let resized = self.process.resize(TerminalSize { rows, columns });
        resized.map_err(|error| Process::failed(py, &error))
    }

    /// Sends a signal to its process group. Returns whether it was still running.
    fn signal(&self, py: Python<'_>, signal: i32) -> PyResult<bool> {
        if !self.is_running() {
            return Ok(false);
        }
        match self.process.signal_group(signal) {
            Ok(()) => Ok(true),
            Err(ProcessError::Ended) => Ok(false),
            Err(error) => Err(Process::failed(py, &error)),
        }
    }

    /// Kills it and what it has started. Returns whether it was still running.
    fn kill(&self, py: Python<'_>) -> PyResult<bool> {
        let was_running = self.is_running();
        match self.process.kill_group() {
            Ok(()) | Err(ProcessError::Ended) => Ok(was_running),
            Err(error) => Err(Process::failed(py, &error)),
        }
    }
}

/// Hears the output of a process.
#[pyclass(frozen, module = "agentvfs._native")]
pub struct OutputReader(Mutex<Output>);

struct Output {
    /// What came before anybody listened, the last piece first.
    first: Vec<(Vec<u8>, bool)>,
    events: OutputEvents,
}

#[pymethods]
impl OutputReader {
    /// The next piece of output, and whether it is of standard output; nothing at the end. If none comes in time, the piece
    /// is empty.
    fn next(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<(Py<PyBytes>, bool)>> {
        let timeout = seconds(py, "timeout", timeout)?;
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let received = py.detach(|| {
                let mut output = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                output.receive()
            });
            match received {
                Received::Piece(bytes, is_stdout) => {
                    return Ok(Some((PyBytes::new(py, &bytes).unbind(), is_stdout)));
                }
                Received::End => return Ok(None),
                Received::Nothing if until.is_some_and(|until| Instant::now() >= until) => {
                    return Ok(Some((PyBytes::new(py, b"").unbind(), true)));
                }
                Received::Nothing => py.check_signals()?,
            }
        }
    }
}

enum Received {
    Piece(Vec<u8>, bool),
    /// Nothing came for a moment.
    Nothing,
    End,
}

impl Output {
    fn receive(&mut self) -> Received {
        if let Some((bytes, is_stdout)) = self.first.pop() {
            return Received::Piece(bytes, is_stdout);
        }
        match self.events.receive(Some(HANDLING)) {
            Ok(OutputEvent::Stdout(bytes)) => Received::Piece(bytes.to_vec(), true),
            Ok(OutputEvent::Stderr(bytes)) => Received::Piece(bytes.to_vec(), false),
            Ok(OutputEvent::Skipped { .. }) | Err(RecvTimeoutError::Timeout) => Received::Nothing,
            // What it left in the background may write on; the command is over.
            Ok(OutputEvent::Ended(_)) | Err(RecvTimeoutError::Disconnected) => Received::End,
        }
    }
}
