//! Supervises a run until nothing of it is left.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};

use super::built::BuilderProcess;
use super::pipes::{InputFeed, LauncherEnds, OutputPipes};
use super::processes::ProcessTable;
use super::{Cancel, LiveOutlets, RunEvent, StopReason};
use crate::limits::{ControlGroup, LimitError};
use crate::network::Refusals;
use crate::output::{CapturedOutput, OutputCapture};
use crate::plan::RunLimits;
use avfs_inside::{ProcessReport, StageOrder, StageReport, StageSpec};

mod stream;

use stream::{OutputStream, feed};

/// How often the CPU time of a run is checked.
const CPU_TICK: Duration = Duration::from_millis(100);

/// How long processes may take to disappear after they were killed: the kernel may be busy on their behalf.
const LAST_PATIENCE: Duration = Duration::from_secs(30);

/// How long a process may take to stop.
const STOPPING_PATIENCE: Duration = Duration::from_secs(1);

/// Builders of sandboxes print a line or two.
const TALK_BYTES: usize = 16 << 10;

/// The parameters of a supervisor.
pub(super) struct WatchedRun<'a> {
    pub(super) builder: BuilderProcess,
    /// Processes (pidfds) without which nothing inside can go on.
    pub(super) servers: &'a [Arc<OwnedFd>],
    pub(super) outer: LauncherEnds,
    /// Where the child reports the number of the first process inside, if that is another one.
    pub(super) info: Option<OwnedFd>,
    pub(super) group: Option<&'a ControlGroup>,
    pub(super) limits: &'a RunLimits,
    pub(super) cancel: &'a Cancel,
    pub(super) events: &'a mut dyn FnMut(RunEvent<'_>),
    pub(super) outlets: LiveOutlets<'a>,
    pub(super) since: Instant,
    /// If false, nothing begins, and the partial sandbox is removed.
    pub(super) wanted: bool,
    pub(super) killing: KillTarget,
    /// Refused requests of the run, if they are recorded.
    pub(super) refusals: Option<&'a Refusals>,
    /// The order for the stage, once it is in its group.
    pub(super) spec: StageSpec,
    /// The processes that are started in the sandbox while it is open.
    pub(super) processes: Option<&'a ProcessTable>,
}

/// How all processes of a run are ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KillTarget {
    /// By the kernel, when the first process inside ends.
    First,
    /// By the stage, which knows its descendants: if it were killed itself, it would leave them.
    Stage,
}

/// The observations at the end of a run.
#[derive(Debug)]
pub(super) struct ObservedEnd {
    pub(super) started: bool,
    /// How it ended. `None` if the stage was killed before it could report.
    pub(super) report: Option<StageReport>,
    pub(super) stopped: Option<StopReason>,
    pub(super) stdout: CapturedOutput,
    pub(super) stderr: CapturedOutput,
    pub(super) talk: CapturedOutput,
    pub(super) not_limited: Option<LimitError>,
}

/// The progress of ending a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndingPhase {
    Running,
    /// Asked to end, or ended by itself; killed at this time.
    Ending(Instant),
    /// Killed; given up at this time.
    Killed(Instant),
}

struct Supervisor<'a> {
    watched: WatchedRun<'a>,
    process: OwnedFd,
    first_inside: Option<OwnedFd>,
    not_limited: Option<LimitError>,
    phase: EndingPhase,
    started: bool,
    report: Option<StageReport>,
    stopped: Option<StopReason>,
    stdout: OutputStream,
    stderr: OutputStream,
    talk: OutputStream,
    told: Option<OutputStream>,
    feed: Option<InputFeed>,
    stage_is_there: bool,
    stage_asked: bool,
}

