//! Answers from other threads on their way to the thread whose ring sends them.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::EventfdFlags;
use rustix::io::Errno;

use crate::reply::ReplyCourier;

/// Other threads put answers here; a bell wakes the thread that takes them.
pub(super) struct AnswerOutbox {
    answers: Mutex<Vec<RingAnswer>>,
    bell: OwnedFd,
}

/// The answer to the request that an entry holds.
pub(super) struct RingAnswer {
    pub entry: usize,
    pub unique: u64,
    pub error: Option<Errno>,
    pub result: Vec<u8>,
}

impl AnswerOutbox {
    pub(super) fn new() -> std::io::Result<AnswerOutbox> {
        let bell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(AnswerOutbox {
            answers: Mutex::default(),
            bell,
        })
    }

    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Takes the answers, and stops the bell.
    pub(super) fn take(&self) -> Vec<RingAnswer> {
        // The bell first: answers that arrive from here on ring it again.
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        std::mem::take(&mut *self.answers.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn put(&self, answer: RingAnswer) {
        self.answers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(answer);
        // A bell at its maximum rings already.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }
}

/// Passes the answer to the thread that holds the request. If that thread has ended, so has the mount, and no
/// process waits now.
pub(super) struct RingCourier {
    pub outbox: Arc<AnswerOutbox>,
    pub entry: usize,
}

impl ReplyCourier for RingCourier {
    fn deliver(self: Box<Self>, unique: u64, error: Option<Errno>, result: Vec<u8>) {
        self.outbox.put(RingAnswer {
            entry: self.entry,
            unique,
            error,
            result,
        });
    }
}
