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
pub struct Placement {
    /// Where the thread was allowed to run when it started.
    allowed: Option<CpuSet>,
    bound: Option<usize>,
    caller: u32,
    /// How many requests in a row came from the caller.
    run: u32,
    /// How often the caller changed since the thread last looked.
    changes: u32,
}

impl Placement {
    /// To be made on the thread itself.
    pub fn new(follows: bool) -> Placement {
        let allowed = follows.then(|| rustix::thread::sched_getaffinity(None).ok()).flatten();
        Placement { allowed, bound: None, caller: 0, run: 0, changes: 0 }
    }

    /// A request of a process was served.
    pub fn served(&mut self, caller: u32) {
        let Some(allowed) = &self.allowed else { return };
        if caller != self.caller {
            (self.caller, self.run) = (caller, 0);
            self.changes += 1;
            if self.changes == CHANGES_MAX {
                self.bound = self.bound.filter(|_| !set(None, allowed));
            }
            return;
        }
        self.run += 1;
        if !self.run.is_multiple_of(LOOK_EVERY) || caller == 0 {
            return;
        }
        self.changes = 0;
        let processor = processor_of(caller)
            .filter(|processor| *processor < CpuSet::MAX_CPU && allowed.is_set(*processor));
        if processor != self.bound && set(processor, allowed) {
            self.bound = processor;
        }
    }
}

fn set(processor: Option<usize>, allowed: &CpuSet) -> bool {
    let one = processor.map(|processor| {
        let mut one = CpuSet::new();
        one.set(processor);
        one
    });
    rustix::thread::sched_setaffinity(None, one.as_ref().unwrap_or(allowed)).is_ok()
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
    fn the_processor_of_a_thread_is_found() {
        let only = rustix::thread::sched_getaffinity(None).unwrap();
        let first = (0..CpuSet::MAX_CPU).find(|processor| only.is_set(*processor)).unwrap();
        assert!(set(Some(first), &only));
        let us = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        assert_eq!(processor_of(us), Some(first));
        assert!(set(None, &only));
        assert_eq!(processor_of(u32::MAX), None);
    }
}
