//! Serving threads yield to their callers while that makes both faster, and never wait for long.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[macro_use]
mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use avfs_fuse::null::NullFilesystem;
use avfs_fuse::transport::{InUse, Transport};
use avfs_fuse::{Answered, FuseOperation, FuseReply, FuseRequest, FuseService};
use rustix::fs::FlockOperation;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use support::{Fixture, eventually, in_time};

over_both_transports! {
    a_thread_comes_last_while_it_is_busy,
    everybody_is_served_while_others_want_every_cpu,
    a_thread_that_could_not_go_back_stays_as_it_is,
    all_threads_are_ordinary_while_there_are_locks,
}

/// The kernel's number of the idle policy.
const LAST: &str = "5";

fn mounted(transport: Transport) -> Fixture {
    Fixture::mount(Arc::new(NullFilesystem::default()), transport)
}

/// The threads of this process whose names start with `name`.
fn threads(name: &str) -> Vec<PathBuf> {
    let all = fs::read_dir("/proc/self/task")
        .unwrap()
        .map(|task| task.unwrap().path());
    all.filter(|task| fs::read_to_string(task.join("comm")).is_ok_and(|own| own.starts_with(name)))
        .collect()
}

fn policy(thread: &Path) -> Option<String> {
    const POLICY: usize = 41;
    let text = fs::read_to_string(thread.join("stat")).ok()?;
    let (_, behind_name) = text.rsplit_once(')')?;
    behind_name.split_whitespace().nth(POLICY - 3).map(str::to_owned)
}

/// The watch itself has the policy for a moment when it begins, to find out whether it may use it.
fn some_comes_last() -> bool {
    let serving = ["fuse-ring", "fuse-0", "fuse-1"].into_iter().flat_map(threads);
    serving
        .into_iter()
        .any(|thread| policy(&thread).as_deref() == Some(LAST))
}

/// Looks up missing names, one request each, until it is stopped.
struct Caller {
    stop: Arc<AtomicBool>,
    asked: Arc<AtomicU64>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Caller {
    fn start(fixture: &Fixture) -> Caller {
        let (place, stop, asked) = (
            fixture.path().to_owned(),
            Arc::<AtomicBool>::default(),
            Arc::<AtomicU64>::default(),
        );
        let stopped = stop.clone();
        let count = asked.clone();
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let number = count.fetch_add(1, Ordering::Relaxed);
                assert!(fs::metadata(place.join(format!("missing {number}"))).is_err());
            }
        });
        Caller {
            stop,
            asked,
            thread: Some(thread),
        }
    }

    fn has_asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    fn end(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().unwrap();
        in_time("the last answer", move || thread.join().unwrap());
    }
}

fn a_thread_comes_last_while_it_is_busy(transport: Transport) {
    let fixture = mounted(transport);
    assert!(!some_comes_last());
    for _ in 0..2 {
        let caller = Caller::start(&fixture);
        eventually("a busy thread comes last", some_comes_last);
        caller.end();
        eventually("an idle thread is like any other", || !some_comes_last());
    }
    fixture.end();
    eventually("the watch of an ended mount stops", || {
        threads("fuse-watch").is_empty()
    });
}

fn everybody_is_served_while_others_want_every_cpu(transport: Transport) {
    let fixture = mounted(transport);
    let caller = Caller::start(&fixture);
    eventually("a busy thread comes last", some_comes_last);
    is_served_while_others_want_every_cpu(&caller);
    caller.end();
    fixture.end();
}

fn is_served_while_others_want_every_cpu(caller: &Caller) {
    let stop = Arc::<AtomicBool>::default();
    let turns = Arc::<AtomicU64>::default();
    let busy = (0..2 * std::thread::available_parallelism().unwrap().get()).map(|_| {
        let stop = stop.clone();
        let turns = turns.clone();
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                turns.fetch_add(1, Ordering::Relaxed);
            }
        })
    });
    let busy: Vec<_> = busy.collect();
    eventually("they have all been running", || {
        turns.load(Ordering::Relaxed) > 20_000_000
    });
    let begin = caller.has_asked();
    // A thread with the idle policy would serve a handful in that time.
    eventually("a thousand requests are served", || {
        caller.has_asked() > begin + 1000
    });
    stop.store(true, Ordering::Relaxed);
    busy.into_iter().for_each(|thread| thread.join().unwrap());
}

