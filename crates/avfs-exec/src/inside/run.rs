//! The stage itself: one order to start, then waiting for the command, its orphans and further orders.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{DumpableBehavior, Pid, Signal, WaitStatus};

use super::confine::{self, Confinement};
use super::frame::{Channel, Order, Report};
use super::sparing::Score;
use super::spec::{Spec, Standing};
use super::terminal::{self, Terminal};
use super::{Handed, LOST, children, signals, sockets};

/// What the command is given as its three streams.
enum Streams {
    Pipes { stdin: OwnedFd, stdout: OwnedFd, stderr: OwnedFd },
    Terminal(Terminal),
}

impl Streams {
    /// What becomes the command's own.
    fn copies(&self) -> io::Result<[Stdio; 3]> {
        let copy = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().map(Stdio::from);
        match self {
            Streams::Pipes { stdin, stdout, stderr } => {
                Ok([copy(stdin.as_fd())?, copy(stdout.as_fd())?, copy(stderr.as_fd())?])
            }
            Streams::Terminal(terminal) => {
                let line = terminal.line();
                Ok([copy(line)?, copy(line)?, copy(line)?])
            }
        }
    }

    /// Says where the command would have spoken why there is none, as a shell does.
    fn complain(&self, spec: &Spec, error: &io::Error) {
        let program = spec.command.first().map(|word| avfs_core::printable(word.as_bytes()));
        let reason = match error.kind() {
            io::ErrorKind::NotFound => "not found in the sandbox".to_owned(),
            _ => error.to_string(),
        };
        let line = format!("avfs: {}: {reason}\n", program.unwrap_or_default());
        let aside = match self {
            Streams::Pipes { stderr, .. } => stderr.as_fd(),
            Streams::Terminal(terminal) => terminal.line(),
        };
        // Whoever does not listen is told by the status.
        let _ = rustix::io::write(aside, line.as_bytes());
    }

    fn terminal(&self) -> Option<&Terminal> {
        match self {
            Streams::Pipes { .. } => None,
            Streams::Terminal(terminal) => Some(terminal),
        }
    }
}

/// Carries out what comes over the control socket. The answer is the exit status of the stage.
pub(super) fn stage(handed: Handed) -> i32 {
    let Handed { control, stdin, stdout, stderr, network, terminal, entrances } = handed;
    let mut channel = Channel::new(control);
    let score = Score::open();
    let pipes = Streams::Pipes { stdin, stdout, stderr };
    let prepared = enter(entrances).and_then(|()| prepare(&mut channel, network.as_ref()));
    let done = prepared.and_then(|(spec, ended)| {
        let streams = terminal.map_or(Ok(pipes), |over| Terminal::open(over).map(Streams::Terminal))?;
        run(&mut channel, &spec, streams, &ended, network.as_ref(), &score)
    });
    match done {
        Ok(()) => 0,
        Err(error) => {
            let reason = error.to_string();
            channel.report(&Report::NotConfined { reason }).map_or(LOST, |()| 1)
        }
    }
}

/// Enters the groups that limit the run. A process that moves its only thread is moved at once; moved by another one, it
/// would wait for all processors to have noticed.
fn enter(entrances: Vec<OwnedFd>) -> io::Result<()> {
    let refused = |errno: rustix::io::Errno| io::Error::other(format!("a control group refused it: {errno}"));
    entrances.iter().try_for_each(|entrance| rustix::io::write(entrance, b"0").map(drop).map_err(refused))
}

/// Makes the stage out of reach for what it will start, and waits for the first order.
fn prepare(channel: &mut Channel, network: Option<&OwnedFd>) -> io::Result<(Spec, OwnedFd)> {
    // Its memory and descriptors are nobody's business: the command has the same user.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let ended = signals::children()?;
    let spec = first_order(channel)?;
    if let Some(network) = network {
        sockets::send_listeners(&spec.listens, network)?;
    }
    match spec.standing {
        Standing::Init => {}
        Standing::Keeper => children::adopt_orphans()?,
    }
    Ok((spec, ended))
}

fn first_order(channel: &mut Channel) -> io::Result<Spec> {
    loop {
        match channel.next_order()? {
            Some(Order::Start(spec)) => return Ok(spec),
            Some(Order::Terminate | Order::Kill) => {
                return Err(io::Error::other("the run was ended before it began"));
            }
            None => {}
        }
        if !channel.receive()? {
            return Err(io::Error::other("the launcher has gone"));
        }
    }
}

fn run(
    channel: &mut Channel,
    spec: &Spec,
    streams: Streams,
    ended: &OwnedFd,
    network: Option<&OwnedFd>,
    score: &Score,
) -> io::Result<()> {
    if !spec.cwd.is_dir() {
        return channel.report(&Report::NoDirectory);
    }
    let confinement = Confinement::new(spec)?;
    let report = match score.start_first(|| start(spec, &streams, confinement)) {
        Ok(command) => {
            let terminal = streams.terminal();
            let end = Waiting { standing: spec.standing, command, ended, terminal, network }.follow(channel);
            // Whatever went wrong, also when nobody is left to report to.
            if spec.standing == Standing::Keeper {
                children::end_all();
            }
            end?
        }
        Err(error) => {
            streams.complain(spec, &error);
            not_started(&error)
        }
    };
    channel.report(&report)
}

