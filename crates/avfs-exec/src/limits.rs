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

/// Whether these limits would hold for all processes of a run together: whether this user may make a control group now.
pub fn hold_together(limits: &Limits) -> bool {
    // One that refuses a limit is told of when the run begins.
    !matches!(Group::new(limits), Ok(None))
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
