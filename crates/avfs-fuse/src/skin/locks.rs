//! Locks on files. The table of the tree keeps them, so that they hold across all mounts of a vault.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use avfs_core::rules::Level;
use avfs_tree::Ino;
use avfs_tree::locks::{
    ByteRange, LockConflict, LockError, LockKind, LockOwner, LockRequest, LockScope, WaitId,
};
use rustix::io::Errno;

use super::Skin;
use super::deferring::ServeResult;
use super::error::SkinError;
use crate::abi::flags::{lock, release};
use crate::abi::{FileLock, FlushIn, LkIn, ReleaseIn};
use crate::reply::FuseReply;
use crate::request::FuseRequest;

/// Of `fcntl(2)`.
const READ: u32 = 0;
const WRITE: u32 = 1;
const UNLOCK: u32 = 2;

/// How many interrupts that came before their requests are remembered.
const EARLY_MAX: usize = 64;

/// Requests that wait for a lock, by their numbers.
#[derive(Default)]
pub(super) struct LockWaits {
    state: Mutex<WaitState>,
}

#[derive(Default)]
struct WaitState {
    waits: HashMap<u64, WaitPhase>,
    /// Interrupts of requests that have not arrived yet, if they are about locks at all.
    early: VecDeque<u64>,
}

enum WaitPhase {
    /// The table has not returned the number of the waiting request yet.
    Starting,
    Interrupted,
    Queued(WaitId),
}

impl LockWaits {
    fn state(&self) -> MutexGuard<'_, WaitState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self, unique: u64) {
        let mut state = self.state();
        let early = state.early.iter().position(|known| *known == unique);
        let wait = match early.and_then(|index| state.early.remove(index)) {
            Some(_) => WaitPhase::Interrupted,
            None => WaitPhase::Starting,
        };
        state.waits.insert(unique, wait);
    }

    /// The request waits. Returns whether it was interrupted meanwhile; it may also be finished already.
    fn queued(&self, unique: u64, id: WaitId) -> bool {
        match self.state().waits.get_mut(&unique) {
            Some(WaitPhase::Interrupted) => true,
            Some(wait) => {
                *wait = WaitPhase::Queued(id);
                false
            }
            None => false,
        }
    }

    fn end(&self, unique: u64) {
        self.state().waits.remove(&unique);
    }

    fn interrupt(&self, unique: u64) -> Option<WaitId> {
        let mut state = self.state();
        match state.waits.get_mut(&unique) {
            Some(WaitPhase::Queued(id)) => return Some(*id),
            Some(wait) => *wait = WaitPhase::Interrupted,
            None => {
                state.early.push_back(unique);
                if state.early.len() > EARLY_MAX {
                    state.early.pop_front();
                }
            }
        }
        None
    }
}

/// Requests for locks, and the closing of descriptors that may end some.
pub(super) struct LockRequests<'a> {
    pub(super) skin: &'a Skin,
}

