//! Threads that give way to those whom they serve.
//!
//! A request is served fastest where its caller runs: the caller goes to sleep, our thread runs in its place, and then
//! the caller again. But when the caller is woken, our thread still has the CPU, so the scheduler sends the caller to
//! another one that is idle. Waking that costs more than serving, and the next request goes another way. And after a
//! request for which the caller does not wait, as RELEASE, our thread takes the CPU from it.
//!
//! To a thread that comes last ([`Policy::Last`]) none of this happens: its CPU counts as idle, so the caller stays there,
//! and what nobody waits for is served when the caller sleeps. On `/dev/fuse`, whose threads serve callers on all CPUs,
//! the thread also has to be where its caller is, so it is bound to that CPU.
//!
//! Such a thread gets next to nothing where others want the CPU all the time. So a watch looks at it every few
//! milliseconds: it comes last while requests come thick and fast and it does not wait for long, and otherwise is a
//! thread like any other ([`Pace`]). The watch begins with the first busy moment and sleeps while nothing comes.
//!
//! A process that has no right to make a thread ordinary again keeps one that comes last for good, on `/dev/fuse`, and has it
//! take the requests meanwhile ([`Standby`]). Over io_uring all stays as it is there: a request that was given to the ring of
//! one thread cannot be served by another.
//!
//! A lock that a closed file had ends with its RELEASE, for which somebody else may wait. So from the moment a lock is
//! asked for until there is none, all threads are ordinary.

mod pace;
mod seen;
mod standby;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::Thread;
use std::time::{Duration, Instant};

use rustix::thread::Pid;

use crate::abi::{InHeader, Opcode};
use crate::session::Session;

use self::pace::{Look, MANY, PERIOD, Pace};
use self::seen::{WaitingTime, cpu_of};
pub use self::standby::Line;
use self::standby::Standby;
use super::scheduling::{Policy, is_ours, roam, run_anywhere, set_policy, stay_on};

/// After so many requests of a thread, the watch is woken if it sleeps.
const WAKES: u64 = 64;

/// The threads that serve one connection. Clones share them.
#[derive(Clone)]
pub struct GivingWay(Arc<Shared>);

struct Shared {
    session: Arc<Session>,
    threads: Mutex<Vec<Watched>>,
    /// Locked before the threads are.
    standby: Option<Mutex<Standby>>,
    is_awake: AtomicBool,
    watch: OnceLock<Thread>,
}

/// What a thread tells of itself.
#[derive(Default)]
struct Told {
    served: AtomicU64,
    /// The thread whose request it served last, and how often that was another one.
    caller: AtomicU32,
    callers: AtomicU64,
}

/// Which callers a thread serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callers {
    /// It is bound to a CPU, and serves those that run there.
    ItsCpu,
    /// It serves callers on all CPUs.
    AllCpus,
    /// The same, in a thread that comes last for good.
    AllCpusForNow,
}

/// Of the calling thread; it is watched until this goes, which must be before the thread does.
pub struct Serves {
    shared: Arc<Shared>,
    thread: Pid,
    told: Arc<Told>,
}

impl GivingWay {
    pub fn new(session: Arc<Session>) -> GivingWay {
        GivingWay::made(session, None)
    }

    /// With a thread that comes last for good, and takes requests while it is in line with the others.
    pub fn with_standby(session: Arc<Session>, line: Box<dyn Line>) -> GivingWay {
        GivingWay::made(session, Some(Mutex::new(Standby::new(line))))
    }

    fn made(session: Arc<Session>, standby: Option<Mutex<Standby>>) -> GivingWay {
        let (threads, is_awake, watch) = (Mutex::default(), AtomicBool::new(false), OnceLock::new());
        GivingWay(Arc::new(Shared { session, threads, standby, is_awake, watch }))
    }

    /// The calling thread serves requests from now on. `None` if the kernel tells nothing of it.
    pub fn join(&self, callers: Callers) -> Option<Serves> {
        let (thread, told) = (rustix::thread::gettid(), Arc::<Told>::default());
        let waiting = WaitingTime::of(thread).ok()?;
        let watched = Watched::new(thread, told.clone(), waiting, callers);
        if let (Callers::AllCpusForNow, Some(mut standby)) = (callers, self.0.standby()) {
            standby.is(thread);
        }
        self.0.threads().push(watched);
        Some(Serves { shared: self.0.clone(), thread, told })
    }

