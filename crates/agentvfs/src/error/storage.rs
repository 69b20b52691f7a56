//! Operations of the store that are impossible, and data that it has lost.

use avfs_store::{CommitError, StoreError};
use avfs_tree::{FsError, ObjectError};

use super::sources::{fs_code, object_code, store_code};
use super::{Error, ErrorCode, Hint};

#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    #[error(
        "the work of {} is not stored: it stays in its journal until there is room for about {} ({} are free)",
        known_as(name), mebibytes(*needed), mebibytes(*free)
    )]
    Unstored {
        name: String,
        /// Bytes.
        needed: u64,
        free: u64,
        #[source]
        source: Box<Error>,
    },
    #[error("{key} in the store is not readable: {reason}")]
    DamagedRecord { key: String, reason: String },
    #[error("a repair may have lost refs, and collecting garbage would make that final")]
    AfterRepair,
    #[error("the audit log of '{log}' is broken at entry {seq}: {reason}")]
    AuditBroken {
        log: String,
        seq: u64,
        reason: &'static str,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Object(#[from] ObjectError),
    #[error(transparent)]
    Tree(#[from] FsError),
    #[error("{key} was changed by others again and again")]
    Contended { key: String },
}

impl StorageError {
    pub fn code(&self) -> ErrorCode {
        match self {
            StorageError::Unstored { .. } => ErrorCode::DiskFull,
            StorageError::DamagedRecord { .. } => ErrorCode::DamagedRecord,
            StorageError::AfterRepair => ErrorCode::AfterRepair,
            StorageError::AuditBroken { .. } => ErrorCode::AuditBroken,
            StorageError::Store(source) => store_code(source),
            StorageError::Object(source) => object_code(source),
            StorageError::Tree(source) => fs_code(source),
            StorageError::Contended { .. } => ErrorCode::Contended,
        }
    }

    pub fn hint(&self) -> Option<Hint> {
        let hint = match self {
            StorageError::AfterRepair => Hint::AcceptRepair,
            StorageError::Unstored { name, .. } => Hint::FreeSpaceOrDrop { name: name.clone() },
            StorageError::Store(StoreError::Newer { .. }) => Hint::UseNewerVersion,
            StorageError::Store(StoreError::Full { .. }) => Hint::FreeSpace,
            StorageError::DamagedRecord { .. }
            | StorageError::AuditBroken { .. }
            | StorageError::Store(_)
            | StorageError::Object(_)
            | StorageError::Tree(_)
            | StorageError::Contended { .. } => return None,
        };
        Some(hint)
    }
}

impl From<CommitError> for StorageError {
    fn from(error: CommitError) -> StorageError {
        match error {
            CommitError::Conflict { key } => StorageError::Contended { key },
            CommitError::Store(error) => StorageError::Store(error),
        }
    }
}

/// A number of bytes for people, rounded up.
fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

/// A vault, as people know it.
fn known_as(name: &str) -> String {
    match name.rsplit_once('/') {
        Some((_, task)) => format!("task '{task}'"),
        None => format!("vault '{name}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_known_by_its_own_name() {
        assert_eq!(known_as("web/half"), "task 'half'");
        assert_eq!(known_as("web"), "vault 'web'");
    }

    #[test]
    fn room_is_rounded_up() {
        assert_eq!(mebibytes(1), "1 MiB");
        assert_eq!(mebibytes(170 << 20), "170 MiB");
    }
}
