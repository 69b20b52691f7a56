//! A thread that permanently has the idle policy, for processes that cannot make such a thread ordinary
//! again.
//!
//! It waits for requests of `/dev/fuse` in place of the ordinary threads while the watch has it in their
//! line. Requests that it has not read when it gets no time are read by the ordinary threads at the next
//! look; a request that it has read may wait as long as a thread with the idle policy does, about half a
//! second if all CPUs are busy.

use std::time::Instant;

use rustix::thread::Pid;

use super::backoff::{Backoff, ThreadLook};
use super::kernel_view::cpu_of;
use crate::transport::scheduling::{ThreadPolicy, is_ours, roam, stay_on};

/// The threads that wait for requests: the one with the permanent idle policy, or the ordinary ones.
pub(crate) trait RequestLine: Send {
    /// The thread with the idle policy waits from now on.
    fn let_in(&mut self);

    /// The ordinary threads wait from now on, and see requests that have not been read.
    fn keep_out(&mut self);

    /// Whether the thread with the idle policy was woken for a request that it has not answered.
    fn has_left_anything(&self) -> bool;

    /// The connection has ended, which a thread outside of the line does not notice.
    fn end(&mut self);
}

/// The watch's state of the thread.
pub(super) struct Standby {
    line: Box<dyn RequestLine>,
    backoff: Backoff,
    thread: Option<Pid>,
    bound: Option<usize>,
}

impl Standby {
    pub(super) fn new(line: Box<dyn RequestLine>) -> Standby {
        Standby {
            line,
            backoff: Backoff::helpless(),
            thread: None,
            bound: None,
        }
    }

    /// The thread has begun.
    pub(super) fn is(&mut self, thread: Pid) {
        self.thread = Some(thread);
    }

    pub(super) fn is_in_line(&self) -> bool {
        self.backoff.policy() == ThreadPolicy::Last
    }

    /// Decides whether it is in the line, by its observations or, while it is outside, by those of the
    /// busiest of the others.
    pub(super) fn look(&mut self, now: Instant, look: &ThreadLook, caller: u32) {
        // It has not begun yet, or has ended.
        if self.thread.is_none() {
            return;
        }
        let was_in_line = self.is_in_line();
        match (was_in_line, self.backoff.next(now, look)) {
            (true, ThreadPolicy::Last) => self.be_where(caller),
            (false, ThreadPolicy::Last) => {
                self.be_where(caller);
                self.line.let_in();
            }
            (true, ThreadPolicy::Ordinary) => {
                // Checked before the others could answer it.
                let is_starved = self.line.has_left_anything();
                self.leave();
                if is_starved {
                    self.backoff.starved(now);
                }
            }
            (false, ThreadPolicy::Ordinary) => {}
        }
    }

    /// Keeps it outside for a while.
    pub(super) fn stand_up(&mut self, now: Instant) {
        if self.is_in_line() {
            self.leave();
        }
        self.backoff.stand_up(now);
    }

    pub(super) fn end(&mut self) {
        self.thread = None;
        self.backoff.stand_up(Instant::now());
        self.line.end();
    }

    fn leave(&mut self) {
        self.line.keep_out();
        // Its current request may finish on any CPU.
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
