//! Requests over io_uring: a ring and a thread for each CPU, so that a request is served on the CPU of its
//! caller, and one system call both answers it and waits for the next.
//!
//! The handshake, FORGET requests, interruptions and notifications still go over `/dev/fuse`.

mod cpus;
mod outbox;
mod queue;
mod ring;

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use crate::abi::MIN_READ_BUFFER;
use crate::abi::flags::init;
use crate::session::{FuseSession, NegotiatedProtocol};
use queue::RingQueue;

use super::idle_policy::IdlePolicy;
use super::stop::ServingStop;

/// The path of the system's switch.
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// How many requests of one CPU we hold at a time; the kernel keeps the others. From 1 to 16 it made no
/// measurable difference: one thread serves them one after the other anyway, and deferred requests are
/// replaced by further entries. Each can come to need as much memory as the longest request.
pub const DEPTH: usize = 2;

/// Why requests cannot go over io_uring.
#[derive(Debug, thiserror::Error)]
pub enum UringUnavailable {
    /// The kernel does not have it: it is older than Linux 6.14, or built without it.
    #[error("this kernel has no FUSE over io_uring: Linux 6.14 or later is needed")]
    NotInKernel,
    /// It is switched off for the system.
    #[error("FUSE over io_uring is switched off: as root, echo Y > {SWITCH}")]
    SwitchedOff,
    /// The number of processors could not be determined.
    #[error("the CPUs of this machine are not known")]
    Cpus(#[source] io::Error),
    /// A ring could not be made.
    #[error("io_uring cannot be used")]
    Ring(#[source] io::Error),
    /// A thread could not be started.
    #[error("starting a thread")]
    Thread(#[source] io::Error),
}

/// Threads with rings that wait for the handshake.
pub(super) struct RingQueues {
    pub threads: Vec<JoinHandle<()>>,
    pub gate: Arc<RingGate>,
}

/// The threads wait for this before they register anything; it also records the result.
#[derive(Default)]
pub(super) struct RingGate {
    /// The length of payloads, or `None` if the kernel does not want rings.
    payload: OnceLock<Option<usize>>,
    registered: AtomicUsize,
    refused: AtomicUsize,
}

impl RingGate {
    /// Called when the handshake is over; waiting threads continue.
    pub(super) fn open(&self, agreed: Option<NegotiatedProtocol>) {
        let agreed = agreed.filter(|agreed| agreed.has(init::OVER_IO_URING));
        // A second opening changes nothing.
        let _ = self.payload.set(agreed.map(|agreed| payload(&agreed)));
    }

    pub(super) fn registered(&self) -> usize {
        self.registered.load(Ordering::Acquire)
    }

    /// Whether the kernel has refused the rings, or a part of one.
    pub(super) fn is_refused(&self) -> bool {
        self.payload.get().is_some_and(Option::is_none) || self.refused.load(Ordering::Acquire) > 0
    }
}

/// The kernel requires as much room as the longest request and the longest answer need.
fn payload(agreed: &NegotiatedProtocol) -> usize {
    (agreed.max_write as usize)
        .next_multiple_of(4096)
        .max(MIN_READ_BUFFER)
}

/// Creates rings and starts their threads. The kernel's side of the connection is not involved yet.
pub(super) fn start(
    session: &Arc<FuseSession>,
    connection: &Arc<OwnedFd>,
    idle_policy: Option<&IdlePolicy>,
    stop: &ServingStop,
) -> Result<RingQueues, UringUnavailable> {
    check(Path::new(SWITCH))?;
    let places = cpus::places().map_err(UringUnavailable::Cpus)?;
    let queues = places
        .into_iter()
        .map(|place| RingQueue::new(session.clone(), place, connection.clone(), DEPTH, stop.clone()));
    let queues: Vec<RingQueue> = queues
        .collect::<io::Result<_>>()
        .map_err(UringUnavailable::Ring)?;
    let gate = Arc::new(RingGate::default());
    let mut threads = Vec::new();
    for queue in queues {
        let session = session.clone();
        let gate_of_thread = gate.clone();
        let idle_policy = idle_policy.cloned();
        let thread = std::thread::Builder::new().name(format!("fuse-ring-{}", queue.cpu()));
        match thread.spawn(move || serve(queue, &session, &gate_of_thread, idle_policy)) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                gate.open(None);
                return Err(UringUnavailable::Thread(error));
            }
        }
    }
    Ok(RingQueues { threads, gate })
}

fn serve(mut queue: RingQueue, session: &FuseSession, gate: &RingGate, idle_policy: Option<IdlePolicy>) {
    let Some(payload) = *gate.payload.wait() else {
        return;
    };
    let cpu = queue.cpu();
    let outcome = queue.register(payload).and_then(|is_taken| {
        let counter = if is_taken { &gate.registered } else { &gate.refused };
        counter.fetch_add(1, Ordering::AcqRel);
        queue.run(idle_policy)
    });
    if let Err(error) = outcome {
        gate.refused.fetch_add(1, Ordering::AcqRel);
        session.log(&format!("the ring of CPU {cpu} has failed: {error}"));
    }
}

fn check(switch: &Path) -> Result<(), UringUnavailable> {
    match std::fs::read(switch) {
        Ok(state) if state.starts_with(b"Y") => Ok(()),
        Ok(_) => Err(UringUnavailable::SwitchedOff),
        Err(_) => Err(UringUnavailable::NotInKernel),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mounting::{FuseMountOptions, UnmountMode, mount, unmount};
    use crate::notify::Notifier;
    use crate::null::NullFilesystem;
    use crate::session::SessionSettings;
    use crate::transport::device::DeviceWorker;
    use crate::transport::{FuseServing, InUse};

    #[test]
    fn the_switch_decides() {
        let directory = tempfile::tempdir().expect("a directory");
        let switch = directory.path().join("switch");
        assert!(matches!(check(&switch), Err(UringUnavailable::NotInKernel)));
        for (state, is_on) in [("Y\n", true), ("N\n", false)] {
            std::fs::write(&switch, state).expect("written");
            assert_eq!(check(&switch).is_ok(), is_on, "{state:?}");
        }
    }

    #[test]
    fn requests_come_over_the_device_if_the_kernel_refuses_entries() {
        // Shorter than was negotiated.
        serve_with_entries_of(MIN_READ_BUFFER);
    }

    #[test]
    fn requests_come_over_the_device_if_there_is_no_memory_for_entries() {
        // Larger than the address space.
        serve_with_entries_of(1 << 47);
    }

    fn serve_with_entries_of(payload: usize) {
        if check(Path::new(SWITCH)).is_err() {
            std::fs::write(SWITCH, "Y").expect("root can switch FUSE over io_uring on (Linux 6.14 or later)");
        }
        let directory = tempfile::tempdir().expect("a directory");
        let connection =
            Arc::new(mount(directory.path(), &FuseMountOptions::new("refused")).expect("a mount"));
        let session = Arc::new(FuseSession::new(
            Arc::new(NullFilesystem::default()),
            SessionSettings::default(),
        ));
        let stop = ServingStop::new().expect("an event");
        let RingQueues { threads, gate } = start(&session, &connection, None, &stop).expect("rings");
        session.want_io_uring();
        let notifier = Notifier::start(&connection, session.settings().log.clone()).expect("a thread");
        let rings = Some((gate.clone(), threads.len()));
        let mut serving = FuseServing {
            session: session.clone(),
            notifier,
            gate: rings,
            threads,
            stop: stop.clone(),
        };
        let mut worker = DeviceWorker::new(session.clone(), connection, stop).expect("a worker");
        let reader = move || {
            while session.negotiated().is_none() && worker.turn() {}
            gate.payload.set(Some(payload)).expect("not opened yet");
            worker.run(None);
        };
        serving.spawn("fuse-0".into(), reader).expect("a thread");
        assert!(std::fs::metadata(directory.path().join("file")).is_ok());
        while serving.transport().is_none() {
            std::thread::yield_now();
        }
        assert_eq!(serving.transport(), Some(InUse::Device));
        unmount(directory.path(), UnmountMode::IfUnused).expect("unmounted");
        serving.wait();
    }
}
