//! Locks on files. The table of the tree keeps them, so that they hold across all mounts of a vault.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use avfs_core::rules::Level;
use avfs_tree::Ino;
use avfs_tree::locks::{ByteRange, Conflict, LockError, LockKind, LockOwner, LockRequest, Scope, WaitId};
use rustix::io::Errno;

use super::Skin;
use super::deferring::Outcome;
use super::error::SkinError;
use crate::abi::flags::{lock, release};
use crate::abi::{FileLock, FlushIn, LkIn, ReleaseIn};
use crate::reply::Reply;
use crate::request::Request;

/// Of `fcntl(2)`.
const READ: u32 = 0;
const WRITE: u32 = 1;
const UNLOCK: u32 = 2;

/// How many interrupts that came before their requests are remembered.
const EARLY_MAX: usize = 64;

/// Requests that wait for a lock, by their numbers.
#[derive(Default)]
pub(super) struct Waiting {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waits: HashMap<u64, Wait>,
    /// Interrupts of requests that nobody has seen yet, if they were about locks at all.
    early: VecDeque<u64>,
}

enum Wait {
    /// The table has not said yet under which number it waits.
    Starting,
    Interrupted,
    Queued(WaitId),
}

impl Waiting {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self, unique: u64) {
        let mut state = self.state();
        let early = state.early.iter().position(|known| *known == unique);
        let wait = match early.and_then(|index| state.early.remove(index)) {
            Some(_) => Wait::Interrupted,
            None => Wait::Starting,
        };
        state.waits.insert(unique, wait);
    }

    /// The request waits. Says whether it was interrupted meanwhile; it may also be over already.
    fn queued(&self, unique: u64, id: WaitId) -> bool {
        match self.state().waits.get_mut(&unique) {
            Some(Wait::Interrupted) => true,
            Some(wait) => {
                *wait = Wait::Queued(id);
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
            Some(Wait::Queued(id)) => return Some(*id),
            Some(wait) => *wait = Wait::Interrupted,
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

impl Skin {
    /// The first lock that would be in the way; none, if the lock could be had.
    pub(super) fn get_lock(&self, request: &Request<'_>, lock: &LkIn) -> Result<FileLock, SkinError> {
        let wanted = self.lock_request(request, lock)?;
        self.check(wanted.ino, Level::Read)?;
        Ok(match self.tree.locks().test(&wanted) {
            Some(Conflict { range, kind, pid }) => {
                let kind = if kind == LockKind::Shared { READ } else { WRITE };
                FileLock { start: range.first(), end: range.last(), kind, pid }
            }
            None => FileLock { kind: UNLOCK, ..lock.lk },
        })
    }

    /// Takes or gives up a lock. What is behind it is seen by whoever gets it next, through any mount: the
    /// answer comes when the kernel has forgotten what others changed before.
    pub(super) fn set_lock<'a>(
        &self,
        request: &Request<'_>,
        lock: &LkIn,
        wait: bool,
        reply: Reply<'a>,
    ) -> Outcome<'a> {
        let wanted = match self.lock_request(request, lock) {
            Ok(wanted) => wanted,
            Err(error) => return self.refuse(request, reply, error),
        };
        let table = self.tree.locks();
        if lock.lk.kind == UNLOCK {
            return Ok(reply.done(errno(table.unlock(wanted.ino, wanted.scope, wanted.owner))));
        }
        if let Err(error) = self.check(wanted.ino, Level::Read) {
            return self.refuse(request, reply, error);
        }
        if matches!(wanted.scope, Scope::Record(_)) {
            self.handles.locked(lock.fh, wanted.ino, lock.owner);
        }
        if !wait {
            let result = errno(table.set(&wanted));
            return Ok(self.when_up_to_date(reply, move |reply| reply.done(result)));
        }
        let (answered, reply) = reply.defer();
        let (waiting, unique, notices) = (Arc::clone(&self.waiting), request.unique, self.notices());
        self.waiting.start(unique);
        let id = table.set_waiting(
            &wanted,
            Box::new(move |result| {
                waiting.end(unique);
                notices.then(move || drop(reply.done(errno(result))));
            }),
        );
        if let Some(id) = id
            && self.waiting.queued(unique, id)
        {
            table.cancel(id);
        }
        Ok(answered)
    }

    pub(super) fn interrupt(&self, unique: u64) {
        if let Some(id) = self.waiting.interrupt(unique) {
            self.tree.locks().cancel(id);
        }
    }

    /// A descriptor was closed: the record locks of its process on the file are gone.
    pub(super) fn flush(&self, request: &Request<'_>, flush: &FlushIn) -> Result<(), SkinError> {
        let ino = self.nodes.meant(request.nodeid);
        self.tree.locks().release_records(ino, self.lock_owner(flush.lock_owner));
        self.handles.unlocked(ino, flush.lock_owner);
        Ok(())
    }

    /// An open file is gone, with its lock of `flock(2)`, and with the record locks that were taken through it
    /// if closing it told us nothing.
    pub(super) fn release_file(&self, request: &Request<'_>, given: &ReleaseIn) {
        let ino = self.nodes.meant(request.nodeid);
        self.opens.hold(request.nodeid).close();
        if given.release_flags & release::FLOCK_UNLOCK != 0 {
            self.tree.locks().release_flock(ino, self.lock_owner(given.lock_owner));
        }
        for owner in self.handles.close(given.fh) {
            self.tree.locks().release_records(ino, self.lock_owner(owner));
        }
    }

    /// Whether anybody has a record lock on a file.
    pub(super) fn has_record_locks(&self, ino: Ino) -> bool {
        self.tree.locks().has_records(ino)
    }

    fn lock_owner(&self, owner: u64) -> LockOwner {
        LockOwner { door: self.tree.door().0, owner }
    }

    fn lock_request(&self, request: &Request<'_>, lock: &LkIn) -> Result<LockRequest, SkinError> {
        let scope = match lock.lk_flags & lock::FLOCK != 0 {
            true => Scope::Flock,
            false => {
                let range = ByteRange::new(lock.lk.start, lock.lk.end);
                Scope::Record(range.map_err(|error| SkinError::Errno(error.errno()))?)
            }
        };
        let kind = if lock.lk.kind == WRITE { LockKind::Exclusive } else { LockKind::Shared };
        let (ino, owner) = (self.ino(request)?, self.lock_owner(lock.owner));
        Ok(LockRequest { ino, scope, kind, owner, pid: lock.lk.pid })
    }
}

fn errno(result: Result<(), LockError>) -> Result<(), Errno> {
    result.map_err(|error| error.errno())
}
