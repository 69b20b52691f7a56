//! Who holds which bytes of one file, in one family.

use std::collections::BTreeMap;

use super::range::{ByteRange, RangeSet};
use super::{Conflict, LockKind, LockOwner, LockRequest};

/// The ranges of one owner, of one kind.
#[derive(Debug)]
struct Held {
    pid: u32,
    ranges: RangeSet,
}

/// An owner has every byte at most once, and a byte that one has exclusively nobody else has. By owner and
/// not by range: a file has few owners at a time but perhaps many locks, and an owner's ranges are sorted.
#[derive(Debug, Default)]
pub(super) struct Holders {
    shared: BTreeMap<LockOwner, Held>,
    exclusive: BTreeMap<LockOwner, Held>,
}

impl Holders {
    pub fn is_empty(&self) -> bool {
        self.shared.is_empty() && self.exclusive.is_empty()
    }

    /// How many ranges `owner` holds.
    pub fn count(&self, owner: LockOwner) -> usize {
        [&self.shared, &self.exclusive]
            .into_iter()
            .filter_map(|held| held.get(&owner))
            .map(|held| held.ranges.len())
            .sum()
    }

    pub fn holds(&self, owner: LockOwner, kind: LockKind, range: &ByteRange) -> bool {
        let held = self.of_kind(kind).get(&owner);
        held.is_some_and(|held| held.ranges.first_overlapping(range).is_some())
    }

    /// Whether taking `range` away from `owner` leaves two ranges of one.
    pub fn is_split_by(&self, owner: LockOwner, range: &ByteRange) -> bool {
        [&self.shared, &self.exclusive]
            .into_iter()
            .filter_map(|held| held.get(&owner))
            .any(|held| held.ranges.is_split_by(range))
    }

    /// For each other owner that is in the way of `request`: its lowest range that is, of each kind.
    pub fn conflicts<'a>(
        &'a self,
        request: &'a LockRequest,
    ) -> impl Iterator<Item = (LockOwner, Conflict)> + 'a {
        let range = request.scope.range();
        let kinds = match request.kind {
            LockKind::Shared => &[LockKind::Exclusive][..],
            LockKind::Exclusive => &[LockKind::Exclusive, LockKind::Shared],
        };
        kinds.iter().flat_map(move |kind| {
            let others = self.of_kind(*kind).iter().filter(|(owner, _)| **owner != request.owner);
            others.filter_map(move |(owner, held)| {
                let range = held.ranges.first_overlapping(&range)?;
                Some((*owner, Conflict { range, kind: *kind, pid: held.pid }))
            })
        })
    }

    /// Nothing may be in the way of `request`. What its owner held there is replaced.
    pub fn take(&mut self, request: &LockRequest) {
        let range = request.scope.range();
        self.give_up(request.owner, range);
        let fresh = || Held { pid: request.pid, ranges: RangeSet::default() };
        let held = self.of_kind_mut(request.kind).entry(request.owner).or_insert_with(fresh);
        held.pid = request.pid;
        held.ranges.insert(range);
    }

    pub fn give_up(&mut self, owner: LockOwner, range: ByteRange) {
        for all in [&mut self.shared, &mut self.exclusive] {
            let Some(held) = all.get_mut(&owner) else { continue };
            held.ranges.remove(range);
            if held.ranges.is_empty() {
                all.remove(&owner);
            }
        }
    }

    fn of_kind(&self, kind: LockKind) -> &BTreeMap<LockOwner, Held> {
        match kind {
            LockKind::Shared => &self.shared,
            LockKind::Exclusive => &self.exclusive,
        }
    }

    fn of_kind_mut(&mut self, kind: LockKind) -> &mut BTreeMap<LockOwner, Held> {
        match kind {
            LockKind::Shared => &mut self.shared,
            LockKind::Exclusive => &mut self.exclusive,
        }
    }
}