impl LockRequests<'_> {
    /// The first conflicting lock; none, if the lock is available.
    pub(super) fn get_lock(&self, request: &FuseRequest<'_>, lock: &LkIn) -> Result<FileLock, SkinError> {
        let wanted = self.lock_request(request, lock)?;
        self.skin.check(wanted.ino, Level::Read)?;
        Ok(match self.skin.tree.locks().test(&wanted) {
            Some(LockConflict { range, kind, pid }) => {
                let kind = if kind == LockKind::Shared { READ } else { WRITE };
                FileLock {
                    start: range.first(),
                    end: range.last(),
                    kind,
                    pid,
                }
            }
            None => FileLock {
                kind: UNLOCK,
                ..lock.lk
            },
        })
    }

    /// Takes or releases a lock. The next owner of the lock must see the data that it protects, through any
    /// mount: the answer is sent when the kernel has processed all earlier notifications.
    pub(super) fn set_lock<'a>(
        &self,
        request: &FuseRequest<'_>,
        lock: &LkIn,
        wait: bool,
        reply: FuseReply<'a>,
    ) -> ServeResult<'a> {
        let wanted = match self.lock_request(request, lock) {
            Ok(wanted) => wanted,
            Err(error) => return self.skin.refuse(request, reply, error),
        };
        let table = self.skin.tree.locks();
        if lock.lk.kind == UNLOCK {
            // Releasing a lock needs no level: rules that changed since must not keep it held.
            return Ok(reply.done(errno(table.unlock(wanted.ino, wanted.scope, wanted.owner))));
        }
        if let Err(error) = self.skin.check(wanted.ino, Level::Read) {
            return self.skin.refuse(request, reply, error);
        }
        if matches!(wanted.scope, LockScope::Record(_)) {
            self.skin.handles.locked(lock.fh, wanted.ino, lock.owner);
        }
        if !wait {
            let result = errno(table.set(&wanted));
            return Ok(self.skin.when_up_to_date(reply, move |reply| reply.done(result)));
        }
        let (answered, reply) = reply.defer();
        let waiting = Arc::clone(&self.skin.waiting);
        let unique = request.unique;
        let notices = self.skin.notices();
        // Registered before the table is called: an interrupt may arrive on another thread while the request
        // is being queued.
        self.skin.waiting.start(unique);
        let id = table.set_waiting(
            &wanted,
            Box::new(move |result| {
                waiting.end(unique);
                notices.then(move || drop(reply.done(errno(result))));
            }),
        );
        if let Some(id) = id
            && self.skin.waiting.queued(unique, id)
        {
            table.cancel(id);
        }
        Ok(answered)
    }

    pub(super) fn interrupt(&self, unique: u64) {
        if let Some(id) = self.skin.waiting.interrupt(unique) {
            self.skin.tree.locks().cancel(id);
        }
    }

    /// A descriptor was closed: its process loses its record locks on the file.
    pub(super) fn flush(&self, request: &FuseRequest<'_>, flush: &FlushIn) -> Result<(), SkinError> {
        let ino = self.skin.nodes.meant(request.nodeid);
        self.skin
            .tree
            .locks()
            .release_records(ino, self.lock_owner(flush.lock_owner));
        self.skin.handles.unlocked(ino, flush.lock_owner);
        Ok(())
    }

    /// An open file is gone, with its lock of `flock(2)`, and with the record locks that were taken through
    /// it if its closing was not reported.
    pub(super) fn release_file(&self, request: &FuseRequest<'_>, given: &ReleaseIn) {
        let ino = self.skin.nodes.meant(request.nodeid);
        self.skin.opens.hold(request.nodeid).close();
        if given.release_flags & release::FLOCK_UNLOCK != 0 {
            self.skin
                .tree
                .locks()
                .release_flock(ino, self.lock_owner(given.lock_owner));
        }
        for owner in self.skin.handles.close(given.fh) {
            self.skin
                .tree
                .locks()
                .release_records(ino, self.lock_owner(owner));
        }
    }

    /// Whether any process has a record lock on a file.
    pub(super) fn has_record_locks(&self, ino: Ino) -> bool {
        self.skin.tree.locks().has_records(ino)
    }

    fn lock_owner(&self, owner: u64) -> LockOwner {
        LockOwner {
            door: self.skin.tree.door().0,
            owner,
        }
    }

    fn lock_request(&self, request: &FuseRequest<'_>, lock: &LkIn) -> Result<LockRequest, SkinError> {
        let scope = if lock.lk_flags & lock::FLOCK != 0 {
            LockScope::Flock
        } else {
            let range = ByteRange::new(lock.lk.start, lock.lk.end);
            LockScope::Record(range.map_err(|error| SkinError::Errno(error.errno()))?)
        };
        let kind = if lock.lk.kind == WRITE {
            LockKind::Exclusive
        } else {
            LockKind::Shared
        };
        let ino = self.skin.ino(request)?;
        let owner = self.lock_owner(lock.owner);
        Ok(LockRequest {
            ino,
            scope,
            kind,
            owner,
            pid: lock.lk.pid,
        })
    }
}

fn errno(result: Result<(), LockError>) -> Result<(), Errno> {
    result.map_err(|error| error.errno())
}
