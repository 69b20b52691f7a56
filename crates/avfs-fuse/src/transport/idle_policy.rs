//! Threads that yield to the callers that they serve.
//!
//! A request is served fastest on the CPU of its caller: the caller goes to sleep, our thread runs in its
//! place, and then the caller again. But when the caller is woken, our thread still has the CPU, so the
//! scheduler sends the caller to another one that is idle. Waking that CPU costs more than serving, and the
//! next request takes another path. And after a request for which the caller does not wait, such as RELEASE,
//! our thread takes the CPU from the caller.
//!
//! None of this happens with a thread that has the idle policy ([`ThreadPolicy::Last`]): its CPU counts as
//! idle, so the caller stays there, and requests that need no waiting are served when the caller sleeps. On
//! `/dev/fuse`, whose threads serve callers on all CPUs, the thread also has to be where its caller is, so it
//! is bound to that CPU.
//!
//! Such a thread gets almost no time on a CPU that other threads keep busy. So a watch examines it every few
//! milliseconds: the thread has the idle policy while requests are frequent and it does not wait for long,
//! and otherwise is an ordinary thread ([`Backoff`]). The watch begins with the first busy moment and sleeps
//! while no requests come.
//!
//! A process without the right to make a thread ordinary again keeps one thread with the idle policy
//! permanently, on `/dev/fuse`, and lets it take the requests meanwhile ([`Standby`]). Over io_uring nothing
//! changes in that case: a request that was given to the ring of one thread cannot be served by another.
//!
//! A lock of a closed file ends with its RELEASE, for which another process may wait. So from the moment a
//! lock is requested until no lock is left, all threads are ordinary.

mod backoff;
mod kernel_view;
mod standby;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::Thread;
use std::time::{Duration, Instant};

use rustix::thread::Pid;

use crate::abi::{InHeader, Opcode};
use crate::session::FuseSession;

use self::backoff::{Backoff, MANY, PERIOD, ThreadLook};
use self::kernel_view::{WaitingTime, cpu_of};
pub(super) use self::standby::RequestLine;
use self::standby::Standby;
use super::scheduling::{ThreadPolicy, is_ours, roam, run_anywhere, set_policy, stay_on};

/// After this many requests, a thread wakes the watch if it sleeps.
const WAKES: u64 = 64;

/// The threads that serve one connection. Clones share them.
#[derive(Clone)]
pub(super) struct IdlePolicy(Arc<PolicyShared>);

struct PolicyShared {
    session: Arc<FuseSession>,
    threads: Mutex<Vec<WatchedThread>>,
    /// Lock order: before the threads.
    standby: Option<Mutex<Standby>>,
    is_awake: AtomicBool,
    watch: OnceLock<Thread>,
}

/// What a thread reports about itself.
#[derive(Default)]
struct ServedCounts {
    served: AtomicU64,
    /// The caller that it served last, and how often the caller changed.
    caller: AtomicU32,
    callers: AtomicU64,
}

/// The callers that a thread serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServedCallers {
    /// It is bound to a CPU, and serves the callers that run there.
    ItsCpu,
    /// It serves callers on all CPUs.
    AllCpus,
    /// The same, for a thread that permanently has the idle policy.
    AllCpusForNow,
}

/// Belongs to the calling thread, which is watched until this is dropped; that must happen before the thread
/// ends.
pub(super) struct ServingThread {
    shared: Arc<PolicyShared>,
    thread: Pid,
    counts: Arc<ServedCounts>,
}

impl IdlePolicy {
    pub(super) fn new(session: Arc<FuseSession>) -> IdlePolicy {
        IdlePolicy::made(session, None)
    }

    /// With a thread that permanently has the idle policy, and takes requests while it is in line with the
    /// others.
    pub(super) fn with_standby(session: Arc<FuseSession>, line: Box<dyn RequestLine>) -> IdlePolicy {
        IdlePolicy::made(session, Some(Mutex::new(Standby::new(line))))
    }

    fn made(session: Arc<FuseSession>, standby: Option<Mutex<Standby>>) -> IdlePolicy {
        let threads = Mutex::default();
        let is_awake = AtomicBool::new(false);
        let watch = OnceLock::new();
        IdlePolicy(Arc::new(PolicyShared {
            session,
            threads,
            standby,
            is_awake,
            watch,
        }))
    }

    /// The calling thread serves requests from now on. `None` if the kernel reports nothing about it.
    pub(super) fn join(&self, callers: ServedCallers) -> Option<ServingThread> {
        let thread = rustix::thread::gettid();
        let counts = Arc::<ServedCounts>::default();
        let waiting = WaitingTime::of(thread).ok()?;
        let watched = WatchedThread::new(thread, counts.clone(), waiting, callers);
        if let (ServedCallers::AllCpusForNow, Some(mut standby)) = (callers, self.0.standby()) {
            standby.is(thread);
        }
        self.0.threads().push(watched);
        Some(ServingThread {
            shared: self.0.clone(),
            thread,
            counts,
        })
    }

