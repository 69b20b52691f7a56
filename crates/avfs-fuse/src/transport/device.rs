//! Requests over `/dev/fuse`: a few threads that read one request each, serve it, and write the answer.
//!
//! Waking a thread on another idle processor costs several times what serving does, so as few threads as
//! possible are awake: the kernel wakes the first one that waits ([`waiting`]), and the others sleep unless
//! all before them are busy.

mod clone;
mod placement;
mod waiting;

use std::fs::File;
use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::EventfdFlags;
use rustix::fs::OFlags;
use rustix::io::Errno;
use zerocopy::{FromBytes, IntoBytes};

use self::placement::Placement;
use self::waiting::{Next, Waiting};
use crate::abi::{InHeader, MIN_READ_BUFFER, OutHeader};
use crate::notify::Notifier;
use crate::reply::{Courier, Slot};
use crate::request::Request;
use crate::session::Session;

/// Room for the header and the arguments of a write, beside its data.
const HEADERS: usize = 4096;

/// How a connection is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceOptions {
    pub threads: usize,
    /// How long a thread that has served a request looks for the next one before it sleeps.
    pub spin: Duration,
    /// Whether a thread goes to the processor of the caller that it serves.
    pub follow: bool,
}

impl Default for DeviceOptions {
    fn default() -> DeviceOptions {
        DeviceOptions { threads: 2, spin: Duration::ZERO, follow: true }
    }
}

/// A connection that is being served until it is unmounted or stopped.
#[must_use = "the threads go on, but nobody can wait for them"]
pub struct Serving {
    session: Arc<Session>,
    notifier: Notifier,
    stop: Arc<OwnedFd>,
    threads: Vec<JoinHandle<()>>,
}

impl Serving {
    /// Starts to serve a connection. Unmounting ends it.
    pub fn start(
        session: Arc<Session>,
        connection: OwnedFd,
        options: DeviceOptions,
    ) -> std::io::Result<Serving> {
        let connection = Arc::new(connection);
        let stop = Arc::new(rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?);
        let notifier = Notifier::start(&connection, session.settings().log.clone())?;
        let mut serving = Serving { session: session.clone(), notifier, stop, threads: Vec::new() };
        for number in 0..options.threads.max(1) {
            let fd = match number {
                0 => connection.clone(),
                _ => clone::another(&connection),
            };
            let flags = rustix::fs::fcntl_getfl(&fd)?;
            rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
            let waiting = Waiting::new(&fd, &serving.stop)?;
            let worker = Worker::new(session.clone(), fd, waiting, options);
            let thread = std::thread::Builder::new().name(format!("fuse-{number}"));
            serving.threads.push(thread.spawn(move || worker.run())?);
        }
        Ok(serving)
    }

    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Tells the kernel of changes behind its back.
    pub fn notifier(&self) -> &Notifier {
        &self.notifier
    }

    /// Ends serving without unmounting: whoever uses the mount from now on gets ENOTCONN.
    pub fn stop(self) {
        // Only a counter that is full could refuse.
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        self.wait();
    }

    /// Returns when the mount is gone, which takes as long as somebody uses it, and every request is served.
    pub fn wait(mut self) {
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                self.session.log("a thread that serves requests has failed");
            }
        }
        self.session.destroy();
    }
}

/// One thread: its own way into the kernel, its own buffers.
struct Worker {
    session: Arc<Session>,
    fd: Arc<OwnedFd>,
    waiting: Waiting,
    options: DeviceOptions,
    /// Zeroed memory that nobody wrote to takes no room, so only long requests cost their length.
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Worker {
    fn new(session: Arc<Session>, fd: Arc<OwnedFd>, waiting: Waiting, options: DeviceOptions) -> Worker {
        let max_write = session.settings().max_write as usize;
        let request = vec![0; (max_write + HEADERS).max(MIN_READ_BUFFER)];
        Worker { session, fd, waiting, options, request, answer: vec![0; max_write.max(HEADERS)] }
    }

    fn run(mut self) {
        let mut idle_since = None;
        let mut placement = Placement::new(self.options.follow);
        loop {
            match rustix::io::read(&*self.fd, &mut self.request[..]) {
                Ok(len) => {
                    placement.served(self.serve(len));
                    idle_since = None;
                }
                Err(Errno::AGAIN) => {
                    let since = *idle_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= self.options.spin && self.waiting.wait() == Next::Stop {
                        return;
                    }
                }
                // The request was taken back before it could be read, or a signal came.
                Err(Errno::NOENT | Errno::INTR) => {}
                Err(Errno::NODEV | Errno::CONNABORTED) => return,
                Err(error) => {
                    self.session.log(&format!("reading from /dev/fuse: {error}"));
                    return;
                }
            }
        }
    }

    /// Serves the request in the buffer; returns the process that it came from.
    fn serve(&mut self, len: usize) -> u32 {
        let Ok((header, body)) = InHeader::read_from_prefix(&self.request[..len]) else {
            self.session.log("the kernel sent a request without a header");
            return 0;
        };
        let (argument, payload) = Request::split(&header, body, self.session.dialect());
        let mut slot = DeviceSlot { session: &self.session, fd: &self.fd, answer: &mut self.answer };
        self.session.handle(&header, argument, payload, &mut slot);
        header.pid
    }
}

struct DeviceSlot<'a> {
    session: &'a Arc<Session>,
    fd: &'a Arc<OwnedFd>,
    answer: &'a mut [u8],
}

impl Slot for DeviceSlot<'_> {
    fn buffer(&mut self) -> &mut [u8] {
        self.answer
    }

    fn send(&mut self, unique: u64, error: Option<Errno>, len: usize) {
        send(self.session, self.fd, unique, error, &self.answer[..len]);
    }

    fn defer(&mut self, _unique: u64) -> Box<dyn Courier> {
        Box::new(DeviceCourier { session: self.session.clone(), fd: self.fd.clone() })
    }
}

/// An answer must go by the descriptor that its request came by.
struct DeviceCourier {
    session: Arc<Session>,
    fd: Arc<OwnedFd>,
}

impl Courier for DeviceCourier {
    fn deliver(self: Box<Self>, unique: u64, error: Option<Errno>, result: &[u8]) {
        send(&self.session, &self.fd, unique, error, result);
    }
}

fn send(session: &Session, fd: impl AsFd, unique: u64, error: Option<Errno>, result: &[u8]) {
    let len = (size_of::<OutHeader>() + result.len()) as u32;
    let header = OutHeader { len, error: error.map_or(0, |error| -error.raw_os_error()), unique };
    match rustix::io::writev(fd, &[IoSlice::new(header.as_bytes()), IoSlice::new(result)]) {
        // The caller was killed meanwhile, or the mount is gone: nobody waits any more.
        Ok(_) | Err(Errno::NOENT | Errno::NODEV) => {}
        Err(error) => session.log(&format!("answering request {unique}: {error}")),
    }
}

/// Opens `/dev/fuse`; `/dev` may lack it, and an ordinary user may not be let in.
pub(crate) fn open() -> std::io::Result<OwnedFd> {
    Ok(File::options().read(true).write(true).open("/dev/fuse")?.into())
}
