//! State of open files: the record locks that were taken through them.
//!
//! A lock that belongs to a process ends when that process closes a descriptor of the file, which the kernel
//! reports; a lock that belongs to an open file (`F_OFD_SETLK`) ends with it, which the kernel reports
//! without the owner.
//!
//! A descriptor that cannot write rarely has locks, and a report of its closing costs a request, so the
//! kernel is asked not to send it if the file has no locks when it is opened. Locks that are taken through
//! such a descriptor later end with the open file itself.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use avfs_tree::Ino;

/// Handles whose closing is not reported are odd.
const QUIET: u64 = 1;
/// The bit of handles that can write.
const WRITES: u64 = 2;

#[derive(Default)]
pub(super) struct LockHandles {
    last: AtomicU64,
    /// The owners of record locks, by handle.
    locked: Mutex<HashMap<u64, Vec<(Ino, u64)>>>,
}

impl LockHandles {
    pub(super) fn open(&self, is_quiet: bool, may_write: bool) -> u64 {
        let number = self.last.fetch_add(4, Ordering::Relaxed) + 4;
        number | if is_quiet { QUIET } else { 0 } | if may_write { WRITES } else { 0 }
    }

    pub(super) fn may_write(&self, handle: u64) -> bool {
        handle & WRITES != 0
    }

    /// A record lock is taken through a handle.
    pub(super) fn locked(&self, handle: u64, ino: Ino, owner: u64) {
        let mut locked = self.table();
        let owners = locked.entry(handle).or_default();
        if !owners.contains(&(ino, owner)) {
            owners.push((ino, owner));
        }
    }

    /// The locks of an owner have ended: later locks of the same owner are unrelated to older handles.
    pub(super) fn unlocked(&self, ino: Ino, owner: u64) {
        self.table().retain(|_, owners| {
            owners.retain(|known| *known != (ino, owner));
            !owners.is_empty()
        });
    }

    /// The owners of locks that end with a handle.
    pub(super) fn close(&self, handle: u64) -> Vec<u64> {
        let owners = self.table().remove(&handle).unwrap_or_default();
        owners.into_iter().map(|(_, owner)| owner).collect()
    }

    fn table(&self) -> MutexGuard<'_, HashMap<u64, Vec<(Ino, u64)>>> {
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
