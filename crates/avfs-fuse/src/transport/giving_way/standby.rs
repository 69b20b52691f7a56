//! A thread that comes last for good, for processes that cannot make such a thread ordinary again.
//!
//! It waits for requests of `/dev/fuse` in place of the ordinary threads while the watch has it in their line. What it has not
//! read when it gets no time, they read at the next look; what it has read may wait for as long as a thread that comes last
//! has to, some half a second where all CPUs are wanted.

use std::time::Instant;

use rustix::thread::Pid;

use super::pace::{Look, Pace};
use super::seen::cpu_of;
use crate::transport::scheduling::{Policy, is_ours, roam, stay_on};

/// Those who wait for requests: a thread that comes last for good, or ordinary ones.
pub trait Line: Send {
    /// The one that comes last waits from now on.
    fn let_in(&mut self);

    /// The ordinary ones wait from now on, and see what nobody has read.
    fn keep_out(&mut self);

    /// Whether the thread that comes last was woken for something that it has not answered.
    fn has_left_anything(&self) -> bool;

    /// The connection has ended, of which a thread outside of the line does not hear.
    fn end(&mut self);
}

/// What the watch knows of the thread.
pub struct Standby {
    line: Box<dyn Line>,
    pace: Pace,
    thread: Option<Pid>,
    bound: Option<usize>,
}

impl Standby {
    pub fn new(line: Box<dyn Line>) -> Standby {
        Standby { line, pace: Pace::helpless(), thread: None, bound: None }
    }

    /// The thread has begun.
    pub fn is(&mut self, thread: Pid) {
        self.thread = Some(thread);
    }

    pub fn is_in_line(&self) -> bool {
        self.pace.policy() == Policy::Last
    }

    /// Decides where it stands, by what was seen of it, or, while it is outside, of the busiest of the others.
    pub fn look(&mut self, now: Instant, look: &Look, caller: u32) {
        // It has yet to begin, or has ended.
        if self.thread.is_none() {
            return;
        }
        let was_in_line = self.is_in_line();
        match (was_in_line, self.pace.next(now, look)) {
            (true, Policy::Last) => self.be_where(caller),
            (false, Policy::Last) => {
                self.be_where(caller);
                self.line.let_in();
            }
            (true, Policy::Ordinary) => {
                // Before the others could answer it.
                let is_starved = self.line.has_left_anything();
                self.leave();
                if is_starved {
                    self.pace.starved(now);
                }
            }
            (false, Policy::Ordinary) => {}
        }
    }

    /// It stays outside for a while.
    pub fn stand_up(&mut self, now: Instant) {
        if self.is_in_line() {
            self.leave();
        }
        self.pace.stand_up(now);
    }

    pub fn end(&mut self) {
        self.thread = None;
        self.pace.stand_up(Instant::now());
        self.line.end();
    }

    fn leave(&mut self) {
        self.line.keep_out();
        // What it is at, it may end wherever there is time for it.
        if self.bound.take().is_some() {
            let _ = roam(self.thread);
        }
    }

    fn be_where(&mut self, caller: u32) {
        let cpu = cpu_of(caller).filter(|cpu| is_ours(*cpu));
        if let (Some(cpu), Some(thread)) = (cpu, self.thread)
            && self.bound != Some(cpu)
            && stay_on(Some(thread), cpu).is_ok()
        {
            self.bound = Some(cpu);
        }
    }
}