/// Waits until every process of the run has ended.
pub(super) fn supervise(mut watched: WatchedRun<'_>) -> io::Result<ObservedEnd> {
    let process = watched.builder.pidfd()?;
    let room = watched.limits.output_bytes;
    let OutputPipes { stdout, stderr } = watched
        .outer
        .output
        .take()
        .ok_or_else(|| io::Error::other("no pipes for the output"))?;
    let talk = watched.outer.talk.try_clone()?;
    let mut supervisor = Supervisor {
        stdout: OutputStream::new(stdout, OutputCapture::new(room)),
        stderr: OutputStream::new(stderr, OutputCapture::new(room)),
        talk: OutputStream::new(talk, OutputCapture::new(TALK_BYTES)),
        told: watched
            .info
            .take()
            .map(|fd| OutputStream::new(fd, OutputCapture::new(TALK_BYTES))),
        feed: watched.outer.feed.take(),
        watched,
        process,
        first_inside: None,
        not_limited: None,
        phase: EndingPhase::Running,
        started: false,
        report: None,
        stopped: None,
        stage_is_there: true,
        stage_asked: false,
    };
    let is_wanted = supervisor.watched.wanted;
    // Without bubblewrap, our child is the stage itself. Otherwise its number is told through `info`, see
    // `learn_first_process`.
    if is_wanted
        && supervisor.watched.killing == KillTarget::Stage
        && let Some(stage) = supervisor.watched.builder.child()
    {
        supervisor.begin(stage);
    }
    let watched = if is_wanted { supervisor.watch() } else { Ok(()) };
    // On any failure, nothing is left running.
    supervisor.kill_processes();
    watched?;
    supervisor.finish()
}

