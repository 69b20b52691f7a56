//! The resource limits of a run, and how they are enforced.

use std::time::Duration;

use crate::plan::RunLimits;

mod gauge;
mod group;
mod place;
pub(crate) mod stale;

pub(crate) use gauge::{GaugeLap, LimitGauge};
pub(crate) use group::ControlGroup;

/// The mechanism that enforces the limits on memory and processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitsBy {
    /// A control group of version 2, for all processes of the run together.
    CgroupV2,
    /// Control groups of version 1, for all processes of the run together.
    CgroupV1,
    /// Limits of each process: memory is counted separately for each.
    Rlimits,
}

/// A limit that a run has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReachedLimit {
    /// Processes were killed because memory ran out.
    Memory,
    /// Processes could not be started.
    Pids,
    /// Processes used up their processor time.
    CpuTime,
}

/// The resources that a run used, as far as known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunUsage {
    /// Processor time of all processes together.
    pub cpu: Option<Duration>,
    /// The most memory at one time, in bytes.
    pub memory: Option<u64>,
}

/// The memory that processes use at a moment, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryNow {
    /// All of it, with what the kernel keeps of files.
    pub used: u64,
    /// Of that, what the kernel keeps of files, and would give back.
    pub cache: u64,
}

/// The part of a memory limit that is not enforced on this machine, in one line; `None` if all of it is.
pub fn memory_gap(limits: &RunLimits) -> Option<&'static str> {
    let is_gap = limits.memory.is_some() && !ControlGroup::is_available();
    is_gap.then_some(
        "memory is limited per process only, and shared memory not at all, because this user has no control groups",
    )
}

/// The number of directories of a sandbox that are kept in memory: `/tmp`, `/dev/shm` and the home.
const PRIVATE_PLACES: u64 = 3;

/// The largest page size of kernels. Sizes of file systems in memory are rounded up to whole pages, and zero
/// would mean no limit.
const PAGE: u64 = 64 << 10;

/// The maximum bytes of each directory in memory. If they are not counted with the memory of the run, all of
/// them together hold no more than that.
pub(crate) fn private_bytes(limits: &RunLimits, by: LimitsBy) -> u64 {
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
    /// The kernel did not accept a limit.
    #[error("a control group refused {what}")]
    Refused {
        /// What was to be set.
        what: &'static str,
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_memory_hold_no_more_than_the_run_may_where_nothing_counts_them() {
        let limits = RunLimits {
            memory: Some(7 * PAGE),
            private_bytes: 10 * PAGE,
            ..RunLimits::default()
        };
        assert_eq!(private_bytes(&limits, LimitsBy::Rlimits), 2 * PAGE);
        assert_eq!(private_bytes(&limits, LimitsBy::CgroupV2), 10 * PAGE);
        let small = RunLimits {
            private_bytes: 50,
            ..limits.clone()
        };
        assert_eq!(private_bytes(&small, LimitsBy::Rlimits), 50);
        let tiny = RunLimits {
            memory: Some(1),
            ..limits.clone()
        };
        assert_eq!(private_bytes(&tiny, LimitsBy::Rlimits), PAGE);
        let unlimited = RunLimits {
            memory: None,
            ..limits
        };
        assert_eq!(private_bytes(&unlimited, LimitsBy::Rlimits), 10 * PAGE);
        assert_eq!(memory_gap(&unlimited), None);
    }
}
