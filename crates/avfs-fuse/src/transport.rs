//! Transports: how requests come from the kernel and answers go back.

pub mod device;
mod idle_policy;
mod scheduling;
mod starting;
mod stop;
pub mod uring;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::notify::Notifier;
use crate::session::FuseSession;
use device::{DeviceWorker, LastWorker};
use idle_policy::IdlePolicy;
pub use idle_policy::may_yield_to_callers;
pub use scheduling::run_anywhere;
pub use starting::start_ordinary;
pub use stop::ServingStop;
use uring::{RingGate, RingQueues, UringUnavailable};

/// The requested transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// Over io_uring if the kernel supports it and its threads may yield to their callers; otherwise over
    /// `/dev/fuse`, where they always may: yielding is worth more than io_uring.
    #[default]
    Auto,
    /// By reading and writing `/dev/fuse`.
    Device,
    /// Over io_uring, or not at all.
    Uring,
}

impl Transport {
    /// Every way, beginning with the default.
    pub const ALL: [Transport; 3] = [Transport::Auto, Transport::Device, Transport::Uring];

    /// The word for it in options.
    pub fn as_str(self) -> &'static str {
        match self {
            Transport::Auto => "auto",
            Transport::Device => "device",
            Transport::Uring => "uring",
        }
    }
}

/// The transport in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InUse {
    /// By `/dev/fuse`.
    Device,
    /// By io_uring.
    Uring,
}

/// How a connection is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServingOptions {
    /// How requests travel.
    pub transport: Transport,
    /// The number of threads that read from `/dev/fuse` if that is the transport.
    pub device_threads: usize,
    /// Whether serving threads yield to their callers when that makes both faster.
    pub yield_to_callers: bool,
}

impl Default for ServingOptions {
    fn default() -> ServingOptions {
        ServingOptions {
            transport: Transport::Auto,
            device_threads: 2,
            yield_to_callers: true,
        }
    }
}

