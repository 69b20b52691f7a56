//! Work that cannot be stored because of a full disk: it stays in the journal, and is deleted only with its
//! vault.

use std::path::Path;

use crate::error::{Error, ErrorCode, Result, StorageError};
use crate::ownership;
use crate::record::Head;
use crate::vault::Vault;

/// The work of a vault that is in its journal only.
#[derive(Clone, Copy)]
pub(crate) struct UnstoredWork<'a> {
    pub(crate) vault: &'a Vault,
}

impl UnstoredWork<'_> {
    /// An error that a full disk has caused, with the unstored work and the remedy; any other one unchanged.
    pub(crate) fn explain(&self, error: Error) -> Error {
        let is_told = matches!(error, Error::Storage(StorageError::Unstored { .. }));
        if is_told || error.code() != ErrorCode::DiskFull {
            return error;
        }
        match self.unstored() {
            Ok(Some((name, needed, free))) => Error::Storage(StorageError::Unstored {
                name,
                needed,
                free,
                source: Box::new(error),
            }),
            // Other errors are irrelevant here.
            Ok(None) | Err(_) => error,
        }
    }

    /// The name of the vault, an estimate of the space that its journal needs as objects, and the free space.
    fn unstored(&self) -> Result<Option<(String, u64, u64)>> {
        let record = self.vault.record()?.0;
        let (Some(place), Some(home)) = (
            self.vault.journal_place(&record.head),
            self.vault.store().work().lasting(),
        ) else {
            return Ok(None);
        };
        let needed = place.bytes()?;
        Ok((needed > 0).then(|| (record.name.to_string(), needed, free_bytes(home))))
    }

    /// How many bytes of work are only in the journal, and stay there: of a dead owner, or for lack of space.
    pub(crate) fn bytes(&self, head: &Head) -> Result<u64> {
        let bytes = match self.vault.journal_place(head) {
            Some(place) => place.bytes()?,
            None => 0,
        };
        let stays = bytes > 0
            && (self.vault.store().is_read_only() || self.may_not_fit() || self.vault.is_abandoned()?);
        Ok(if stays { bytes } else { 0 })
    }

    /// Whether there may be too little space for the unstored work: it needs no more than its journal, and a
    /// little.
    pub(crate) fn may_not_fit(&self) -> bool {
        let unstored = self.unstored().ok().flatten();
        unstored.is_some_and(|(_, needed, free)| needed + needed / 8 + (4 << 20) > free)
    }

    /// Drops unstored work, and the writes of runs to caches: for a vault that is being deleted, by its
    /// owner.
    pub(crate) fn remove(&self) -> Result<()> {
        let record = self.vault.record()?.0;
        let (Some(place), Some(home)) = (
            self.vault.journal_place(&record.head),
            self.vault.store().work().lasting(),
        ) else {
            return Ok(());
        };
        place.remove_all()?;
        // It is only in the way: what stays of it goes with the vault.
        let caches = ownership::work_directory(home, self.vault.id()).join(crate::local_work::CACHES);
        let _ = crate::removal::remove_tree(&caches);
        Ok(())
    }
}

/// The space that an ordinary user can still write to the disk of a directory.
fn free_bytes(directory: &Path) -> u64 {
    rustix::fs::statvfs(directory).map_or(0, |disk| disk.f_bavail.saturating_mul(disk.f_frsize))
}