    /// The connection has ended: a thread that waits for its turn would not hear of it.
    pub fn end(&self) {
        if let Some(mut standby) = self.0.standby() {
            standby.end();
        }
    }
}

impl Serves {
    /// A request is about to be served.
    pub fn one(&self, request: &InHeader) {
        if [Opcode::Setlk as u32, Opcode::Setlkw as u32].contains(&request.opcode) {
            self.shared.stand_up();
        }
        self.count(request.pid);
    }

    /// Zero is nobody's number.
    fn count(&self, caller: u32) {
        // Nobody else writes these.
        let add = |to: &AtomicU64| {
            let sum = to.load(Ordering::Relaxed) + 1;
            to.store(sum, Ordering::Relaxed);
            sum
        };
        let served = add(&self.told.served);
        if caller != 0 && self.told.caller.load(Ordering::Relaxed) != caller {
            self.told.caller.store(caller, Ordering::Relaxed);
            add(&self.told.callers);
        }
        if served % WAKES == 0 && !self.shared.is_awake.load(Ordering::Relaxed) {
            self.shared.wake_watch();
        }
    }
}

impl Drop for Serves {
    fn drop(&mut self) {
        stand_up_oneself();
        // The watch must not touch a number that another thread may get.
        self.shared.threads().retain(|watched| watched.thread != self.thread);
    }
}