impl Supervisor<'_> {
    fn watch(&mut self) -> io::Result<()> {
        while !self.wait()? {
            // Before the output, so that the group's limits apply as early as possible.
            self.learn_first_process();
            self.stdout
                .read(|bytes| (self.watched.events)(RunEvent::Stdout(bytes)))?;
            self.stderr
                .read(|bytes| (self.watched.events)(RunEvent::Stderr(bytes)))?;
            // After reading: what the command has written until now is kept, even if it is no longer shown.
            self.close_unread();
            self.talk.read(|_| ())?;
            feed(&mut self.feed);
            self.listen()?;
            self.attend_to_processes()?;
            self.tell_refusals();
            self.keep_to_limits()?;
        }
        Ok(())
    }

    fn attend_to_processes(&self) -> io::Result<()> {
        let Some(processes) = self.watched.processes else {
            return Ok(());
        };
        processes.keep_to_deadlines(Instant::now());
        processes.attend()
    }

    /// Closes the command's pipe where its output has no reader any longer.
    fn close_unread(&mut self) {
        let LiveOutlets { stdout, stderr } = &mut self.watched.outlets;
        for (outlet, stream) in [(stdout, &mut self.stdout), (stderr, &mut self.stderr)] {
            if outlet.is_some_and(is_unread) {
                // The command gets `SIGPIPE` or `EPIPE` with its next write, as in a shell's pipeline.
                stream.close();
                *outlet = None;
            }
        }
    }

    fn tell_refusals(&mut self) {
        let Some(refusals) = self.watched.refusals else {
            return;
        };
        refusals
            .take_frequent()
            .iter()
            .for_each(|refusal| (self.watched.events)(RunEvent::Refused(refusal)));
    }

    /// Waits for any event. Returns whether the process that we started has ended.
    fn wait(&self) -> io::Result<bool> {
        let timeout = self
            .next_moment()
            .map(|at| at.saturating_duration_since(Instant::now()));
        let timeout = timeout.and_then(|left| Timespec::try_from(left).ok());
        let cancel = (self.phase == EndingPhase::Running).then(|| self.watched.cancel.event().as_fd());
        // A closed socket is always readable, so polling it further would be a busy loop.
        let control = self.stage_is_there.then(|| self.watched.outer.channel.as_fd());
        let inputs = [
            Some(self.process.as_fd()),
            cancel,
            control,
            self.stdout.fd(),
            self.stderr.fd(),
        ];
        let told = self.told.as_ref().and_then(OutputStream::fd);
        let refused = self.watched.refusals.and_then(Refusals::wake);
        let processes = self.watched.processes.map(ProcessTable::fd);
        let servers = (self.phase == EndingPhase::Running).then_some(self.watched.servers);
        let servers = servers.into_iter().flatten().map(|server| server.as_fd());
        let inputs = inputs
            .into_iter()
            .chain([self.talk.fd(), told, refused, processes])
            .flatten()
            .chain(servers);
        let mut fds: Vec<PollFd<'_>> = inputs
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let outlets = [self.watched.outlets.stdout, self.watched.outlets.stderr];
        // The loss of a reader is always reported, whatever events are requested.
        let outlets = outlets.into_iter().flatten();
        fds.extend(outlets.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::empty())));
        fds.extend(
            self.feed
                .iter()
                .map(|feed| PollFd::new(&feed.pipe, PollFlags::OUT)),
        );
        match poll(&mut fds, timeout.as_ref()) {
            // The first one is the process: see `inputs`.
            Ok(_) => Ok(!fds[0].revents().is_empty()),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    fn next_moment(&self) -> Option<Instant> {
        let limits = self.watched.limits;
        let of_processes = self.watched.processes.and_then(ProcessTable::next_deadline);
        let own = match self.phase {
            EndingPhase::Running => {
                let timeout = limits.timeout.map(|timeout| self.watched.since + timeout);
                // The kernel does not report how much CPU time a group has used, so it is read in
                // intervals.
                let tick = limits
                    .cpu_seconds
                    .and(self.watched.group)
                    .map(|_| Instant::now() + CPU_TICK);
                [timeout, tick].into_iter().flatten().min()
            }
            EndingPhase::Ending(until) | EndingPhase::Killed(until) => Some(until),
        };
        [own, of_processes].into_iter().flatten().min()
    }

    /// Bubblewrap reports the number of its child as soon as it exists, in pieces, and the pipe must stay
    /// open.
    fn learn_first_process(&mut self) {
        let Some(told) = self.told.as_mut() else { return };
        // Whatever it contains, the message is complete only when the writer has closed the pipe.
        told.read(|_| ()).ok();
        let pid = child_pid(&String::from_utf8_lossy(told.so_far()));
        if let Some(pid) = pid.filter(|_| self.first_inside.is_none()) {
            self.first_inside = pidfd_open(pid, PidfdFlags::empty()).ok();
            self.begin(pid);
        }
    }

    /// Puts the stage into its group, while the sandbox is still being built, unless it enters by itself; and
    /// sends it its order.
    fn begin(&mut self, stage: Pid) {
        let to_admit = self.watched.group.filter(|group| !group.is_entered_from_inside());
        match to_admit.map_or(Ok(()), |group| group.admit(stage)) {
            // If the stage is gone already, its missing report shows it.
            Ok(()) => drop(
                self.watched
                    .outer
                    .channel
                    .order(&StageOrder::Start(self.watched.spec.clone())),
            ),
            Err(error) => {
                // A run without its limits must not begin; the stage is still waiting for its order.
                self.not_limited = Some(error);
                self.kill_processes();
            }
        }
    }

    fn listen(&mut self) -> io::Result<()> {
        if !self.stage_is_there || !is_readable(self.watched.outer.channel.as_fd())? {
            return Ok(());
        }
        // Reports that arrived before the socket was closed are still handled below.
        self.stage_is_there = self.watched.outer.channel.receive()?;
        while let Some(report) = self.watched.outer.channel.next_report()? {
            match report {
                StageReport::Started => {
                    self.started = true;
                    if let Some(processes) = self.watched.processes {
                        processes.open(self.watched.outer.channel.as_fd().try_clone_to_owned()?);
                    }
                    (self.watched.events)(RunEvent::Started);
                }
                StageReport::Process(report) => self.hear_of_process(report)?,
                StageReport::Paused => {
                    if let Some(processes) = self.watched.processes {
                        processes.hear_paused();
                    }
                }
                end => {
                    self.report = Some(end);
                    self.ending();
                }
            }
        }
        Ok(())
    }

    fn hear_of_process(&mut self, report: ProcessReport) -> io::Result<()> {
        let processes = self
            .watched
            .processes
            .ok_or_else(|| io::Error::other("a report of a process that was not ordered"))?;
        let has_terminal = matches!(
            report,
            ProcessReport::Spawned {
                has_terminal: true,
                ..
            }
        );
        let count = usize::from(has_terminal);
        let outer = self.watched.outer.channel.take_descriptors(count)?.pop();
        processes.hear(report, outer);
        Ok(())
    }

    /// Sends an order to the stage, in its turn. If the stage is gone, that is not an error.
    fn order(&self, order: &StageOrder) -> bool {
        // Orders of other threads may be half sent: this one must not get into the middle of one.
        let in_turn = self.watched.processes.filter(|_| self.started);
        match in_turn {
            Some(processes) => processes.order(order),
            None => self.watched.outer.channel.order(order).is_ok(),
        }
    }

    fn keep_to_limits(&mut self) -> io::Result<()> {
        let now = Instant::now();
        match self.phase {
            EndingPhase::Running => {
                if let Some(stop) = self.reason_to_stop(now) {
                    self.stop(stop);
                }
            }
            EndingPhase::Ending(until) if now >= until => self.kill(),
            EndingPhase::Killed(until) if now >= until => return Err(immortal()),
            EndingPhase::Ending(_) | EndingPhase::Killed(_) => {}
        }
        Ok(())
    }

    fn reason_to_stop(&self, now: Instant) -> Option<StopReason> {
        let WatchedRun {
            limits,
            group,
            cancel,
            since,
            servers,
            ..
        } = &self.watched;
        let used = || group.and_then(|group| group.gauge().cpu());
        let has_ended = |server: &Arc<OwnedFd>| is_readable(server.as_fd()).unwrap_or(false);
        if servers.iter().any(has_ended) {
            Some(StopReason::ServerGone)
        } else if is_readable(cancel.event().as_fd()).unwrap_or(false) {
            Some(StopReason::Cancelled)
        } else if limits.timeout.is_some_and(|timeout| now >= *since + timeout) {
            Some(StopReason::Timeout)
        } else {
            let seconds = limits.cpu_seconds.map(Duration::from_secs)?;
            used()
                .is_some_and(|used| used >= seconds)
                .then_some(StopReason::CpuTime)
        }
    }

    fn stop(&mut self, stop: StopReason) {
        self.stopped = Some(stop);
        (self.watched.events)(RunEvent::Stopping(stop));
        if let Some(processes) = self.watched.processes {
            processes.stop_all(stop);
        }
        if stop == StopReason::ServerGone {
            // Nothing can be saved any more, and every access to the files fails.
            return self.kill();
        }
        // A request first: most programs clean up and end, and their output is complete.
        self.order(&StageOrder::Terminate);
        self.ending();
    }

    fn ending(&mut self) {
        if self.phase == EndingPhase::Running {
            let grace = self.watched.cancel.grace().unwrap_or(self.watched.limits.grace);
            self.phase = EndingPhase::Ending(Instant::now() + grace);
        }
    }

    fn kill(&mut self) {
        let by_stage = self.watched.killing == KillTarget::Stage && !self.stage_asked;
        // The stage is asked once. If it does not manage in time, the second call kills it as well.
        if by_stage && self.order(&StageOrder::Kill) {
            self.stage_asked = true;
            self.phase = EndingPhase::Ending(Instant::now() + LAST_PATIENCE);
        } else {
            self.kill_processes();
        }
    }

    /// The end of the first process inside ends all others.
    fn kill_processes(&mut self) {
        self.phase = EndingPhase::Killed(Instant::now() + LAST_PATIENCE);
        if self.first_inside.is_none() && self.watched.killing == KillTarget::First {
            let builder = self.watched.builder.child();
            self.first_inside = builder.and_then(|builder| untold_child(&self.process, builder));
        }
        if let Some(first) = &self.first_inside {
            pidfd_send_signal(first, Signal::KILL).ok();
        }
        if let Some(group) = self.watched.group {
            group.kill();
        }
        // Last: a killed bubblewrap could no longer be asked for its child.
        pidfd_send_signal(&self.process, Signal::KILL).ok();
    }

    fn finish(mut self) -> io::Result<ObservedEnd> {
        if self.watched.builder.child().is_none() {
            wait_for_end(&self.process)?;
        }
        self.watched.builder.reap()?;
        if let Some(first) = &self.first_inside {
            wait_for_end(first)?;
        }
        // Everything that could write is gone, so the pipes end; the rest in them belongs to the command's
        // output.
        self.stdout
            .drain(|bytes| (self.watched.events)(RunEvent::Stdout(bytes)))?;
        self.stderr
            .drain(|bytes| (self.watched.events)(RunEvent::Stderr(bytes)))?;
        self.talk.drain(|_| ())?;
        while self.stage_is_there && is_readable(self.watched.outer.channel.as_fd())? {
            self.listen()?;
        }
        Ok(ObservedEnd {
            started: self.started,
            report: self.report,
            stopped: self.stopped,
            stdout: self.stdout.finish(),
            stderr: self.stderr.finish(),
            talk: self.talk.finish(),
            not_limited: self.not_limited,
        })
    }
}

