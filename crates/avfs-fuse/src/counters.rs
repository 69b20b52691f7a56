//! What was asked for and how long it took: plain numbers that cost a few nanoseconds to keep.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::abi::Opcode;

/// Bucket `n` of the histogram counts requests that took from `2^n` up to `2^(n+1)` nanoseconds; the last
/// one also what took longer.
const BUCKETS: usize = 40;

/// How often each operation was asked for and how long serving took, since the session began.
pub struct Counters {
    operations: [Operations; Opcode::LIMIT],
    histogram: [AtomicU64; BUCKETS],
}

#[derive(Default)]
struct Operations {
    requests: AtomicU64,
    nanos: AtomicU64,
}

/// What happened with one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationCount {
    pub opcode: Opcode,
    pub requests: u64,
    /// Until the service returned; an answer that was put off may have come later.
    pub nanos: u64,
}

impl Default for Counters {
    fn default() -> Counters {
        Counters {
            operations: std::array::from_fn(|_| Operations::default()),
            histogram: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl Counters {
    /// Before a request is served, so that whoever has its answer finds it counted.
    pub(crate) fn begin(&self, opcode: u32) {
        self.of(opcode).requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end(&self, opcode: u32, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.of(opcode).nanos.fetch_add(nanos, Ordering::Relaxed);
        let bucket = (nanos.max(1).ilog2() as usize).min(BUCKETS - 1);
        self.histogram[bucket].fetch_add(1, Ordering::Relaxed);
    }

    /// Number zero is no operation: there is what the kernel may ask for one day.
    fn of(&self, opcode: u32) -> &Operations {
        self.operations.get(opcode as usize).unwrap_or(&self.operations[0])
    }

    /// How often an operation was asked for.
    pub fn requests(&self, opcode: Opcode) -> u64 {
        self.operations[opcode as usize].requests.load(Ordering::Relaxed)
    }

    /// All requests, of any kind.
    pub fn total(&self) -> u64 {
        self.operations.iter().map(|one| one.requests.load(Ordering::Relaxed)).sum()
    }

    /// The operations that were asked for.
    pub fn operations(&self) -> Vec<OperationCount> {
        let count = |opcode: &Opcode| {
            let one = &self.operations[*opcode as usize];
            let (requests, nanos) = (one.requests.load(Ordering::Relaxed), one.nanos.load(Ordering::Relaxed));
            OperationCount { opcode: *opcode, requests, nanos }
        };
        Opcode::ALL.iter().map(count).filter(|count| count.requests > 0).collect()
    }

    /// How many requests took from `2^n` up to `2^(n+1)` nanoseconds, for each `n`.
    pub fn histogram(&self) -> Vec<u64> {
        self.histogram.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect()
    }
}
