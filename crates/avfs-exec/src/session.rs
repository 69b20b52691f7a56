//! A persistent shell: one bash in a sandbox, which receives one command after another.
//!
//! A command's output is never parsed to learn how it ended. The shell is an ordinary, interactive bash
//! without a terminal; the session state is outside of the sandbox, in a [`PipeDirectory`] that the sandbox sees
//! and cannot change. For each command the shell reads two lines from its standard input, to which commands
//! have no access:
//!
//! ```text
//! \unset -f builtin; ( \builtin \exit 3 ) || \builtin \. DIR/c5 </dev/null >DIR/out 2>DIR/err
//! <>"DIR/$?" <>"DIR/g5"
//! ```
//!
//! - The command is a separate file (`c5`). An unbalanced quote ends with the file, and nothing in a command
//!   can affect the lines after it. Because it is sourced, it is part of the shell: directories, variables,
//!   functions, aliases and jobs persist.
//! - Its three streams are opened by name, for this command alone. So `exec >&-` and `exec 2>&1` end with the
//!   command, none of our descriptors can be closed or inherited, and a background job that keeps a stream
//!   open delays nothing: the end of a command is not the end of its output.
//! - The second line reports the status: it opens a pipe whose name is the number, and then the one of this
//!   turn, and the kernel notifies the host (inotify). It contains only redirections, no word that could be
//!   an alias or a function. It is a separate line because anything that aborts a command (an interrupt, an
//!   unset variable under `set -u`) aborts the rest of its line too. A status for another turn is ignored.
//! - `$?` shows the previous status: a subshell ends with it, before `||`, where neither `set -e` nor a trap
//!   on `ERR` has an effect.
//! - The only word of ours that a function could replace is `builtin`, so such a function is removed; a
//!   command that redefines `unset` too has broken its own shell, not the protocol.
//! - Prompts and traces of our own two lines (`set -x`, `set -v`, traps on `DEBUG`) go to streams that are
//!   discarded.
//!
//! Interactive, because such a bash survives `SIGINT`, also in a loop that runs no program, and continues
//! with the next line: this is how a command is stopped at its time limit without losing the shell. A command
//! that ignores that and `SIGTERM` is killed; a shell that itself ignores interrupts and never ends loses the
//! session.
//!
//! A command can do anything to its own shell: end it, break it, forge another status. The host only reads
//! bounded output, opens nothing that the sandbox has created, and has a time limit for each wait.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;

use crate::launch::{
    BackgroundRun, LaunchError, LaunchOutcome, LaunchRequest, Launcher, RunEvent, SandboxBuilder, Stdin,
    StopReason,
};
use crate::limits::{LimitGauge, LimitsBy, ReachedLimit, RunUsage};
use crate::network::{Refusal, Refusals};
use crate::output::CapturedOutput;
use crate::plan::SandboxPlan;

mod directory;
mod lines;
mod processes;
mod turn;

pub use directory::PipeDirectory;

/// How the shell is started. Without a profile, an editor, a history or `!`; and a failing `exec` does not
/// end it.
const SHELL: [&str; 9] = [
    "bash",
    "--norc",
    "--noprofile",
    "--noediting",
    "+H",
    "+o",
    "history",
    "-O",
    "execfail",
];

/// The first line that it receives. Prompts would only wake a reader for nothing.
const NO_PROMPTS: &[u8] = b"PS1= PS2=";

/// How long a shell may take to start.
const STARTING: Duration = Duration::from_secs(60);

/// How long it may take to end by itself when there are no more commands.
const LEAVING: Duration = Duration::from_millis(500);

/// The limit for messages of the shell outside of commands, which are discarded.
const ASIDE_BYTES: usize = 16 << 10;

/// One command for the shell.
#[derive(Clone, Copy, Debug)]
pub struct ShellTurn<'a> {
    /// The text for bash. It can have several lines.
    pub text: &'a [u8],
    /// The input of the command; `None`: empty.
    pub stdin: Option<&'a [u8]>,
    /// After this time, the command is stopped; `None`: never.
    pub timeout: Option<Duration>,
    /// How many bytes of each stream are kept.
    pub output_bytes: usize,
    /// A socket of the caller that waits for the answer: when it is closed, the command is stopped.
    pub caller: Option<BorrowedFd<'a>>,
}

/// The outcome of a command.
#[derive(Debug)]
pub struct TurnAnswer {
    /// How the command ended.
    pub end: TurnEnd,
    /// Why it was stopped early.
    pub stopped: Option<StopReason>,
    /// Standard output, as far as it is kept.
    pub stdout: CapturedOutput,
    /// Standard error, as far as it is kept.
    pub stderr: CapturedOutput,
    /// How long it ran.
    pub duration: Duration,
    /// Of the command and of jobs that ran in parallel.
    pub usage: RunUsage,
    /// What enforced the limits.
    pub limits_by: LimitsBy,
    /// The limits that its processes reached.
    pub limits_hit: Vec<ReachedLimit>,
    /// Refused requests.
    pub refusals: Vec<Refusal>,
}

