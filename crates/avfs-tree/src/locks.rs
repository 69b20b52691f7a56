//! File locks, served by the owner of a working tree, so that they exclude each other across all mounts and
//! views of a vault.
//!
//! Two families that never conflict with each other, as on Linux: record locks of `fcntl(2)`, on ranges of
//! bytes, and locks of `flock(2)`, on whole files. A request that conflicts with no held lock is granted
//! immediately, even if other requests wait for the same bytes: programs hold one lock while they take a
//! second one, or have a child take it, and a queue that delayed such a request would hang where Linux does
//! not. Waiting requests are granted in the order of their arrival.
//!
//! The table has a mutex of its own and takes no other lock under it. Callbacks of waiters run after the
//! mutex is released, so they may call the table.

mod deadlock;
mod holders;
mod range;
mod state;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;

pub use range::ByteRange;
use state::{LockAnswers, LockFamily, LockState};

use crate::inodes::Ino;

/// The owner of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockOwner {
    /// The mount through which it was taken: kernels and mounts number their owners independently.
    pub door: u64,
    /// The kernel's id of the owner: for record locks a process, for `flock` an open file.
    pub owner: u64,
}

/// Whether others can hold a lock of the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LockKind {
    /// `F_RDLCK`, `LOCK_SH`.
    Shared,
    /// `F_WRLCK`, `LOCK_EX`.
    Exclusive,
}

/// The family of a lock and how much of the file it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockScope {
    /// A lock of `fcntl` on these bytes.
    Record(ByteRange),
    /// A lock of `flock` on the whole file.
    Flock,
}

/// A lock that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRequest {
    /// The file.
    pub ino: Ino,
    /// What of it to lock.
    pub scope: LockScope,
    /// Whether others can hold the lock as well.
    pub kind: LockKind,
    /// For whom it is asked.
    pub owner: LockOwner,
    /// Reported to callers that ask for the conflicting lock; not part of the owner.
    pub pid: u32,
}

/// A held lock that conflicts with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockConflict {
    /// The bytes that it covers.
    pub range: ByteRange,
    /// Whether others can hold it as well.
    pub kind: LockKind,
    /// The process that holds it, as its kernel knows it.
    pub pid: u32,
}

/// Identifies a waiter. Numbers grow with time and are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaitId(u64);

/// Called exactly once, with the outcome of waiting.
pub type Waiter = Box<dyn FnOnce(Result<(), LockError>) + Send>;

/// Why a lock was not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// Another lock conflicts, and the caller does not wait.
    #[error("another lock is in the way")]
    WouldBlock,
    /// To wait would never end.
    #[error("waiting for this lock would never end: its holder waits for the process that asks")]
    Deadlock,
    /// The wait was cancelled.
    #[error("waiting for the lock was interrupted")]
    Interrupted,
    /// The range is not one of a file.
    #[error("not a range of bytes of a file: {first} to {last}")]
    BadRange {
        /// The first byte asked for.
        first: u64,
        /// The last byte asked for.
        last: u64,
    },
    /// The table is full.
    #[error("there are {limit} locks already")]
    TooMany {
        /// How many locks it can hold.
        limit: usize,
    },
}

impl LockError {
    /// The error number that a system call returns for it.
    pub fn errno(&self) -> Errno {
        match self {
            LockError::WouldBlock => Errno::AGAIN,
            LockError::Deadlock => Errno::DEADLK,
            LockError::Interrupted => Errno::INTR,
            LockError::BadRange { .. } => Errno::INVAL,
            LockError::TooMany { .. } => Errno::NOLCK,
        }
    }
}

/// All locks on the files of one working tree. Files without locks need no memory.
pub struct LockTable {
    state: Mutex<LockState>,
    /// The number of held locks, for callers that must not wait for the mutex.
    held: AtomicUsize,
}

impl Default for LockTable {
    fn default() -> LockTable {
        LockTable::with_limit(LockTable::LIMIT)
    }
}

impl LockTable {
    /// The maximum number of locks, so that one program cannot exhaust the memory of the owner.
    pub const LIMIT: usize = 1_000_000;

    /// A table for at most so many locks.
    pub fn with_limit(limit: usize) -> LockTable {
        LockTable {
            state: Mutex::new(LockState::new(limit)),
            held: AtomicUsize::new(0),
        }
    }

    /// The lock that conflicts with `request`, the one with the lowest range if there are several.
    pub fn test(&self, request: &LockRequest) -> Option<LockConflict> {
        self.with_state(|state, _| state.first_conflict(request))
    }

    /// Takes a lock now or not at all. Replaces the locks of the owner in that range. An `flock` of the other
    /// kind is released first, and stays released if the new one is not available, as on Linux.
    pub fn set(&self, request: &LockRequest) -> Result<(), LockError> {
        self.with_state(|state, answers| state.set(request, answers))
    }

    /// Takes a lock now or as soon as it is available, then calls `waiter`. `None`: it has been called
    /// already, or is being called now.
    pub fn set_waiting(&self, request: &LockRequest, waiter: Waiter) -> Option<WaitId> {
        self.with_state(|state, answers| state.set_waiting(*request, waiter, answers))
    }

    /// Ends the waiting with [`LockError::Interrupted`]. False: it had ended before.
    pub fn cancel(&self, wait: WaitId) -> bool {
        self.with_state(|state, answers| state.interrupt(wait, answers))
    }

    /// Releases the locks of `owner` within `scope`. Fails only if that splits one lock in two and the limit
    /// is reached.
    pub fn unlock(&self, ino: Ino, scope: LockScope, owner: LockOwner) -> Result<(), LockError> {
        self.with_state(|state, answers| state.unlock(ino, scope, owner, answers))
    }

    /// `owner` has closed a file: releases all its record locks on it. A thread of the owner that still waits
    /// for one keeps waiting; the kernel releases that lock when it finds the file closed.
    pub fn release_records(&self, ino: Ino, owner: LockOwner) {
        self.with_state(|state, answers| state.release(ino, LockScope::WHOLE_RECORD, owner, answers));
    }

    /// The open file that is `owner` was closed: releases its `flock`, and drops its waiting requests.
    pub fn release_flock(&self, ino: Ino, owner: LockOwner) {
        self.with_state(|state, answers| {
            state.interrupt_flocks(ino, owner, answers);
            state.release(ino, LockScope::Flock, owner, answers);
        });
    }

    /// A mount is gone: releases all locks that were taken through it, and ends the waiting of its requests.
    pub fn release_door(&self, door: u64) {
        self.with_state(|state, answers| state.release_door(door, answers));
    }

    /// Whether any owner holds, or waits for, a record lock on a file.
    pub fn has_records(&self, ino: Ino) -> bool {
        self.with_state(|state, _| state.files.contains_key(&(ino, LockFamily::Record)))
    }

    /// The number of held locks; merged ranges count as one.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Acquire)
    }

    fn with_state<T>(&self, act: impl FnOnce(&mut LockState, &mut LockAnswers) -> T) -> T {
        let mut answers = LockAnswers::new();
        // The table calls no foreign code under the mutex, so the state of a poisoned mutex is consistent.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let result = act(&mut state, &mut answers);
        // Under the mutex: whether there are locks at all is looked at without it.
        self.held.store(state.held(), Ordering::Release);
        drop(state);
        for (waiter, answer) in answers {
            waiter(answer);
        }
        result
    }
}
