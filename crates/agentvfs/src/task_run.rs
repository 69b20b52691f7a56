//! Supervised runs of programs in tasks: each has a record and its output in the task's directory, and a
//! socket there for clients that attach to its terminal, follow its output, wait for its end or stop it.
//!
//! The process that runs the program supervises it ([`SupervisedRun`]); others find it through the task
//! ([`TaskRuns::list`]) and communicate with it ([`TaskRun`]). A terminal may leave and come
//! back: the program continues. The socket is in a private directory of the user, and only the same user or
//! root is answered. Leftovers of a killed supervisor are recognised by its lock, which is free then.

mod client;
mod connection;
mod modes;
mod output;
mod plain_text;
mod record;
mod replay;
mod sequences;
mod server;
mod wire;

use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use avfs_exec::terminal::Console;
use avfs_exec::{Cancel, Stdin};
use rustix::event::{EventfdFlags, eventfd};
use rustix::termios::Termios;

pub use client::{Attachment, FromRun, News, TaskRun, TaskRunWatch};
pub use modes::TerminalModes;
pub use output::{OutputPiece, RunOutput};
pub use plain_text::PlainText;
pub use record::{EndReason, RunEnd, RunRecord, TaskRuns};
pub use replay::replay;
pub use wire::{Joined, WindowSize};

use crate::control::place;
use crate::error::Result;
use crate::exec::{FinishedProgram, Program, ProgramEnd, RunContext, RunError, run_id, shown_program};
use crate::task::Task;
use output::OutputLog;
use server::{ProgramTerminal, RunServer, RunShared};

/// The streams of a program.
pub enum RunStreams {
    /// Pipes, with this input.
    Pipes(Stdin),
    /// A terminal of its own.
    Terminal(RunTerminal),
}

/// The terminal that a program begins with.
#[derive(Default)]
pub struct RunTerminal {
    /// Its settings; `None`: those that the kernel gives a new one.
    pub settings: Option<Termios>,
    /// The size of the terminal.
    pub size: WindowSize,
    /// The terminal from which the run is started, which joins as [`Attachment::join`] does. If it ends
    /// without having detached, so does the run. `None`: the run begins detached.
    pub starter: Option<UnixStream>,
    /// Called when that terminal has left.
    pub left: Option<Box<dyn FnOnce() + Send>>,
}

/// A run that this process supervises: begun, executed once, and finished when all of its work is stored.
pub struct SupervisedRun {
    task: Task,
    id: String,
    stdin: Option<Stdin>,
    shared: Arc<RunShared>,
    server: Option<JoinHandle<()>>,
}

impl TaskRuns<'_> {
    /// Begins a run of a program: others can look at it from now on. `cancel` is what will end it.
    pub fn begin(&self, program: &Program, streams: RunStreams, cancel: &Cancel) -> Result<SupervisedRun> {
        let vault = self.task.vault();
        vault.store().projects().check_directory_of(vault)?;
        self.supervise(&run_id(), shown_program(&program.command), streams, cancel)
    }

    /// Begins to supervise a run: others can look at it from now on. `cancel` ends it.
    pub(crate) fn supervise(
        &self,
        id: &str,
        command: String,
        streams: RunStreams,
        cancel: &Cancel,
    ) -> Result<SupervisedRun> {
        let place = self.make_run_place(id)?;
        let path = place.path().to_owned();
        let failed = |source| record::host("making the socket in", &path, source);
        let made = || -> std::io::Result<_> {
            let listener = place::listen_in(place.path())?;
            listener.set_nonblocking(true)?;
            let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            Ok((listener, wake))
        };
        let (listener, wake) = made().map_err(failed)?;
        let (mut connections, mut left) = (Vec::new(), None);
        let (line, stdin, is_detached) = match streams {
            RunStreams::Pipes(stdin) => (None, stdin, false),
            RunStreams::Terminal(terminal) => {
                let (console, inner) = Console::pair().map_err(failed)?;
                let is_detached = terminal.starter.is_none();
                if let Some(starter) = terminal.starter {
                    connections.push(server::starter(starter).map_err(failed)?);
                }
                left = terminal.left;
                let line = ProgramTerminal {
                    console,
                    settings: terminal.settings,
                    size: terminal.size,
                };
                (Some(line), Stdin::Terminal(inner), is_detached)
            }
        };
        let record = RunRecord {
            id: id.to_owned(),
            task: self.task.name().to_string(),
            vault: self.task.vault_name().to_string(),
            command,
            since: self.task.vault().store().now(),
            pid: std::process::id(),
            has_terminal: line.is_some(),
            is_detached,
            end: None,
        };
        place.write(&record)?;
        let shared = Arc::new(RunShared {
            log: Mutex::new(OutputLog::new(place.path())),
            record: Mutex::new(record),
            place,
            wake,
            is_over: Mutex::new(false),
        });
        let server = RunServer {
            shared: Arc::clone(&shared),
            listener,
            cancel: cancel.clone(),
            line,
            outer: None,
            connections,
            typed: Vec::new(),
            modes: TerminalModes::default(),
            is_stopped: false,
            nudged: None,
            draining: None,
            left,
        };
        let thread = std::thread::Builder::new()
            .name("run".into())
            .spawn(move || server.serve());
        let server = Some(thread.map_err(|source| record::host("supervising the run in", &path, source))?);
        Ok(SupervisedRun {
            task: self.task.clone(),
            id: id.to_owned(),
            stdin: Some(stdin),
            shared,
            server,
        })
    }
}

impl SupervisedRun {
    /// The id of the run.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Runs the program to its end. `context` contains the cancellation with which the run was begun.
    pub fn execute(&mut self, program: &Program, context: RunContext<'_>) -> FinishedProgram {
        // A second program would have nothing to read.
        let stdin = self.stdin.take().unwrap_or(Stdin::Nothing);
        let printed = |bytes: &[u8]| self.printed(bytes);
        self.task
            .programs()
            .execute(program, (&self.id, &printed), stdin, context)
    }

    /// Stores the output of a program without a terminal.
    pub(crate) fn printed(&self, bytes: &[u8]) {
        self.shared.log().append(bytes);
        self.shared.wake();
    }

    /// Records how it ended and notifies all clients. `note` is additional information for them.
    pub fn finish(mut self, ended: &Result<ProgramEnd, RunError>, note: Option<String>) {
        let end = RunEnd::of(ended, self.task.vault().store().now());
        self.close(RunEnd {
            message: end.message.clone().or(note),
            ..end
        });
    }

    fn close(&mut self, end: RunEnd) {
        let Some(server) = self.server.take() else { return };
        let mut record = self.shared.record();
        record.end = Some(end);
        // If the task is gone, it cannot be stored; clients are notified nevertheless.
        let _ = self.shared.place.write(&record);
        drop(record);
        self.shared.set_over();
        // It served others only.
        let _ = server.join();
    }
}

impl Drop for SupervisedRun {
    fn drop(&mut self) {
        let message = Some("what became of it was not stored".to_owned());
        self.close(RunEnd {
            at: None,
            status: None,
            reason: EndReason::Failed,
            message,
        });
    }
}

#[cfg(test)]
mod tests;