/// A failure between fork and exec carries an error number of the kernel, or none if we failed ourselves.
fn not_started(error: &io::Error) -> Report {
    match error.raw_os_error() {
        Some(confine::REFUSED) => {
            let reason = "Landlock or the filter of system calls could not be applied".to_owned();
            Report::NotConfined { reason }
        }
        Some(errno) => Report::NotStarted { errno },
        None => Report::NotConfined { reason: error.to_string() },
    }
}

#[allow(unsafe_code, reason = "what a child does before it becomes the command")]
fn start(spec: &Spec, streams: &Streams, confinement: Confinement) -> io::Result<Pid> {
    let program = spec.command.first().ok_or_else(|| io::Error::other("no command"))?;
    let mut command = Command::new(program);
    command.args(&spec.command[1..]);
    command.env_clear().envs(spec.env.iter().cloned()).current_dir(&spec.cwd);
    let [stdin, stdout, stderr] = streams.copies()?;
    command.stdin(stdin).stdout(stdout).stderr(stderr);
    let mut confinement = Some(confinement);
    let is_job = streams.terminal().is_some();
    let before_exec = move || {
        match is_job {
            true => terminal::become_foreground(rustix::stdio::stdin())?,
            false => drop(rustix::process::setsid()?),
        }
        signals::as_usual()?;
        confinement.take().map_or(Ok(()), Confinement::apply)
    };
    // SAFETY: this process has one thread, so the child may do whatever the parent might.
    let child = unsafe { command.pre_exec(before_exec) }.spawn()?;
    Pid::from_raw(child.id().cast_signed()).ok_or_else(|| io::Error::other("a child without a number"))
}

/// A command on its way to its end.
struct Waiting<'a> {
    standing: Standing,
    command: Pid,
    ended: &'a OwnedFd,
    terminal: Option<&'a Terminal>,
    /// Who asks for sockets; nothing once they have gone.
    network: Option<&'a OwnedFd>,
}

/// Who has something to say.
struct Heard {
    launcher: bool,
    terminal: bool,
    network: bool,
}

impl Waiting<'_> {
    fn follow(mut self, channel: &mut Channel) -> io::Result<Report> {
        channel.report(&Report::Started)?;
        loop {
            if let Some(report) = self.reap()? {
                return Ok(report);
            }
            let heard = self.poll(channel)?;
            if let Some(network) = self.network.filter(|_| heard.network) {
                // Without a network outside, the command goes on.
                let is_there = sockets::answer(network).unwrap_or(false);
                self.network = self.network.filter(|_| is_there);
            }
            let obeyed = match self.terminal.filter(|_| heard.terminal) {
                Some(terminal) => terminal.obey(self.command)?,
                None => true,
            };
            if !obeyed || heard.launcher && !self.obey(channel)? {
                // Nobody is left to report to, or to look. The end of the stage is the end of the rest.
                children::kill_everything(self.standing, Signal::KILL);
            }
        }
    }

    /// Waits for anything to happen.
    fn poll(&self, channel: &Channel) -> io::Result<Heard> {
        let mut fds = vec![
            PollFd::from_borrowed_fd(channel.as_fd(), PollFlags::IN),
            PollFd::new(self.ended, PollFlags::IN),
        ];
        fds.extend(self.network.map(|network| PollFd::new(network, PollFlags::IN)));
        fds.extend(self.terminal.map(|terminal| PollFd::from_borrowed_fd(terminal.over(), PollFlags::IN)));
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {
                let said = |index: usize| fds.get(index).is_some_and(|fd| !fd.revents().is_empty());
                let network = self.network.is_some();
                let terminal = if network { 3 } else { 2 };
                Ok(Heard { launcher: said(0), network: network && said(2), terminal: said(terminal) })
            }
            Err(errno) => Err(errno.into()),
        }
    }

    /// Answers whether the launcher is still there.
    fn obey(&self, channel: &mut Channel) -> io::Result<bool> {
        let there = channel.receive()?;
        while let Some(order) = channel.next_order()? {
            match order {
                Order::Terminate => self.terminate(),
                Order::Kill => children::kill_everything(self.standing, Signal::KILL),
                Order::Start(_) => return Err(io::Error::other("a second command")),
            }
        }
        Ok(there)
    }

    /// What has stopped goes on, to hear that it is to end.
    fn terminate(&self) {
        children::kill_everything(self.standing, Signal::TERM);
        if self.terminal.is_some() {
            children::kill_everything(self.standing, Signal::CONT);
        }
    }

    /// Takes all children that have ended, ours and adopted ones.
    fn reap(&self) -> io::Result<Option<Report>> {
        let mut signals = [0_u8; 1024];
        while rustix::io::read(self.ended, &mut signals).is_ok() {}
        let mut report = None;
        while let Some((pid, status)) = children::reap_one()? {
            if pid == self.command {
                report = report_of(status);
                if let Some(terminal) = self.terminal.filter(|_| status.stopped()) {
                    // If nobody listens any more, that is seen next.
                    terminal.tell_stopped().ok();
                }
            }
        }
        Ok(report)
    }
}

fn report_of(status: WaitStatus) -> Option<Report> {
    let exited = status.exit_status().map(|code| Report::Exited { code });
    exited.or_else(|| status.terminating_signal().map(|signal| Report::Signaled { signal }))
}
