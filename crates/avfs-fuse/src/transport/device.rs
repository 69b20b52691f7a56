//! Requests over `/dev/fuse`: a few threads that read one request each, serve it, and write the answer.
//!
//! Waking a thread on another idle processor costs several times what serving does, so as few threads as
//! possible are awake: the kernel wakes the first one that waits (`waiting`), and the others sleep unless
//! all before them are busy. The one that is busy goes to the CPU of its caller and comes last there
//! (`giving_way`); bound to that CPU and nothing else, it made no difference, because the
//! scheduler moved the caller to an idle one when it was answered. Looking for the next request for a while before
//! sleeping was tried and left out: on busy CPUs it takes time from the caller, the mean GETATTR took 18 to 48 µs
//! where it had taken 10 to 25.

mod clone;
mod last;
mod waiting;

use std::fs::File;
use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::OFlags;
use rustix::io::Errno;
use zerocopy::{FromBytes, IntoBytes};

pub(super) use self::last::Last;
use self::waiting::Waiting;
use crate::abi::{InHeader, MIN_READ_BUFFER, OutHeader};
use crate::reply::{Courier, Slot};
use crate::request::Request;
use crate::session::Session;
use crate::transport::giving_way::{Callers, GivingWay, Serves};
use crate::transport::stop::ServingStop;

/// Room for the header and the arguments of a write, beside its data.
const HEADERS: usize = 4096;

/// One thread each, with its own way into the kernel where the kernel gives one.
pub(super) fn workers(
    session: &Arc<Session>,
    connection: &Arc<OwnedFd>,
    number: usize,
    stop: &ServingStop,
) -> std::io::Result<Vec<Worker>> {
    let more = (1..number.max(1)).map(|_| clone::another(connection));
    let all = std::iter::once(connection.clone()).chain(more);
    all.map(|fd| Worker::new(session.clone(), fd, stop.clone())).collect()
}

/// One thread: its own way into the kernel, its own buffers.
pub(super) struct Worker {
    session: Arc<Session>,
    fd: Arc<OwnedFd>,
    waiting: Arc<Waiting>,
    stop: ServingStop,
    /// It has read a request and not answered it.
    is_serving: Arc<AtomicBool>,
    /// Where it is told what was served.
    serves: Option<Serves>,
    /// Zeroed memory that nobody wrote to takes no room, so only long requests cost their length.
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Worker {
    pub(super) fn new(session: Arc<Session>, fd: Arc<OwnedFd>, stop: ServingStop) -> std::io::Result<Worker> {
        let waiting = Waiting::new(&fd)?;
        Worker::made(session, fd, waiting, stop)
    }

    fn made(
        session: Arc<Session>,
        fd: Arc<OwnedFd>,
        waiting: Waiting,
        stop: ServingStop,
    ) -> std::io::Result<Worker> {
        let flags = rustix::fs::fcntl_getfl(&fd)?;
        rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
        waiting.listen(stop.bell())?;
        let max_write = session.settings().max_write as usize;
        let request = vec![0; (max_write + HEADERS).max(MIN_READ_BUFFER)];
        let answer = vec![0; max_write.max(HEADERS)];
        let waiting = Arc::new(waiting);
        Ok(Worker { session, fd, waiting, stop, is_serving: Arc::default(), serves: None, request, answer })
    }

    /// Serves until the mount is gone, or serving is to stop.
    pub(super) fn run(mut self, giving_way: Option<GivingWay>) {
        self.serves = giving_way.as_ref().and_then(|giving_way| giving_way.join(Callers::AllCpus));
        while self.turn() {}
        if let Some(giving_way) = giving_way {
            giving_way.end();
        }
    }

    /// Serves one request or waits for one; `false` if there will be no more.
    pub(super) fn turn(&mut self) -> bool {
        if self.stop.is_asked() {
            return false;
        }
        match rustix::io::read(&*self.fd, &mut self.request[..]) {
            Ok(len) => self.serve(len),
            Err(Errno::AGAIN) => self.waiting.wait(),
            // The request was taken back before it could be read, or a signal came.
            Err(Errno::NOENT | Errno::INTR) => {}
            Err(Errno::NODEV | Errno::CONNABORTED) => return false,
            Err(error) => {
                self.session.log(&format!("reading from /dev/fuse: {error}"));
                return false;
            }
        }
        true
    }

    fn serve(&mut self, len: usize) {
        self.is_serving.store(true, Ordering::Release);
        self.serve_read(len);
        self.is_serving.store(false, Ordering::Release);
    }

    fn serve_read(&mut self, len: usize) {
        let Ok((header, body)) = InHeader::read_from_prefix(&self.request[..len]) else {
            return self.session.log("the kernel sent a request without a header");
        };
        if let Some(serves) = &self.serves {
            serves.one(&header);
        }
        let (argument, payload) = Request::split(&header, body);
        let (session, fd) = (&self.session, &self.fd);
        let mut slot = DeviceSlot { session, fd, answer: &mut self.answer, outcome: None };
        session.handle(&header, argument, payload, &mut slot);
        if let Some((error, len)) = slot.outcome {
            send(session, fd, header.unique, error, &self.answer[..len]);
        }
    }
}

/// Remembers the answer until the service has returned: writing it wakes the caller, who may run in our place at
/// once, and that is not time which serving took.
struct DeviceSlot<'a> {
    session: &'a Arc<Session>,
    fd: &'a Arc<OwnedFd>,
    answer: &'a mut [u8],
    /// Nothing if nobody waits, or the answer comes later.
    outcome: Option<(Option<Errno>, usize)>,
}

impl Slot for DeviceSlot<'_> {
    fn buffer(&mut self) -> &mut [u8] {
        self.answer
    }

    fn send(&mut self, _unique: u64, error: Option<Errno>, len: usize) {
        self.outcome = Some((error, len));
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
    fn deliver(self: Box<Self>, unique: u64, error: Option<Errno>, result: Vec<u8>) {
        send(&self.session, &self.fd, unique, error, &result);
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
