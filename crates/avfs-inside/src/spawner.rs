//! The work of the stage in a sandbox that stays open: it starts processes side by side, signals them, and reports each
//! start and each end.
//!
//! The stage never waits for a process that it starts: between fork and exec, a child may have to wait for a
//! slow file system, and other processes must not wait with it. Each child has a pipe that exec closes. If
//! the child cannot become its program, it writes the reason to that pipe.
//!
//! Landlock is applied to the stage itself, so that all processes share one domain. The kernel protects the first
//! process of a namespace from signals that it does not handle, and the stage is not dumpable.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitStatus};

use super::confine::{self, Confinement};
use super::frame::{StageChannel, StageOrder, StageReport};
use super::sparing::OomScore;
use super::spawn::{ProcessReport, SignalOrder, SignalTarget, SpawnOrder, SpawnStep};
use super::spec::StageSpec;
use super::{children, signals, sockets, terminal};

/// Ended processes whose groups can still be signalled.
const MOST_ENDED: usize = 4096;

/// Serves until the launcher ends it and no process is left.
pub(super) fn serve(
    channel: &mut StageChannel,
    spec: &StageSpec,
    mut confinement: Confinement,
    ended: &OwnedFd,
    network: Option<&OwnedFd>,
    score: &OomScore,
) -> io::Result<()> {
    confinement.share_files()?;
    let mut spawner = ProcessSpawner {
        spec,
        confinement,
        score,
        running: BTreeMap::new(),
        ended: BTreeMap::new(),
        is_leaving: false,
    };
    let mut network = network;
    channel.report(&StageReport::Started)?;
    loop {
        spawner.reap(channel, ended)?;
        if spawner.is_leaving && !children::are_left() {
            return channel.report(&StageReport::Exited { code: 0 });
        }
        let heard = spawner.wait(channel, ended, network)?;
        if let Some(asking) = network.filter(|_| heard.network) {
            // Without a network outside, the processes continue.
            network = network.filter(|_| sockets::answer(asking).unwrap_or(false));
        }
        for id in heard.started {
            spawner.settle_start(channel, id)?;
        }
        if heard.launcher && !spawner.obey(channel)? {
            // The launcher is gone. The end of the stage ends all other processes.
            return Err(io::Error::other("the launcher has gone"));
        }
    }
}

struct ProcessSpawner<'a> {
    spec: &'a StageSpec,
    confinement: Confinement,
    score: &'a OomScore,
    running: BTreeMap<u64, RunningChild>,
    /// The numbers that ended processes had. Their groups may live on.
    ended: BTreeMap<u64, Pid>,
    is_leaving: bool,
}

struct RunningChild {
    pid: Pid,
    starting: Option<StartingChild>,
    /// The inner side of its terminal. Kept open until it has ended, so that the outer side does not report
    /// an end when the process closes its terminal for a moment.
    _line: Option<OwnedFd>,
}

/// A child that has not become its program yet, as far as is known.
struct StartingChild {
    /// It writes a failure here; otherwise the pipe ends.
    failure: OwnedFd,
    /// The outer side of its terminal.
    outer: Option<OwnedFd>,
}

/// Why a process was not started.
struct NotSpawned {
    step: SpawnStep,
    errno: i32,
}

/// The sources that have something to read.
struct SpawnerSources {
    launcher: bool,
    network: bool,
    started: Vec<u64>,
}

