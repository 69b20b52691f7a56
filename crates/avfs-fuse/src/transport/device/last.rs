//! The thread that comes last for good, where a process cannot make such a thread ordinary again. Either it waits for
//! requests or the ordinary threads do: if both did, they would take the requests that come before it has the CPU again, and
//! with them the CPU of the caller.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::EventfdFlags;

use super::{Waiting, Worker, clone};
use crate::session::Session;
use crate::transport::giving_way::{Callers, GivingWay, Line};
use crate::transport::scheduling::may_come_back;
use crate::transport::starting::{come_last_for_good, prepare_starter};
use crate::transport::stop::ServingStop;

pub(in crate::transport) struct Last {
    worker: Worker,
    shared: Arc<Shared>,
}

/// What the thread and the watch share.
struct Shared {
    /// Between having read a request and having answered it.
    is_serving: Arc<AtomicBool>,
    has_ended: AtomicBool,
    /// Rung at the end.
    bell: OwnedFd,
}

impl Last {
    /// Only for a process that could not make an ordinary thread of one that comes last. Without one, requests are served
    /// as well.
    pub fn if_needed(session: &Arc<Session>, connection: &Arc<OwnedFd>, stop: &ServingStop) -> Option<Last> {
        if may_come_back() || prepare_starter().is_err() {
            return None;
        }
        let bell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
        let fd = clone::another(connection);
        let waiting = Waiting::outside(&fd).ok()?;
        waiting.listen(&bell).ok()?;
        let worker = Worker::made(session.clone(), fd, waiting, stop.clone()).ok()?;
        let (is_serving, has_ended) = (worker.is_serving.clone(), AtomicBool::new(false));
        Some(Last { worker, shared: Arc::new(Shared { is_serving, has_ended, bell }) })
    }

    /// Who of this one and the others waits for requests.
    pub fn line(&self, others: &[Worker]) -> Box<dyn Line> {
        let own = self.worker.waiting.clone();
        let others = others.iter().map(|other| other.waiting.clone()).collect();
        let shared = self.shared.clone();
        Box::new(DeviceLine { own, others, outside: Vec::new(), shared })
    }

    /// Serves until the mount is gone.
    pub fn run(self, giving_way: &GivingWay) {
        let Last { mut worker, shared } = self;
        if come_last_for_good().is_err() {
            return;
        }
        worker.serves = giving_way.join(Callers::AllCpusForNow);
        while worker.turn() {
            if shared.has_ended.load(Ordering::Acquire) {
                break;
            }
        }
        giving_way.end();
    }
}

struct DeviceLine {
    own: Arc<Waiting>,
    /// Those of the ordinary threads that are in the line, and those that are not.
    others: Vec<Arc<Waiting>>,
    outside: Vec<Arc<Waiting>>,
    shared: Arc<Shared>,
}

impl Line for DeviceLine {
    fn let_in(&mut self) {
        // Before the others leave: somebody has to be there.
        if self.own.enter().is_ok() {
            let others = std::mem::take(&mut self.others);
            (self.outside, self.others) = others.into_iter().partition(|other| other.leave().is_ok());
        }
    }

    fn keep_out(&mut self) {
        let outside = std::mem::take(&mut self.outside);
        // What is there already wakes them. One for whom there is no memory is tried again the next time.
        let (inside, outside): (Vec<_>, Vec<_>) =
            outside.into_iter().partition(|other| other.enter().is_ok());
        self.others.extend(inside);
        self.outside = outside;
        if !self.others.is_empty() {
            let _ = self.own.leave();
        }
    }

    fn has_left_anything(&self) -> bool {
        self.shared.is_serving.load(Ordering::Acquire) || self.own.has_requests()
    }

    fn end(&mut self) {
        self.keep_out();
        self.shared.has_ended.store(true, Ordering::Release);
        // A bell that cannot be rung any louder rings already.
        let _ = rustix::io::write(&self.shared.bell, &1u64.to_ne_bytes());
    }
}