/// The child that bubblewrap has created and not reported yet. It waits for bubblewrap before it requests to
/// end with it, so the end of bubblewrap alone would leave it waiting forever. A stopped bubblewrap creates
/// no further children.
fn untold_child(bubblewrap: &OwnedFd, pid: Pid) -> Option<OwnedFd> {
    pidfd_send_signal(bubblewrap, Signal::STOP).ok()?;
    let until = Instant::now() + STOPPING_PATIENCE;
    let looked_for =
        WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    while let Ok(None) = waitid(WaitId::PidFd(bubblewrap.as_fd()), looked_for) {
        if Instant::now() > until {
            break;
        }
        std::thread::yield_now();
    }
    let pid = pid.as_raw_pid();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    let child = children
        .split_whitespace()
        .next()?
        .parse()
        .ok()
        .and_then(Pid::from_raw)?;
    pidfd_open(child, PidfdFlags::empty()).ok()
}

fn wait_for_end(process: &OwnedFd) -> io::Result<()> {
    let patience = Timespec::try_from(LAST_PATIENCE).ok();
    match poll(&mut [PollFd::new(process, PollFlags::IN)], patience.as_ref()) {
        Ok(0) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "processes of the run do not end, although killed",
        )),
        Ok(_) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

fn immortal() -> io::Error {
    io::Error::new(
        io::ErrorKind::TimedOut,
        "processes of the run do not end, although killed",
    )
}

