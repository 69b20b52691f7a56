//! A shell that stays: one bash in a sandbox, which is told one command after another.
//!
//! What a command prints is never looked at to learn how it ended. The shell is an ordinary, interactive bash without
//! a terminal; what makes it a session is outside of the sandbox, in a [`Directory`] that the sandbox sees and cannot
//! change. For each command the shell reads two lines from its standard input, which no command has:
//!
//! ```text
//! \unset -f builtin; ( \builtin \exit 3 ) || \builtin \. DIR/c5 </dev/null >DIR/out 2>DIR/err
//! <>"DIR/$?" <>"DIR/g5"
//! ```
//!
//! - The command is a file of its own (`c5`). An unbalanced quote ends with the file, and nothing in a command can reach
//!   the lines behind it. Sourced, it is part of the shell: directories, variables, functions, aliases and jobs stay.
//! - Its three streams are opened by name, for this command alone. So `exec >&-` and `exec 2>&1` end with the command,
//!   no descriptor of ours is there to be closed or inherited, and a background job that keeps a stream open keeps
//!   nobody waiting: the end of a command is not the end of its output.
//! - The second line tells the status: it opens a pipe whose name is the number, and then the one of this turn, and the
//!   host is told by the kernel (inotify). It has no word that could be an alias or a function, only redirections. It is
//!   a line of its own because what breaks off a command (an interrupt, an unset variable under `set -u`) breaks off
//!   the rest of its line too. A status for another turn is ignored.
//! - The status before is what `$?` shows: a subshell ends with it, in front of `||`, where neither `set -e` nor a trap
//!   on `ERR` cares.
//! - The only word of ours that a function could take the place of is `builtin`, so such a function is removed; who
//!   redefines `unset` too has broken his own shell, not the protocol.
//! - Prompts, traces of our own two lines (`set -x`, `set -v`, traps on `DEBUG`) go to streams that nobody reads.
//!
//! Interactive, because such a bash survives `SIGINT`, also in a loop that runs no program, and goes on with the next
//! line: this is how a command is stopped at its time limit without losing the shell. What ignores that and `SIGTERM`
//! is killed; a shell that itself ignores interrupts and never ends loses the session.
//!
//! A command can do to its own shell whatever it likes: end it, break it, pretend another status. The host only ever
//! reads bounded output, opens nothing that the sandbox has made, and waits no longer than it was told to.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::OFlags;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;

use crate::launch::{Bubblewrap, Cancel, Event, LaunchError, Launcher, Outcome, Run, Stdin, Stop};
use crate::limits::{Gauge, Limit, LimitsBy, Usage};
use crate::network::{Refusal, Refusals};
use crate::output::Captured;
use crate::plan::Plan;

mod directory;
mod lines;
mod processes;
mod turn;

pub use directory::Directory;

/// How the shell is started. Not from a profile, without an editor, a history or `!`, and `exec` of something that is
/// not there does not end it.
const SHELL: [&str; 9] =
    ["bash", "--norc", "--noprofile", "--noediting", "+H", "+o", "history", "-O", "execfail"];

/// The first thing that it is told. Prompts would only wake whoever reads what nobody needs.
const NO_PROMPTS: &[u8] = b"PS1= PS2=";

/// How long a shell may take to be there.
const STARTING: Duration = Duration::from_secs(60);

/// How long it may take to end by itself when there are no more commands.
const LEAVING: Duration = Duration::from_millis(500);

/// What the shell says outside of commands is kept for nobody.
const ASIDE_BYTES: usize = 16 << 10;

/// One command for the shell.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'a> {
    /// What bash is to read. It can have several lines.
    pub text: &'a [u8],
    /// What the command reads; `None`: nothing.
    pub stdin: Option<&'a [u8]>,
    pub timeout: Option<Duration>,
    /// How many bytes of each stream are kept.
    pub output_bytes: usize,
    /// A socket of whoever waits for the answer: when it is closed, the command is stopped.
    pub caller: Option<BorrowedFd<'a>>,
}

/// What became of a command.
#[derive(Debug)]
pub struct Answer {
    pub end: TurnEnd,
    /// Why it was stopped before its time.
    pub stopped: Option<Stop>,
    pub stdout: Captured,
    pub stderr: Captured,
    pub duration: Duration,
    /// By the command and by jobs that ran beside it.
    pub usage: Usage,
    pub limits_by: LimitsBy,
    pub limits_hit: Vec<Limit>,
    /// What was not reached.
    pub refusals: Vec<Refusal>,
}

#[derive(Debug)]
pub enum TurnEnd {
    /// The command ended with this, and the shell goes on.
    Status(i32),
    /// The shell itself has ended, and nothing of the sandbox is left.
    Over(Box<Outcome>),
}

/// A shell in its sandbox. Nothing of it is left when this is dropped.
#[derive(Debug)]
pub struct Shell {
    directory: Directory,
    /// Where it reads its lines.
    input: Option<OwnedFd>,
    sandbox: Sandbox,
    gauge: Arc<OnceLock<Gauge>>,
    refusals: Arc<Refusals>,
    /// Its number, as the host counts.
    pid: Option<Pid>,
    turn: u8,
    last: u8,
}