/// Why a connection cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServingError {
    /// It was to be served over io_uring, which is not available.
    #[error("requests cannot come over io_uring")]
    Uring(#[from] UringUnavailable),
    /// A thread could not be started.
    #[error("starting a thread")]
    Thread(#[source] std::io::Error),
    /// The device could not be used.
    #[error("waiting for requests of /dev/fuse")]
    Device(#[source] std::io::Error),
    /// The event that ends the serving could not be made.
    #[error("making an event")]
    Event(#[source] std::io::Error),
}

/// A connection that is being served until it is unmounted.
#[must_use = "the threads continue, but cannot be waited for"]
pub struct FuseServing {
    session: Arc<FuseSession>,
    notifier: Notifier,
    threads: Vec<JoinHandle<()>>,
    /// The gate of the rings, and their number.
    gate: Option<(Arc<RingGate>, usize)>,
    stop: ServingStop,
}

impl FuseServing {
    /// Starts to serve a connection. Unmounting ends it.
    pub fn start(
        session: Arc<FuseSession>,
        connection: OwnedFd,
        options: ServingOptions,
    ) -> Result<FuseServing, ServingError> {
        let connection = Arc::new(connection);
        let notifier = Notifier::start(&connection, session.settings().log.clone());
        let notifier = notifier.map_err(ServingError::Thread)?;
        let idle_policy = options.yield_to_callers.then(|| IdlePolicy::new(session.clone()));
        let stop = ServingStop::new().map_err(ServingError::Event)?;
        let queues = queues(
            &session,
            &connection,
            options.transport,
            idle_policy.as_ref(),
            &stop,
        )?;
        let serving = FuseServing {
            session,
            notifier,
            threads: Vec::new(),
            gate: None,
            stop,
        };
        match queues {
            Some(queues) => serving.over_rings(connection, queues),
            None => serving.over_device(&connection, options.device_threads, idle_policy),
        }
    }

    fn over_device(
        mut self,
        connection: &Arc<OwnedFd>,
        threads: usize,
        idle_policy: Option<IdlePolicy>,
    ) -> Result<FuseServing, ServingError> {
        let last = idle_policy
            .as_ref()
            .and_then(|_| LastWorker::if_needed(&self.session, connection, &self.stop));
        let workers = device::workers(&self.session, connection, threads, &self.stop);
        let workers = workers.map_err(ServingError::Device)?;
        let idle_policy = match last {
            Some(last) => Some(self.stand_by(last, &workers)?),
            None => idle_policy,
        };
        for (number, worker) in workers.into_iter().enumerate() {
            let idle_policy = idle_policy.clone();
            self.spawn(format!("fuse-{number}"), move || worker.run(idle_policy))?;
        }
        Ok(self)
    }

    fn stand_by(&mut self, last: LastWorker, others: &[DeviceWorker]) -> Result<IdlePolicy, ServingError> {
        let idle_policy = IdlePolicy::with_standby(self.session.clone(), last.line(others));
        let watching = idle_policy.clone();
        self.spawn("fuse-last".into(), move || last.run(&watching))?;
        Ok(idle_policy)
    }

    /// One thread reads from `/dev/fuse`: FORGET requests come that way, and everything else too if the
    /// kernel refuses the rings.
    fn over_rings(
        mut self,
        connection: Arc<OwnedFd>,
        queues: RingQueues,
    ) -> Result<FuseServing, ServingError> {
        self.session.want_io_uring();
        let RingQueues { threads, gate } = queues;
        self.gate = Some((gate.clone(), threads.len()));
        self.threads = threads;
        let started = self.read_beside_rings(connection, gate.clone());
        // Without it there is no handshake.
        started.inspect_err(|_| gate.open(None))?;
        Ok(self)
    }

    fn read_beside_rings(
        &mut self,
        connection: Arc<OwnedFd>,
        gate: Arc<RingGate>,
    ) -> Result<(), ServingError> {
        let session = self.session.clone();
        let worker = DeviceWorker::new(session.clone(), connection, self.stop.clone())
            .map_err(ServingError::Device)?;
        self.spawn("fuse-0".into(), move || {
            shake_hands_and_run(worker, &session, &gate)
        })
    }

    fn spawn(&mut self, name: String, work: impl FnOnce() + Send + 'static) -> Result<(), ServingError> {
        let thread = std::thread::Builder::new().name(name);
        self.threads
            .push(thread.spawn(work).map_err(ServingError::Thread)?);
        Ok(())
    }

    /// The connection.
    pub fn session(&self) -> &Arc<FuseSession> {
        &self.session
    }

    /// Notifies the kernel of changes that it has not made.
    pub fn notifier(&self) -> &Notifier {
        &self.notifier
    }

    /// The transport in use; `None` until that is decided.
    pub fn transport(&self) -> Option<InUse> {
        self.way().in_use()
    }

    /// Reports the transport in use, even if another thread waits for the end.
    pub fn way(&self) -> TransportInUse {
        TransportInUse {
            session: self.session.clone(),
            gate: self.gate.clone(),
        }
    }

    /// Ends serving from another thread, while the mount may still exist.
    pub fn stopper(&self) -> ServingStop {
        self.stop.clone()
    }

    /// Returns when serving has ended. If it does not end by itself within `at_most`, processes that still
    /// have the mount, through a copy in another namespace, get errors from then on.
    pub fn end_within(self, at_most: Duration) {
        let until = Instant::now() + at_most;
        while !self.threads.iter().all(JoinHandle::is_finished) {
            if Instant::now() >= until {
                self.stop.ask();
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.wait();
    }

    /// Returns when the mount is gone and every request has been served.
    pub fn wait(mut self) {
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                self.session.log("a thread that serves requests has failed");
            }
        }
        self.session.destroy();
    }
}

/// The transport in use for a connection.
#[derive(Clone)]
pub struct TransportInUse {
    session: Arc<FuseSession>,
    gate: Option<(Arc<RingGate>, usize)>,
}

impl TransportInUse {
    /// `None` until it is decided.
    pub fn in_use(&self) -> Option<InUse> {
        self.session.negotiated()?;
        match &self.gate {
            None => Some(InUse::Device),
            Some((gate, _)) if gate.is_refused() => Some(InUse::Device),
            Some((gate, rings)) => (gate.registered() == *rings).then_some(InUse::Uring),
        }
    }
}

fn queues(
    session: &Arc<FuseSession>,
    connection: &Arc<OwnedFd>,
    transport: Transport,
    idle_policy: Option<&IdlePolicy>,
    stop: &ServingStop,
) -> Result<Option<RingQueues>, UringUnavailable> {
    match transport {
        Transport::Device => Ok(None),
        Transport::Auto if idle_policy.is_some() && !may_yield_to_callers() => Ok(None),
        Transport::Auto => Ok(uring::start(session, connection, idle_policy, stop).ok()),
        Transport::Uring => uring::start(session, connection, idle_policy, stop).map(Some),
    }
}

/// The first request is the handshake; when it has been answered, the kernel waits for the rings.
fn shake_hands_and_run(mut worker: DeviceWorker, session: &FuseSession, gate: &RingGate) {
    while session.negotiated().is_none() && worker.turn() {}
    gate.open(session.negotiated());
    worker.run(None);
}