fn is_readable(fd: BorrowedFd<'_>) -> io::Result<bool> {
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    Ok(poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&at_once))? > 0)
}

/// Whether the reader of an outlet is gone.
fn is_unread(outlet: BorrowedFd<'_>) -> bool {
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut fds = [PollFd::from_borrowed_fd(outlet, PollFlags::empty())];
    let is_told = poll(&mut fds, Some(&at_once)).is_ok_and(|count| count > 0);
    is_told
        && fds[0]
            .revents()
            .intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL)
}

/// The number in `{"child-pid": 123, …}`.
fn child_pid(text: &str) -> Option<Pid> {
    let rest = text
        .split_once("\"child-pid\"")?
        .1
        .trim_start()
        .strip_prefix(':')?
        .trim_start();
    // Digits at the end of the text may be an incomplete number.
    let (digits, _) = rest.split_at_checked(rest.find(|next: char| !next.is_ascii_digit())?)?;
    Pid::from_raw(digits.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_process_is_found_in_what_bubblewrap_tells() {
        let number = |text| child_pid(text).map(Pid::as_raw_pid);
        assert_eq!(number("{\n    \"child-pid\": 4711\n}\n"), Some(4711));
        assert_eq!(number("{\"child-pid\":12, \"mnt-namespace\": 9}"), Some(12));
        assert_eq!(number(""), None);
        assert_eq!(number("{\"child-pid\": 12"), None);
        assert_eq!(number("{\"child-pid\": x}"), None);
    }
}
