//! One command of a session, from the lines that the shell reads to its status.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Signal, kill_process};

use super::directory::TURNS;
use super::processes::{self, Earlier};
use super::{Answer, Shell, Turn, TurnEnd, is_ready, lines};
use crate::launch::{Event, LaunchError, Stop};
use crate::limits::{Gauge, Lap, Limit, LimitsBy, Usage};
use crate::output::Capture;

/// How often a command that does not stop is asked again.
const ASK_EVERY: Duration = Duration::from_millis(40);

/// How long a command is interrupted, and how long it is asked to end, before it is killed.
const INTERRUPTED: Duration = Duration::from_millis(500);
const TERMINATED: Duration = Duration::from_millis(1000);

/// How long the shell may take to come back after all its command had was killed.
const KILLED: Duration = Duration::from_millis(3000);

/// A piece of output.
const PIECE: usize = 64 << 10;

pub(super) fn take(
    shell: &mut Shell,
    turn: Turn<'_>,
    events: &mut dyn FnMut(Event<'_>),
) -> Result<Answer, LaunchError> {
    let system = LaunchError::system;
    let (began, earlier) = (Instant::now(), Earlier::now(shell.pid));
    let lap = shell.gauge.get().map(Gauge::start_lap);
    tell(shell, turn).map_err(system("talking to the shell"))?;
    let mut watch = Watch {
        stdout: Capture::new(turn.output_bytes),
        stderr: Capture::new(turn.output_bytes),
        shell,
        turn,
        events,
        began,
        earlier,
        stopping: None,
        gave_up: false,
    };
    let status = watch.watch().map_err(system("watching the shell"))?;
    let Watch { shell, stdout, stderr, stopping, .. } = watch;
    let end = match status {
        Some(status) => {
            shell.last = status;
            TurnEnd::Status(status.into())
        }
        None => TurnEnd::Over(Box::new(shell.sandbox.finish()?)),
    };
    let stopped = stopping.map(|stopping| stopping.why);
    let (usage, limits_hit) = used(&end, lap.as_ref());
    let refusals = match &end {
        TurnEnd::Status(_) => shell.refusals.take(),
        TurnEnd::Over(outcome) => outcome.refusals.clone(),
    };
    Ok(Answer {
        end,
        stopped,
        stdout: stdout.finish(),
        stderr: stderr.finish(),
        duration: began.elapsed(),
        usage,
        limits_by: shell.gauge.get().map_or(LimitsBy::Rlimits, Gauge::by),
        limits_hit,
        refusals,
    })
}

fn used(end: &TurnEnd, lap: Option<&Lap>) -> (Usage, Vec<Limit>) {
    match (end, lap) {
        (_, None) => (Usage::default(), Vec::new()),
        (TurnEnd::Status(_), Some(lap)) => lap.end(),
        (TurnEnd::Over(outcome), Some(lap)) => (lap.end_with(&outcome.usage), outcome.limits_hit.clone()),
    }
}

fn tell(shell: &mut Shell, turn: Turn<'_>) -> io::Result<()> {
    shell.turn = (shell.turn + 1) % TURNS;
    shell.directory.put(&lines::command_name(shell.turn), turn.text)?;
    if let Some(bytes) = turn.stdin {
        shell.directory.put(&lines::input_name(shell.turn), bytes)?;
    }
    let line = lines::command(shell.turn, shell.last, turn.stdin.is_some());
    write_line(shell, &(line + &lines::status(shell.turn)))
}

/// A line is much shorter than what a pipe takes at once, and so all of it goes or nothing.
fn write_line(shell: &Shell, line: &str) -> io::Result<()> {
    let Some(input) = &shell.input else { return Ok(()) };
    match rustix::io::write(input, line.as_bytes()) {
        // A shell that is gone is seen as such; one that does not read has enough lines.
        Ok(_) | Err(Errno::PIPE | Errno::AGAIN) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

struct Watch<'a, 'e> {
    shell: &'a mut Shell,
    turn: Turn<'a>,
    events: &'e mut dyn FnMut(Event<'_>),
    stdout: Capture,
    stderr: Capture,
    began: Instant,
    earlier: Earlier,
    stopping: Option<Stopping>,
    gave_up: bool,
}

/// A command that is being stopped.
#[derive(Clone, Copy)]
struct Stopping {
    why: Stop,
    since: Instant,
    next: Instant,
}

impl Watch<'_, '_> {
    /// The status of the command; nothing if the shell has ended.
    fn watch(&mut self) -> io::Result<Option<u8>> {
        loop {
            self.wait()?;
            self.read(PIECE)?;
            let status = self.shell.directory.status_of(self.shell.turn)?;
            // A shell that has ended may have told before.
            if status.is_some() || is_ready(&*self.shell.sandbox.over, PollFlags::IN) {
                self.read_the_rest()?;
                return Ok(status);
            }
            self.keep_to_time()?;
        }
    }

    fn wait(&self) -> io::Result<()> {
        let until = match self.stopping {
            Some(stopping) => Some(stopping.next),
            None => self.turn.timeout.map(|timeout| self.began + timeout),
        };
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        let directory = &self.shell.directory;
        let over = &*self.shell.sandbox.over;
        let mut fds: Vec<PollFd<'_>> = [&directory.opened, &directory.stdout, &directory.stderr, over]
            .map(|fd| PollFd::new(fd, PollFlags::IN))
            .into();
        if let Some(caller) = self.turn.caller.filter(|_| self.stopping.is_none()) {
            fds.push(PollFd::from_borrowed_fd(caller, PollFlags::RDHUP));
        }
        match poll(&mut fds, left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Up to so many bytes of each stream, so that a flood on one keeps nothing else waiting.
    fn read(&mut self, most: usize) -> io::Result<()> {
        let events = &mut self.events;
        let directory = &self.shell.directory;
        read(&directory.stdout, &mut self.stdout, most, |bytes| events(Event::Stdout(bytes)))?;
        read(&directory.stderr, &mut self.stderr, most, |bytes| events(Event::Stderr(bytes)))
    }

    /// What is there now. A background job may write for ever.
    fn read_the_rest(&mut self) -> io::Result<()> {
        let waiting = |pipe: &OwnedFd| rustix::io::ioctl_fionread(pipe).map(|count| count as usize);
        let directory = &self.shell.directory;
        let most = waiting(&directory.stdout)?.max(waiting(&directory.stderr)?);
        if most == 0 { Ok(()) } else { self.read(most) }
    }

    fn keep_to_time(&mut self) -> io::Result<()> {
        let now = Instant::now();
        match self.stopping {
            None => {
                if let Some(why) = self.reason_to_stop(now) {
                    (self.events)(Event::Stopping(why));
                    self.stopping = Some(Stopping { why, since: now, next: now });
                    self.ask(now)?;
                }
                Ok(())
            }
            Some(stopping) if now >= stopping.next => self.ask(now),
            Some(_) => Ok(()),
        }
    }

    fn reason_to_stop(&self, now: Instant) -> Option<Stop> {
        let is_gone = |caller| is_ready(caller, PollFlags::RDHUP);
        if self.turn.caller.is_some_and(is_gone) {
            Some(Stop::Cancelled)
        } else {
            self.turn.timeout.filter(|timeout| now >= self.began + *timeout).map(|_| Stop::Timeout)
        }
    }

    /// Interrupts the shell and then its command: in this order, or the shell would go on with the next one.
    fn ask(&mut self, now: Instant) -> io::Result<()> {
        let Some(stopping) = &mut self.stopping else { return Ok(()) };
        let since = now.saturating_duration_since(stopping.since);
        stopping.next = now + ASK_EVERY;
        let Some(pid) = self.shell.pid.filter(|_| since < KILLED) else {
            self.give_up();
            return Ok(());
        };
        // If it has ended, that is seen soon.
        kill_process(pid, Signal::INT).ok();
        let signal = match since {
            since if since < INTERRUPTED => Signal::INT,
            since if since < TERMINATED => Signal::TERM,
            _ => Signal::KILL,
        };
        processes::signal_later(pid, &self.earlier, signal);
        // The interrupt may have come when the shell had the line in hand.
        write_line(self.shell, &lines::status(self.shell.turn))
    }

    /// The shell does not come back, and all of it goes.
    fn give_up(&mut self) {
        if !self.gave_up {
            self.gave_up = true;
            self.shell.sandbox.cancel.cancel();
        }
    }
}

fn read(pipe: &OwnedFd, capture: &mut Capture, most: usize, mut tell: impl FnMut(&[u8])) -> io::Result<()> {
    let mut buffer = [0_u8; PIECE];
    let mut left = most;
    while left > 0 {
        let room = left.min(PIECE);
        match rustix::io::read(pipe.as_fd(), &mut buffer[..room]) {
            Ok(0) | Err(Errno::AGAIN) => return Ok(()),
            Ok(count) => {
                capture.add(&buffer[..count]);
                tell(&buffer[..count]);
                left -= count;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
