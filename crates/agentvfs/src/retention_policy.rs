//! What automatic snapshots may cost.

use avfs_core::SnapshotRetention;

/// What automatic snapshots may cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetentionPolicy {
    /// How long automatic snapshots are kept.
    pub times: SnapshotRetention,
    /// The share of the store's disk that only automatic snapshots may hold: 0.0 to 1.0.
    pub disk_share: f64,
}

impl Default for RetentionPolicy {
    fn default() -> RetentionPolicy {
        RetentionPolicy {
            times: SnapshotRetention::default(),
            disk_share: 0.1,
        }
    }
}
