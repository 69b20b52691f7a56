//! From a plan to processes, and to what became of them.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::limits::{Limit, LimitsBy, Usage};
use crate::network::Refusal;
use crate::output::Captured;
use crate::plan::{Plan, PlanError};

mod bubblewrap;
mod child;
mod ending;
mod error;
mod landlocked;
mod pipes;
mod supervise;
mod vaults;
mod version;

pub use bubblewrap::Bubblewrap;
pub(crate) use bubblewrap::find as find_bubblewrap;
pub use error::LaunchError;
pub use landlocked::Landlocked;

/// Carries out plans. The thread that calls it lives as long as the run: when it ends, so does the sandbox.
pub trait Launcher {
    /// Runs the command of a plan to its end. Every process of the run is gone when this returns.
    fn launch(&self, run: Run<'_>) -> Result<Outcome, LaunchError>;
}

/// One run: a plan, what the command reads, how to end it, and who watches.
pub struct Run<'a> {
    pub plan: &'a Plan,
    pub stdin: Stdin,
    pub cancel: &'a Cancel,
    pub events: &'a mut dyn FnMut(Event<'_>),
    /// What is left to do before the command may begin, while the sandbox is being made: until then, whoever looks
    /// into the workspace may have to wait. Answers whether the command is still wanted.
    pub ready: Option<&'a mut dyn FnMut() -> bool>,
    pub outlets: Outlets<'a>,
}

/// Where the output goes that is told as it comes. When nobody reads there any more, the command has a closed pipe, as it
/// would have outside. A stream without an outlet is read to its end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outlets<'a> {
    pub stdout: Option<BorrowedFd<'a>>,
    pub stderr: Option<BorrowedFd<'a>>,
}

impl<'a> Run<'a> {
    pub fn new(
        plan: &'a Plan,
        stdin: Stdin,
        cancel: &'a Cancel,
        events: &'a mut dyn FnMut(Event<'_>),
    ) -> Self {
        Self { plan, stdin, cancel, events, ready: None, outlets: Outlets::default() }
    }

    /// Does what is left to be done.
    fn is_wanted(&mut self) -> bool {
        self.ready.as_mut().is_none_or(|ready| ready())
    }
}

/// What the command reads from standard input.
#[derive(Debug)]
pub enum Stdin {
    Nothing,
    Bytes(Vec<u8>),
    /// As it is: a pipe, a file, a terminal. A terminal can be written to as well.
    File(File),
    /// It has a terminal of its own for all three streams, whose other side goes over this socket
    /// ([`crate::terminal`]). Only in a sandbox with processes of its own.
    Terminal(OwnedFd),
}

/// Something that happened during a run. Output is told as it comes, all of it, also what is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    Started,
    Stdout(&'a [u8]),
    Stderr(&'a [u8]),
    /// The run was asked to end before its time.
    Stopping(Stop),
    /// The same was refused so often that the program may never end by itself. Told once of each.
    Refused(&'a Refusal),
}

/// Our own program, which is the first one inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inside {
    program: PathBuf,
    /// Arguments in front of the descriptors; [`crate::inside::ARGUMENT`], as a rule.
    arguments: Vec<OsString>,
}

impl Inside {
    pub fn new(program: impl Into<PathBuf>) -> Self {
        let program = program.into();
        // Only a process without a working directory has no absolute paths, and starting anything fails there.
        let program = std::path::absolute(&program).unwrap_or(program);
        Self { program, arguments: vec![crate::inside::ARGUMENT.into()] }
    }
}

/// How a run ended and what it used.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub end: End,
    /// Why it was ended before its time.
    pub stopped: Option<Stop>,
    pub stdout: Captured,
    pub stderr: Captured,
    pub usage: Usage,
    pub duration: Duration,
    pub isolation: Isolation,
    pub limits_by: LimitsBy,
    /// The limits that processes of the run came up against.
    pub limits_hit: Vec<Limit>,
    /// What the proxy did not let through.
    pub refusals: Vec<Refusal>,
}

impl Outcome {
    pub fn timed_out(&self) -> bool {
        self.stopped == Some(Stop::Timeout)
    }

    /// The status that a shell would show: that of the command, 128 and the signal, 126 or 127 if it did not start.
    pub fn status(&self) -> i32 {
        match self.end {
            End::Exited(code) => code,
            End::Signaled(signal) => 128 + signal,
            End::NotStarted { errno: libc::ENOENT } => 127,
            End::NotStarted { .. } => 126,
        }
    }
}

/// How the command itself ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Exited(i32),
    Signaled(i32),
    /// There is no such program inside, or it is none. Distinct from a command that exits with 126 or 127.
    NotStarted {
        errno: i32,
    },
}

/// Why a run was ended before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    Timeout,
    Cancelled,
    CpuTime,
}

/// What stood around the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Isolation {
    Bubblewrap { version: String, landlock_abi: u32 },
    Landlock { abi: u32 },
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bubblewrap { version, .. } => write!(f, "bubblewrap {version}"),
            Self::Landlock { abi } => write!(f, "landlock {abi}"),
        }
    }
}

/// Ends a run from another thread. Clones end the same run.
#[derive(Clone, Debug)]
pub struct Cancel {
    event: Arc<OwnedFd>,
    /// In place of the grace of the run's own limits.
    grace: Arc<OnceLock<Duration>>,
}

impl Cancel {
    pub fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { event: Arc::new(event), grace: Arc::default() })
    }

    /// The run gets a moment to clean up, and is killed then. Calling it again changes nothing.
    pub fn cancel(&self) {
        // It fails only when it was called 2^64 times.
        rustix::io::write(&*self.event, &1_u64.to_ne_bytes()).ok();
    }

    /// The same with a moment of this length. The first length that is given counts.
    pub fn cancel_with_grace(&self, grace: Duration) {
        self.grace.get_or_init(|| grace);
        self.cancel();
    }

    /// How long the run may clean up, if that was said when it was cancelled.
    pub(crate) fn grace(&self) -> Option<Duration> {
        self.grace.get().copied()
    }

    /// Waits, and says whether it was cancelled, now or before.
    pub fn wait(&self, most: Duration) -> bool {
        let timeout = Timespec::try_from(most).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
        let mut fds = [PollFd::new(&*self.event, PollFlags::IN)];
        // Interrupted by a signal, it has waited less: whoever calls it looks again.
        poll(&mut fds, Some(&timeout)).is_ok_and(|ready| ready > 0)
    }

    pub(crate) fn event(&self) -> &OwnedFd {
        &self.event
    }
}

impl From<PlanError> for LaunchError {
    fn from(source: PlanError) -> Self {
        Self::Plan(source)
    }
}
