//! The stage itself: executes the start order, then waits for the command, its orphans and further orders.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{DumpableBehavior, Pid, Signal, WaitStatus};

use super::confine::{self, Confinement};
use super::frame::{StageChannel, StageOrder, StageReport};
use super::identity::StageIdentity;
use super::sparing::OomScore;
use super::spec::{StageRole, StageSpec, StageWork};
use super::terminal::{self, InnerTerminal};
use super::{LOST, OwnedDescriptors, children, outpost, signals, sockets, spawner};

/// The three standard streams of the command.
enum CommandStreams {
    Pipes {
        stdin: OwnedFd,
        stdout: OwnedFd,
        stderr: OwnedFd,
    },
    Terminal(InnerTerminal),
}

impl CommandStreams {
    /// The descriptors that become the command's own.
    fn copies(&self) -> io::Result<[Stdio; 3]> {
        let copy = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().map(Stdio::from);
        match self {
            CommandStreams::Pipes {
                stdin,
                stdout,
                stderr,
            } => Ok([copy(stdin.as_fd())?, copy(stdout.as_fd())?, copy(stderr.as_fd())?]),
            CommandStreams::Terminal(terminal) => {
                let line = terminal.line();
                Ok([copy(line)?, copy(line)?, copy(line)?])
            }
        }
    }

    /// Writes the reason to the command's standard error if the command cannot be started, as a shell does.
    fn complain(&self, words: &[OsString], error: &io::Error) {
        let program = words.first().map(|word| avfs_core::printable(word.as_bytes()));
        let reason = match error.kind() {
            io::ErrorKind::NotFound => "not found in the sandbox".to_owned(),
            _ => error.to_string(),
        };
        let line = format!("avfs: {}: {reason}\n", program.unwrap_or_default());
        let aside = match self {
            CommandStreams::Pipes { stderr, .. } => stderr.as_fd(),
            CommandStreams::Terminal(terminal) => terminal.line(),
        };
        // If the stream has no reader, the status reports the failure.
        let _ = rustix::io::write(aside, line.as_bytes());
    }

    fn terminal(&self) -> Option<&InnerTerminal> {
        match self {
            CommandStreams::Pipes { .. } => None,
            CommandStreams::Terminal(terminal) => Some(terminal),
        }
    }
}

/// Carries out the orders from the control socket. Returns the exit status of the stage.
pub(super) fn stage(handed: OwnedDescriptors, identity: Option<StageIdentity>, is_apart: bool) -> i32 {
    let OwnedDescriptors {
        control,
        stdin,
        stdout,
        stderr,
        network,
        terminal,
        entrances,
    } = handed;
    let mut channel = StageChannel::new(control);
    let score = OomScore::open();
    let pipes = CommandStreams::Pipes {
        stdin,
        stdout,
        stderr,
    };
    let prepared = enter(entrances)
        .and_then(|()| take_place(identity, is_apart))
        .and_then(|()| prepare(&mut channel, network.as_ref()));
    let done = prepared.and_then(|(spec, ended)| {
        let streams = terminal.map_or(Ok(pipes), |over| {
            InnerTerminal::open(over).map(CommandStreams::Terminal)
        })?;
        run(&mut channel, &spec, streams, &ended, network.as_ref(), &score)
    });
    match done {
        Ok(()) => 0,
        Err(error) => {
            let reason = error.to_string();
            channel
                .report(&StageReport::NotConfined { reason })
                .map_or(LOST, |()| 1)
        }
    }
}

/// Becomes the user of the command, in the root directory of the command, where the builder of the sandbox could not do
/// either.
fn take_place(identity: Option<StageIdentity>, is_apart: bool) -> io::Result<()> {
    match identity {
        Some(identity) if is_apart => identity.assume(true, outpost::enter_tree),
        Some(identity) => identity.assume(false, || Ok(())),
        None if is_apart => Err(io::Error::other("a stage in a container without a user")),
        None => Ok(()),
    }
}

/// Enters the groups that limit the run. A single-threaded process that moves itself is moved immediately; if
/// another process moved it, that would wait until all processors have noticed.
fn enter(entrances: Vec<OwnedFd>) -> io::Result<()> {
    let refused = |errno: rustix::io::Errno| io::Error::other(format!("a control group refused it: {errno}"));
    entrances
        .iter()
        .try_for_each(|entrance| rustix::io::write(entrance, b"0").map(drop).map_err(refused))
}

