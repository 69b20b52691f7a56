//! What the mutex of a lock table guards: locks and waiters, by file, by owner and by number.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;

use super::holders::Holders;
use super::range::ByteRange;
use super::{Conflict, LockError, LockKind, LockOwner, LockRequest, Scope, WaitId, Waiter};
use crate::inodes::Ino;

/// What is to be said to waiters once the mutex is released.
pub(super) type Answers = Vec<(Waiter, Result<(), LockError>)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Family {
    Record,
    Flock,
}

/// The families of a file have nothing to do with each other.
pub(super) type FileKey = (Ino, Family);

pub(super) struct Waiting {
    pub request: LockRequest,
    waiter: Waiter,
}

/// Invariant: something is in the way of everyone in the queue.
#[derive(Default)]
pub(super) struct FileLocks {
    pub holders: Holders,
    /// In the order of arrival.
    pub queue: BTreeMap<WaitId, Waiting>,
}

pub(super) struct State {
    /// Only files that have holders or waiters.
    pub files: HashMap<FileKey, FileLocks>,
    holding: BTreeMap<LockOwner, BTreeSet<FileKey>>,
    /// Those who wait, and for which file.
    pub waiting: BTreeMap<LockOwner, BTreeSet<(WaitId, FileKey)>>,
    waits: HashMap<WaitId, FileKey>,
    held: usize,
    next_wait: u64,
    limit: usize,
}

/// A lock can be granted to a waiter at any time, and a lock taken out of the middle of one of the other
/// kind makes two more: so much is set aside for everyone who waits.
const ROOM_OF_A_WAITER: usize = 2;

impl State {
    pub fn new(limit: usize) -> State {
        State {
            files: HashMap::new(),
            holding: BTreeMap::new(),
            waiting: BTreeMap::new(),
            waits: HashMap::new(),
            held: 0,
            next_wait: 0,
            limit,
        }
    }

    pub fn held(&self) -> usize {
        self.held
    }

    pub fn first_conflict(&self, request: &LockRequest) -> Option<Conflict> {
        let conflicts = self.files.get(&request.key())?.holders.conflicts(request);
        conflicts.map(|(_, conflict)| conflict).min_by_key(|conflict| conflict.range)
    }

    pub fn set(&mut self, request: &LockRequest, answers: &mut Answers) -> Result<(), LockError> {
        self.give_up_other_flock(request, answers);
        if self.is_blocked(request) {
            return Err(LockError::WouldBlock);
        }
        self.need_room(1 + self.split_cost(request.key(), request.owner, &request.scope.range()))?;
        self.grant(request, answers);
        Ok(())
    }

    pub fn set_waiting(
        &mut self,
        request: LockRequest,
        waiter: Waiter,
        answers: &mut Answers,
    ) -> Option<WaitId> {
        let answer = match self.set(&request, answers) {
            Err(LockError::WouldBlock) if self.closes_cycle(&request) => Err(LockError::Deadlock),
            Err(LockError::WouldBlock) => match self.need_room(ROOM_OF_A_WAITER) {
                Ok(()) => return Some(self.enqueue(request, waiter)),
                Err(error) => Err(error),
            },
            answer => answer,
        };
        answers.push((waiter, answer));
        None
    }

    pub fn unlock(
        &mut self,
        ino: Ino,
        scope: Scope,
        owner: LockOwner,
        answers: &mut Answers,
    ) -> Result<(), LockError> {
        self.need_room(self.split_cost((ino, scope.family()), owner, &scope.range()))?;
        self.release(ino, scope, owner, answers);
        Ok(())
    }

    /// An [`State::unlock`] that needs no room.
    pub fn release(&mut self, ino: Ino, scope: Scope, owner: LockOwner, answers: &mut Answers) {
        let key = (ino, scope.family());
        if self.change_holder(key, owner, |holders| holders.give_up(owner, scope.range())) {
            self.serve_freed(key, scope.range(), answers);
        }
    }

