//! Locks on files, which the tree keeps for all of its doors.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use avfs_tree::locks::{ByteRange, LockKind, LockOwner, LockRequest, LockTable, Scope, WaitId};
use rustix::io::Errno;

use super::Skin;
use super::error::SkinError;
use crate::abi::flags::{lock, release};
use crate::abi::{FileLock, FlushIn, LkIn, ReleaseIn};
use crate::reply::{Answered, Reply};
use crate::request::Request;

/// Of `fcntl(2)`.
const SHARED: u32 = 0;
const EXCLUSIVE: u32 = 1;
const UNLOCK: u32 = 2;

/// How many interrupts are remembered that came before what they interrupt.
const EARLY_MAX: usize = 64;

impl Skin {
    pub(super) fn get_lock(&self, request: &Request<'_>, asked: &LkIn) -> Result<FileLock, SkinError> {
        let Some(wanted) = self.lock_request(request, asked)? else { return Err(Errno::INVAL.into()) };
        Ok(match self.tree.locks().test(&wanted) {
            None => FileLock { kind: UNLOCK, ..asked.lk },
            Some(conflict) => FileLock {
                start: conflict.range.first(),
                end: conflict.range.last(),
                kind: match conflict.kind {
                    LockKind::Shared => SHARED,
                    LockKind::Exclusive => EXCLUSIVE,
                },
                pid: conflict.pid,
            },
        })
    }

    pub(super) fn set_lock(&self, request: &Request<'_>, asked: &LkIn) -> Result<(), SkinError> {
        match self.lock_request(request, asked)? {
            Some(wanted) => Ok(self.tree.locks().set(&wanted)?),
            None => {
                let (ino, owner) = (self.ino(request)?, self.owner(asked.owner));
                Ok(self.tree.locks().unlock(ino, scope(asked)?, owner)?)
            }
        }
    }

    /// Answers when the lock is had, which may be never; an interrupt ends the waiting.
    pub(super) fn wait_for_lock(&self, request: &Request<'_>, asked: &LkIn, reply: Reply<'_>) -> Answered {
        let wanted = match self.lock_request(request, asked) {
            Ok(Some(wanted)) => wanted,
            Ok(None) => return self.done(request, reply, self.set_lock(request, asked)),
            Err(error) => return reply.error(self.errno(request, error)),
        };
        let unique = request.unique;
        if !self.waits.begin(unique) {
            return reply.error(Errno::INTR);
        }
        let (answered, reply) = reply.defer();
        let waits = self.waits.clone();
        let wait = self.tree.locks().set_waiting(
            &wanted,
            Box::new(move |result| {
                waits.end(unique);
                let _ = reply.done(result.map_err(|error| error.errno()));
            }),
        );
        if let Some(wait) = wait
            && self.waits.started(unique, wait)
        {
            self.tree.locks().cancel(wait);
        }
        answered
    }

    /// A descriptor was closed: the process has no record locks on the file any more.
    pub(super) fn flush(&self, request: &Request<'_>, flush: &FlushIn) -> Result<(), SkinError> {
        // A file that was replaced is closed like any other.
        if let Ok(ino) = self.ino(request) {
            self.tree.locks().release_records(ino, self.owner(flush.lock_owner));
        }
        Ok(())
    }

    /// The last descriptor of an open file was closed.
    pub(super) fn release(&self, request: &Request<'_>, closed: &ReleaseIn) -> Result<(), SkinError> {
        if closed.release_flags & release::FLOCK_UNLOCK != 0
            && let Ok(ino) = self.ino(request)
        {
            self.tree.locks().release_flock(ino, self.owner(closed.lock_owner));
        }
        Ok(())
    }

    /// `None`: what is asked for is to unlock.
    fn lock_request(&self, request: &Request<'_>, asked: &LkIn) -> Result<Option<LockRequest>, SkinError> {
        let kind = match asked.lk.kind {
            SHARED => LockKind::Shared,
            EXCLUSIVE => LockKind::Exclusive,
            UNLOCK => return Ok(None),
            _ => return Err(Errno::INVAL.into()),
        };
        let (ino, scope, owner) = (self.ino(request)?, scope(asked)?, self.owner(asked.owner));
        Ok(Some(LockRequest { ino, scope, kind, owner, pid: asked.lk.pid }))
    }

    fn owner(&self, owner: u64) -> LockOwner {
        LockOwner { door: self.tree.door().0, owner }
    }
}

fn scope(asked: &LkIn) -> Result<Scope, SkinError> {
    Ok(match asked.lk_flags & lock::FLOCK != 0 {
        true => Scope::Flock,
        false => Scope::Record(ByteRange::new(asked.lk.start, asked.lk.end)?),
    })
}

/// Requests that wait for a lock, so that an interrupt finds them. An interrupt may come at any time, even
/// before the thread that took the request has got as far as here.
#[derive(Default)]
pub(super) struct Waits(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    by_request: HashMap<u64, Wait>,
    early: VecDeque<u64>,
}

#[derive(Clone, Copy)]
enum Wait {
    Starting,
    Interrupted,
    Waiting(WaitId),
}

impl Waits {
    /// False if the request was interrupted already.
    fn begin(&self, unique: u64) -> bool {
        let mut waiting = self.waiting();
        let is_early = waiting.early.iter().position(|early| *early == unique);
        match is_early.and_then(|index| waiting.early.remove(index)) {
            Some(_) => false,
            None => waiting.by_request.insert(unique, Wait::Starting).is_none(),
        }
    }

    /// Returns whether it was interrupted meanwhile.
    fn started(&self, unique: u64, wait: WaitId) -> bool {
        match self.waiting().by_request.get_mut(&unique) {
            Some(state @ Wait::Starting) => {
                *state = Wait::Waiting(wait);
                false
            }
            Some(Wait::Interrupted) => true,
            Some(Wait::Waiting(_)) | None => false,
        }
    }

    fn end(&self, unique: u64) {
        self.waiting().by_request.remove(&unique);
    }

    pub fn interrupt(&self, table: &LockTable, unique: u64) {
        let mut waiting = self.waiting();
        let wait = match waiting.by_request.get_mut(&unique) {
            Some(Wait::Waiting(wait)) => *wait,
            Some(state) => return *state = Wait::Interrupted,
            None => {
                waiting.early.push_back(unique);
                if waiting.early.len() > EARLY_MAX {
                    waiting.early.pop_front();
                }
                return;
            }
        };
        // Whoever waited is told by the table, and ends the wait here.
        drop(waiting);
        table.cancel(wait);
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
