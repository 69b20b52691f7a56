//! A sandbox that stays open, with any number of processes in it.
//!
//! A [`ProcessSandbox`] is made from a plan once: its namespaces, mounts, `/tmp`, network and limits stay the same until it
//! ends. Processes run in it side by side. Each has its own arguments, environment variables, working directory, and
//! streams or terminal, and is confined like a single command.
//!
//! ```no_run
//! use avfs_exec::launch::InnerProgram;
//! use avfs_exec::{Bubblewrap, SandboxPlan, ProcessSandbox, ProcessSpec};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let launcher = Bubblewrap::new(InnerProgram::new("/usr/bin/avfs"));
//! let sandbox = ProcessSandbox::start(launcher, SandboxPlan::new("/srv/project", ["unused"]))?;
//! let server = sandbox.spawn(ProcessSpec::new(["python3", "-m", "http.server"]))?;
//! let tests = sandbox.spawn(ProcessSpec::new(["make", "test"]))?;
//! let end = tests.wait(None);
//! server.kill_group()?;
//! sandbox.end()?;
//! # Ok(()) }
//! ```
//!
//! - **Handles.** A [`SandboxProcess`] is a handle: clone it, send it to another thread, or drop it. Dropping
//!   one neither ends the process nor loses its output. [`ProcessSandbox::process`] returns a new handle
//!   later, with the output so far, and [`SandboxProcess::subscribe`] continues from there.
//! - **Output** is always read, so a process never waits for its readers. The kept part of each stream is
//!   bounded ([`ProcessSpec::output_bytes`]); listeners that fall behind skip output and are told how much.
//! - **The end of a process** is the end of that process alone. Processes that it started in the background
//!   continue, and may still write to the same streams, until the sandbox ends or
//!   [`SandboxProcess::kill_group`] is called.
//! - **The end of the sandbox** is the end of everything in it: when the [`ProcessSandbox`] is dropped or
//!   cancelled, when the time limit of its plan is up, or when its first program dies. Processes that are
//!   still running are killed (`SIGKILL`), and every waiting caller is notified.
//!
//! One thread supervises a sandbox with all of its processes. Everything here can be called from several
//! threads at the same time.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::launch::processes::{
    CheckedProcess, NotOrdered, NotWritten, ProcessEnds, ProcessHandle, ProcessPhase, ProcessTable,
};
use crate::launch::{
    BackgroundRun, Cancel, LaunchError, LaunchOutcome, LaunchRequest, RunEvent, SandboxBuilder, Stdin,
    StopReason, output_pipe, pipe_for_input,
};
use crate::limits::{LimitGauge, LimitsBy, MemoryNow, ReachedLimit, RunUsage};
use crate::network::{HostRule, HostsNotChanged, InnerPorts, PortConnection, Refusal, Refusals};
use crate::plan::{SandboxPlan, is_variable};
use crate::terminal::TerminalSize;
use avfs_inside::{SignalTarget, SpawnStep};

mod error;
mod handle;

pub use crate::launch::processes::{OutputEvent, OutputEvents, OutputSoFar, ProcessEnd};
pub use error::{ProcessError, SpawnError};
pub use handle::{ProcessState, SandboxProcess};

/// How long a process may take to become its program. Its files may be slow to load.
const STARTING: Duration = Duration::from_secs(60);

/// How long the stage may take to stop processes.
const STOPPING: Duration = Duration::from_secs(30);

/// The maximum grace period of processes when the sandbox is dropped.
const LEAVING: Duration = Duration::from_millis(500);

/// A process to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessSpec {
    /// The program and its arguments. A program without `/` is searched in `PATH`.
    pub command: Vec<OsString>,
    /// Variables that are added to those of the sandbox, or replace them.
    pub env: Vec<(OsString, OsString)>,
    /// The working directory; `None`: that of the plan.
    pub cwd: Option<PathBuf>,
    /// Where its input comes from.
    pub input: ProcessInput,
    /// After this time, the process and its group are asked to end (`SIGTERM`). After the grace of the plan's limits,
    /// everything of its session is killed.
    pub timeout: Option<Duration>,
    /// How many bytes of each stream are kept; by default the number of the plan.
    pub output_bytes: Option<usize>,
}

/// The input of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProcessInput {
    /// Its input is empty.
    #[default]
    Nothing,
    /// A pipe: [`SandboxProcess::write_stdin`].
    Pipe,
    /// A terminal of its own, for all three streams. The process leads its session, so `Ctrl-Z` stops the jobs of a shell
    /// but not the process itself.
    Terminal(TerminalSize),
}

impl ProcessSpec {
    /// A process without input, in the working directory of the plan.
    pub fn new(command: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self {
            command: command.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            cwd: None,
            input: ProcessInput::Nothing,
            timeout: None,
            output_bytes: None,
        }
    }