/// Protects the stage from the processes that it will start, and waits for the first order.
fn prepare(channel: &mut StageChannel, network: Option<&OwnedFd>) -> io::Result<(StageSpec, OwnedFd)> {
    // Its memory and descriptors must not be accessible: the command has the same user.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let ended = signals::children()?;
    let spec = first_order(channel)?;
    if let Some(network) = network {
        sockets::send_listeners(&spec.listens, network)?;
    }
    match spec.standing {
        StageRole::Init => {}
        StageRole::Keeper => children::adopt_orphans()?,
    }
    Ok((spec, ended))
}

fn first_order(channel: &mut StageChannel) -> io::Result<StageSpec> {
    loop {
        match channel.next_order()? {
            Some(StageOrder::Start(spec)) => return Ok(spec),
            Some(StageOrder::Terminate | StageOrder::Kill) => {
                return Err(io::Error::other("the run was ended before it began"));
            }
            Some(StageOrder::Spawn(_) | StageOrder::Signal(_) | StageOrder::Pause | StageOrder::Continue) => {
                return Err(io::Error::other("an order too early"));
            }
            None => {}
        }
        if !channel.receive()? {
            return Err(io::Error::other("the launcher has gone"));
        }
    }
}

fn run(
    channel: &mut StageChannel,
    spec: &StageSpec,
    streams: CommandStreams,
    ended: &OwnedFd,
    network: Option<&OwnedFd>,
    score: &OomScore,
) -> io::Result<()> {
    if !spec.cwd.is_dir() {
        return channel.report(&StageReport::NoDirectory);
    }
    let confinement = Confinement::new(spec)?;
    let words = match &spec.work {
        StageWork::Command(words) => words,
        StageWork::Orders => return spawner::serve(channel, spec, confinement, ended, network, score),
    };
    let report = match score.start_first(|| start(spec, words, &streams, confinement)) {
        Ok(command) => {
            let terminal = streams.terminal();
            let end = CommandWait {
                standing: spec.standing,
                command,
                ended,
                terminal,
                network,
            }
            .follow(channel);
            // On any failure, even if there is no launcher to report to.
            if spec.standing == StageRole::Keeper {
                children::end_all();
            }
            end?
        }
        Err(error) => {
            streams.complain(words, &error);
            not_started(&error)
        }
    };
    channel.report(&report)
}

/// A failure between fork and exec carries an error number of the kernel, or none if the failure was ours.
fn not_started(error: &io::Error) -> StageReport {
    match error.raw_os_error() {
        Some(confine::REFUSED) => {
            let reason = "Landlock or the filter of system calls could not be applied".to_owned();
            StageReport::NotConfined { reason }
        }
        Some(errno) => StageReport::NotStarted { errno },
        None => StageReport::NotConfined {
            reason: error.to_string(),
        },
    }
}

#[allow(unsafe_code, reason = "what a child does before it becomes the command")]
fn start(
    spec: &StageSpec,
    words: &[OsString],
    streams: &CommandStreams,
    confinement: Confinement,
) -> io::Result<Pid> {
    let (program, arguments) = words
        .split_first()
        .ok_or_else(|| io::Error::other("no command"))?;
    let mut command = Command::new(program);
    command.args(arguments);
    command
        .env_clear()
        .envs(spec.env.iter().cloned())
        .current_dir(&spec.cwd);
    let [stdin, stdout, stderr] = streams.copies()?;
    command.stdin(stdin).stdout(stdout).stderr(stderr);
    let mut confinement = Some(confinement);
    let is_job = streams.terminal().is_some();
    let before_exec = move || {
        if is_job {
            terminal::become_foreground(rustix::stdio::stdin())?;
        } else {
            rustix::process::setsid()?;
        }
        signals::as_usual()?;
        confinement.take().map_or(Ok(()), Confinement::apply)
    };
    // SAFETY: this process has one thread, so the child may do whatever the parent might.
    let child = unsafe { command.pre_exec(before_exec) }.spawn()?;
    Pid::from_raw(child.id().cast_signed()).ok_or_else(|| io::Error::other("a child without a number"))
}

