//! The state behind the mutex of a lock table: locks and waiters, by file, by owner and by number.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;

use super::holders::RangeHolders;
use super::range::ByteRange;
use super::{LockConflict, LockError, LockKind, LockOwner, LockRequest, LockScope, WaitId, Waiter};
use crate::inodes::Ino;

/// The outcomes to report to waiters once the mutex is released.
pub(super) type LockAnswers = Vec<(Waiter, Result<(), LockError>)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum LockFamily {
    Record,
    Flock,
}

/// The two families of a file are independent.
pub(super) type LockKey = (Ino, LockFamily);

pub(super) struct LockWait {
    pub request: LockRequest,
    waiter: Waiter,
}

/// Invariant: every request in the queue has a conflict.
#[derive(Default)]
pub(super) struct FileLocks {
    pub holders: RangeHolders,
    /// In the order of arrival.
    pub queue: BTreeMap<WaitId, LockWait>,
}

pub(super) struct LockState {
    /// Only files that have holders or waiters.
    pub files: HashMap<LockKey, FileLocks>,
    holding: BTreeMap<LockOwner, BTreeSet<LockKey>>,
    /// The waiting requests, and the file of each.
    pub waiting: BTreeMap<LockOwner, BTreeSet<(WaitId, LockKey)>>,
    waits: HashMap<WaitId, LockKey>,
    held: usize,
    next_wait: u64,
    limit: usize,
}

/// A lock can be granted to a waiter at any time, and a lock that is cut out of one of the other kind makes
/// two more: this many are reserved per waiter.
const ROOM_OF_A_WAITER: usize = 2;

impl LockState {
    pub(super) fn new(limit: usize) -> LockState {
        LockState {
            files: HashMap::new(),
            holding: BTreeMap::new(),
            waiting: BTreeMap::new(),
            waits: HashMap::new(),
            held: 0,
            next_wait: 0,
            limit,
        }
    }

    pub(super) fn held(&self) -> usize {
        self.held
    }

    pub(super) fn first_conflict(&self, request: &LockRequest) -> Option<LockConflict> {
        let conflicts = self.files.get(&request.key())?.holders.conflicts(request);
        conflicts
            .map(|(_, conflict)| conflict)
            .min_by_key(|conflict| conflict.range)
    }

    pub(super) fn set(&mut self, request: &LockRequest, answers: &mut LockAnswers) -> Result<(), LockError> {
        // Even if the new lock is then refused: `flock(2)` loses the old lock in this case.
        self.give_up_other_flock(request, answers);
        if self.is_blocked(request) {
            return Err(LockError::WouldBlock);
        }
        // The room that waiters may need is reserved, so granting a lock to a waiter can never fail.
        self.need_room(1 + self.split_cost(request.key(), request.owner, &request.scope.range()))?;
        self.grant(request, answers);
        Ok(())
    }

