//! On which processor a thread serves.
//!
//! A caller sleeps until its request is answered, so its processor is free meanwhile. A thread that serves
//! there is switched to at once; one on another, idle processor has to be woken from afar, and the caller
//! again after it. The scheduler prefers the idle one. So a thread whose requests come from one caller for a
//! while goes where that caller runs, and is free again when callers change.

use rustix::thread::CpuSet;

/// After so many requests of one caller a thread looks where it runs.
const LOOK_EVERY: u32 = 64;
/// After so many changes of the caller a thread is free again.
const CHANGES_MAX: u32 = 8;

/// The place of one thread.
#[derive(Default)]
pub struct Placement {
    /// Where the thread was allowed to run when it first moved.
    allowed: Option<CpuSet>,
    bound: Option<usize>,
    caller: u32,
    /// How many requests in a row came from the caller.
    run: u32,
    /// How often the caller changed since the thread last looked.
    changes: u32,
}

impl Placement {
    /// A request of a process was served; to be called on the thread that served it.
    pub fn served(&mut self, caller: u32) {
        if caller != self.caller {
            (self.caller, self.run) = (caller, 0);
            self.changes = self.changes.saturating_add(1);
            if self.changes == CHANGES_MAX && self.bound.is_some() {
                self.go(None);
            }
            return;
        }
        self.run = self.run.wrapping_add(1);
        if !self.run.is_multiple_of(LOOK_EVERY) || caller == 0 {
            return;
        }
        self.changes = 0;
        let processor = processor_of(caller);
        if processor != self.bound {
            self.go(processor);
        }
    }

    /// Binds the thread to a processor, or lets it go where it was allowed to.
    fn go(&mut self, processor: Option<usize>) {
        if self.allowed.is_none() {
            self.allowed = rustix::thread::sched_getaffinity(None).ok();
        }
        let Some(allowed) = &self.allowed else { return };
        let processor = processor.filter(|one| *one < CpuSet::MAX_CPU && allowed.is_set(*one));
        let one = processor.map(|processor| {
            let mut one = CpuSet::new();
            one.set(processor);
            one
        });
        if rustix::thread::sched_setaffinity(None, one.as_ref().unwrap_or(allowed)).is_ok() {
            self.bound = processor;
        }
    }
}

/// The processor on which a thread ran last: the 37th field behind its name, which may contain anything but
/// is the last that ends with a parenthesis.
fn processor_of(thread: u32) -> Option<usize> {
    let stat = std::fs::read(format!("/proc/{thread}/stat")).ok()?;
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let field = stat[name_end + 1..].split(|byte| *byte == b' ').nth(37)?;
    std::str::from_utf8(field).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_goes_where_its_caller_runs_and_is_free_when_callers_change() {
        let allowed = rustix::thread::sched_getaffinity(None).unwrap();
        let us = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let mut placement = Placement::default();
        (0..=LOOK_EVERY).for_each(|_| placement.served(us));
        let bound = placement.bound.unwrap();
        assert_eq!(processor_of(us), Some(bound));
        assert_eq!(rustix::thread::sched_getaffinity(None).unwrap().count(), 1);
        (0..CHANGES_MAX).for_each(|change| placement.served(us + 1 + change));
        assert_eq!(placement.bound, None);
        assert_eq!(rustix::thread::sched_getaffinity(None).unwrap(), allowed);
        assert_eq!(processor_of(u32::MAX), None);
    }
}