/// How a command of a shell ended.
#[derive(Debug)]
pub enum TurnEnd {
    /// The command ended with this status, and the shell continues.
    Status(i32),
    /// The shell itself has ended, and nothing of the sandbox is left.
    Over(Box<LaunchOutcome>),
}

/// A shell in its sandbox. Nothing of it is left when this is dropped.
#[derive(Debug)]
pub struct Shell {
    directory: PipeDirectory,
    /// The pipe from which it reads its lines.
    input: Option<OwnedFd>,
    sandbox: BackgroundRun,
    gauge: Arc<OnceLock<LimitGauge>>,
    refusals: Arc<Refusals>,
    /// Its number on the host.
    pid: Option<Pid>,
    turn: u8,
    last: u8,
}

impl Shell {
    /// Starts a shell in the sandbox of a plan, whose command and time limit are ignored.
    pub fn start(
        launcher: impl Into<SandboxBuilder>,
        plan: SandboxPlan,
        directory: PipeDirectory,
    ) -> Result<Shell, LaunchError> {
        let (system, launcher) = (LaunchError::system, launcher.into());
        let (read, input) = pipe_with(PipeFlags::CLOEXEC)
            .map_err(io::Error::from)
            .map_err(system("making pipes"))?;
        let inode = rustix::fs::fstat(&read)
            .map(|stat| stat.st_ino)
            .map_err(io::Error::from);
        let inode = inode.map_err(system("making pipes"))?;
        rustix::fs::fcntl_setfl(&input, OFlags::NONBLOCK)
            .map_err(io::Error::from)
            .map_err(system("making pipes"))?;
        let (gauge, refusals) = (launcher.ties().gauge(), launcher.ties().refusals());
        let (plan, input_of_shell) = (plan_of(plan, &directory), File::from(read));
        let sandbox = BackgroundRun::start("session", move |cancel| {
            let mut unheard = |_: RunEvent<'_>| ();
            launcher.launch(LaunchRequest::new(
                &plan,
                Stdin::File(input_of_shell),
                cancel,
                &mut unheard,
            ))
        })?;
        let input = Some(input);
        let mut shell = Shell {
            directory,
            input,
            sandbox,
            gauge,
            refusals,
            pid: None,
            turn: 0,
            last: 0,
        };
        let first = ShellTurn {
            text: NO_PROMPTS,
            stdin: None,
            timeout: Some(STARTING),
            output_bytes: 4 << 10,
            caller: None,
        };
        match shell.run(first, &mut |_| ())?.end {
            TurnEnd::Status(_) => {
                shell.pid = processes::reader_of(inode);
                Ok(shell)
            }
            TurnEnd::Over(outcome) => {
                let said = String::from_utf8_lossy(&outcome.stderr.bytes()).trim().to_owned();
                Err(system("starting bash")(io::Error::other(said)))
            }
        }
    }

    /// Runs one command in the shell. Fails only if the sandbox could not be built or supervised.
    pub fn run(
        &mut self,
        turn: ShellTurn<'_>,
        events: &mut dyn FnMut(RunEvent<'_>),
    ) -> Result<TurnAnswer, LaunchError> {
        turn::take(self, turn, events)
    }

    /// Runs a command of ours between two commands: `$?` is unchanged.
    pub fn aside(
        &mut self,
        turn: ShellTurn<'_>,
        events: &mut dyn FnMut(RunEvent<'_>),
    ) -> Result<TurnAnswer, LaunchError> {
        let last = self.last;
        let answer = self.run(turn, events);
        self.last = last;
        answer
    }

    /// Readable once the shell has ended.
    pub fn over(&self) -> &Arc<OwnedFd> {
        self.sandbox.over()
    }

    /// The working directory of the shell, as seen inside the sandbox.
    pub fn cwd(&self) -> Option<PathBuf> {
        let pid = self.pid?.as_raw_pid();
        std::fs::read_link(format!("/proc/{pid}/cwd")).ok()
    }

    /// Ends the shell and everything that it has started.
    pub fn end(mut self) -> Result<LaunchOutcome, LaunchError> {
        // It reads no more commands, and exits as if its terminal was closed.
        self.input = None;
        self.sandbox.wait(Some(LEAVING));
        self.sandbox.finish()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.sandbox.end();
    }
}

fn plan_of(plan: SandboxPlan, directory: &PipeDirectory) -> SandboxPlan {
    let mut limits = plan.limits.clone();
    (limits.timeout, limits.output_bytes, limits.grace) = (None, ASIDE_BYTES, LEAVING);
    let command = SHELL.iter().chain(&["-i"]).map(OsString::from).collect();
    SandboxPlan {
        command,
        limits,
        session: Some(directory.place().to_owned()),
        ..plan
    }
}

/// Whether a descriptor can be read, or its other side is gone.
fn is_ready(fd: impl AsFd, flags: PollFlags) -> bool {
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut fds = [PollFd::from_borrowed_fd(fd.as_fd(), flags)];
    poll(&mut fds, Some(&at_once)).is_ok_and(|ready| ready > 0)
}