/// A mount whose serving threads may set the idle policy but not undo it, like those of an ordinary user.
fn mounted_without_a_way_back(service: Arc<dyn FuseService>, transport: Transport) -> Fixture {
    support::switch_on(transport);
    let served = std::thread::spawn(move || {
        // Threads that this one starts lose it too.
        let mut own = capabilities(None).unwrap();
        own.effective.remove(CapabilitySet::SYS_NICE);
        own.permitted.remove(CapabilitySet::SYS_NICE);
        set_capabilities(None, own).unwrap();
        Fixture::mount(service, transport)
    });
    served.join().unwrap()
}

fn a_thread_that_could_not_go_back_stays_as_it_is(transport: Transport) {
    let fixture = mounted_without_a_way_back(Arc::new(NullFilesystem::default()), transport);
    let caller = Caller::start(&fixture);
    eventually("requests are served", || caller.has_asked() > 500);
    assert!(!some_comes_last());
    if transport == Transport::Uring {
        eventually("the watch ends", || threads("fuse-watch").is_empty());
    }
    caller.end();
    fixture.end();
}

#[test]
fn the_transport_that_is_chosen_without_a_way_back_is_the_one_where_threads_come_last() {
    support::switch_on(Transport::Uring);
    let chosen = |fixture: &Fixture| {
        assert!(fs::metadata(fixture.path().join("missing")).is_err());
        eventually("the transport is known", || {
            fixture.serving().way().in_use().is_some()
        });
        fixture.serving().way().in_use()
    };
    let fixture = mounted(Transport::Auto);
    assert_eq!(chosen(&fixture), Some(InUse::Uring));
    fixture.end();
    let fixture = mounted_without_a_way_back(Arc::new(NullFilesystem::default()), Transport::Auto);
    assert_eq!(chosen(&fixture), Some(InUse::Device));
    fixture.end();
}

/// How often the thread with the permanent idle policy has had a CPU.
fn turns_of_standby() -> u64 {
    eventually("it has begun", || !threads("fuse-last").is_empty());
    let standby = threads("fuse-last").pop().unwrap();
    let status = fs::read_to_string(standby.join("status")).unwrap();
    // Between two requests it sleeps, or the caller runs first.
    let lines = status
        .lines()
        .filter_map(|line| line.split_once("voluntary_ctxt_switches:"));
    lines.map(|(_, turns)| turns.trim().parse::<u64>().unwrap()).sum()
}

