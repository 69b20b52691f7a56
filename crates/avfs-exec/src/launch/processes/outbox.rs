//! Orders on their way to the stage. Callers never wait for the stage: an order that does not fit into the socket is
//! queued, and the thread that supervises the sandbox sends it when there is room.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::SendFlags;

use super::poller::{PollToken, Poller};
use super::{NotOrdered, lock};
use avfs_inside::{StageOrder, send_part};

/// How many orders may wait, and how many bytes.
const MOST_ORDERS: usize = 4096;
const MOST_BYTES: usize = 64 << 20;

#[derive(Debug)]
pub(super) struct OrderOutbox {
    poller: Arc<Poller>,
    queue: Mutex<OutboxQueue>,
}

#[derive(Debug, Default)]
struct OutboxQueue {
    socket: Option<OwnedFd>,
    frames: VecDeque<QueuedFrame>,
    bytes: usize,
    /// Whether the poller reports when there is room.
    is_polled: bool,
}

#[derive(Debug)]
struct QueuedFrame {
    bytes: Vec<u8>,
    sent: usize,
    /// Sent with the first byte.
    fds: Vec<OwnedFd>,
}

impl OrderOutbox {
    pub(super) fn new(poller: Arc<Poller>) -> Self {
        Self {
            poller,
            queue: Mutex::default(),
        }
    }

    pub(super) fn open(&self, socket: OwnedFd) {
        lock(&self.queue).socket = Some(socket);
    }

    /// Nothing is sent from now on.
    pub(super) fn close(&self) {
        let queue = std::mem::take(&mut *lock(&self.queue));
        if let Some(socket) = queue.socket {
            self.poller.remove(&socket);
        }
    }

    pub(super) fn post(&self, order: &StageOrder, fds: Vec<OwnedFd>) -> Result<(), NotOrdered> {
        let bytes = order.frame().map_err(|_| NotOrdered::Busy)?;
        let mut queue = lock(&self.queue);
        if queue.socket.is_none() {
            return Err(NotOrdered::Over);
        }
        let is_full =
            queue.frames.len() >= MOST_ORDERS || queue.bytes.saturating_add(bytes.len()) > MOST_BYTES;
        if is_full {
            return Err(NotOrdered::Busy);
        }
        queue.bytes += bytes.len();
        // Always through the queue, so that orders arrive in the order in which they were given.
        queue.frames.push_back(QueuedFrame { bytes, sent: 0, fds });
        queue.send(&self.poller);
        // A stage that is gone takes the sandbox with it, and all callers are notified of that.
        Ok(())
    }

    /// Sends as much as there is room for now.
    pub(super) fn flush(&self) {
        lock(&self.queue).send(&self.poller);
    }
}

impl OutboxQueue {
    fn send(&mut self, poller: &Poller) {
        let Some(socket) = self.socket.as_ref() else {
            return;
        };
        let is_stuck = loop {
            let Some(frame) = self.frames.front_mut() else {
                break false;
            };
            let fds: Vec<BorrowedFd<'_>> = frame.fds.iter().map(AsFd::as_fd).collect();
            match send_part(socket, &frame.bytes[frame.sent..], &fds, SendFlags::DONTWAIT) {
                Ok(count) => {
                    frame.sent += count;
                    // They go with the first byte; sending them again with the rest would deliver them
                    // twice.
                    frame.fds.clear();
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break true,
                // The stage is gone.
                Err(_) => {
                    self.frames.clear();
                    // A half-sent order must not be followed by another one, so everything is dropped.
                    self.bytes = 0;
                    break false;
                }
            }
            if let Some(done) = self.frames.pop_front_if(|frame| frame.sent == frame.bytes.len()) {
                self.bytes -= done.bytes.len();
            }
        };
        if is_stuck && !self.is_polled {
            // If polling is impossible, the next order sends these along.
            self.is_polled = poller.add(socket, PollToken::Outbox, EventFlags::OUT).is_ok();
        } else if !is_stuck && self.is_polled {
            poller.remove(socket);
            self.is_polled = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use avfs_inside::{SignalOrder, SignalTarget, SpawnOrder, StageChannel};

    fn spawn(id: u64, bytes: usize) -> StageOrder {
        StageOrder::Spawn(SpawnOrder {
            id,
            command: vec!["x".repeat(bytes).into()],
            env: Vec::new(),
            cwd: "/".into(),
            terminal: None,
        })
    }

    fn signal(id: u64) -> StageOrder {
        StageOrder::Signal(SignalOrder {
            id,
            signal: 9,
            target: SignalTarget::Process,
        })
    }

    fn outbox() -> (OrderOutbox, StageChannel) {
        let (socket, stage) = UnixStream::pair().unwrap();
        let outbox = OrderOutbox::new(Arc::new(Poller::new().unwrap()));
        outbox.open(socket.into());
        (outbox, StageChannel::new(stage.into()))
    }

    #[test]
    fn orders_for_a_stage_that_does_not_read_wait_and_arrive_whole_and_in_turn() {
        let (outbox, mut stage) = outbox();
        let files = || Vec::from([(); 3].map(|()| tempfile::tempfile().unwrap().into()));
        for id in [1, 2] {
            outbox.post(&spawn(id, 1 << 20), files()).unwrap();
            outbox.post(&signal(id), Vec::new()).unwrap();
        }
        assert!(lock(&outbox.queue).is_polled);
        let mut arrived = Vec::new();
        while arrived.len() < 4 {
            stage.receive().unwrap();
            while let Some(order) = stage.next_order().unwrap() {
                if let StageOrder::Spawn(order) = &order {
                    assert_eq!(stage.take_descriptors(order.descriptors()).unwrap().len(), 3);
                }
                arrived.push(order);
            }
            for token in outbox.poller.ready().unwrap() {
                assert_eq!(token, PollToken::Outbox);
                outbox.flush();
            }
        }
        assert_eq!(
            arrived,
            [spawn(1, 1 << 20), signal(1), spawn(2, 1 << 20), signal(2)]
        );
        let queue = lock(&outbox.queue);
        assert_eq!((queue.bytes, queue.is_polled), (0, false));
    }

    #[test]
    fn orders_that_wait_have_a_bound() {
        let (outbox, _stage) = outbox();
        outbox.post(&spawn(1, 32 << 20), Vec::new()).unwrap();
        outbox.post(&spawn(2, 31 << 20), Vec::new()).unwrap();
        let error = outbox.post(&spawn(3, 1 << 20), Vec::new()).unwrap_err();
        assert_eq!(error, NotOrdered::Busy);
        let posted = (0..2 * MOST_ORDERS)
            .take_while(|_| outbox.post(&signal(1), Vec::new()).is_ok())
            .count();
        assert_eq!(posted, MOST_ORDERS - 2);
    }

    #[test]
    fn orders_without_a_stage_are_refused_or_dropped() {
        let (outbox, stage) = outbox();
        drop(stage);
        outbox.post(&signal(1), Vec::new()).unwrap();
        assert_eq!(lock(&outbox.queue).frames.len(), 0);
        outbox.close();
        assert_eq!(outbox.post(&signal(1), Vec::new()), Err(NotOrdered::Over));
    }
}
