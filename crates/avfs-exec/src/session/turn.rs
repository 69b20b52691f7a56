//! One command of a session, from the lines that the shell reads to its status.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Signal, kill_process};

use super::directory::TURNS;
use super::processes::{self, EarlierProcesses};
use super::{Shell, ShellTurn, TurnAnswer, TurnEnd, is_ready, lines};
use crate::launch::{LaunchError, RunEvent, StopReason};
use crate::limits::{GaugeLap, LimitGauge, LimitsBy, ReachedLimit, RunUsage};
use crate::output::OutputCapture;

/// How often a command that does not stop is asked again.
const ASK_EVERY: Duration = Duration::from_millis(40);

/// How often to check whether a child that an interrupt detached from the shell has ended.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// How long a command is interrupted, and how long it is asked to end, before it is killed.
const INTERRUPTED: Duration = Duration::from_millis(500);
const TERMINATED: Duration = Duration::from_millis(1000);

/// How long the shell may take to return after all processes of its command were killed.
const KILLED: Duration = Duration::from_millis(3000);

/// A piece of output.
const PIECE: usize = 64 << 10;

pub(super) fn take(
    shell: &mut Shell,
    turn: ShellTurn<'_>,
    events: &mut dyn FnMut(RunEvent<'_>),
) -> Result<TurnAnswer, LaunchError> {
    let system = LaunchError::system;
    let (began, earlier) = (Instant::now(), EarlierProcesses::now(shell.pid));
    // Before the command can run: otherwise its first moments would count as those of the one before.
    let lap = shell.gauge.get().map(LimitGauge::start_lap);
    tell(shell, turn).map_err(system("talking to the shell"))?;
    let mut watch = TurnWatch {
        stdout: OutputCapture::new(turn.output_bytes),
        stderr: OutputCapture::new(turn.output_bytes),
        shell,
        turn,
        events,
        began,
        earlier,
        stopping: None,
        gave_up: false,
    };
    let status = watch.watch().map_err(system("watching the shell"))?;
    let TurnWatch {
        shell,
        stdout,
        stderr,
        stopping,
        ..
    } = watch;
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
    Ok(TurnAnswer {
        end,
        stopped,
        stdout: stdout.finish(),
        stderr: stderr.finish(),
        duration: began.elapsed(),
        usage,
        limits_by: shell.gauge.get().map_or(LimitsBy::Rlimits, LimitGauge::by),
        limits_hit,
        refusals,
    })
}

fn used(end: &TurnEnd, lap: Option<&GaugeLap>) -> (RunUsage, Vec<ReachedLimit>) {
    match (end, lap) {
        (_, None) => (RunUsage::default(), Vec::new()),
        (TurnEnd::Status(_), Some(lap)) => lap.end(),
        (TurnEnd::Over(outcome), Some(lap)) => (lap.end_with(&outcome.usage), outcome.limits_hit.clone()),
    }
}

fn tell(shell: &mut Shell, turn: ShellTurn<'_>) -> io::Result<()> {
    shell.turn = (shell.turn + 1) % TURNS;
    // The text travels in a file, because a line that is longer than a pipe's atomic write could be torn.
    shell.directory.put(&lines::command_name(shell.turn), turn.text)?;
    if let Some(bytes) = turn.stdin {
        shell.directory.put(&lines::input_name(shell.turn), bytes)?;
    }
    let line = lines::command(shell.turn, shell.last, turn.stdin.is_some());
    write_line(shell, &(line + &lines::status(shell.turn)))
}

/// A line is much shorter than an atomic pipe write, so it is written completely or not at all.
fn write_line(shell: &Shell, line: &str) -> io::Result<()> {
    let Some(input) = &shell.input else { return Ok(()) };
    match rustix::io::write(input, line.as_bytes()) {
        // A shell that is gone is detected elsewhere; one that does not read has enough lines.
        Ok(_) | Err(Errno::PIPE | Errno::AGAIN) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

struct TurnWatch<'a, 'e> {
    shell: &'a mut Shell,
    turn: ShellTurn<'a>,
    events: &'e mut dyn FnMut(RunEvent<'_>),
    stdout: OutputCapture,
    stderr: OutputCapture,
    began: Instant,
    earlier: EarlierProcesses,
    stopping: Option<StoppingTurn>,
    gave_up: bool,
}

/// A command that is being stopped.
#[derive(Clone, Copy)]
struct StoppingTurn {
    why: StopReason,
    since: Instant,
    next: Instant,
}

impl TurnWatch<'_, '_> {
    /// The status of the command; `None` if the shell has ended.
    fn watch(&mut self) -> io::Result<Option<u8>> {
        loop {
            self.wait()?;
            // Output before status: what the command wrote before its end is reported before it.
            self.read(PIECE)?;
            let status = self.shell.directory.status_of(self.shell.turn)?;
            // A shell that has ended may have reported a status before.
            if status.is_some() || is_ready(&**self.shell.sandbox.over(), PollFlags::IN) {
                self.end_abandoned_child();
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
        let over = &**self.shell.sandbox.over();
        let mut fds: Vec<PollFd<'_>> = [&directory.opened, &directory.stdout, &directory.stderr, over]
            .map(|fd| PollFd::new(fd, PollFlags::IN))
            .into();
        // Once the command is being stopped, a caller that is gone would wake this up without end.
        if let Some(caller) = self.turn.caller.filter(|_| self.stopping.is_none()) {
            fds.push(PollFd::from_borrowed_fd(caller, PollFlags::RDHUP));
        }
        match poll(&mut fds, left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Reads at most this many bytes of each stream, so that a flood on one does not delay anything else.
    fn read(&mut self, most: usize) -> io::Result<()> {
        let events = &mut self.events;
        let directory = &self.shell.directory;
        read(&directory.stdout, &mut self.stdout, most, |bytes| {
            events(RunEvent::Stdout(bytes))
        })?;
        read(&directory.stderr, &mut self.stderr, most, |bytes| {
            events(RunEvent::Stderr(bytes))
        })
    }

    /// Reads the available output. A background job may write forever.
    fn read_the_rest(&mut self) -> io::Result<()> {
        let waiting = |pipe: &OwnedFd| rustix::io::ioctl_fionread(pipe).map(|count| count as usize);
        let directory = &self.shell.directory;
        // What the pipes hold at this moment: everything that the command itself wrote is among it.
        let most = waiting(&directory.stdout)?.max(waiting(&directory.stderr)?);
        if most == 0 { Ok(()) } else { self.read(most) }
    }

    fn keep_to_time(&mut self) -> io::Result<()> {
        let now = Instant::now();
        match self.stopping {
            None => {
                if let Some(why) = self.reason_to_stop(now) {
                    (self.events)(RunEvent::Stopping(why));
                    self.stopping = Some(StoppingTurn {
                        why,
                        since: now,
                        next: now,
                    });
                    self.ask(now)?;
                }
                Ok(())
            }
            Some(stopping) if now >= stopping.next => self.ask(now),
            Some(_) => Ok(()),
        }
    }

    fn reason_to_stop(&self, now: Instant) -> Option<StopReason> {
        let is_gone = |caller| is_ready(caller, PollFlags::RDHUP);
        if self.turn.caller.is_some_and(is_gone) {
            Some(StopReason::Cancelled)
        } else {
            self.turn
                .timeout
                .filter(|timeout| now >= self.began + *timeout)
                .map(|_| StopReason::Timeout)
        }
    }

    /// Interrupts the shell and then its command: in this order, because the shell would otherwise continue
    /// with the next one.
    fn ask(&mut self, now: Instant) -> io::Result<()> {
        let Some(stopping) = &mut self.stopping else {
            return Ok(());
        };
        let since = now.saturating_duration_since(stopping.since);
        stopping.next = now + ASK_EVERY;
        let Some(pid) = self.shell.pid.filter(|_| since < KILLED) else {
            self.give_up();
            return Ok(());
        };
        // If it has ended, that is detected soon.
        kill_process(pid, Signal::INT).ok();
        processes::signal_later(pid, &self.earlier, signal_after(since));
        // The interrupt may have come while the shell was reading the line.
        write_line(self.shell, &lines::status(self.shell.turn))
    }

    /// An interrupt that reaches the shell between the fork of a program and the wait for it makes the shell
    /// return without that child. bash counts the child as part of its next pipeline, so the next command
    /// would wait for it.
    fn end_abandoned_child(&self) {
        let (Some(stopping), Some(pid)) = (self.stopping, self.shell.pid) else {
            return;
        };
        while processes::has_foreground_child(pid, &self.earlier) {
            let since = stopping.since.elapsed();
            if since >= KILLED {
                return;
            }
            // Repeatedly: until it has become its program, the child has the handlers of the shell.
            processes::signal_later(pid, &self.earlier, signal_after(since));
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// The shell does not return, so all of it is killed.
    fn give_up(&mut self) {
        if !self.gave_up {
            self.gave_up = true;
            self.shell.sandbox.cancel().cancel();
        }
    }
}

/// The signal for a command that has been asked to end for this long.
fn signal_after(since: Duration) -> Signal {
    if since < INTERRUPTED {
        Signal::INT
    } else if since < TERMINATED {
        Signal::TERM
    } else {
        Signal::KILL
    }
}

fn read(
    pipe: &OwnedFd,
    capture: &mut OutputCapture,
    most: usize,
    mut tell: impl FnMut(&[u8]),
) -> io::Result<()> {
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
