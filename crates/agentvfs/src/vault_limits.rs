//! What a vault may hold: checks of a whole state before it becomes the present one.
//!
//! The working tree checks single changes itself.

use avfs_core::Totals;
use avfs_tree::{FsError, VaultLimits};

use crate::error::Result;

/// The limits of a vault also apply after a restore; but restoring a smaller state is always possible.
pub(crate) fn check_growth(present: &Totals, target: &Totals, limits: VaultLimits) -> Result<()> {
    let bytes = limits.bytes.filter(|_| target.bytes > present.bytes);
    let files = limits.files.filter(|_| target.inodes > present.inodes);
    check_limits(target, VaultLimits { bytes, files })
}

/// Refuses what is more than a vault may hold.
pub(crate) fn check_limits(totals: &Totals, limits: VaultLimits) -> Result<()> {
    if let Some(limit) = limits.bytes.filter(|limit| totals.bytes > *limit) {
        return Err(FsError::OverBytes { limit }.into());
    }
    match limits.files.filter(|limit| totals.inodes > *limit) {
        Some(limit) => Err(FsError::OverFiles { limit }.into()),
        None => Ok(()),
    }
}
