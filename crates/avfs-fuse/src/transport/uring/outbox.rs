//! Answers from other threads on their way to the thread whose ring they go by.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::EventfdFlags;
use rustix::io::Errno;

use crate::reply::Courier;

/// Where other threads lay down answers; a bell wakes the thread that takes them from here.
pub struct Outbox {
    answers: Mutex<Vec<Answer>>,
    bell: OwnedFd,
}

/// The answer to the request that an entry holds.
pub struct Answer {
    pub entry: usize,
    pub unique: u64,
    pub error: Option<Errno>,
    pub result: Vec<u8>,
}

impl Outbox {
    pub fn new() -> std::io::Result<Outbox> {
        let bell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Outbox { answers: Mutex::default(), bell })
    }

    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Takes what has been laid down, and stops the bell.
    pub fn take(&self) -> Vec<Answer> {
        // The bell first: what is laid down from here on rings it again.
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        std::mem::take(&mut *self.answers.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn put(&self, answer: Answer) {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).push(answer);
        // A bell that cannot be rung any louder rings already.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }
}

/// Lays the answer down for the thread that holds the request. If that thread has ended, so has the mount,
/// and nobody waits any more.
pub struct RingCourier {
    pub outbox: Arc<Outbox>,
    pub entry: usize,
}

impl Courier for RingCourier {
    fn deliver(self: Box<Self>, unique: u64, error: Option<Errno>, result: Vec<u8>) {
        self.outbox.put(Answer { entry: self.entry, unique, error, result });
    }
}