    pub fn release_door(&mut self, door: u64, answers: &mut Answers) {
        let owners = LockOwner { door, owner: 0 }..=LockOwner { door, owner: u64::MAX };
        let waits: Vec<WaitId> =
            self.waiting.range(owners.clone()).flat_map(|(_, waits)| waits).map(|(wait, _)| *wait).collect();
        for wait in waits {
            self.interrupt(wait, answers);
        }
        let held: Vec<(LockOwner, FileKey)> = self
            .holding
            .range(owners)
            .flat_map(|(owner, keys)| keys.iter().map(|key| (*owner, *key)))
            .collect();
        for (owner, key) in &held {
            self.change_holder(*key, *owner, |holders| holders.give_up(*owner, ByteRange::WHOLE));
        }
        // Only now: who came first is served first, whichever of the locks was in the way.
        let files: BTreeSet<FileKey> = held.into_iter().map(|(_, key)| key).collect();
        for key in files {
            self.serve_freed(key, ByteRange::WHOLE, answers);
        }
    }

    pub fn interrupt(&mut self, wait: WaitId, answers: &mut Answers) -> bool {
        self.end_wait(wait, Err(LockError::Interrupted), answers).is_some()
    }

    pub fn interrupt_flocks(&mut self, ino: Ino, owner: LockOwner, answers: &mut Answers) {
        let waits = self.waiting.get(&owner).into_iter().flatten();
        let of_file = waits.filter(|(_, key)| *key == (ino, Family::Flock)).map(|(wait, _)| *wait);
        for wait in of_file.collect::<Vec<_>>() {
            self.interrupt(wait, answers);
        }
    }

    fn is_blocked(&self, request: &LockRequest) -> bool {
        let file = self.files.get(&request.key());
        file.is_some_and(|file| file.holders.conflicts(request).next().is_some())
    }

    /// A conversion of an `flock` is not atomic: the old lock goes first, and those who wait come before
    /// the new one.
    fn give_up_other_flock(&mut self, request: &LockRequest, answers: &mut Answers) {
        let other = match request.kind {
            LockKind::Shared => LockKind::Exclusive,
            LockKind::Exclusive => LockKind::Shared,
        };
        let file = self.files.get(&request.key());
        let holds_other =
            file.is_some_and(|file| file.holders.holds(request.owner, other, &ByteRange::WHOLE));
        if request.scope == Scope::Flock && holds_other {
            self.release(request.ino, Scope::Flock, request.owner, answers);
        }
    }

    fn split_cost(&self, key: FileKey, owner: LockOwner, range: &ByteRange) -> usize {
        let file = self.files.get(&key);
        usize::from(file.is_some_and(|file| file.holders.is_split_by(owner, range)))
    }

    fn need_room(&self, more: usize) -> Result<(), LockError> {
        let used = self.held + ROOM_OF_A_WAITER * self.waits.len();
        match more == 0 || used + more <= self.limit {
            true => Ok(()),
            false => Err(LockError::TooMany { limit: self.limit }),
        }
    }

    fn grant(&mut self, request: &LockRequest, answers: &mut Answers) {
        if self.take(request) {
            self.serve(request.key(), request.scope.range(), answers);
        }
        self.break_cycles(request, answers);
    }

    /// Grants a request that is not blocked. True: its owner holds less than before, so that others may go on.
    fn take(&mut self, request: &LockRequest) -> bool {
        let key = request.key();
        let holders = &self.files.entry(key).or_default().holders;
        let range = request.scope.range();
        let weakens =
            request.kind == LockKind::Shared && holders.holds(request.owner, LockKind::Exclusive, &range);
        self.change_holder(key, request.owner, |holders| holders.take(request));
        weakens
    }

    /// After locks were given up: serves those who waited for them and forgets a file that nobody needs.
    fn serve_freed(&mut self, key: FileKey, freed: ByteRange, answers: &mut Answers) {
        self.serve(key, freed, answers);
        if self.files.get(&key).is_some_and(|file| file.holders.is_empty() && file.queue.is_empty()) {
            self.files.remove(&key);
        }
    }

