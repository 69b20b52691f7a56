//! What a run may use up, and what enforces it.

use std::time::Duration;

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