    fn check(&self) -> Result<(), SpawnError> {
        let bad = |reason| Err(SpawnError::BadSpec { reason });
        let has_nul = |text: &OsString| text.as_encoded_bytes().contains(&0);
        if self.command.first().is_none_or(|program| program.is_empty()) {
            return bad("there is no program to start");
        }
        if self.command.iter().any(has_nul) {
            return bad("an argument contains a NUL byte");
        }
        if self
            .env
            .iter()
            .any(|(name, value)| !is_variable(name) || has_nul(value))
        {
            return bad("an environment variable has a bad name or contains a NUL byte");
        }
        let is_bad = |cwd: &PathBuf| !cwd.is_absolute() || cwd.as_os_str().as_encoded_bytes().contains(&0);
        if self.cwd.as_ref().is_some_and(is_bad) {
            return bad("the working directory is not an absolute path");
        }
        Ok(())
    }
}

/// A sandbox that is open for processes. Nothing of it is left when this is dropped.
#[derive(Debug)]
pub struct ProcessSandbox {
    table: Arc<ProcessTable>,
    background: BackgroundRun,
    gauge: Arc<OnceLock<LimitGauge>>,
    refusals: Arc<Refusals>,
    ports: Arc<InnerPorts>,
    cwd: PathBuf,
    output_bytes: usize,
    /// The grace period of processes when this is dropped.
    leaving: Duration,
}

/// Notifies all waiting callers that the sandbox has ended, even if the supervising thread panics.
struct ClosingNotice(Arc<ProcessTable>, Option<StopReason>);

impl Drop for ClosingNotice {
    fn drop(&mut self) {
        self.0.close(self.1);
    }
}

impl ProcessSandbox {
    /// Builds the sandbox of a plan and waits until processes can be started in it. The command of the plan
    /// is ignored; its time limit is that of the whole sandbox.
    pub fn start(launcher: impl Into<SandboxBuilder>, plan: SandboxPlan) -> Result<Self, LaunchError> {
        let launcher = launcher.into();
        let table = ProcessTable::new(&plan.limits).map_err(LaunchError::system("making an event queue"))?;
        let table = Arc::new(table);
        let ties = launcher.ties();
        let (gauge, refusals, ports) = (ties.gauge(), ties.refusals(), ties.ports());
        let (cwd, output_bytes) = (plan.cwd.clone(), plan.limits.output_bytes);
        let leaving = plan.limits.grace.min(LEAVING);
        let watched = Arc::clone(&table);
        let background = BackgroundRun::start("sandbox", move |cancel| {
            let mut closing = ClosingNotice(Arc::clone(&watched), None);
            let mut unheard = |_: RunEvent<'_>| ();
            let outcome = launcher.keep_open(
                LaunchRequest::new(&plan, Stdin::Nothing, cancel, &mut unheard),
                &watched,
            );
            closing.1 = outcome.as_ref().ok().and_then(|outcome| outcome.stopped);
            outcome
        })?;
        let sandbox = Self {
            table,
            background,
            gauge,
            refusals,
            ports,
            cwd,
            output_bytes,
            leaving,
        };
        if sandbox.table.wait_until_open() {
            return Ok(sandbox);
        }
        let stopped = || LaunchError::system("making the sandbox")(io::ErrorKind::Interrupted.into());
        sandbox.end().and_then(|_| Err(stopped()))
    }

    /// Starts a process and waits until it runs its program.
    pub fn spawn(&self, spec: ProcessSpec) -> Result<SandboxProcess, SpawnError> {
        spec.check()?;
        let (program, cwd) = (spec.command[0].clone(), spec.cwd.clone());
        let cwd = cwd.unwrap_or_else(|| self.cwd.clone());
        let (ends, inner) = ends_of(spec.input).map_err(SpawnError::system("making pipes"))?;
        let wanted = CheckedProcess {
            command: spec.command,
            env: spec.env,
            cwd: cwd.clone(),
            terminal: match spec.input {
                ProcessInput::Terminal(size) => Some(size),
                ProcessInput::Nothing | ProcessInput::Pipe => None,
            },
            timeout: spec.timeout,
            output_bytes: spec.output_bytes.unwrap_or(self.output_bytes),
        };
        let process = self.table.spawn(wanted, ends, inner)?;
        match process.wait_while(|phase| phase == ProcessPhase::Starting, Some(STARTING)) {
            ProcessPhase::Running | ProcessPhase::Ended(_) => Ok(self.handle(process)),
            ProcessPhase::Failed { step, errno } => Err(SpawnError::of(step, errno, program, cwd)),
            ProcessPhase::Starting => {
                self.table
                    .signal(process.id, libc::SIGKILL, SignalTarget::Process)
                    // The caller hears that it failed, so nothing of it may run on.
                    .ok();
                self.table.forget(process.id);
                Err(SpawnError::TooSlow { program })
            }
        }
    }

