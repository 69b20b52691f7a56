//! The CPUs and the scheduling policies of our threads.
#![allow(
    unsafe_code,
    reason = "the library has no name for the call that sets a policy"
)]

use rustix::io::Errno;
use rustix::process::Resource;
use rustix::thread::{CapabilitySet, CpuSet, Pid, capabilities};

/// The priority of a thread relative to others on its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreadPolicy {
    Ordinary,
    /// It runs only when no other thread wants the CPU. To the scheduler, a CPU that has only such threads is
    /// idle.
    Last,
}

/// Binds a thread of ours (`None`: the calling one) to a CPU.
pub(super) fn stay_on(thread: Option<Pid>, cpu: usize) -> rustix::io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(Errno::INVAL);
    }
    let mut only = CpuSet::new();
    only.set(cpu);
    rustix::thread::sched_setaffinity(thread, &only)
}

/// Lets a thread of ours run on every CPU of the process.
pub(super) fn roam(thread: Option<Pid>) -> rustix::io::Result<()> {
    // The number of the process is that of its first thread, which serves no requests.
    let anywhere = rustix::thread::sched_getaffinity(Some(rustix::process::getpid()))?;
    rustix::thread::sched_setaffinity(thread, &anywhere)
}

/// Whether this process may run on a CPU.
pub(super) fn is_ours(cpu: usize) -> bool {
    let ours = rustix::thread::sched_getaffinity(Some(rustix::process::getpid()));
    cpu < CpuSet::MAX_CPU && ours.is_ok_and(|ours| ours.is_set(cpu))
}

/// Makes the calling thread an ordinary one. A new thread inherits the CPU binding and the policy of its
/// creator, and threads that serve requests are bound to one CPU and may have the idle policy.
pub fn run_anywhere() -> rustix::io::Result<()> {
    let policy = set_policy(None, ThreadPolicy::Ordinary);
    roam(None)?;
    policy
}

/// Whether a thread of this process with the idle policy could be made ordinary again. In a user namespace
/// the capability means nothing, so that must be tried as well.
pub(super) fn may_come_back() -> bool {
    /// A limit of 20 allows a niceness of 0.
    const NICENESS_ZERO: u64 = 20;
    let limit = rustix::process::getrlimit(Resource::Nice).current;
    let has_capability = capabilities(None).is_ok_and(|own| own.effective.contains(CapabilitySet::SYS_NICE));
    has_capability || limit.is_none_or(|limit| limit >= NICENESS_ZERO)
}

/// Sets the policy of a thread of ours (`None`: of the calling one). Going back to [`ThreadPolicy::Ordinary`]
/// requires CAP_SYS_NICE, or a limit on niceness (RLIMIT_NICE) that allows it.
pub(super) fn set_policy(thread: Option<Pid>, policy: ThreadPolicy) -> rustix::io::Result<()> {
    let number = match policy {
        ThreadPolicy::Ordinary => libc::SCHED_OTHER,
        ThreadPolicy::Last => libc::SCHED_IDLE,
    };
    let thread = thread.map_or(0, |thread| thread.as_raw_nonzero().get());
    // The kernel's `sched_param` is the priority alone, which these policies do not have.
    let priority: libc::c_int = 0;
    // SAFETY: the call reads the priority and keeps nothing. Not all C libraries have a function for it.
    let outcome = unsafe { libc::syscall(libc::SYS_sched_setscheduler, thread, number, &raw const priority) };
    match outcome {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_a_bound_one_started_can_run_anywhere() {
        let own = || rustix::thread::sched_getaffinity(None).expect("own CPUs");
        let all = own();
        let work = move || {
            run_anywhere().expect("allowed");
            own()
        };
        let bound = std::thread::spawn(move || {
            let first = (0..CpuSet::MAX_CPU)
                .find(|cpu| own().is_set(*cpu))
                .expect("a CPU");
            stay_on(None, first).expect("allowed");
            (own().count(), std::thread::spawn(work).join().expect("no panic"))
        });
        assert_eq!(bound.join().expect("no panic"), (1, all));
    }

    #[test]
    fn a_thread_that_one_of_the_last_started_can_be_an_ordinary_one() {
        let last = std::thread::spawn(|| {
            set_policy(None, ThreadPolicy::Last).expect("everybody may");
            let started = std::thread::spawn(|| {
                let before = own_policy();
                run_anywhere().expect("root may");
                (before, own_policy())
            });
            started.join().expect("no panic")
        });
        assert_eq!(
            last.join().expect("no panic"),
            (libc::SCHED_IDLE, libc::SCHED_OTHER)
        );
    }

    fn own_policy() -> i32 {
        // SAFETY: the call has no pointers.
        unsafe { libc::sched_getscheduler(0) }
    }

    #[test]
    fn no_thread_stays_on_a_cpu_that_cannot_be() {
        assert_eq!(stay_on(None, CpuSet::MAX_CPU), Err(Errno::INVAL));
    }
}
