//! From a plan to processes, and to their outcome.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::limits::{LimitsBy, ReachedLimit, RunUsage};
use crate::network::Refusal;
use crate::output::CapturedOutput;
use crate::plan::{PlanError, SandboxPlan};

mod background;
mod bubblewrap;
mod builder;
mod built;
mod child;
mod container;
mod docker;
mod ending;
mod error;
mod finding;
mod landlocked;
mod pipes;
pub(crate) mod processes;
mod supervise;
mod vaults;
mod version;

pub(crate) use background::BackgroundRun;
pub use bubblewrap::Bubblewrap;
pub(crate) use bubblewrap::find as find_bubblewrap;
pub use builder::SandboxBuilder;
pub use container::{Container, ContainerRuntime};
pub use docker::{Docker, DockerSocket};
pub use error::{LaunchError, LaunchHint};
pub use landlocked::Landlocked;
pub(crate) use pipes::{output_pipe, pipe_for_input};

/// Executes plans. The calling thread must live as long as the run: when it ends, so does the sandbox.
pub trait Launcher {
    /// Runs the command of a plan to its end. Every process of the run is gone when this returns.
    fn launch(&self, run: LaunchRequest<'_>) -> Result<LaunchOutcome, LaunchError>;
}

/// One run: a plan, the input of the command, how to end it, and its observers.
pub struct LaunchRequest<'a> {
    /// The sandbox, and the command in it.
    pub plan: &'a SandboxPlan,
    /// What the command reads.
    pub stdin: Stdin,
    /// Ends the run early.
    pub cancel: &'a Cancel,
    /// Called with each event, in order.
    pub events: &'a mut dyn FnMut(RunEvent<'_>),
    /// Work that remains before the command may begin, while the sandbox is being built: until it is done,
    /// processes that access the workspace may have to wait. Returns whether the command is still wanted.
    pub ready: Option<&'a mut dyn FnMut() -> bool>,
    /// Where output goes besides, as it arrives.
    pub outlets: LiveOutlets<'a>,
}

/// The destinations of live output. When a destination has no reader any longer, the command gets a closed
/// pipe, as it would outside. A stream without an outlet is read to its end.
#[derive(Clone, Copy, Debug, Default)]
pub struct LiveOutlets<'a> {
    /// Gets the standard output.
    pub stdout: Option<BorrowedFd<'a>>,
    /// Gets the standard error.
    pub stderr: Option<BorrowedFd<'a>>,
}

impl<'a> LaunchRequest<'a> {
    /// A request whose output goes to `events` only.
    pub fn new(
        plan: &'a SandboxPlan,
        stdin: Stdin,
        cancel: &'a Cancel,
        events: &'a mut dyn FnMut(RunEvent<'_>),
    ) -> Self {
        Self {
            plan,
            stdin,
            cancel,
            events,
            ready: None,
            outlets: LiveOutlets::default(),
        }
    }

    /// Performs the remaining work.
    fn is_wanted(&mut self) -> bool {
        self.ready.as_mut().is_none_or(|ready| ready())
    }
}

/// What the command reads from standard input.
#[derive(Debug)]
pub enum Stdin {
    /// The end of input, immediately.
    Nothing,
    /// These bytes, and then the end.
    Bytes(Vec<u8>),
    /// A pipe, a file or a terminal, passed unchanged. A terminal can also be written to.
    File(File),
    /// A new terminal for all three streams, whose outer side is sent over this socket ([`crate::terminal`]).
    /// Only in a sandbox with its own process namespace.
    Terminal(OwnedFd),
}

/// An event during a run. Output is reported as it arrives, completely, even if it is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEvent<'a> {
    /// The command runs.
    Started,
    /// Standard output, as it arrived.
    Stdout(&'a [u8]),
    /// Standard error, as it arrived.
    Stderr(&'a [u8]),
    /// The run was asked to end early.
    Stopping(StopReason),
    /// The same request was refused so often that the program may never end by itself. Reported once per
    /// request.
    Refused(&'a Refusal),
}

/// Our own program, which is the first one inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InnerProgram {
    program: PathBuf,
    /// Arguments before the descriptors; normally [`avfs_inside::ARGUMENT`].
    arguments: Vec<OsString>,
    /// The bubblewrap that starts it. `None`: that of the system.
    bubblewrap: Option<PathBuf>,
}

impl InnerProgram {
    /// This program. A relative path is one of the present working directory.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        let program = program.into();
        // This fails only for a process without a working directory, which cannot start anything.
        let program = std::path::absolute(&program).unwrap_or(program);
        Self {
            program,
            arguments: vec![avfs_inside::ARGUMENT.into()],
            bubblewrap: None,
        }
    }

    /// The same, started by this bubblewrap.
    #[must_use]
    pub fn started_by(self, bubblewrap: impl Into<PathBuf>) -> Self {
        Self {
            bubblewrap: Some(bubblewrap.into()),
            ..self
        }
    }
}

