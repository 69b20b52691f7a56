//! What a run may use up, and what enforces it.

use std::time::Duration;

use crate::plan::Limits;

mod gauge;
mod group;
mod place;
pub(crate) mod stale;

pub(crate) use gauge::{Gauge, Lap};
pub(crate) use group::Group;

/// What enforces the limits on memory and processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitsBy {
    /// A control group of version 2, for all processes of the run together.
    CgroupV2,
    /// Control groups of version 1, for all processes of the run together.
    CgroupV1,
    /// Limits of each process: memory is counted for each of them alone.
    Rlimits,
}

/// A limit that a run came up against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Processes were killed because memory ran out.
    Memory,
    /// Processes could not be started.
    Pids,
    CpuTime,
}

/// What a run used, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub cpu: Option<Duration>,
    /// The most memory at one time, in bytes.
    pub memory: Option<u64>,
}

/// What does not hold of a limit on memory on this machine, in one line; nothing if all of it holds.
pub fn memory_gap(limits: &Limits) -> Option<&'static str> {
    let is_gap = limits.memory.is_some() && !Group::is_available();
    is_gap.then_some(
        "memory is limited for each process alone, and shared memory not at all: this user has no control groups here \
         (`avfs doctor`)",
    )
}

/// How many places of a sandbox are kept in memory: `/tmp`, `/dev/shm` and the home.
const PRIVATE_PLACES: u64 = 3;

/// The largest pages that kernels have. Sizes of file systems in memory are rounded up to whole ones, and none is no limit.
const PAGE: u64 = 64 << 10;

/// Bytes that each place in memory may hold. Where nothing counts them with the memory of the run, all of them together
/// hold no more than that.
pub(crate) fn private_bytes(limits: &Limits, by: LimitsBy) -> u64 {
    match (by, limits.memory) {
        (LimitsBy::Rlimits, Some(memory)) => {
            let share = memory / PRIVATE_PLACES;
            limits.private_bytes.min((share - share % PAGE).max(PAGE))
        }
        (LimitsBy::Rlimits | LimitsBy::CgroupV1 | LimitsBy::CgroupV2, _) => limits.private_bytes,
    }
}

/// Why limits could not be set.
#[derive(Debug, thiserror::Error)]
pub enum LimitError {
    #[error("a control group refused {what}")]
    Refused {
        what: &'static str,
        #[source]
        source: std::io::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_memory_hold_no_more_than_the_run_may_where_nothing_counts_them() {
        let limits = Limits { memory: Some(7 * PAGE), private_bytes: 10 * PAGE, ..Limits::default() };
        assert_eq!(private_bytes(&limits, LimitsBy::Rlimits), 2 * PAGE);
        assert_eq!(private_bytes(&limits, LimitsBy::CgroupV2), 10 * PAGE);
        let small = Limits { private_bytes: 50, ..limits.clone() };
        assert_eq!(private_bytes(&small, LimitsBy::Rlimits), 50);
        let tiny = Limits { memory: Some(1), ..limits.clone() };
        assert_eq!(private_bytes(&tiny, LimitsBy::Rlimits), PAGE);
        let unlimited = Limits { memory: None, ..limits };
        assert_eq!(private_bytes(&unlimited, LimitsBy::Rlimits), 10 * PAGE);
        assert_eq!(memory_gap(&unlimited), None);
    }
}
