//! File locks, served by the owner of a working tree, so that they exclude each other across all mounts
//! and views of a vault.
//!
//! Two families that never meet, as on Linux: record locks of `fcntl(2)`, on ranges of bytes, and locks of
//! `flock(2)`, on whole files. A request that conflicts with no held lock is granted at once, even if
//! others wait for the same bytes: programs hold one lock while they take a second one, or have a child
//! take it, and a queue that held them back would hang where Linux does not. Those that do wait are served
//! in the order in which they came.
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
use state::{Answers, Family, State};

use crate::inodes::Ino;

/// Whose a lock is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockOwner {
    /// The mount through which it was taken: kernels and mounts number their owners independently.
    pub door: u64,
    /// What the kernel calls the owner: for record locks a process, for `flock` an open file.
    pub owner: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LockKind {
    /// `F_RDLCK`, `LOCK_SH`.
    Shared,
    /// `F_WRLCK`, `LOCK_EX`.
    Exclusive,
}

/// The family of a lock and how much of the file it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    Record(ByteRange),
    Flock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRequest {
    pub ino: Ino,
    pub scope: Scope,
    pub kind: LockKind,
    pub owner: LockOwner,
    /// Told to those who ask who is in their way; not part of the owner.
    pub pid: u32,
}

/// A held lock that is in the way of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub range: ByteRange,
    pub kind: LockKind,
    pub pid: u32,
}

/// Names a waiter. Numbers grow with time and are never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaitId(u64);

/// Called exactly once, with how the waiting ended.
pub type Waiter = Box<dyn FnOnce(Result<(), LockError>) + Send>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    #[error("another lock is in the way")]
    WouldBlock,
    #[error("waiting for this lock would never end: its holder waits for the one who asks")]
    Deadlock,
    #[error("waiting for the lock was interrupted")]
    Interrupted,
    #[error("not a range of bytes of a file: {first} to {last}")]
    BadRange { first: u64, last: u64 },
    #[error("there are {limit} locks already")]
    TooMany { limit: usize },
}

impl LockError {
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

/// All locks on the files of one working tree. What has no lock takes no room.
pub struct LockTable {
    state: Mutex<State>,
    /// How many are held, for those who must not wait to know.
    held: AtomicUsize,
}

impl Default for LockTable {
    fn default() -> LockTable {
        LockTable::with_limit(LockTable::LIMIT)
    }
}

impl LockTable {
    /// How many locks there can be, so that one program cannot use up the memory of the owner.
    pub const LIMIT: usize = 1_000_000;

    pub fn with_limit(limit: usize) -> LockTable {
        LockTable { state: Mutex::new(State::new(limit)), held: AtomicUsize::new(0) }
    }

    /// The lock that is in the way of `request`, the one with the lowest range if there are several.
    pub fn test(&self, request: &LockRequest) -> Option<Conflict> {
        self.with_state(|state, _| state.first_conflict(request))
    }

    /// Takes a lock now or not at all. Replaces what the owner holds in that range. An `flock` of the
    /// other kind is given up first, and stays so if the new one cannot be had, as on Linux.
    pub fn set(&self, request: &LockRequest) -> Result<(), LockError> {
        self.with_state(|state, answers| state.set(request, answers))
    }

    /// Takes a lock now or as soon as it can be had; `waiter` is told. `None`: it has been told already, or
    /// is being told now.
    pub fn set_waiting(&self, request: &LockRequest, waiter: Waiter) -> Option<WaitId> {
        self.with_state(|state, answers| state.set_waiting(*request, waiter, answers))
    }

    /// Ends the waiting with [`LockError::Interrupted`]. False: it had ended before.
    pub fn cancel(&self, wait: WaitId) -> bool {
        self.with_state(|state, answers| state.interrupt(wait, answers))
    }

    /// Gives up what `owner` holds within `scope`. Fails only if that leaves two locks of one and there
    /// may be no more of them.
    pub fn unlock(&self, ino: Ino, scope: Scope, owner: LockOwner) -> Result<(), LockError> {
        self.with_state(|state, answers| state.unlock(ino, scope, owner, answers))
    }

    /// A file was closed by `owner`: all its record locks on it go. A thread of it that still waits for one
    /// goes on waiting; the kernel gives the lock back when it finds the file closed.
    pub fn release_records(&self, ino: Ino, owner: LockOwner) {
        self.with_state(|state, answers| state.release(ino, Scope::WHOLE_RECORD, owner, answers));
    }

    /// The open file that is `owner` is no more: its `flock` goes, and nobody waits for one any longer.
    pub fn release_flock(&self, ino: Ino, owner: LockOwner) {
        self.with_state(|state, answers| {
            state.interrupt_flocks(ino, owner, answers);
            state.release(ino, Scope::Flock, owner, answers);
        });
    }

    /// A mount is gone: so are all locks that were taken through it, and those who waited there are told.
    pub fn release_door(&self, door: u64) {
        self.with_state(|state, answers| state.release_door(door, answers));
    }

    /// Whether anybody holds, or waits for, a record lock on a file.
    pub fn has_records(&self, ino: Ino) -> bool {
        self.with_state(|state, _| state.files.contains_key(&(ino, Family::Record)))
    }

    /// How many locks are held; ranges that were merged count as one.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Acquire)
    }

    fn with_state<T>(&self, act: impl FnOnce(&mut State, &mut Answers) -> T) -> T {
        let mut answers = Answers::new();
        // Nothing in the table calls foreign code, so a state behind a poisoned mutex is whole.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let result = act(&mut state, &mut answers);
        self.held.store(state.held(), Ordering::Release);
        drop(state);
        for (waiter, answer) in answers {
            waiter(answer);
        }
        result
    }
}
