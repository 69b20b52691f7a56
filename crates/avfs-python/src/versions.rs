//! States of a vault: its history and its checkpoints.

use agentvfs::Timestamp;
use pyo3::prelude::*;

/// One state in the history of a vault.
#[pyclass(frozen, get_all, module = "agentvfs._native")]
pub struct HistoryEntry {
    seq: u64,
    snapshot: String,
    /// Seconds since 1970.
    time: f64,
    actor: String,
    action: String,
}

impl From<agentvfs::HistoryEntry> for HistoryEntry {
    fn from(entry: agentvfs::HistoryEntry) -> HistoryEntry {
        HistoryEntry {
            seq: entry.seq,
            snapshot: entry.snapshot.to_string(),
            time: seconds(entry.time),
            actor: entry.actor,
            action: entry.action,
        }
    }
}

/// A state with a name.
#[pyclass(frozen, get_all, module = "agentvfs._native")]
pub struct Checkpoint {
    name: String,
    snapshot: String,
    /// Seconds since 1970.
    time: f64,
    actor: String,
    message: Option<String>,
    automatic: bool,
}

impl From<agentvfs::Checkpoint> for Checkpoint {
    fn from(checkpoint: agentvfs::Checkpoint) -> Checkpoint {
        Checkpoint {
            name: checkpoint.name.to_string(),
            snapshot: checkpoint.snapshot.to_string(),
            time: seconds(checkpoint.time),
            actor: checkpoint.actor,
            message: checkpoint.message,
            automatic: checkpoint.automatic,
        }
    }
}

pub fn seconds(time: Timestamp) -> f64 {
    time.seconds as f64 + f64::from(time.nanos) / 1e9
}