    /// The connection has ended: a thread that waits for its turn would not notice.
    pub(super) fn end(&self) {
        if let Some(mut standby) = self.0.standby() {
            standby.end();
        }
    }
}

impl ServingThread {
    /// A request is about to be served.
    pub(super) fn one(&self, request: &InHeader) {
        if [Opcode::Setlk as u32, Opcode::Setlkw as u32].contains(&request.opcode) {
            self.shared.stand_up();
        }
        self.count(request.pid);
    }

    /// Zero is never the number of a thread.
    fn count(&self, caller: u32) {
        // No other thread writes these.
        let add = |to: &AtomicU64| {
            let sum = to.load(Ordering::Relaxed) + 1;
            to.store(sum, Ordering::Relaxed);
            sum
        };
        let served = add(&self.counts.served);
        if caller != 0 && self.counts.caller.load(Ordering::Relaxed) != caller {
            self.counts.caller.store(caller, Ordering::Relaxed);
            add(&self.counts.callers);
        }
        if served % WAKES == 0 && !self.shared.is_awake.load(Ordering::Relaxed) {
            self.shared.wake_watch();
        }
    }
}

impl Drop for ServingThread {
    fn drop(&mut self) {
        stand_up_oneself();
        // The watch must not use a thread id that another thread may get.
        self.shared
            .threads()
            .retain(|watched| watched.thread != self.thread);
    }
}

