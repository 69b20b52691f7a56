//! The kernel's information about threads.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use rustix::thread::Pid;

/// How long a thread has waited for a CPU.
pub(super) struct WaitingTime(File);

impl WaitingTime {
    /// Of a thread of this process.
    pub(super) fn of(thread: Pid) -> io::Result<WaitingTime> {
        File::open(format!("/proc/self/task/{}/schedstat", thread.as_raw_nonzero())).map(WaitingTime)
    }

    /// Since the thread began. A wait counts when it is over.
    pub(super) fn so_far(&self) -> Option<Duration> {
        let mut room = [0; 128];
        let len = self.0.read_at(&mut room, 0).ok()?;
        let text = std::str::from_utf8(&room[..len]).ok()?;
        text.split_whitespace()
            .nth(1)?
            .parse()
            .ok()
            .map(Duration::from_nanos)
    }
}

/// The CPU on which a thread of any process runs, or ran last.
pub(super) fn cpu_of(thread: u32) -> Option<usize> {
    const CPU: usize = 39;
    /// The first field after the name, which may contain anything.
    const STATE: usize = 3;
    let text = std::fs::read_to_string(format!("/proc/{thread}/stat")).ok()?;
    let (_, behind_name) = text.rsplit_once(')')?;
    behind_name.split_whitespace().nth(CPU - STATE)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::scheduling::stay_on;

    #[test]
    fn the_kernel_tells_where_a_thread_runs_and_how_long_it_waited() {
        let bound = std::thread::spawn(|| {
            let own = rustix::thread::gettid();
            let allowed = rustix::thread::sched_getaffinity(None).expect("own CPUs");
            for cpu in (0..1024).filter(|cpu| allowed.is_set(*cpu)) {
                stay_on(None, cpu).expect("allowed");
                assert_eq!(cpu_of(own.as_raw_nonzero().get() as u32), Some(cpu));
            }
            WaitingTime::of(own).expect("the kernel counts it").so_far()
        });
        assert!(bound.join().expect("no panic").is_some());
        assert_eq!(cpu_of(u32::MAX), None);
    }
}
