//! Requests over io_uring: a ring and a thread for each CPU, so that a request is served where its caller
//! runs, and one system call both answers it and waits for the next.
//!
//! The handshake, what the kernel forgets, interruptions and notifications still go over `/dev/fuse`.

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
use crate::session::{Negotiated, Session};
use queue::Queue;

use super::giving_way::GivingWay;
use super::stop::ServingStop;

/// Where the system's switch is.
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// How many requests of one CPU are with us at a time; the kernel keeps the others. From 1 to 16 it made no
/// difference that could be measured: one thread serves them one after the other anyway, and answers that are
/// put off get more. Each can come to need as much memory as the longest request.
pub const DEPTH: usize = 2;

/// Why requests cannot go over io_uring.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    #[error("this kernel has no FUSE over io_uring: Linux 6.14 or later is needed")]
    NotInKernel,
    #[error("FUSE over io_uring is switched off: as root, echo Y > {SWITCH}")]
    SwitchedOff,
    #[error("the CPUs of this machine are not known")]
    Cpus(#[source] io::Error),
    #[error("io_uring cannot be used")]
    Ring(#[source] io::Error),
    #[error("starting a thread")]
    Thread(#[source] io::Error),
}

/// Threads with rings that wait for the handshake.
pub(super) struct Queues {
    pub threads: Vec<JoinHandle<()>>,
    pub gate: Arc<Gate>,
}

/// What the threads wait for before they register anything, and what has become of that.
#[derive(Default)]
pub(super) struct Gate {
    /// How long payloads may be, or `None` if the kernel does not want rings.
    payload: OnceLock<Option<usize>>,
    registered: AtomicUsize,
    refused: AtomicUsize,
}

impl Gate {
    /// To be called when the handshake is over; threads that wait go on.
    pub fn open(&self, agreed: Option<Negotiated>) {
        let agreed = agreed.filter(|agreed| agreed.has(init::OVER_IO_URING));
        // A second opening changes nothing.
        let _ = self.payload.set(agreed.map(|agreed| payload(&agreed)));
    }

    pub fn registered(&self) -> usize {
        self.registered.load(Ordering::Acquire)
    }

    /// Whether the kernel has refused rings, or a part of one.
    pub fn is_refused(&self) -> bool {
        self.payload.get().is_some_and(Option::is_none) || self.refused.load(Ordering::Acquire) > 0
    }
}

/// The kernel wants as much room as the longest request and the longest answer need.
fn payload(agreed: &Negotiated) -> usize {
    (agreed.max_write as usize).next_multiple_of(4096).max(MIN_READ_BUFFER)
}

/// Makes rings and starts their threads. Nothing is asked of the kernel's side of the connection yet.
pub(super) fn start(
    session: &Arc<Session>,
    connection: &Arc<OwnedFd>,
    giving_way: Option<&GivingWay>,
    stop: &ServingStop,
) -> Result<Queues, Unavailable> {
    check(Path::new(SWITCH))?;
    let places = cpus::places().map_err(Unavailable::Cpus)?;
    let queues = places
        .into_iter()
        .map(|place| Queue::new(session.clone(), place, connection.clone(), DEPTH, stop.clone()));
    let queues: Vec<Queue> = queues.collect::<io::Result<_>>().map_err(Unavailable::Ring)?;
    let gate = Arc::new(Gate::default());
    let mut threads = Vec::new();
    for queue in queues {
        let (session, gate_of_thread) = (session.clone(), gate.clone());
        let giving_way = giving_way.cloned();
        let thread = std::thread::Builder::new().name(format!("fuse-ring-{}", queue.cpu()));
        match thread.spawn(move || serve(queue, &session, &gate_of_thread, giving_way)) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                gate.open(None);
                return Err(Unavailable::Thread(error));
            }
        }
    }
    Ok(Queues { threads, gate })
}

fn serve(mut queue: Queue, session: &Session, gate: &Gate, giving_way: Option<GivingWay>) {
    let Some(payload) = *gate.payload.wait() else { return };
    let cpu = queue.cpu();
    let outcome = queue.register(payload).and_then(|is_taken| {
        let counter = if is_taken { &gate.registered } else { &gate.refused };
        counter.fetch_add(1, Ordering::AcqRel);
        queue.run(giving_way)
    });
    if let Err(error) = outcome {
        gate.refused.fetch_add(1, Ordering::AcqRel);
        session.log(&format!("the ring of CPU {cpu} has failed: {error}"));
    }
}

fn check(switch: &Path) -> Result<(), Unavailable> {
    match std::fs::read(switch) {
        Ok(state) if state.starts_with(b"Y") => Ok(()),
        Ok(_) => Err(Unavailable::SwitchedOff),
        Err(_) => Err(Unavailable::NotInKernel),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mounting::{MountOptions, Unmount, mount, unmount};
    use crate::notify::Notifier;
    use crate::null::NullFilesystem;
    use crate::session::Settings;
    use crate::transport::device::Worker;
    use crate::transport::{InUse, Serving};

    #[test]
    fn the_switch_decides() {
        let directory = tempfile::tempdir().expect("a directory");
        let switch = directory.path().join("switch");
        assert!(matches!(check(&switch), Err(Unavailable::NotInKernel)));
        for (state, is_on) in [("Y\n", true), ("N\n", false)] {
            std::fs::write(&switch, state).expect("written");
            assert_eq!(check(&switch).is_ok(), is_on, "{state:?}");
        }
    }

    #[test]
    fn requests_come_over_the_device_if_the_kernel_refuses_entries() {
        // Shorter than was agreed on.
        serve_with_entries_of(MIN_READ_BUFFER);
    }

    #[test]
    fn requests_come_over_the_device_if_there_is_no_memory_for_entries() {
        // More than there are addresses.
        serve_with_entries_of(1 << 47);
    }

    fn serve_with_entries_of(payload: usize) {
        if check(Path::new(SWITCH)).is_err() {
            std::fs::write(SWITCH, "Y").expect("root can switch FUSE over io_uring on (Linux 6.14 or later)");
        }
        let directory = tempfile::tempdir().expect("a directory");
        let connection = Arc::new(mount(directory.path(), &MountOptions::new("refused")).expect("a mount"));
        let session = Arc::new(Session::new(Arc::new(NullFilesystem::default()), Settings::default()));
        let stop = ServingStop::new().expect("an event");
        let Queues { threads, gate } = start(&session, &connection, None, &stop).expect("rings");
        session.want_io_uring();
        let notifier = Notifier::start(&connection, session.settings().log.clone()).expect("a thread");
        let rings = Some((gate.clone(), threads.len()));
        let mut serving =
            Serving { session: session.clone(), notifier, gate: rings, threads, stop: stop.clone() };
        let mut worker = Worker::new(session.clone(), connection, stop).expect("a worker");
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
        unmount(directory.path(), Unmount::IfUnused).expect("unmounted");
        serving.wait();
    }
}