impl Shared {
    fn threads(&self) -> MutexGuard<'_, Vec<Watched>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn standby(&self) -> Option<MutexGuard<'_, Standby>> {
        self.standby.as_ref().map(|standby| standby.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Looks at each thread once; returns whether any has something to do.
    fn look(&self) -> bool {
        let now = Instant::now();
        let standby = self.standby();
        let mut threads = self.threads();
        // Asked under the lock: whoever asks for a file lock from here on makes all stand up again.
        let must_be_prompt = self.session.must_be_prompt();
        // One caller may keep several threads busy: while one has yet to get the CPU, the kernel wakes the next.
        let mut callers = threads.iter().filter(|watched| watched.is_busy_for_all()).map(Watched::caller);
        let is_helped = callers.next().is_some_and(|first| callers.any(|other| other != first));
        let around = Look { must_be_prompt, is_helped, ..Look::default() };
        if let Some(mut standby) = standby {
            let (is_active, serving) = busiest(&mut threads, around, standby.is_in_line());
            // What it rescues may make others stand up, who need these.
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
        self.threads().iter_mut().for_each(|watched| watched.stand_up(now));
    }

    fn wake_watch(self: &Arc<Shared>) {
        if self.is_awake.swap(true, Ordering::AcqRel) {
            return;
        }
        match self.watch.get() {
            Some(watch) => watch.unpark(),
            None => self.start_watch(),
        }
    }

    /// Without a watch nobody gives way.
    fn start_watch(self: &Arc<Shared>) {
        let this = Arc::downgrade(self);
        let thread = std::thread::Builder::new().name("fuse-watch".into());
        if let Ok(watch) = thread.spawn(move || watch(&this)) {
            // Or it has said so itself.
            let _ = self.watch.set(watch.thread().clone());
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(watch) = self.watch.get() {
            watch.unpark();
        }
    }
}

/// Before a lock is taken that the watch needs: who comes last could keep it for long. It is ordinary already, or was before
/// it was made to come last.
fn stand_up_oneself() {
    let _ = set_policy(None, Policy::Ordinary);
}

/// Whether this process may make a thread come last and take that back.
pub fn may_give_way() -> bool {
    let tried = std::thread::Builder::new().spawn(comes_back);
    tried.is_ok_and(|thread| thread.join().unwrap_or(false))
}

/// Tries it with the calling thread, which stays last if it may not.
fn comes_back() -> bool {
    set_policy(None, Policy::Last).and_then(|()| run_anywhere()).is_ok()
}

/// What was seen of the thread that takes requests, the one that comes last for good or the busiest of the others, with the
/// caller that it served last; and whether any has done anything.
fn busiest(threads: &mut [Watched], around: Look, is_standby_in_line: bool) -> (bool, Option<(Look, u32)>) {
    let mut is_active = false;
    let mut found: Option<(Look, u32)> = None;
    for watched in threads {
        let is_standby = watched.callers == Callers::AllCpusForNow;
        let look = watched.since_last(around);
        is_active |= look.served > 0;
        if is_standby == is_standby_in_line && found.is_none_or(|(busiest, _)| busiest.served < look.served) {
            found = Some((look, watched.caller()));
        }
    }
    (is_active, found)
}

fn watch(shared: &Weak<Shared>) {
    let Some(begun) = shared.upgrade() else { return };
    // If it may not be, this counts as awake for ever, and nobody asks again.
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

/// A thread and what is known of it.
struct Watched {
    thread: Pid,
    told: Arc<Told>,
    waiting: WaitingTime,
    callers: Callers,
    pace: Pace,
    /// The CPU to which it is bound because its caller is there.
    bound: Option<usize>,
    /// What was told at the last look.
    served: u64,
    changed: u64,
    waited: Duration,
}

impl Watched {
    fn new(thread: Pid, told: Arc<Told>, waiting: WaitingTime, callers: Callers) -> Watched {
        let pace = Pace::new(callers != Callers::ItsCpu);
        let waited = waiting.so_far().unwrap_or_default();
        Watched { thread, told, waiting, callers, pace, bound: None, served: 0, changed: 0, waited }
    }

    /// Whether it has served callers of all CPUs lately, and not only once in a while.
    fn is_busy_for_all(&self) -> bool {
        let served = self.told.served.load(Ordering::Relaxed) - self.served;
        self.callers != Callers::ItsCpu && served >= MANY / 4
    }

    fn caller(&self) -> u32 {
        self.told.caller.load(Ordering::Relaxed)
    }

    /// Returns whether there is anything to be watched. What is seen of the thread itself is added to what is known.
    fn look(&mut self, now: Instant, around: Look) -> bool {
        let before = self.pace.policy();
        // On a machine of many CPUs most threads have nothing to do.
        let is_idle = self.told.served.load(Ordering::Relaxed) == self.served;
        if is_idle && before == Policy::Ordinary && self.bound.is_none() {
            return false;
        }
        let look = self.since_last(around);
        let policy = self.pace.next(now, &look);
        // A thread that cannot be made to wait is as fast as before.
        if policy != before && set_policy(Some(self.thread), policy).is_err() {
            return false;
        }
        if self.callers == Callers::AllCpus {
            self.be_where_caller_is(policy);
        }
        look.served > 0 || policy == Policy::Last
    }

    fn stand_up(&mut self, now: Instant) {
        if self.pace.policy() == Policy::Last {
            // It was allowed to when it was made to come last.
            let _ = set_policy(Some(self.thread), Policy::Ordinary);
        }
        self.pace.stand_up(now);
    }

    fn since_last(&mut self, around: Look) -> Look {
        let served = self.told.served.load(Ordering::Relaxed);
        let changed = self.told.callers.load(Ordering::Relaxed);
        let waited = self.waiting.so_far().unwrap_or(self.waited);
        let look = Look {
            served: served - self.served,
            waited: waited.saturating_sub(self.waited),
            callers: changed - self.changed,
            ..around
        };
        (self.served, self.changed, self.waited) = (served, changed, waited);
        look
    }

    fn be_where_caller_is(&mut self, policy: Policy) {
        let cpu = match policy {
            Policy::Ordinary => None,
            Policy::Last => cpu_of(self.caller()).filter(|cpu| is_ours(*cpu)).or(self.bound),
        };
        if cpu != self.bound {
            let moved = cpu.map_or_else(|| roam(Some(self.thread)), |cpu| stay_on(Some(self.thread), cpu));
            // Where that is not allowed, the thread works as well, only further away.
            self.bound = moved.map_or(self.bound, |()| cpu);
        }
    }
}