    /// All processes, in the order in which they started. If many have ended, the oldest of those are
    /// forgotten.
    pub fn processes(&self) -> Vec<SandboxProcess> {
        let all = self.table.all().into_iter();
        all.filter(|process| process.phase() != ProcessPhase::Starting)
            .map(|process| self.handle(process))
            .collect()
    }

    /// The process with this number ([`SandboxProcess::id`]).
    pub fn process(&self, id: u64) -> Option<SandboxProcess> {
        let process = self.table.find(id)?;
        (process.phase() != ProcessPhase::Starting).then(|| self.handle(process))
    }

    /// Removes an ended process from the list and closes its streams. Returns false if there is no such process, or if it
    /// is still running.
    pub fn forget(&self, id: u64) -> bool {
        let has_ended = |process: Arc<ProcessHandle>| matches!(process.phase(), ProcessPhase::Ended(_));
        self.table.find(id).is_some_and(has_ended) && self.table.forget(id)
    }

    /// The resources that all processes together have used so far.
    pub fn usage(&self) -> RunUsage {
        self.gauge.get().map(LimitGauge::usage).unwrap_or_default()
    }

    /// What enforces the limits.
    pub fn limits_by(&self) -> LimitsBy {
        self.gauge.get().map_or(LimitsBy::Rlimits, LimitGauge::by)
    }

    /// The memory that all processes together use now; `None` where the system does not count it.
    pub fn memory(&self) -> Option<MemoryNow> {
        self.gauge.get().and_then(LimitGauge::memory_now)
    }

    /// Stops every process in it, also those with a session of their own, until [`ProcessSandbox::resume`]. Returns once
    /// each of them has been told to stop.
    pub fn pause(&self) -> Result<(), ProcessError> {
        if self.table.pause(STOPPING)? {
            return Ok(());
        }
        Err(ProcessError::Busy)
    }

    /// Has every stopped process go on.
    pub fn resume(&self) -> Result<(), ProcessError> {
        Ok(self.table.resume()?)
    }

    /// Connects to a port inside, where a process listens on the loopback or on all addresses. The connection is cut when
    /// the sandbox ends, and counts as one until the second value is dropped. Fails in a sandbox with the network of the
    /// host: its ports are those of the host.
    pub fn connect(&self, port: u16) -> io::Result<(TcpStream, PortConnection)> {
        self.ports.connect(port)
    }

    /// Changes the hosts that its processes reach, from now on; connections that exist remain.
    pub fn set_hosts(&self, hosts: Vec<HostRule>) -> Result<(), HostsNotChanged> {
        self.ports.set_hosts(hosts)
    }

    /// The limits that processes have reached so far.
    pub fn limits_hit(&self) -> Vec<ReachedLimit> {
        self.gauge.get().map(LimitGauge::hit).unwrap_or_default()
    }

    /// Network requests that were refused since the last call.
    pub fn take_refusals(&self) -> Vec<Refusal> {
        self.refusals.take()
    }

    /// Ends the sandbox from another thread, without waiting for the end.
    pub fn cancel(&self) -> &Cancel {
        self.background.cancel()
    }

    /// Readable once the sandbox has ended.
    pub fn over(&self) -> &Arc<OwnedFd> {
        self.background.over()
    }

    /// Waits for the end of the sandbox, at most for the timeout if one is given, and returns whether it
    /// came.
    pub fn wait(&self, timeout: Option<Duration>) -> bool {
        self.background.wait(timeout)
    }

    /// Ends the sandbox and everything in it. Processes have the grace period of the plan.
    pub fn end(mut self) -> Result<LaunchOutcome, LaunchError> {
        self.background.finish()
    }

    fn handle(&self, process: Arc<ProcessHandle>) -> SandboxProcess {
        SandboxProcess::new(process, Arc::clone(&self.table))
    }
}

impl Drop for ProcessSandbox {
    fn drop(&mut self) {
        self.background.cancel().cancel_with_grace(self.leaving);
        self.background.end();
    }
}

/// Both ends of the streams of a process.
fn ends_of(input: ProcessInput) -> io::Result<(ProcessEnds, Vec<OwnedFd>)> {
    let (stdin, inner_stdin) = match input {
        ProcessInput::Terminal(_) => return Ok((ProcessEnds::default(), Vec::new())),
        ProcessInput::Nothing => (None, File::open(Path::new("/dev/null"))?.into()),
        ProcessInput::Pipe => {
            let (outer, inner) = pipe_for_input()?;
            (Some(outer), inner)
        }
    };
    let (stdout, inner_stdout) = output_pipe()?;
    let (stderr, inner_stderr) = output_pipe()?;
    let ends = ProcessEnds {
        stdin,
        stdout: Some(stdout),
        stderr: Some(stderr),
    };
    Ok((ends, vec![inner_stdin, inner_stdout, inner_stderr]))
}
