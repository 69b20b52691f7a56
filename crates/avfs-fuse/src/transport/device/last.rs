//! The thread that permanently has the idle policy, if a process cannot make such a thread ordinary again.
//! Either it waits for requests or the ordinary threads do: if both did, the ordinary threads would take the
//! requests that come before it gets the CPU again, and with them the CPU of the caller.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::EventfdFlags;

use super::{DeviceWaiting, DeviceWorker, clone};
use crate::session::FuseSession;
use crate::transport::idle_policy::{IdlePolicy, RequestLine, ServedCallers};
use crate::transport::scheduling::may_come_back;
use crate::transport::starting::{come_last_for_good, prepare_starter};
use crate::transport::stop::ServingStop;

pub(in crate::transport) struct LastWorker {
    worker: DeviceWorker,
    shared: Arc<LastShared>,
}

/// What the thread and the watch share.
struct LastShared {
    /// Between having read a request and having answered it.
    is_serving: Arc<AtomicBool>,
    has_ended: AtomicBool,
    /// Rung at the end.
    bell: OwnedFd,
}

impl LastWorker {
    /// Only for a process that cannot make an idle-policy thread ordinary again. Without such a thread,
    /// requests are served as well.
    pub(crate) fn if_needed(
        session: &Arc<FuseSession>,
        connection: &Arc<OwnedFd>,
        stop: &ServingStop,
    ) -> Option<LastWorker> {
        if may_come_back() || prepare_starter().is_err() {
            return None;
        }
        let bell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
        let fd = clone::another(connection);
        let waiting = DeviceWaiting::outside(&fd).ok()?;
        waiting.listen(&bell).ok()?;
        let worker = DeviceWorker::made(session.clone(), fd, waiting, stop.clone()).ok()?;
        let is_serving = worker.is_serving.clone();
        let has_ended = AtomicBool::new(false);
        Some(LastWorker {
            worker,
            shared: Arc::new(LastShared {
                is_serving,
                has_ended,
                bell,
            }),
        })
    }

    /// Controls whether this thread or the others wait for requests.
    pub(crate) fn line(&self, others: &[DeviceWorker]) -> Box<dyn RequestLine> {
        let own = self.worker.waiting.clone();
        let others = others.iter().map(|other| other.waiting.clone()).collect();
        let shared = self.shared.clone();
        Box::new(DeviceLine {
            own,
            others,
            outside: Vec::new(),
            shared,
        })
    }

    /// Serves until the mount is gone.
    pub(crate) fn run(self, idle_policy: &IdlePolicy) {
        let LastWorker { mut worker, shared } = self;
        if come_last_for_good().is_err() {
            return;
        }
        worker.serves = idle_policy.join(ServedCallers::AllCpusForNow);
        while worker.turn() {
            if shared.has_ended.load(Ordering::Acquire) {
                break;
            }
        }
        idle_policy.end();
    }
}

struct DeviceLine {
    own: Arc<DeviceWaiting>,
    /// The ordinary threads that are in the line, and those that are not.
    others: Vec<Arc<DeviceWaiting>>,
    outside: Vec<Arc<DeviceWaiting>>,
    shared: Arc<LastShared>,
}

impl RequestLine for DeviceLine {
    // The waiting threads leave before others enter. The kernel wakes one epoll set for a request: if the
    // thread of that set left afterwards, the request would be missed. A thread that enters sees requests
    // that are already there.

    fn let_in(&mut self) {
        let others = std::mem::take(&mut self.others);
        (self.outside, self.others) = others.into_iter().partition(|other| other.leave().is_ok());
        if self.own.enter().is_err() {
            self.others_enter();
        }
    }

    fn keep_out(&mut self) {
        let has_left = self.own.leave().is_ok();
        self.others_enter();
        if has_left && self.others.is_empty() {
            // There is no memory for the others: they are tried again the next time, and at least one thread
            // must wait.
            let _ = self.own.enter();
        }
    }

    fn has_left_anything(&self) -> bool {
        self.shared.is_serving.load(Ordering::Acquire) || self.own.has_requests()
    }

    fn end(&mut self) {
        self.keep_out();
        self.shared.has_ended.store(true, Ordering::Release);
        // A bell at its maximum rings already.
        let _ = rustix::io::write(&self.shared.bell, &1u64.to_ne_bytes());
    }
}

impl DeviceLine {
    fn others_enter(&mut self) {
        let outside = std::mem::take(&mut self.outside);
        let (inside, outside): (Vec<_>, Vec<_>) =
            outside.into_iter().partition(|other| other.enter().is_ok());
        self.others.extend(inside);
        self.outside = outside;
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;
    use std::sync::Barrier;
    use std::time::Duration;

    use super::*;

    const TURNS: u64 = 5_000;

    /// A thread that answers everything that it can read, until it is stopped.
    fn answer(waiting: &DeviceWaiting, connection: &UnixDatagram, has_ended: &AtomicBool) {
        let mut request = [0; 8];
        while !has_ended.load(Ordering::Acquire) {
            waiting.wait();
            while connection.recv(&mut request).is_ok() {
                // If the test has failed, the caller has gone.
                let _ = connection.send(&request);
            }
        }
    }

    #[test]
    fn requests_that_come_while_threads_take_turns_are_answered() {
        let (caller, connection) = UnixDatagram::pair().unwrap();
        connection.set_nonblocking(true).unwrap();
        caller.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let descriptor = Arc::new(OwnedFd::from(connection.try_clone().unwrap()));
        let bell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        let own = Arc::new(DeviceWaiting::outside(&descriptor).unwrap());
        let other = Arc::new(DeviceWaiting::new(&descriptor).unwrap());
        own.listen(&bell).unwrap();
        other.listen(&bell).unwrap();
        let shared = LastShared {
            is_serving: Arc::default(),
            has_ended: AtomicBool::new(false),
            bell,
        };
        let shared = Arc::new(shared);
        let mut line = DeviceLine {
            own: own.clone(),
            others: vec![other.clone()],
            outside: Vec::new(),
            shared: shared.clone(),
        };
        // Each request arrives about when the threads change places, and a missed one would not be retried.
        let turns = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| answer(&own, &connection, &shared.has_ended));
            scope.spawn(|| answer(&other, &connection, &shared.has_ended));
            scope.spawn(|| {
                for number in 0..TURNS {
                    turns.wait();
                    if number % 2 == 0 {
                        line.let_in()
                    } else {
                        line.keep_out()
                    }
                    turns.wait();
                }
                line.end();
            });
            let mut reply = [0; 8];
            let mut is_answered = true;
            for number in 0..TURNS {
                turns.wait();
                caller.send(&number.to_ne_bytes()).unwrap();
                is_answered = is_answered && caller.recv(&mut reply).is_ok();
                turns.wait();
            }
            assert!(is_answered, "a request was left");
        });
    }
}