    pub(super) fn set_waiting(
        &mut self,
        request: LockRequest,
        waiter: Waiter,
        answers: &mut LockAnswers,
    ) -> Option<WaitId> {
        let answer = match self.set(&request, answers) {
            // Checked before the request is queued, as `fcntl(2)` demands: the last one to close a circle
            // gets the error.
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

    pub(super) fn unlock(
        &mut self,
        ino: Ino,
        scope: LockScope,
        owner: LockOwner,
        answers: &mut LockAnswers,
    ) -> Result<(), LockError> {
        self.need_room(self.split_cost((ino, scope.family()), owner, &scope.range()))?;
        self.release(ino, scope, owner, answers);
        Ok(())
    }

    /// An [`LockState::unlock`] that cannot exceed the limit.
    pub(super) fn release(
        &mut self,
        ino: Ino,
        scope: LockScope,
        owner: LockOwner,
        answers: &mut LockAnswers,
    ) {
        let key = (ino, scope.family());
        if self.change_holder(key, owner, |holders| holders.give_up(owner, scope.range())) {
            self.serve_freed(key, scope.range(), answers);
        }
    }

    pub(super) fn release_door(&mut self, door: u64, answers: &mut LockAnswers) {
        let owners = LockOwner { door, owner: 0 }..=LockOwner {
            door,
            owner: u64::MAX,
        };
        let waits: Vec<WaitId> = self
            .waiting
            .range(owners.clone())
            .flat_map(|(_, waits)| waits)
            .map(|(wait, _)| *wait)
            .collect();
        // Waits first: otherwise releasing the locks could grant one to the door that is leaving.
        for wait in waits {
            self.interrupt(wait, answers);
        }
        let held: Vec<(LockOwner, LockKey)> = self
            .holding
            .range(owners)
            .flat_map(|(owner, keys)| keys.iter().map(|key| (*owner, *key)))
            .collect();
        for (owner, key) in &held {
            self.change_holder(*key, *owner, |holders| holders.give_up(*owner, ByteRange::WHOLE));
        }
        // Only now: waiters are served in the order of arrival, whichever lock each of them waited for.
        let files: BTreeSet<LockKey> = held.into_iter().map(|(_, key)| key).collect();
        for key in files {
            self.serve_freed(key, ByteRange::WHOLE, answers);
        }
    }

    pub(super) fn interrupt(&mut self, wait: WaitId, answers: &mut LockAnswers) -> bool {
        self.end_wait(wait, Err(LockError::Interrupted), answers)
            .is_some()
    }

    pub(super) fn interrupt_flocks(&mut self, ino: Ino, owner: LockOwner, answers: &mut LockAnswers) {
        let waits = self.waiting.get(&owner).into_iter().flatten();
        let of_file = waits
            .filter(|(_, key)| *key == (ino, LockFamily::Flock))
            .map(|(wait, _)| *wait);
        // Collected, because ending a wait changes the index that is being walked.
        for wait in of_file.collect::<Vec<_>>() {
            self.interrupt(wait, answers);
        }
    }

    fn is_blocked(&self, request: &LockRequest) -> bool {
        let file = self.files.get(&request.key());
        file.is_some_and(|file| file.holders.conflicts(request).next().is_some())
    }

    /// Converting an `flock` is not atomic: the old lock is released first, and waiting requests are granted
    /// before the new one.
    fn give_up_other_flock(&mut self, request: &LockRequest, answers: &mut LockAnswers) {
        let other = match request.kind {
            LockKind::Shared => LockKind::Exclusive,
            LockKind::Exclusive => LockKind::Shared,
        };
        let file = self.files.get(&request.key());
        let holds_other =
            file.is_some_and(|file| file.holders.holds(request.owner, other, &ByteRange::WHOLE));
        if request.scope == LockScope::Flock && holds_other {
            self.release(request.ino, LockScope::Flock, request.owner, answers);
        }
    }

    fn split_cost(&self, key: LockKey, owner: LockOwner, range: &ByteRange) -> usize {
        let file = self.files.get(&key);
        usize::from(file.is_some_and(|file| file.holders.is_split_by(owner, range)))
    }

    fn need_room(&self, more: usize) -> Result<(), LockError> {
        let used = self.held + ROOM_OF_A_WAITER * self.waits.len();
        if more == 0 || used + more <= self.limit {
            Ok(())
        } else {
            Err(LockError::TooMany { limit: self.limit })
        }
    }

    fn grant(&mut self, request: &LockRequest, answers: &mut LockAnswers) {
        if self.take(request) {
            self.serve(request.key(), request.scope.range(), answers);
        }
        self.break_cycles(request, answers);
    }

    /// Grants a request that is not blocked. True: its owner holds less than before, so other requests may be
    /// grantable.
    fn take(&mut self, request: &LockRequest) -> bool {
        let key = request.key();
        let holders = &self.files.entry(key).or_default().holders;
        let range = request.scope.range();
        let weakens =
            request.kind == LockKind::Shared && holders.holds(request.owner, LockKind::Exclusive, &range);
        self.change_holder(key, request.owner, |holders| holders.take(request));
        weakens
    }

    /// After locks were released: serves the requests that waited for them and drops the entry of an unused
    /// file.
    fn serve_freed(&mut self, key: LockKey, freed: ByteRange, answers: &mut LockAnswers) {
        self.serve(key, freed, answers);
        if self
            .files
            .get(&key)
            .is_some_and(|file| file.holders.is_empty() && file.queue.is_empty())
        {
            self.files.remove(&key);
        }
    }

    /// Grants, in the order of arrival, requests that waited for bytes in `freed`.
    fn serve(&mut self, key: LockKey, mut freed: ByteRange, answers: &mut LockAnswers) {
        let mut after = Bound::Unbounded;
        while let Some(wait) = self.next_unblocked(key, freed, after) {
            // The lock is recorded before its answer is delivered, which happens once the mutex is
            // released.
            let Some(request) = self.end_wait(wait, Ok(()), answers) else {
                return;
            };
            // Earlier requests are still blocked: a new lock never unblocks another owner, unless its owner
            // gave something up.
            after = Bound::Excluded(wait);
            if self.take(&request) {
                // Requests that were passed over may be grantable now.
                freed = freed.around(&request.scope.range());
                after = Bound::Unbounded;
            }
            self.break_cycles(&request, answers);
        }
    }

    fn next_unblocked(&self, key: LockKey, freed: ByteRange, after: Bound<WaitId>) -> Option<WaitId> {
        let file = self.files.get(&key)?;
        let mut waiting = file.queue.range((after, Bound::Unbounded));
        let unblocked = waiting.find(|(_, waiting)| {
            let request = &waiting.request;
            request.scope.range().overlaps(&freed) && file.holders.conflicts(request).next().is_none()
        });
        unblocked.map(|(wait, _)| *wait)
    }

    /// A lock was granted to an owner that still waits for another: threads of one process share their locks.
    /// Requests that wait for the granted lock, and would now wait forever, are ended.
    fn break_cycles(&mut self, granted: &LockRequest, answers: &mut LockAnswers) {
        if !self.waiting.contains_key(&granted.owner) {
            return;
        }
        let queue = self
            .files
            .get(&granted.key())
            .into_iter()
            .flat_map(|file| &file.queue);
        let behind = queue.filter(|(_, waiting)| waiting.request.excludes(granted));
        for (wait, request) in behind
            .map(|(wait, waiting)| (*wait, waiting.request))
            .collect::<Vec<_>>()
        {
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
        self.files
            .entry(key)
            .or_default()
            .queue
            .insert(wait, LockWait { request, waiter });
        wait
    }

    fn end_wait(
        &mut self,
        wait: WaitId,
        answer: Result<(), LockError>,
        answers: &mut LockAnswers,
    ) -> Option<LockRequest> {
        let key = self.waits.remove(&wait)?;
        let LockWait { request, waiter } = self.files.get_mut(&key)?.queue.remove(&wait)?;
        remove_from(&mut self.waiting, request.owner, &(wait, key));
        answers.push((waiter, answer));
        Some(request)
    }

    /// Updates the count and the index of holders; true if the owner held something before.
    fn change_holder(
        &mut self,
        key: LockKey,
        owner: LockOwner,
        change: impl FnOnce(&mut RangeHolders),
    ) -> bool {
        let Some(file) = self.files.get_mut(&key) else {
            return false;
        };
        let before = file.holders.count(owner);
        change(&mut file.holders);
        let after = file.holders.count(owner);
        // Counted by difference, because one request can split, join or remove several ranges.
        self.held = self.held - before + after;
        match after {
            0 => remove_from(&mut self.holding, owner, &key),
            _ => _ = self.holding.entry(owner).or_default().insert(key),
        }
        before > 0
    }
}

/// Removes an owner without entries.
fn remove_from<T: Ord>(index: &mut BTreeMap<LockOwner, BTreeSet<T>>, owner: LockOwner, entry: &T) {
    let Some(entries) = index.get_mut(&owner) else {
        return;
    };
    entries.remove(entry);
    if entries.is_empty() {
        index.remove(&owner);
    }
}

impl LockScope {
    fn family(&self) -> LockFamily {
        match self {
            LockScope::Record(_) => LockFamily::Record,
            LockScope::Flock => LockFamily::Flock,
        }
    }
}

impl LockRequest {
    /// Whether only one of two requests for the same file and family can be granted.
    fn excludes(&self, other: &LockRequest) -> bool {
        let shared = self.kind == LockKind::Shared && other.kind == LockKind::Shared;
        !shared && self.owner != other.owner && self.scope.range().overlaps(&other.scope.range())
    }

    pub(super) fn key(&self) -> LockKey {
        (self.ino, self.scope.family())
    }
}
