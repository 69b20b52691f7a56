//! What a session is still to do, from whatever thread it comes.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

use crate::inside::Order;

/// A queue of orders for one session. Clones are the same queue.
#[derive(Clone, Debug)]
pub struct Orders {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<VecDeque<Order>>,
    /// Readable while there is something in the queue.
    event: OwnedFd,
}

impl Orders {
    pub fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { shared: Arc::new(Shared { queue: Mutex::default(), event }) })
    }

    /// Runs a script after those that were given before.
    pub fn script(&self, script: impl Into<Vec<u8>>) {
        self.put(Order::Script(script.into()));
    }

    /// Interrupts what the present script has started. The shell itself goes on.
    pub fn interrupt(&self) {
        self.put(Order::Interrupt);
    }

    pub(super) fn event(&self) -> &OwnedFd {
        &self.shared.event
    }

    pub(super) fn take(&self) -> VecDeque<Order> {
        let mut count = [0_u8; 8];
        // Nothing to read is nothing to do.
        rustix::io::read(&self.shared.event, &mut count).ok();
        std::mem::take(&mut self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn put(&self, order: Order) {
        self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(order);
        // It fails only when it is readable anyway.
        rustix::io::write(&self.shared.event, &1_u64.to_ne_bytes()).ok();
    }
}
