//! Counts requests and their durations: plain numbers that cost a few nanoseconds to update.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::abi::Opcode;

/// Bucket `n` of the histogram counts requests that took from `2^n` up to `2^(n+1)` nanoseconds; the last one
/// includes all longer ones.
const BUCKETS: usize = 40;

/// The number of requests of each operation and the time spent serving them, since the session began.
pub struct Counters {
    operations: [OperationCounts; Opcode::LIMIT],
    histogram: [AtomicU64; BUCKETS],
}

#[derive(Default)]
struct OperationCounts {
    requests: AtomicU64,
    nanos: AtomicU64,
}

/// The numbers of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationCount {
    /// The kind of request.
    pub opcode: Opcode,
    /// How many there were.
    pub requests: u64,
    /// Until the service returned; a deferred answer may have come later.
    pub nanos: u64,
}

impl Default for Counters {
    fn default() -> Counters {
        Counters {
            operations: std::array::from_fn(|_| OperationCounts::default()),
            histogram: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl Counters {
    /// Before a request is served, so that a caller that has its answer finds it counted.
    pub(crate) fn begin(&self, opcode: u32) {
        self.of(opcode).requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end(&self, opcode: u32, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.of(opcode).nanos.fetch_add(nanos, Ordering::Relaxed);
        let bucket = (nanos.max(1).ilog2() as usize).min(BUCKETS - 1);
        self.histogram[bucket].fetch_add(1, Ordering::Relaxed);
    }

    /// Number zero is not an operation: it counts operations that are unknown today.
    fn of(&self, opcode: u32) -> &OperationCounts {
        self.operations
            .get(opcode as usize)
            .unwrap_or(&self.operations[0])
    }

    /// The number of requests of an operation.
    pub fn requests(&self, opcode: Opcode) -> u64 {
        self.operations[opcode as usize].requests.load(Ordering::Relaxed)
    }

    /// All requests, of any kind.
    pub fn total(&self) -> u64 {
        self.operations
            .iter()
            .map(|one| one.requests.load(Ordering::Relaxed))
            .sum()
    }

    /// The operations that were requested.
    pub fn operations(&self) -> Vec<OperationCount> {
        let count = |opcode: &Opcode| {
            let one = &self.operations[*opcode as usize];
            let requests = one.requests.load(Ordering::Relaxed);
            let nanos = one.nanos.load(Ordering::Relaxed);
            OperationCount {
                opcode: *opcode,
                requests,
                nanos,
            }
        };
        Opcode::ALL
            .iter()
            .map(count)
            .filter(|count| count.requests > 0)
            .collect()
    }

    /// How many requests took from `2^n` up to `2^(n+1)` nanoseconds, for each `n`.
    pub fn histogram(&self) -> Vec<u64> {
        self.histogram
            .iter()
            .map(|bucket| bucket.load(Ordering::Relaxed))
            .collect()
    }
}
