//! Work that a full disk keeps from being stored: it stays in the journal, and goes only with its vault.

use std::path::Path;

use crate::error::{Error, Result};
use crate::owner;
use crate::vault::Vault;

/// What a disk that is full at the end of something means for a vault.
const DISK_FULL: &str = "disk-full";

impl Vault {
    /// An error that a full disk is the reason of, told with what is not stored and what helps; any other one as it is.
    pub(crate) fn if_unstored(&self, error: Error) -> Error {
        let is_told = matches!(error, Error::Unstored { .. });
        if is_told || error.code() != DISK_FULL {
            return error;
        }
        match self.unstored() {
            Ok(Some((name, needed, free))) => Error::Unstored { name, needed, free, source: Box::new(error) },
            // What is wrong beside that does not matter now.
            Ok(None) | Err(_) => error,
        }
    }

    /// What the vault is called, about how much room its journal takes as objects, and how much there is.
    fn unstored(&self) -> Result<Option<(String, u64, u64)>> {
        let record = self.record()?.0;
        let (Some(place), Some(home)) = (self.journal_place(&record.head), self.store().home()) else {
            return Ok(None);
        };
        let needed = place.bytes()?;
        Ok((needed > 0).then(|| (record.name.to_string(), needed, free_bytes(home))))
    }

    /// Whether there may be too little room for what is not stored: it takes no more than its journal, and a little.
    pub(crate) fn may_not_fit(&self) -> bool {
        let unstored = self.unstored().ok().flatten();
        unstored.is_some_and(|(_, needed, free)| needed + needed / 8 + (4 << 20) > free)
    }

    /// Drops what is not stored, and what runs have written to caches: for a vault that is being deleted, by its owner.
    pub(crate) fn drop_unstored(&self) -> Result<()> {
        let record = self.record()?.0;
        let (Some(place), Some(home)) = (self.journal_place(&record.head), self.store().home()) else {
            return Ok(());
        };
        place.remove_all()?;
        // It is only in the way: what stays of it goes with the vault.
        let caches = owner::work_directory(home, self.id()).join(crate::exec::CACHES);
        let _ = crate::removal::remove_tree(&caches);
        Ok(())
    }
}

/// What an ordinary user can still write to the disk of a directory.
fn free_bytes(directory: &Path) -> u64 {
    rustix::fs::statvfs(directory).map_or(0, |disk| disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// A number of bytes for people, rounded up.
pub(crate) fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

/// What drops the work of a vault, as it is typed.
pub(crate) fn dropping(name: &str) -> String {
    match name.rsplit_once('/') {
        Some((_, task)) => format!("avfs discard {task}"),
        None => format!("avfs vault delete {name}"),
    }
}

/// A vault, as people know it.
pub(crate) fn known_as(name: &str) -> String {
    match name.rsplit_once('/') {
        Some((_, task)) => format!("task '{task}'"),
        None => format!("vault '{name}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_dropped_by_its_own_name_and_a_vault_by_deleting_it() {
        assert_eq!(
            (known_as("web/half"), dropping("web/half")),
            ("task 'half'".into(), "avfs discard half".into())
        );
        assert_eq!(
            (known_as("web"), dropping("web")),
            ("vault 'web'".into(), "avfs vault delete web".into())
        );
    }

    #[test]
    fn room_is_rounded_up() {
        assert_eq!(mebibytes(1), "1 MiB");
        assert_eq!(mebibytes(170 << 20), "170 MiB");
    }
}