/// Waits for the end of a command.
struct CommandWait<'a> {
    standing: StageRole,
    command: Pid,
    ended: &'a OwnedFd,
    terminal: Option<&'a InnerTerminal>,
    /// Over which sockets are requested; `None` once the requester is gone.
    network: Option<&'a OwnedFd>,
}

/// The sources that have something to read.
struct CommandSources {
    launcher: bool,
    terminal: bool,
    network: bool,
}

impl CommandWait<'_> {
    fn follow(mut self, channel: &mut StageChannel) -> io::Result<StageReport> {
        channel.report(&StageReport::Started)?;
        loop {
            if let Some(report) = self.reap()? {
                return Ok(report);
            }
            let heard = self.poll(channel)?;
            if let Some(network) = self.network.filter(|_| heard.network) {
                // Without a network outside, the command continues.
                let is_there = sockets::answer(network).unwrap_or(false);
                self.network = self.network.filter(|_| is_there);
            }
            let obeyed = match self.terminal.filter(|_| heard.terminal) {
                Some(terminal) => terminal.obey(self.command)?,
                None => true,
            };
            if !obeyed || heard.launcher && !self.obey(channel)? {
                // The launcher is gone. The end of the stage ends all other processes.
                children::kill_everything(self.standing, Signal::KILL);
            }
        }
    }

    /// Waits for any event.
    fn poll(&self, channel: &StageChannel) -> io::Result<CommandSources> {
        let mut fds = vec![
            PollFd::from_borrowed_fd(channel.as_fd(), PollFlags::IN),
            PollFd::new(self.ended, PollFlags::IN),
        ];
        fds.extend(self.network.map(|network| PollFd::new(network, PollFlags::IN)));
        fds.extend(
            self.terminal
                .map(|terminal| PollFd::from_borrowed_fd(terminal.over(), PollFlags::IN)),
        );
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {
                let said = |index: usize| fds.get(index).is_some_and(|fd| !fd.revents().is_empty());
                let network = self.network.is_some();
                let terminal = if network { 3 } else { 2 };
                Ok(CommandSources {
                    launcher: said(0),
                    network: network && said(2),
                    terminal: said(terminal),
                })
            }
            Err(errno) => Err(errno.into()),
        }
    }

    /// Returns whether the launcher is still there.
    fn obey(&self, channel: &mut StageChannel) -> io::Result<bool> {
        let there = channel.receive()?;
        while let Some(order) = channel.next_order()? {
            match order {
                StageOrder::Terminate => self.terminate(),
                StageOrder::Kill => children::kill_everything(self.standing, Signal::KILL),
                StageOrder::Start(_)
                | StageOrder::Spawn(_)
                | StageOrder::Signal(_)
                | StageOrder::Pause
                | StageOrder::Continue => {
                    return Err(io::Error::other("a second command"));
                }
            }
        }
        Ok(there)
    }

    /// Stopped processes are continued, so that they receive the signal.
    fn terminate(&self) {
        children::kill_everything(self.standing, Signal::TERM);
        if self.terminal.is_some() {
            // A stopped shell would keep the signal for later.
            children::kill_everything(self.standing, Signal::CONT);
        }
    }

    /// Reaps all children that have ended, ours and adopted ones.
    fn reap(&self) -> io::Result<Option<StageReport>> {
        let mut signals = [0_u8; 1024];
        while rustix::io::read(self.ended, &mut signals).is_ok() {}
        let mut report = None;
        while let Some((pid, status)) = children::reap_one()? {
            if pid == self.command {
                report = report_of(status);
                if let Some(terminal) = self.terminal.filter(|_| status.stopped()) {
                    // If the reader is gone, the next poll shows it.
                    terminal.tell_stopped().ok();
                }
            }
        }
        Ok(report)
    }
}

fn report_of(status: WaitStatus) -> Option<StageReport> {
    let exited = status.exit_status().map(|code| StageReport::Exited { code });
    exited.or_else(|| {
        status
            .terminating_signal()
            .map(|signal| StageReport::Signaled { signal })
    })
}
