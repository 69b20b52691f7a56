//! Watching over a run until nothing of it is left.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};

use super::pipes::{Feed, Outer, OutputPipes};
use super::{Cancel, Event, Outlets, Stop};
use crate::inside::{Order, Report, Spec};
use crate::limits::{Group, LimitError};
use crate::network::Refusals;
use crate::output::{Capture, Captured};
use crate::plan::Limits;

mod stream;

use stream::{Stream, feed};

/// How often the CPU time of a run is looked at.
const CPU_TICK: Duration = Duration::from_millis(100);

/// How long processes may take to go after they were killed: the kernel may be busy for them.
const LAST_PATIENCE: Duration = Duration::from_secs(30);

/// How long a process may take to stop.
const STOPPING_PATIENCE: Duration = Duration::from_secs(1);

/// Builders of sandboxes say a line or two.
const TALK_BYTES: usize = 16 << 10;

/// What a supervisor needs to know about a run.
pub(super) struct Watched<'a> {
    pub(super) child: Child,
    pub(super) outer: Outer,
    /// Where the child tells the number of the first process inside, if that is another one.
    pub(super) info: Option<OwnedFd>,
    pub(super) group: Option<&'a Group>,
    pub(super) limits: &'a Limits,
    pub(super) cancel: &'a Cancel,
    pub(super) events: &'a mut dyn FnMut(Event<'_>),
    pub(super) outlets: Outlets<'a>,
    pub(super) since: Instant,
    /// If not, nothing begins, and what there is of a sandbox is taken away.
    pub(super) wanted: bool,
    pub(super) killing: Killing,
    /// What it did not reach, if somebody notes that.
    pub(super) refusals: Option<&'a Refusals>,
    /// What the stage is to do, once it is in its group.
    pub(super) spec: Spec,
}

/// Who ends all processes of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Killing {
    /// The kernel, when the first process inside ends.
    First,
    /// The stage, which knows its descendants: killed itself, it would leave them.
    Stage,
}

/// What there is to say when nothing is left.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) started: bool,
    /// How it ended. Nothing, if the stage was killed before it could say.
    pub(super) report: Option<Report>,
    pub(super) stopped: Option<Stop>,
    pub(super) stdout: Captured,
    pub(super) stderr: Captured,
    pub(super) talk: Captured,
    pub(super) not_limited: Option<LimitError>,
}

/// How far the end of a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// Asked to end, or ended by itself, and killed if it is not gone by then.
    Ending(Instant),
    /// Killed, and given up if it is not gone by then.
    Killed(Instant),
}

struct Supervisor<'a> {
    watched: Watched<'a>,
    process: OwnedFd,
    first_inside: Option<OwnedFd>,
    not_limited: Option<LimitError>,
    phase: Phase,
    started: bool,
    report: Option<Report>,
    stopped: Option<Stop>,
    stdout: Stream,
    stderr: Stream,
    talk: Stream,
    told: Option<Stream>,
    feed: Option<Feed>,
    stage_is_there: bool,
    stage_asked: bool,
}

/// Watches until every process of the run has ended.
pub(super) fn supervise(mut watched: Watched<'_>) -> io::Result<Ended> {
    let pid =
        Pid::from_raw(watched.child.id().cast_signed()).ok_or_else(|| io::Error::other("no process"))?;
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    let room = watched.limits.output_bytes;
    let OutputPipes { stdout, stderr } =
        watched.outer.output.take().ok_or_else(|| io::Error::other("no pipes for the output"))?;
    let talk = watched.outer.talk.try_clone()?;
    let mut supervisor = Supervisor {
        stdout: Stream::new(stdout, Capture::new(room)),
        stderr: Stream::new(stderr, Capture::new(room)),
        talk: Stream::new(talk, Capture::new(TALK_BYTES)),
        told: watched.info.take().map(|fd| Stream::new(fd, Capture::new(TALK_BYTES))),
        feed: watched.outer.feed.take(),
        watched,
        process,
        first_inside: None,
        not_limited: None,
        phase: Phase::Running,
        started: false,
        report: None,
        stopped: None,
        stage_is_there: true,
        stage_asked: false,
    };
    let is_wanted = supervisor.watched.wanted;
    if is_wanted && supervisor.watched.killing == Killing::Stage {
        supervisor.begin(pid);
    }
    let watched = if is_wanted { supervisor.watch() } else { Ok(()) };
    // Whatever went wrong, nothing is left running.
    supervisor.kill_processes();
    watched?;
    supervisor.finish()
}