/// It must take requests for a moment at least. While other programs want every CPU it rightly does not, however long
/// that lasts, so the time in which a CPU had nothing to do counts.
fn standby_takes_turns() {
    let begin = turns_of_standby();
    let started = idle_time();
    while turns_of_standby() <= begin + 3 {
        assert!(
            idle_time() - started < Duration::from_secs(100),
            "the thread that comes last serves"
        );
        // A test that polls without pause would take the CPU time that such a thread needs.
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// How long CPUs of this machine have had nothing to do, or for a single one, which the callers keep busy, how long it
/// has been running.
fn idle_time() -> Duration {
    /// Of the numbers behind `cpu`.
    const IDLE: usize = 3;
    if std::thread::available_parallelism().unwrap().get() == 1 {
        let uptime = fs::read_to_string("/proc/uptime").unwrap();
        return Duration::from_secs_f64(uptime.split_whitespace().next().unwrap().parse().unwrap());
    }
    let text = fs::read_to_string("/proc/stat").unwrap();
    let mut all = text.lines().next().unwrap().split_whitespace().skip(1);
    let ticks: u64 = all.nth(IDLE).unwrap().parse().unwrap();
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
}

#[test]
fn a_thread_that_comes_last_for_good_serves_where_ordinary_ones_may_not_come_back() {
    let fixture = mounted_without_a_way_back(Arc::new(NullFilesystem::default()), Transport::Device);
    for _ in 0..2 {
        let caller = Caller::start(&fixture);
        standby_takes_turns();
        let standby = threads("fuse-last").pop().unwrap();
        assert_eq!(policy(&standby).as_deref(), Some(LAST));
        caller.end();
    }
    // No request is left to a thread that has stopped taking them.
    for number in 0..20 {
        std::thread::sleep(Duration::from_millis(10));
        assert!(fs::metadata(fixture.path().join(format!("missing once {number}"))).is_err());
    }
    fixture.end();
    eventually("its threads end", || {
        threads("fuse-last").is_empty() && threads("fuse-watch").is_empty()
    });
}

#[test]
fn everybody_is_served_beside_a_thread_that_comes_last_for_good() {
    let fixture = mounted_without_a_way_back(Arc::new(NullFilesystem::default()), Transport::Device);
    let caller = Caller::start(&fixture);
    standby_takes_turns();
    is_served_while_others_want_every_cpu(&caller);
    caller.end();
    fixture.end();
}

#[test]
fn a_thread_that_comes_last_for_good_serves_nothing_while_there_are_locks() {
    let fixture = mounted_without_a_way_back(Arc::new(Locked::default()), Transport::Device);
    let file = fs::File::open(fixture.path().join("file")).unwrap();
    let caller = Caller::start(&fixture);
    standby_takes_turns();
    rustix::fs::flock(&file, FlockOperation::LockExclusive).unwrap();
    let asked = |more: u64| {
        let begin = caller.has_asked();
        eventually("requests are served", || caller.has_asked() > begin + more);
    };
    // It leaves when the watch looks next, which may be late on a busy machine, and then stays away.
    let quiet = std::cell::Cell::new(0);
    eventually("it serves nothing", || {
        let turns = turns_of_standby();
        asked(1000);
        let is_quiet = turns_of_standby() <= turns + 2;
        quiet.set(if is_quiet { quiet.get() + 1 } else { 0 });
        quiet.get() == 5
    });
    rustix::fs::flock(&file, FlockOperation::Unlock).unwrap();
    standby_takes_turns();
    caller.end();
    drop(file);
    fixture.end();
}

/// The null file system with one lock, which is always granted.
#[derive(Default)]
struct Locked {
    null: NullFilesystem,
    is_held: AtomicBool,
}

impl FuseService for Locked {
    fn serve(&self, request: &FuseRequest<'_>, reply: FuseReply<'_>) -> Answered {
        /// Of `fcntl(2)`.
        const UNLOCK: u32 = 2;
        let FuseOperation::SetLock { lock, .. } = request.operation else {
            return self.null.serve(request, reply);
        };
        self.is_held.store(lock.lk.kind != UNLOCK, Ordering::Release);
        reply.ok()
    }

    fn must_be_prompt(&self) -> bool {
        self.is_held.load(Ordering::Acquire)
    }
}

fn all_threads_are_ordinary_while_there_are_locks(transport: Transport) {
    let fixture = Fixture::mount(Arc::new(Locked::default()), transport);
    let file = fs::File::open(fixture.path().join("file")).unwrap();
    let caller = Caller::start(&fixture);
    for _ in 0..3 {
        eventually("a busy thread comes last", some_comes_last);
        rustix::fs::flock(&file, FlockOperation::LockExclusive).unwrap();
        let begin = caller.has_asked();
        while caller.has_asked() < begin + 2000 {
            assert!(!some_comes_last());
        }
        rustix::fs::flock(&file, FlockOperation::Unlock).unwrap();
    }
    caller.end();
    drop(file);
    fixture.end();
}
