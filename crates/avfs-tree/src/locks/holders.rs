//! Which owners hold which bytes of one file, in one family.

use std::collections::BTreeMap;

use super::range::{ByteRange, RangeSet};
use super::{LockConflict, LockKind, LockOwner, LockRequest};

/// The ranges of one owner, of one kind.
#[derive(Debug)]
struct HeldRanges {
    pid: u32,
    ranges: RangeSet,
}

/// An owner has every byte at most once, and no other owner has a byte that one owner has exclusively.
/// Indexed by owner and not by range: a file has few owners at a time but perhaps many locks, and an owner's
/// ranges are sorted.
#[derive(Debug, Default)]
pub(super) struct RangeHolders {
    shared: BTreeMap<LockOwner, HeldRanges>,
    exclusive: BTreeMap<LockOwner, HeldRanges>,
}

impl RangeHolders {
    pub(super) fn is_empty(&self) -> bool {
        self.shared.is_empty() && self.exclusive.is_empty()
    }

    /// The number of ranges that `owner` holds.
    pub(super) fn count(&self, owner: LockOwner) -> usize {
        [&self.shared, &self.exclusive]
            .into_iter()
            .filter_map(|held| held.get(&owner))
            .map(|held| held.ranges.len())
            .sum()
    }

    pub(super) fn holds(&self, owner: LockOwner, kind: LockKind, range: &ByteRange) -> bool {
        let held = self.of_kind(kind).get(&owner);
        held.is_some_and(|held| held.ranges.first_overlapping(range).is_some())
    }

    /// Whether removing `range` from `owner` splits one range in two.
    pub(super) fn is_split_by(&self, owner: LockOwner, range: &ByteRange) -> bool {
        [&self.shared, &self.exclusive]
            .into_iter()
            .filter_map(|held| held.get(&owner))
            .any(|held| held.ranges.is_split_by(range))
    }

    /// For each other owner that conflicts with `request`: the lowest conflicting range of each kind.
    pub(super) fn conflicts<'a>(
        &'a self,
        request: &'a LockRequest,
    ) -> impl Iterator<Item = (LockOwner, LockConflict)> + 'a {
        let range = request.scope.range();
        let kinds = match request.kind {
            LockKind::Shared => &[LockKind::Exclusive][..],
            LockKind::Exclusive => &[LockKind::Exclusive, LockKind::Shared],
        };
        kinds.iter().flat_map(move |kind| {
            let others = self
                .of_kind(*kind)
                .iter()
                .filter(|(owner, _)| **owner != request.owner);
            others.filter_map(move |(owner, held)| {
                let range = held.ranges.first_overlapping(&range)?;
                Some((
                    *owner,
                    LockConflict {
                        range,
                        kind: *kind,
                        pid: held.pid,
                    },
                ))
            })
        })
    }

    /// Grants `request`, which must not conflict. It replaces the locks of its owner there.
    pub(super) fn take(&mut self, request: &LockRequest) {
        let range = request.scope.range();
        self.give_up(request.owner, range);
        let fresh = || HeldRanges {
            pid: request.pid,
            ranges: RangeSet::default(),
        };
        let held = self
            .of_kind_mut(request.kind)
            .entry(request.owner)
            .or_insert_with(fresh);
        held.pid = request.pid;
        held.ranges.insert(range);
    }

    pub(super) fn give_up(&mut self, owner: LockOwner, range: ByteRange) {
        for all in [&mut self.shared, &mut self.exclusive] {
            let Some(held) = all.get_mut(&owner) else { continue };
            held.ranges.remove(range);
            if held.ranges.is_empty() {
                all.remove(&owner);
            }
        }
    }

    fn of_kind(&self, kind: LockKind) -> &BTreeMap<LockOwner, HeldRanges> {
        match kind {
            LockKind::Shared => &self.shared,
            LockKind::Exclusive => &self.exclusive,
        }
    }

    fn of_kind_mut(&mut self, kind: LockKind) -> &mut BTreeMap<LockOwner, HeldRanges> {
        match kind {
            LockKind::Shared => &mut self.shared,
            LockKind::Exclusive => &mut self.exclusive,
        }
    }
}