/// The thread that carries out the plan of the shell.
#[derive(Debug)]
struct Sandbox {
    thread: Option<JoinHandle<Result<Outcome, LaunchError>>>,
    cancel: Cancel,
    /// Readable once it is over.
    over: Arc<OwnedFd>,
}

impl Shell {
    /// Starts a shell in the sandbox of a plan, whose command and time limit do not count.
    pub fn start(launcher: Bubblewrap, plan: Plan, directory: Directory) -> Result<Shell, LaunchError> {
        let system = LaunchError::system;
        let (read, input) =
            pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from).map_err(system("making pipes"))?;
        let inode = rustix::fs::fstat(&read).map(|stat| stat.st_ino).map_err(io::Error::from);
        let inode = inode.map_err(system("making pipes"))?;
        rustix::fs::fcntl_setfl(&input, OFlags::NONBLOCK)
            .map_err(io::Error::from)
            .map_err(system("making pipes"))?;
        let (gauge, refusals) = (launcher.gauge(), launcher.refusals());
        let sandbox = Sandbox::start(launcher, plan_of(plan, &directory), read.into())?;
        let input = Some(input);
        let mut shell = Shell { directory, input, sandbox, gauge, refusals, pid: None, turn: 0, last: 0 };
        let first = Turn {
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

    /// Has the shell do one thing. Fails only if the sandbox could not be built or watched.
    pub fn run(&mut self, turn: Turn<'_>, events: &mut dyn FnMut(Event<'_>)) -> Result<Answer, LaunchError> {
        turn::take(self, turn, events)
    }

    /// Has the shell do something of ours between two commands: `$?` stays as it is.
    pub fn aside(
        &mut self,
        turn: Turn<'_>,
        events: &mut dyn FnMut(Event<'_>),
    ) -> Result<Answer, LaunchError> {
        let last = self.last;
        let answer = self.run(turn, events);
        self.last = last;
        answer
    }

    /// Readable once the shell has ended.
    pub fn over(&self) -> &Arc<OwnedFd> {
        &self.sandbox.over
    }

    /// The working directory of the shell, as it is inside.
    pub fn cwd(&self) -> Option<PathBuf> {
        let pid = self.pid?.as_raw_pid();
        std::fs::read_link(format!("/proc/{pid}/cwd")).ok()
    }

    /// Ends the shell and everything that it has started.
    pub fn end(mut self) -> Result<Outcome, LaunchError> {
        // It reads no more commands, and leaves as from a terminal that was closed.
        self.input = None;
        self.sandbox.wait(LEAVING);
        self.sandbox.finish()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.sandbox.end();
    }
}

impl Sandbox {
    fn start(launcher: Bubblewrap, plan: Plan, input: File) -> Result<Sandbox, LaunchError> {
        let system = LaunchError::system;
        let event = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(io::Error::from);
        let over = Arc::new(event().map_err(system("making an event"))?);
        let cancel = Cancel::new().map_err(system("making an event"))?;
        let (cancelling, ending) = (cancel.clone(), Arc::clone(&over));
        // The sandbox ends with the thread that made it, so this one does nothing else.
        let carry_out = move || {
            let mut unheard = |_: Event<'_>| ();
            let outcome = launcher.launch(Run::new(&plan, Stdin::File(input), &cancelling, &mut unheard));
            // It fails only when it was called 2^64 times.
            rustix::io::write(&*ending, &1_u64.to_ne_bytes()).ok();
            outcome
        };
        let thread = std::thread::Builder::new().name("session".into()).spawn(carry_out);
        Ok(Sandbox { thread: Some(thread.map_err(system("starting a thread"))?), cancel, over })
    }

    /// Waits for the end, and answers whether it came.
    fn wait(&self, patience: Duration) -> bool {
        let timeout = Timespec::try_from(patience).ok();
        let mut fds = [PollFd::new(&*self.over, PollFlags::IN)];
        poll(&mut fds, timeout.as_ref()).is_ok_and(|ready| ready > 0)
    }

    /// What became of it all. Ends it, if it has not ended.
    fn finish(&mut self) -> Result<Outcome, LaunchError> {
        let gone = || LaunchError::system("watching the shell")(io::Error::other("its thread is gone"));
        if !self.wait(Duration::ZERO) {
            self.cancel.cancel();
        }
        let thread = self.thread.take().ok_or_else(gone)?;
        thread.join().map_err(|_| gone())?
    }

    fn end(&mut self) {
        if self.thread.is_some() {
            // Nobody is left to be told.
            self.finish().ok();
        }
    }
}

fn plan_of(plan: Plan, directory: &Directory) -> Plan {
    let mut limits = plan.limits.clone();
    (limits.timeout, limits.output_bytes, limits.grace) = (None, ASIDE_BYTES, LEAVING);
    let command = SHELL.iter().chain(&["-i"]).map(OsString::from).collect();
    Plan { command, limits, session: Some(directory.place().to_owned()), ..plan }
}

/// Whether a descriptor can be read, or its other side is gone.
fn is_ready(fd: impl AsFd, flags: PollFlags) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut fds = [PollFd::from_borrowed_fd(fd.as_fd(), flags)];
    poll(&mut fds, Some(&at_once)).is_ok_and(|ready| ready > 0)
}