    /// Lets those go on, in the order of arrival, who waited for bytes that `freed` holds.
    fn serve(&mut self, key: FileKey, mut freed: ByteRange, answers: &mut Answers) {
        let mut after = Bound::Unbounded;
        while let Some(wait) = self.next_unblocked(key, freed, after) {
            let Some(request) = self.end_wait(wait, Ok(()), answers) else { return };
            after = Bound::Excluded(wait);
            if self.take(&request) {
                // Those who were passed over may be free to go now.
                freed = freed.around(&request.scope.range());
                after = Bound::Unbounded;
            }
            self.break_cycles(&request, answers);
        }
    }

    fn next_unblocked(&self, key: FileKey, freed: ByteRange, after: Bound<WaitId>) -> Option<WaitId> {
        let file = self.files.get(&key)?;
        let mut waiting = file.queue.range((after, Bound::Unbounded));
        let unblocked = waiting.find(|(_, waiting)| {
            let request = &waiting.request;
            request.scope.range().overlaps(&freed) && file.holders.conflicts(request).next().is_none()
        });
        unblocked.map(|(wait, _)| *wait)
    }

    /// A lock was granted to an owner that still waits for another: threads of one process share their
    /// locks. Those who wait for the granted one, and now for ever, are told.
    fn break_cycles(&mut self, granted: &LockRequest, answers: &mut Answers) {
        if !self.waiting.contains_key(&granted.owner) {
            return;
        }
        let queue = self.files.get(&granted.key()).into_iter().flat_map(|file| &file.queue);
        let behind = queue.filter(|(_, waiting)| waiting.request.excludes(granted));
        for (wait, request) in behind.map(|(wait, waiting)| (*wait, waiting.request)).collect::<Vec<_>>() {
            if self.closes_cycle(&request) {
                self.end_wait(wait, Err(LockError::Deadlock), answers);
            }
        }
    }

    fn enqueue(&mut self, request: LockRequest, waiter: Waiter) -> WaitId {
        let wait = WaitId(self.next_wait);
        self.next_wait += 1;
        let key = request.key();
        self.waits.insert(wait, key);
        self.waiting.entry(request.owner).or_default().insert((wait, key));
        self.files.entry(key).or_default().queue.insert(wait, Waiting { request, waiter });
        wait
    }

    fn end_wait(
        &mut self,
        wait: WaitId,
        answer: Result<(), LockError>,
        answers: &mut Answers,
    ) -> Option<LockRequest> {
        let key = self.waits.remove(&wait)?;
        let Waiting { request, waiter } = self.files.get_mut(&key)?.queue.remove(&wait)?;
        remove_from(&mut self.waiting, request.owner, &(wait, key));
        answers.push((waiter, answer));
        Some(request)
    }

    /// Keeps the count and the index of holders; true if the owner held something before.
    fn change_holder(&mut self, key: FileKey, owner: LockOwner, change: impl FnOnce(&mut Holders)) -> bool {
        let Some(file) = self.files.get_mut(&key) else { return false };
        let before = file.holders.count(owner);
        change(&mut file.holders);
        let after = file.holders.count(owner);
        self.held = self.held - before + after;
        match after {
            0 => remove_from(&mut self.holding, owner, &key),
            _ => _ = self.holding.entry(owner).or_default().insert(key),
        }
        before > 0
    }
}

/// An owner without entries is not kept.
fn remove_from<T: Ord>(index: &mut BTreeMap<LockOwner, BTreeSet<T>>, owner: LockOwner, entry: &T) {
    let Some(entries) = index.get_mut(&owner) else { return };
    entries.remove(entry);
    if entries.is_empty() {
        index.remove(&owner);
    }
}

impl Scope {
    fn family(&self) -> Family {
        match self {
            Scope::Record(_) => Family::Record,
            Scope::Flock => Family::Flock,
        }
    }
}

impl LockRequest {
    /// Whether only one of two requests for the same file and family can be granted.
    fn excludes(&self, other: &LockRequest) -> bool {
        let shared = self.kind == LockKind::Shared && other.kind == LockKind::Shared;
        !shared && self.owner != other.owner && self.scope.range().overlaps(&other.scope.range())
    }

    pub(super) fn key(&self) -> FileKey {
        (self.ino, self.scope.family())
    }
}
