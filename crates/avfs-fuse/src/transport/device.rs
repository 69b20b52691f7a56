//! Requests over `/dev/fuse`: a few threads that read one request each, serve it, and write the answer.
//!
//! Waking a thread on another idle processor costs several times what serving does, so as few threads as
//! possible are awake: the kernel wakes the first one that waits (`waiting`), and the others sleep unless all
//! before them are busy. The busy one moves to the CPU of its caller and yields to it there (`idle_policy`);
//! binding it to that CPU without yielding made no difference, because the scheduler moved the caller to an
//! idle CPU when it was answered. Polling for the next request before sleeping was tried and rejected: on
//! busy CPUs it takes time from the caller; the mean GETATTR took 18 to 48 µs instead of 10 to 25.

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

pub(super) use self::last::LastWorker;
use self::waiting::DeviceWaiting;
use crate::abi::{InHeader, MIN_READ_BUFFER, OutHeader};
use crate::reply::{ReplyCourier, ReplySlot};
use crate::request::FuseRequest;
use crate::session::FuseSession;
use crate::transport::idle_policy::{IdlePolicy, ServedCallers, ServingThread};
use crate::transport::stop::ServingStop;

/// Room for the header and the arguments of a write, beside its data.
const HEADERS: usize = 4096;

/// One thread each, with a separate device descriptor if the kernel provides one.
pub(super) fn workers(
    session: &Arc<FuseSession>,
    connection: &Arc<OwnedFd>,
    number: usize,
    stop: &ServingStop,
) -> std::io::Result<Vec<DeviceWorker>> {
    let more = (1..number.max(1)).map(|_| clone::another(connection));
    let all = std::iter::once(connection.clone()).chain(more);
    all.map(|fd| DeviceWorker::new(session.clone(), fd, stop.clone()))
        .collect()
}

/// One thread: its own device descriptor, its own buffers.
pub(super) struct DeviceWorker {
    session: Arc<FuseSession>,
    fd: Arc<OwnedFd>,
    waiting: Arc<DeviceWaiting>,
    stop: ServingStop,
    /// It has read a request and not answered it.
    is_serving: Arc<AtomicBool>,
    /// Counts what was served.
    serves: Option<ServingThread>,
    /// Zeroed memory that was never written occupies no space, so only long requests cost their length.
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl DeviceWorker {
    pub(super) fn new(
        session: Arc<FuseSession>,
        fd: Arc<OwnedFd>,
        stop: ServingStop,
    ) -> std::io::Result<DeviceWorker> {
        let waiting = DeviceWaiting::new(&fd)?;
        DeviceWorker::made(session, fd, waiting, stop)
    }

    fn made(
        session: Arc<FuseSession>,
        fd: Arc<OwnedFd>,
        waiting: DeviceWaiting,
        stop: ServingStop,
    ) -> std::io::Result<DeviceWorker> {
        let flags = rustix::fs::fcntl_getfl(&fd)?;
        rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
        waiting.listen(stop.bell())?;
        let max_write = session.settings().max_write as usize;
        let request = vec![0; (max_write + HEADERS).max(MIN_READ_BUFFER)];
        let answer = vec![0; max_write.max(HEADERS)];
        let waiting = Arc::new(waiting);
        Ok(DeviceWorker {
            session,
            fd,
            waiting,
            stop,
            is_serving: Arc::default(),
            serves: None,
            request,
            answer,
        })
    }

    /// Serves until the mount is gone, or serving is stopped.
    pub(super) fn run(mut self, idle_policy: Option<IdlePolicy>) {
        self.serves = idle_policy
            .as_ref()
            .and_then(|idle_policy| idle_policy.join(ServedCallers::AllCpus));
        while self.turn() {}
        if let Some(idle_policy) = idle_policy {
            idle_policy.end();
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
            // The request was withdrawn before it could be read, or a signal came.
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
        let (argument, payload) = FuseRequest::split(&header, body);
        let session = &self.session;
        let fd = &self.fd;
        let mut slot = DeviceSlot {
            session,
            fd,
            answer: &mut self.answer,
            outcome: None,
        };
        session.handle(&header, argument, payload, &mut slot);
        if let Some((error, len)) = slot.outcome {
            send(session, fd, header.unique, error, &self.answer[..len]);
        }
    }
}

/// Holds the answer until the service has returned: writing it wakes the caller, who may immediately run in
/// our place, and that time is not part of serving.
struct DeviceSlot<'a> {
    session: &'a Arc<FuseSession>,
    fd: &'a Arc<OwnedFd>,
    answer: &'a mut [u8],
    /// Empty if the kernel expects no answer, or the answer comes later.
    outcome: Option<(Option<Errno>, usize)>,
}

impl ReplySlot for DeviceSlot<'_> {
    fn buffer(&mut self) -> &mut [u8] {
        self.answer
    }

    fn send(&mut self, _unique: u64, error: Option<Errno>, len: usize) {
        self.outcome = Some((error, len));
    }

    fn defer(&mut self, _unique: u64) -> Box<dyn ReplyCourier> {
        Box::new(DeviceCourier {
            session: self.session.clone(),
            fd: self.fd.clone(),
        })
    }
}

/// An answer must go through the descriptor from which its request came.
struct DeviceCourier {
    session: Arc<FuseSession>,
    fd: Arc<OwnedFd>,
}

impl ReplyCourier for DeviceCourier {
    fn deliver(self: Box<Self>, unique: u64, error: Option<Errno>, result: Vec<u8>) {
        send(&self.session, &self.fd, unique, error, &result);
    }
}

fn send(session: &FuseSession, fd: impl AsFd, unique: u64, error: Option<Errno>, result: &[u8]) {
    let len = (size_of::<OutHeader>() + result.len()) as u32;
    let header = OutHeader {
        len,
        error: error.map_or(0, |error| -error.raw_os_error()),
        unique,
    };
    match rustix::io::writev(fd, &[IoSlice::new(header.as_bytes()), IoSlice::new(result)]) {
        // The caller was killed meanwhile, or the mount is gone: no process waits now.
        Ok(_) | Err(Errno::NOENT | Errno::NODEV) => {}
        Err(error) => session.log(&format!("answering request {unique}: {error}")),
    }
}

/// Opens `/dev/fuse`; `/dev` may lack it, and an ordinary user may have no permission.
pub(crate) fn open() -> std::io::Result<OwnedFd> {
    Ok(File::options().read(true).write(true).open("/dev/fuse")?.into())
}
