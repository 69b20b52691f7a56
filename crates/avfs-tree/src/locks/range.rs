//! Ranges of bytes, and sets of them.

use std::collections::BTreeMap;

use super::{LockError, LockScope};

/// A range of bytes of a file, both ends included. A range to the end of the file, wherever that moves, ends
/// at [`ByteRange::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ByteRange {
    first: u64,
    last: u64,
}

impl ByteRange {
    /// The greatest offset in a file that the kernel knows.
    pub const MAX: u64 = i64::MAX as u64;
    /// All bytes that a file can have.
    pub const WHOLE: ByteRange = ByteRange {
        first: 0,
        last: ByteRange::MAX,
    };

    /// The bytes from `first` to `last`, both included.
    pub fn new(first: u64, last: u64) -> Result<ByteRange, LockError> {
        if first <= last && last <= ByteRange::MAX {
            Ok(ByteRange { first, last })
        } else {
            Err(LockError::BadRange { first, last })
        }
    }

    /// The first byte.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The last byte.
    pub fn last(&self) -> u64 {
        self.last
    }

    pub(super) fn overlaps(&self, other: &ByteRange) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// The smallest range that contains both.
    pub(super) fn around(&self, other: &ByteRange) -> ByteRange {
        ByteRange {
            first: self.first.min(other.first),
            last: self.last.max(other.last),
        }
    }

    /// The range with its neighbours: every range that overlaps it overlaps or touches this one.
    fn widened(&self) -> ByteRange {
        ByteRange {
            first: self.first.saturating_sub(1),
            last: self.last + 1,
        }
    }
}

impl LockScope {
    pub(super) const WHOLE_RECORD: LockScope = LockScope::Record(ByteRange::WHOLE);

    pub(super) fn range(&self) -> ByteRange {
        match self {
            LockScope::Record(range) => *range,
            LockScope::Flock => ByteRange::WHOLE,
        }
    }
}

/// A set of bytes as the smallest number of ranges: no two overlap or touch. From first to last.
#[derive(Debug, Default)]
pub(super) struct RangeSet(BTreeMap<u64, u64>);

impl RangeSet {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn insert(&mut self, range: ByteRange) {
        let merged = self
            .take_overlapping(range.widened())
            .fold(range, |merged, old| merged.around(&old));
        self.0.insert(merged.first, merged.last);
    }

    pub(super) fn remove(&mut self, range: ByteRange) {
        let touched: Vec<ByteRange> = self.take_overlapping(range).collect();
        for old in touched {
            if old.first < range.first {
                self.0.insert(old.first, range.first - 1);
            }
            if old.last > range.last {
                self.0.insert(range.last + 1, old.last);
            }
        }
    }

    pub(super) fn first_overlapping(&self, range: &ByteRange) -> Option<ByteRange> {
        let reaching = self.0.range(..range.first).next_back();
        let rest = self.0.range(range.first..=range.last).next();
        let mut candidates = reaching.into_iter().chain(rest).map(|(first, last)| ByteRange {
            first: *first,
            last: *last,
        });
        candidates.find(|candidate| candidate.overlaps(range))
    }

    /// Whether removing `range` splits a range of the set in two.
    pub(super) fn is_split_by(&self, range: &ByteRange) -> bool {
        let reaching = self.0.range(..range.first).next_back();
        reaching.is_some_and(|(_, last)| *last > range.last)
    }

    /// Removes whole ranges, including those that extend beyond the ends of `range`, the last one first.
    fn take_overlapping(&mut self, range: ByteRange) -> impl Iterator<Item = ByteRange> + '_ {
        std::iter::from_fn(move || {
            let (first, last) = self
                .0
                .range(..=range.last)
                .next_back()
                .map(|(first, last)| (*first, *last))?;
            (last >= range.first).then(|| {
                self.0.remove(&first);
                ByteRange { first, last }
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BYTES: u64 = 24;

    fn range() -> impl Strategy<Value = ByteRange> {
        (0..BYTES, 0..BYTES).prop_map(|(a, b)| ByteRange::new(a.min(b), a.max(b)).unwrap())
    }

    /// Runs of set bytes.
    fn runs(bytes: &[bool]) -> Vec<(u64, u64)> {
        let starts = (0..bytes.len()).filter(|at| bytes[*at] && (*at == 0 || !bytes[at - 1]));
        starts
            .map(|start| {
                let length = bytes[start..].iter().take_while(|set| **set).count();
                (start as u64, (start + length - 1) as u64)
            })
            .collect()
    }

    proptest! {
        #[test]
        fn a_set_of_ranges_is_a_set_of_bytes(
            steps in proptest::collection::vec((any::<bool>(), range()), 1..40),
            probe in range(),
        ) {
            let mut set = RangeSet::default();
            let mut bytes = [false; BYTES as usize];
            for (insert, range) in steps {
                let growth = set.len();
                let split = set.is_split_by(&range);
                if insert {
                    set.insert(range);
                } else {
                    set.remove(range);
                }
                prop_assert!(insert || (set.len() > growth) == split);
                bytes[range.first as usize..=range.last as usize].fill(insert);
                let found: Vec<(u64, u64)> = set.0.iter().map(|(first, last)| (*first, *last)).collect();
                prop_assert_eq!(found, runs(&bytes));
            }
            let expected = runs(&bytes).into_iter().find(|run| run.0 <= probe.last && probe.first <= run.1);
            prop_assert_eq!(set.first_overlapping(&probe).map(|found| (found.first, found.last)), expected);
        }
    }

    #[test]
    fn ranges_end_where_the_offsets_of_the_kernel_end() {
        let mut set = RangeSet::default();
        set.insert(ByteRange::WHOLE);
        set.remove(ByteRange::new(ByteRange::MAX, ByteRange::MAX).unwrap());
        set.insert(ByteRange::new(ByteRange::MAX, ByteRange::MAX).unwrap());
        assert_eq!(set.len(), 1);
        for (first, last) in [(1, 0), (0, ByteRange::MAX + 1), (u64::MAX, u64::MAX)] {
            assert_eq!(
                ByteRange::new(first, last),
                Err(LockError::BadRange { first, last })
            );
        }
    }
}