/// How a run ended and what it used.
#[derive(Clone, Debug)]
pub struct LaunchOutcome {
    /// How the command ended.
    pub end: CommandEnd,
    /// Why it was ended early.
    pub stopped: Option<StopReason>,
    /// Standard output, as far as it is kept.
    pub stdout: CapturedOutput,
    /// Standard error, as far as it is kept.
    pub stderr: CapturedOutput,
    /// What it used.
    pub usage: RunUsage,
    /// How long it ran.
    pub duration: Duration,
    /// What isolated it.
    pub isolation: Isolation,
    /// What enforced the limits.
    pub limits_by: LimitsBy,
    /// The limits that processes of the run reached.
    pub limits_hit: Vec<ReachedLimit>,
    /// Requests that the proxy refused.
    pub refusals: Vec<Refusal>,
}

impl LaunchOutcome {
    /// Whether it was ended by its time limit.
    pub fn timed_out(&self) -> bool {
        self.stopped == Some(StopReason::Timeout)
    }

    /// The status that a shell would show: that of the command, 128 plus the signal, 126 or 127 if it did not
    /// start.
    pub fn status(&self) -> i32 {
        self.end.status()
    }
}

/// How the command itself ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandEnd {
    /// With this exit status.
    Exited(i32),
    /// By this signal.
    Signaled(i32),
    /// The program does not exist inside, or is not executable. Distinct from a command that exits with 126
    /// or 127.
    NotStarted {
        /// Why it was not started.
        errno: i32,
    },
}

impl CommandEnd {
    /// The status that a shell would show.
    pub fn status(self) -> i32 {
        match self {
            Self::Exited(code) => code,
            Self::Signaled(signal) => 128 + signal,
            Self::NotStarted { errno: libc::ENOENT } => 127,
            Self::NotStarted { .. } => 126,
        }
    }
}

/// Why a run was ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// Its time limit.
    Timeout,
    /// The caller.
    Cancelled,
    /// Its limit of processor time.
    CpuTime,
    /// A process that served its files has ended.
    ServerGone,
}

/// The isolation around the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Namespaces, made by bubblewrap.
    Bubblewrap {
        /// Its version.
        version: String,
        /// The version of Landlock besides; 0: none.
        landlock_abi: u32,
    },
    /// A container.
    Container {
        /// The name of the runtime.
        runtime: String,
        /// Its version.
        version: String,
    },
    /// Landlock alone, on the host.
    Landlock {
        /// Its version.
        abi: u32,
    },
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bubblewrap { version, .. } => write!(f, "bubblewrap {version}"),
            Self::Container { runtime, version } => write!(f, "{runtime} {version}"),
            Self::Landlock { abi } => write!(f, "landlock {abi}"),
        }
    }
}

/// Ends a run from another thread. Clones end the same run.
#[derive(Clone, Debug)]
pub struct Cancel {
    event: Arc<OwnedFd>,
    /// Overrides the grace period of the run's limits.
    grace: Arc<OnceLock<Duration>>,
}

impl Cancel {
    /// Makes one that nothing has cancelled.
    pub fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self {
            event: Arc::new(event),
            grace: Arc::default(),
        })
    }

    /// Asks the run to end; it is killed after a grace period. Calling this again changes nothing.
    pub fn cancel(&self) {
        // It fails only after 2^64 calls.
        rustix::io::write(&*self.event, &1_u64.to_ne_bytes()).ok();
    }

    /// The same with a grace period of this length. The first length that is set counts.
    pub fn cancel_with_grace(&self, grace: Duration) {
        self.grace.get_or_init(|| grace);
        self.cancel();
    }

    /// The grace period, if one was set when the run was cancelled.
    pub(crate) fn grace(&self) -> Option<Duration> {
        self.grace.get().copied()
    }

    /// Waits, and returns whether it was cancelled, now or before.
    pub fn wait(&self, most: Duration) -> bool {
        let timeout = Timespec::try_from(most).unwrap_or(Timespec {
            tv_sec: i64::MAX,
            tv_nsec: 0,
        });
        let mut fds = [PollFd::new(&*self.event, PollFlags::IN)];
        // Interrupted by a signal, it has waited for a shorter time: callers check in a loop.
        poll(&mut fds, Some(&timeout)).is_ok_and(|ready| ready > 0)
    }

    pub(crate) fn event(&self) -> &OwnedFd {
        &self.event
    }
}

/// Readable once the run was cancelled.
impl std::os::fd::AsFd for Cancel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

impl From<PlanError> for LaunchError {
    fn from(source: PlanError) -> Self {
        Self::Plan(source)
    }
}