impl Supervisor<'_> {
    fn watch(&mut self) -> io::Result<()> {
        while !self.wait()? {
            self.learn_first_process();
            self.stdout.read(|bytes| (self.watched.events)(Event::Stdout(bytes)))?;
            self.stderr.read(|bytes| (self.watched.events)(Event::Stderr(bytes)))?;
            self.close_unread();
            self.talk.read(|_| ())?;
            feed(&mut self.feed);
            self.listen()?;
            self.tell_refusals();
            self.keep_to_limits()?;
        }
        Ok(())
    }

    /// Lets the command meet a closed pipe where its output goes nowhere any more.
    fn close_unread(&mut self) {
        let Outlets { stdout, stderr } = &mut self.watched.outlets;
        for (outlet, stream) in [(stdout, &mut self.stdout), (stderr, &mut self.stderr)] {
            if outlet.is_some_and(is_unread) {
                stream.close();
                *outlet = None;
            }
        }
    }

    fn tell_refusals(&mut self) {
        let Some(refusals) = self.watched.refusals else { return };
        refusals.take_frequent().iter().for_each(|refusal| (self.watched.events)(Event::Refused(refusal)));
    }

    /// Waits for anything to happen. Answers whether the process that we started has ended.
    fn wait(&self) -> io::Result<bool> {
        let timeout = self.next_moment().map(|at| at.saturating_duration_since(Instant::now()));
        let timeout = timeout.and_then(|left| Timespec::try_from(left).ok());
        let cancel = (self.phase == Phase::Running).then(|| self.watched.cancel.event().as_fd());
        let control = self.stage_is_there.then(|| self.watched.outer.channel.as_fd());
        let inputs = [Some(self.process.as_fd()), cancel, control, self.stdout.fd(), self.stderr.fd()];
        let told = self.told.as_ref().and_then(Stream::fd);
        let refused = self.watched.refusals.and_then(Refusals::wake);
        let inputs = inputs.into_iter().chain([self.talk.fd(), told, refused]).flatten();
        let mut fds: Vec<PollFd<'_>> = inputs.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let outlets = [self.watched.outlets.stdout, self.watched.outlets.stderr];
        // That nobody reads is told without being asked for.
        let outlets = outlets.into_iter().flatten();
        fds.extend(outlets.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::empty())));
        fds.extend(self.feed.iter().map(|feed| PollFd::new(&feed.pipe, PollFlags::OUT)));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => Ok(!fds[0].revents().is_empty()),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    fn next_moment(&self) -> Option<Instant> {
        let limits = self.watched.limits;
        match self.phase {
            Phase::Running => {
                let timeout = limits.timeout.map(|timeout| self.watched.since + timeout);
                let tick = limits.cpu_seconds.and(self.watched.group).map(|_| Instant::now() + CPU_TICK);
                [timeout, tick].into_iter().flatten().min()
            }
            Phase::Ending(until) | Phase::Killed(until) => Some(until),
        }
    }

    /// Bubblewrap tells the number of its child as soon as there is one, in pieces, and must not lose its listener.
    fn learn_first_process(&mut self) {
        let Some(told) = self.told.as_mut() else { return };
        // Whatever it is, the talk is over only when the writer is.
        told.read(|_| ()).ok();
        let pid = child_pid(&String::from_utf8_lossy(told.so_far()));
        if let Some(pid) = pid.filter(|_| self.first_inside.is_none()) {
            self.first_inside = pidfd_open(pid, PidfdFlags::empty()).ok();
            self.begin(pid);
        }
    }

    /// Puts the stage into its group, while the sandbox is still being built, unless it enters by itself; and tells it
    /// what to do.
    fn begin(&mut self, stage: Pid) {
        let to_admit = self.watched.group.filter(|group| !group.is_entered_from_inside());
        match to_admit.map_or(Ok(()), |group| group.admit(stage)) {
            // If the stage is gone already, that is seen by its silence.
            Ok(()) => drop(self.watched.outer.channel.order(&Order::Start(self.watched.spec.clone()))),
            Err(error) => {
                self.not_limited = Some(error);
                self.kill_processes();
            }
        }
    }

    fn listen(&mut self) -> io::Result<()> {
        if !self.stage_is_there || !is_readable(self.watched.outer.channel.as_fd())? {
            return Ok(());
        }
        self.stage_is_there = self.watched.outer.channel.receive()?;
        while let Some(report) = self.watched.outer.channel.next_report()? {
            match report {
                Report::Started => {
                    self.started = true;
                    (self.watched.events)(Event::Started);
                }
                end => {
                    self.report = Some(end);
                    self.ending();
                }
            }
        }
        Ok(())
    }

    fn keep_to_limits(&mut self) -> io::Result<()> {
        let now = Instant::now();
        match self.phase {
            Phase::Running => {
                if let Some(stop) = self.reason_to_stop(now) {
                    self.stop(stop);
                }
            }
            Phase::Ending(until) if now >= until => self.kill(),
            Phase::Killed(until) if now >= until => return Err(immortal()),
            Phase::Ending(_) | Phase::Killed(_) => {}
        }
        Ok(())
    }

    fn reason_to_stop(&self, now: Instant) -> Option<Stop> {
        let Watched { limits, group, cancel, since, .. } = &self.watched;
        let used = || group.and_then(|group| group.gauge().cpu());
        if is_readable(cancel.event().as_fd()).unwrap_or(false) {
            Some(Stop::Cancelled)
        } else if limits.timeout.is_some_and(|timeout| now >= *since + timeout) {
            Some(Stop::Timeout)
        } else {
            let seconds = limits.cpu_seconds.map(Duration::from_secs)?;
            used().is_some_and(|used| used >= seconds).then_some(Stop::CpuTime)
        }
    }

    fn stop(&mut self, stop: Stop) {
        self.stopped = Some(stop);
        (self.watched.events)(Event::Stopping(stop));
        // A stage that is gone needs no asking.
        self.watched.outer.channel.order(&Order::Terminate).ok();
        self.ending();
    }

    fn ending(&mut self) {
        if self.phase == Phase::Running {
            let grace = self.watched.cancel.grace().unwrap_or(self.watched.limits.grace);
            self.phase = Phase::Ending(Instant::now() + grace);
        }
    }

    fn kill(&mut self) {
        let by_stage = self.watched.killing == Killing::Stage && !self.stage_asked;
        if by_stage && self.watched.outer.channel.order(&Order::Kill).is_ok() {
            self.stage_asked = true;
            self.phase = Phase::Ending(Instant::now() + LAST_PATIENCE);
        } else {
            self.kill_processes();
        }
    }

    /// The first process inside takes all others with it.
    fn kill_processes(&mut self) {
        self.phase = Phase::Killed(Instant::now() + LAST_PATIENCE);
        if self.first_inside.is_none() && self.watched.killing == Killing::First {
            self.first_inside = untold_child(&self.process, self.watched.child.id());
        }
        if let Some(first) = &self.first_inside {
            pidfd_send_signal(first, Signal::KILL).ok();
        }
        if let Some(group) = self.watched.group {
            group.kill();
        }
        pidfd_send_signal(&self.process, Signal::KILL).ok();
    }

    fn finish(mut self) -> io::Result<Ended> {
        self.watched.child.wait()?;
        if let Some(first) = &self.first_inside {
            wait_for_end(first)?;
        }
        self.stdout.drain(|bytes| (self.watched.events)(Event::Stdout(bytes)))?;
        self.stderr.drain(|bytes| (self.watched.events)(Event::Stderr(bytes)))?;
        self.talk.drain(|_| ())?;
        while self.stage_is_there && is_readable(self.watched.outer.channel.as_fd())? {
            self.listen()?;
        }
        Ok(Ended {
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

/// The child that bubblewrap has made and not told of yet. It waits for bubblewrap before it asks to end with it, so the end
/// of bubblewrap alone would leave it waiting for ever. What has stopped makes no further children.
fn untold_child(bubblewrap: &OwnedFd, pid: u32) -> Option<OwnedFd> {
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
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    let child = children.split_whitespace().next()?.parse().ok().and_then(Pid::from_raw)?;
    pidfd_open(child, PidfdFlags::empty()).ok()
}

fn wait_for_end(process: &OwnedFd) -> io::Result<()> {
    let patience = Timespec::try_from(LAST_PATIENCE).ok();
    match poll(&mut [PollFd::new(process, PollFlags::IN)], patience.as_ref()) {
        Ok(0) => {
            Err(io::Error::new(io::ErrorKind::TimedOut, "processes of the run do not end, although killed"))
        }
        Ok(_) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

fn immortal() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "processes of the run do not end, although killed")
}

fn is_readable(fd: BorrowedFd<'_>) -> io::Result<bool> {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    Ok(poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&at_once))? > 0)
}

/// Whether whoever read what is written there is gone.
fn is_unread(outlet: BorrowedFd<'_>) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut fds = [PollFd::from_borrowed_fd(outlet, PollFlags::empty())];
    let is_told = poll(&mut fds, Some(&at_once)).is_ok_and(|count| count > 0);
    is_told && fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL)
}

/// The number in `{"child-pid": 123, …}`.
fn child_pid(text: &str) -> Option<Pid> {
    let rest = text.split_once("\"child-pid\"")?.1.trim_start().strip_prefix(':')?.trim_start();
    // Digits that nothing follows may be half a number.
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
