//! How requests come from the kernel and answers go back.

pub mod device;
mod giving_way;
mod scheduling;
mod starting;
mod stop;
pub mod uring;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::notify::Notifier;
use crate::session::Session;
use device::{Last, Worker};
use giving_way::GivingWay;
pub use giving_way::may_give_way;
pub use scheduling::run_anywhere;
pub use starting::start_ordinary;
pub use stop::ServingStop;
use uring::{Gate, Queues, Unavailable};

/// Which way requests are to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// Over io_uring where it can be had, else over `/dev/fuse`.
    #[default]
    Auto,
    Device,
    /// Over io_uring, or not at all.
    Uring,
}

impl Transport {
    pub const ALL: [Transport; 3] = [Transport::Auto, Transport::Device, Transport::Uring];

    pub fn as_str(self) -> &'static str {
        match self {
            Transport::Auto => "auto",
            Transport::Device => "device",
            Transport::Uring => "uring",
        }
    }
}

/// Which way requests do come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InUse {
    Device,
    Uring,
}

/// How a connection is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServingOptions {
    pub transport: Transport,
    /// How many threads read from `/dev/fuse` if requests come that way.
    pub device_threads: usize,
    /// Whether threads that serve let their callers go first where that makes both faster.
    pub give_way: bool,
}

impl Default for ServingOptions {
    fn default() -> ServingOptions {
        ServingOptions { transport: Transport::Auto, device_threads: 2, give_way: true }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ServingError {
    #[error("requests cannot come over io_uring")]
    Uring(#[from] Unavailable),
    #[error("starting a thread")]
    Thread(#[source] std::io::Error),
    #[error("waiting for requests of /dev/fuse")]
    Device(#[source] std::io::Error),
    #[error("making an event")]
    Event(#[source] std::io::Error),
}

/// A connection that is being served until it is unmounted.
#[must_use = "the threads go on, but nobody can wait for them"]
pub struct Serving {
    session: Arc<Session>,
    notifier: Notifier,
    threads: Vec<JoinHandle<()>>,
    /// Of the rings, and how many there are.
    gate: Option<(Arc<Gate>, usize)>,
    stop: ServingStop,
}

impl Serving {
    /// Starts to serve a connection. Unmounting ends it.
    pub fn start(
        session: Arc<Session>,
        connection: OwnedFd,
        options: ServingOptions,
    ) -> Result<Serving, ServingError> {
        let connection = Arc::new(connection);
        let notifier = Notifier::start(&connection, session.settings().log.clone());
        let notifier = notifier.map_err(ServingError::Thread)?;
        let giving_way = options.give_way.then(|| GivingWay::new(session.clone()));
        let stop = ServingStop::new().map_err(ServingError::Event)?;
        let queues = queues(&session, &connection, options.transport, giving_way.as_ref(), &stop)?;
        let serving = Serving { session, notifier, threads: Vec::new(), gate: None, stop };
        match queues {
            Some(queues) => serving.over_rings(connection, queues),
            None => serving.over_device(&connection, options.device_threads, giving_way),
        }
    }

    fn over_device(
        mut self,
        connection: &Arc<OwnedFd>,
        threads: usize,
        giving_way: Option<GivingWay>,
    ) -> Result<Serving, ServingError> {
        let last = giving_way.as_ref().and_then(|_| Last::if_needed(&self.session, connection, &self.stop));
        let workers = device::workers(&self.session, connection, threads, &self.stop);
        let workers = workers.map_err(ServingError::Device)?;
        let giving_way = match last {
            Some(last) => Some(self.stand_by(last, &workers)?),
            None => giving_way,
        };
        for (number, worker) in workers.into_iter().enumerate() {
            let giving_way = giving_way.clone();
            self.spawn(format!("fuse-{number}"), move || worker.run(giving_way))?;
        }
        Ok(self)
    }

    fn stand_by(&mut self, last: Last, others: &[Worker]) -> Result<GivingWay, ServingError> {
        let giving_way = GivingWay::with_standby(self.session.clone(), last.line(others));
        let watching = giving_way.clone();
        self.spawn("fuse-last".into(), move || last.run(&watching))?;
        Ok(giving_way)
    }

    /// One thread reads from `/dev/fuse`: what the kernel forgets comes that way, and everything else too if
    /// it turns down the rings.
    fn over_rings(mut self, connection: Arc<OwnedFd>, queues: Queues) -> Result<Serving, ServingError> {
        self.session.want_io_uring();
        let Queues { threads, gate } = queues;
        self.gate = Some((gate.clone(), threads.len()));
        self.threads = threads;
        let started = self.read_beside_rings(connection, gate.clone());
        // Without it there is no handshake.
        started.inspect_err(|_| gate.open(None))?;
        Ok(self)
    }

    fn read_beside_rings(&mut self, connection: Arc<OwnedFd>, gate: Arc<Gate>) -> Result<(), ServingError> {
        let session = self.session.clone();
        let worker =
            Worker::new(session.clone(), connection, self.stop.clone()).map_err(ServingError::Device)?;
        self.spawn("fuse-0".into(), move || shake_hands_and_run(worker, &session, &gate))
    }

    fn spawn(&mut self, name: String, work: impl FnOnce() + Send + 'static) -> Result<(), ServingError> {
        let thread = std::thread::Builder::new().name(name);
        self.threads.push(thread.spawn(work).map_err(ServingError::Thread)?);
        Ok(())
    }

    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Tells the kernel of changes behind its back.
    pub fn notifier(&self) -> &Notifier {
        &self.notifier
    }

    /// Which way requests come; `None` until that is decided.
    pub fn transport(&self) -> Option<InUse> {
        self.way().in_use()
    }

    /// Knows which way requests come, also when somebody else waits for the end.
    pub fn way(&self) -> Way {
        Way { session: self.session.clone(), gate: self.gate.clone() }
    }

    /// Ends it from another thread, while the mount may be there.
    pub fn stopper(&self) -> ServingStop {
        self.stop.clone()
    }

    /// Returns when nothing is served any more. If that does not come by itself within `at_most`, whoever still has the
    /// mount, by a copy in another namespace, gets errors from then on.
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

    /// Returns when the mount is gone and every request is served.
    pub fn wait(mut self) {
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                self.session.log("a thread that serves requests has failed");
            }
        }
        self.session.destroy();
    }
}

/// The way that the requests of a connection come.
#[derive(Clone)]
pub struct Way {
    session: Arc<Session>,
    gate: Option<(Arc<Gate>, usize)>,
}

impl Way {
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
    session: &Arc<Session>,
    connection: &Arc<OwnedFd>,
    transport: Transport,
    giving_way: Option<&GivingWay>,
    stop: &ServingStop,
) -> Result<Option<Queues>, Unavailable> {
    match transport {
        Transport::Device => Ok(None),
        Transport::Auto => Ok(uring::start(session, connection, giving_way, stop).ok()),
        Transport::Uring => uring::start(session, connection, giving_way, stop).map(Some),
    }
}

/// The first request is the handshake; when it has been answered, the kernel waits for the rings.
fn shake_hands_and_run(mut worker: Worker, session: &Session, gate: &Gate) {
    while session.negotiated().is_none() && worker.turn() {}
    gate.open(session.negotiated());
    worker.run(None);
}