impl ProcessSpawner<'_> {
    fn wait(
        &self,
        channel: &StageChannel,
        ended: &OwnedFd,
        network: Option<&OwnedFd>,
    ) -> io::Result<SpawnerSources> {
        let starting = || {
            let pipe = |(id, one): (&u64, &'_ RunningChild)| one.starting.as_ref().map(|_| *id);
            self.running.iter().filter_map(pipe)
        };
        let mut fds = vec![
            PollFd::from_borrowed_fd(channel.as_fd(), PollFlags::IN),
            PollFd::new(ended, PollFlags::IN),
        ];
        fds.extend(network.map(|network| PollFd::new(network, PollFlags::IN)));
        let before = fds.len();
        let pipes = self.running.values().filter_map(|one| one.starting.as_ref());
        fds.extend(pipes.map(|one| PollFd::new(&one.failure, PollFlags::IN)));
        // Without a time limit: every event of interest has a descriptor.
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let said = |index: usize| fds.get(index).is_some_and(|fd| !fd.revents().is_empty());
        let started = starting().enumerate().filter(|(index, _)| said(before + index));
        Ok(SpawnerSources {
            launcher: said(0),
            network: network.is_some() && said(2),
            started: started.map(|(_, id)| id).collect(),
        })
    }

    /// Returns whether the launcher is still there.
    fn obey(&mut self, channel: &mut StageChannel) -> io::Result<bool> {
        let is_there = channel.receive()?;
        while let Some(order) = channel.next_order()? {
            match order {
                StageOrder::Spawn(order) => {
                    let streams = channel.take_descriptors(order.descriptors())?;
                    self.spawn(channel, &order, streams)?;
                }
                StageOrder::Signal(order) => self.signal(order),
                StageOrder::Terminate => {
                    self.is_leaving = true;
                    children::kill_everything(self.spec.standing, Signal::TERM);
                    // Stopped processes are continued, so that they receive the signal.
                    children::kill_everything(self.spec.standing, Signal::CONT);
                }
                StageOrder::Kill => {
                    self.is_leaving = true;
                    children::kill_everything(self.spec.standing, Signal::KILL);
                }
                StageOrder::Pause => {
                    children::stop_everything(self.spec.standing);
                    channel.report(&StageReport::Paused)?;
                }
                StageOrder::Continue => children::kill_everything(self.spec.standing, Signal::CONT),
                StageOrder::Start(_) => return Err(io::Error::other("a second start")),
            }
        }
        Ok(is_there)
    }

    fn spawn(&mut self, channel: &StageChannel, order: &SpawnOrder, streams: Vec<OwnedFd>) -> io::Result<()> {
        let started = if self.is_leaving {
            Err(SpawnStep::Leaving.failed(&io::Error::from_raw_os_error(libc::ESHUTDOWN)))
        } else {
            self.start(order, streams)
        };
        match started {
            Ok(running) => {
                // A reused number no longer belongs to the earlier process.
                self.ended.retain(|_, pid| *pid != running.pid);
                self.running.insert(order.id, running);
                Ok(())
            }
            Err(NotSpawned { step, errno }) => report(
                channel,
                ProcessReport::SpawnFailed {
                    id: order.id,
                    step,
                    errno,
                },
            ),
        }
    }

    fn start(&self, order: &SpawnOrder, streams: Vec<OwnedFd>) -> Result<RunningChild, NotSpawned> {
        let mut terminal = None;
        if let Some(size) = order.terminal {
            let made = terminal::make().and_then(|(outer, line)| {
                size.apply(&outer)?;
                Ok((outer, line))
            });
            terminal = Some(made.map_err(|error| SpawnStep::Terminal.failed(&error))?);
        }
        let line = terminal.as_ref().map(|(_, line)| line.as_fd());
        let (pid, failure) = self
            .fork(order, &streams, line)
            .map_err(|error| SpawnStep::Process.failed(&error))?;
        let (outer, line) = terminal.unzip();
        Ok(RunningChild {
            pid,
            starting: Some(StartingChild { failure, outer }),
            _line: line,
        })
    }

    /// Forks the child, and creates the pipe on which it reports why it could not become its program.
    #[allow(
        unsafe_code,
        reason = "no library forks without waiting for what becomes of it"
    )]
    fn fork(
        &self,
        order: &SpawnOrder,
        streams: &[OwnedFd],
        line: Option<BorrowedFd<'_>>,
    ) -> io::Result<(Pid, OwnedFd)> {
        let (failure, tell) = pipe_with(PipeFlags::CLOEXEC)?;
        // The child ends in there, and must not return to lower its score.
        let forked = self.score.start_first(|| {
            // SAFETY: this process has one thread, so the child may do whatever the parent might.
            match unsafe { libc::fork() } {
                0 => {
                    let NotSpawned { step, errno } = self.become_program(order, streams, line);
                    let [a, b, c, d] = errno.to_le_bytes();
                    // If the stage is gone, so is the child.
                    rustix::io::write(&tell, &[step as u8, a, b, c, d]).ok();
                    // SAFETY: nothing of the parent's is flushed or dropped.
                    unsafe { libc::_exit(127) }
                }
                -1 => Err(io::Error::last_os_error()),
                pid => Ok(pid),
            }
        })?;
        let pid = Pid::from_raw(forked).ok_or_else(|| io::Error::other("a child without a number"))?;
        Ok((pid, failure))
    }

    /// In the child. Returns only on failure.
    #[allow(unsafe_code, reason = "what a child does before it becomes the program")]
    fn become_program(
        &self,
        order: &SpawnOrder,
        streams: &[OwnedFd],
        line: Option<BorrowedFd<'_>>,
    ) -> NotSpawned {
        let copies = match line {
            Some(line) => [line; 3].map(|line| line.try_clone_to_owned()),
            None => [0, 1, 2].map(|index| match streams.get(index) {
                Some(stream) => stream.try_clone(),
                None => Err(io::Error::from_raw_os_error(libc::EBADF)),
            }),
        };
        let [Ok(stdin), Ok(stdout), Ok(stderr)] = copies else {
            return SpawnStep::Process.failed(&io::Error::from_raw_os_error(libc::EMFILE));
        };
        if let Err(errno) = rustix::process::setsid() {
            return SpawnStep::Process.failed(&errno.into());
        }
        if let Some(Err(errno)) = line.map(rustix::process::ioctl_tiocsctty) {
            return SpawnStep::Terminal.failed(&errno.into());
        }
        // Before it is confined, as for a single command.
        if let Err(errno) = rustix::process::chdir(&order.cwd) {
            return SpawnStep::Directory.failed(&errno.into());
        }
        let mut command = Command::new(&order.command[0]);
        command
            .args(&order.command[1..])
            .env_clear()
            .envs(
                self.spec
                    .env
                    .iter()
                    .chain(&order.env)
                    .map(|(name, value)| (name, value)),
            )
            .stdin(stdin)
            .stdout(stdout)
            .stderr(stderr);
        let mut confinement = Some(self.confinement.of_each());
        let before_exec = move || {
            signals::as_usual()?;
            confinement.take().map_or(Ok(()), Confinement::apply)
        };
        // SAFETY: this process has one thread.
        let error = unsafe { command.pre_exec(before_exec) }.exec();
        match error.raw_os_error() {
            Some(confine::REFUSED) => SpawnStep::Confinement.failed(&error),
            Some(_) | None => SpawnStep::Program.failed(&error),
        }
    }

    /// Reads from a child whether it has become its program.
    fn settle_start(&mut self, channel: &StageChannel, id: u64) -> io::Result<()> {
        let Some(running) = self.running.get_mut(&id) else {
            return Ok(());
        };
        let Some(StartingChild { failure, outer }) = running.starting.take() else {
            return Ok(());
        };
        let pid = running.pid.as_raw_pid();
        let mut said = [0_u8; 5];
        let count = rustix::io::retry_on_intr(|| rustix::io::read(&failure, &mut said))?;
        if count == said.len() {
            let [step, errno @ ..] = said;
            self.running.remove(&id);
            let step = SpawnStep::of_number(step).unwrap_or(SpawnStep::Process);
            let errno = i32::from_le_bytes(errno);
            return report(channel, ProcessReport::SpawnFailed { id, step, errno });
        }
        let has_terminal = outer.is_some();
        let spawned = ProcessReport::Spawned {
            id,
            pid,
            has_terminal,
        };
        channel.report_with(&StageReport::Process(spawned), outer.as_ref().map(AsFd::as_fd))
    }

    /// Reaps all children that have ended, ours and adopted ones.
    fn reap(&mut self, channel: &StageChannel, ended: &OwnedFd) -> io::Result<()> {
        let mut signals = [0_u8; 1024];
        while rustix::io::read(ended, &mut signals).is_ok() {}
        while let Some((pid, status)) = children::reap_one()? {
            self.hear_end(channel, pid, status)?;
        }
        Ok(())
    }

    fn hear_end(&mut self, channel: &StageChannel, pid: Pid, status: WaitStatus) -> io::Result<()> {
        let Some(id) = self
            .running
            .iter()
            .find(|(_, one)| one.pid == pid)
            .map(|(id, _)| *id)
        else {
            return Ok(());
        };
        let end = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => ProcessReport::Exited { id, code },
            (None, Some(signal)) => ProcessReport::Signaled { id, signal },
            // A process that has stopped has not ended.
            (None, None) => return Ok(()),
        };
        // Its start is reported before its end.
        self.settle_start(channel, id)?;
        if self.running.remove(&id).is_none() {
            return Ok(());
        }
        self.ended.insert(id, pid);
        while self.ended.len() > MOST_ENDED {
            self.ended.pop_first();
        }
        report(channel, end)
    }

    fn signal(&self, order: SignalOrder) {
        let SignalOrder { id, signal, target } = order;
        let pid = match (self.running.get(&id), self.ended.get(&id)) {
            (Some(running), _) => running.pid.as_raw_pid(),
            // A number stays in use while a group or a session has it. If a process has the number again,
            // those are gone.
            (None, Some(pid)) if !children::signal(pid.as_raw_pid(), 0) => pid.as_raw_pid(),
            (None, _) => return,
        };
        match target {
            SignalTarget::Process if self.running.contains_key(&id) => {
                children::signal(pid, signal);
            }
            SignalTarget::Process => {}
            SignalTarget::Group => {
                children::signal(-pid, signal);
            }
            SignalTarget::Session => children::kill_session(pid),
        }
    }
}

impl SpawnStep {
    fn failed(self, error: &io::Error) -> NotSpawned {
        NotSpawned {
            step: self,
            // A failure without an error number of the kernel is reported as an invalid value.
            errno: error.raw_os_error().unwrap_or(libc::EINVAL),
        }
    }
}

fn report(channel: &StageChannel, report: ProcessReport) -> io::Result<()> {
    channel.report(&StageReport::Process(report))
}