impl PolicyShared {
    fn threads(&self) -> MutexGuard<'_, Vec<WatchedThread>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn standby(&self) -> Option<MutexGuard<'_, Standby>> {
        self.standby
            .as_ref()
            .map(|standby| standby.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Examines each thread once; returns whether any has something to do.
    fn look(&self) -> bool {
        let now = Instant::now();
        let standby = self.standby();
        let mut threads = self.threads();
        // Checked under the lock: a later request for a file lock makes all threads ordinary again.
        let must_be_prompt = self.session.must_be_prompt();
        // One caller may keep several threads busy: while one of them waits for the CPU, the kernel wakes the
        // next.
        let mut callers = threads
            .iter()
            .filter(|watched| watched.is_busy_for_all())
            .map(WatchedThread::caller);
        let is_helped = callers
            .next()
            .is_some_and(|first| callers.any(|other| other != first));
        let around = ThreadLook {
            must_be_prompt,
            is_helped,
            ..ThreadLook::default()
        };
        if let Some(mut standby) = standby {
            let (is_active, serving) = busiest(&mut threads, around, standby.is_in_line());
            // Rescuing a request may make other threads ordinary, which needs this lock.
            drop(threads);
            if let Some((look, caller)) = serving {
                standby.look(now, &look, caller);
            }
            return is_active || standby.is_in_line();
        }
        let active = threads.iter_mut().map(|watched| watched.look(now, around));
        active.fold(false, |any, active| any | active)
    }

    fn stand_up(&self) {
        stand_up_oneself();
        let now = Instant::now();
        if let Some(mut standby) = self.standby() {
            return standby.stand_up(now);
        }
        self.threads()
            .iter_mut()
            .for_each(|watched| watched.stand_up(now));
    }

    fn wake_watch(self: &Arc<PolicyShared>) {
        if self.is_awake.swap(true, Ordering::AcqRel) {
            return;
        }
        match self.watch.get() {
            Some(watch) => watch.unpark(),
            None => self.start_watch(),
        }
    }

    /// Without a watch, no thread yields.
    fn start_watch(self: &Arc<PolicyShared>) {
        let this = Arc::downgrade(self);
        let thread = std::thread::Builder::new().name("fuse-watch".into());
        if let Ok(watch) = thread.spawn(move || watch(&this)) {
            // Or the thread has set it itself.
            let _ = self.watch.set(watch.thread().clone());
        }
    }
}

impl Drop for PolicyShared {
    fn drop(&mut self) {
        if let Some(watch) = self.watch.get() {
            watch.unpark();
        }
    }
}

/// Called before a lock is taken that the watch needs: a thread with the idle policy could keep it for long.
/// The thread is ordinary already, or was before the policy was set.
fn stand_up_oneself() {
    let _ = set_policy(None, ThreadPolicy::Ordinary);
}

/// Whether this process may set and undo the idle policy of a thread.
pub fn may_yield_to_callers() -> bool {
    let tried = std::thread::Builder::new().spawn(comes_back);
    tried.is_ok_and(|thread| thread.join().unwrap_or(false))
}

/// Tries it on the calling thread, which keeps the idle policy if the process may not undo it.
fn comes_back() -> bool {
    set_policy(None, ThreadPolicy::Last)
        .and_then(|()| run_anywhere())
        .is_ok()
}

/// The state of the thread that takes requests, either the one with the permanent idle policy or the busiest
/// of the others, with the caller that it served last; and whether any has done anything.
fn busiest(
    threads: &mut [WatchedThread],
    around: ThreadLook,
    is_standby_in_line: bool,
) -> (bool, Option<(ThreadLook, u32)>) {
    let mut is_active = false;
    let mut found: Option<(ThreadLook, u32)> = None;
    for watched in threads {
        let is_standby = watched.callers == ServedCallers::AllCpusForNow;
        let look = watched.since_last(around);
        is_active |= look.served > 0;
        if is_standby == is_standby_in_line && found.is_none_or(|(busiest, _)| busiest.served < look.served) {
            found = Some((look, watched.caller()));
        }
    }
    (is_active, found)
}

fn watch(shared: &Weak<PolicyShared>) {
    let Some(begun) = shared.upgrade() else { return };
    // If the process may not, the watch counts as awake forever, so this is not tried again.
    if begun.standby.is_none() && !comes_back() {
        return;
    }
    let _ = begun.watch.set(std::thread::current());
    drop(begun);
    loop {
        std::thread::sleep(PERIOD);
        let Some(shared) = shared.upgrade() else { return };
        if !shared.look() {
            shared.is_awake.store(false, Ordering::Release);
            drop(shared);
            std::thread::park();
        }
    }
}

/// A thread and its state.
struct WatchedThread {
    thread: Pid,
    counts: Arc<ServedCounts>,
    waiting: WaitingTime,
    callers: ServedCallers,
    backoff: Backoff,
    /// The CPU to which it is bound because its caller is there.
    bound: Option<usize>,
    /// The number of requests at the last look.
    served: u64,
    changed: u64,
    waited: Duration,
}

impl WatchedThread {
    fn new(
        thread: Pid,
        counts: Arc<ServedCounts>,
        waiting: WaitingTime,
        callers: ServedCallers,
    ) -> WatchedThread {
        let backoff = Backoff::new(callers != ServedCallers::ItsCpu);
        let waited = waiting.so_far().unwrap_or_default();
        WatchedThread {
            thread,
            counts,
            waiting,
            callers,
            backoff,
            bound: None,
            served: 0,
            changed: 0,
            waited,
        }
    }

    /// Whether it has recently served callers on all CPUs, and not only occasionally.
    fn is_busy_for_all(&self) -> bool {
        let served = self.counts.served.load(Ordering::Relaxed) - self.served;
        self.callers != ServedCallers::ItsCpu && served >= MANY / 4
    }

    fn caller(&self) -> u32 {
        self.counts.caller.load(Ordering::Relaxed)
    }

    /// Returns whether anything needs to be watched. Adds observations of the thread itself to `around`.
    fn look(&mut self, now: Instant, around: ThreadLook) -> bool {
        let before = self.backoff.policy();
        // On a machine with many CPUs most threads have nothing to do.
        let is_idle = self.counts.served.load(Ordering::Relaxed) == self.served;
        if is_idle && before == ThreadPolicy::Ordinary && self.bound.is_none() {
            return false;
        }
        let look = self.since_last(around);
        let policy = self.backoff.next(now, &look);
        // A thread whose policy cannot be changed is as fast as before.
        if policy != before && set_policy(Some(self.thread), policy).is_err() {
            return false;
        }
        if self.callers == ServedCallers::AllCpus {
            self.be_where_caller_is(policy);
        }
        look.served > 0 || policy == ThreadPolicy::Last
    }

    fn stand_up(&mut self, now: Instant) {
        if self.backoff.policy() == ThreadPolicy::Last {
            // Allowed: it was checked before the idle policy was set.
            let _ = set_policy(Some(self.thread), ThreadPolicy::Ordinary);
        }
        self.backoff.stand_up(now);
    }

    fn since_last(&mut self, around: ThreadLook) -> ThreadLook {
        let served = self.counts.served.load(Ordering::Relaxed);
        let changed = self.counts.callers.load(Ordering::Relaxed);
        let waited = self.waiting.so_far().unwrap_or(self.waited);
        let look = ThreadLook {
            served: served - self.served,
            waited: waited.saturating_sub(self.waited),
            callers: changed - self.changed,
            ..around
        };
        self.served = served;
        self.changed = changed;
        self.waited = waited;
        look
    }

    fn be_where_caller_is(&mut self, policy: ThreadPolicy) {
        let cpu = match policy {
            ThreadPolicy::Ordinary => None,
            ThreadPolicy::Last => cpu_of(self.caller()).filter(|cpu| is_ours(*cpu)).or(self.bound),
        };
        if cpu != self.bound {
            let moved = cpu.map_or_else(|| roam(Some(self.thread)), |cpu| stay_on(Some(self.thread), cpu));
            // If that is not allowed, the thread works as well, only further away.
            self.bound = moved.map_or(self.bound, |()| cpu);
        }
    }
}
