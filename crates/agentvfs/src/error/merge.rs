//! Vaults that cannot be merged, and paths that are not in conflict.

use avfs_core::TreePath;

use super::{ErrorCode, Hint};

#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    #[error("vault '{vault}' cannot be merged with itself")]
    WithItself { vault: String },
    #[error("vaults '{vault}' and '{other}' have no state in common")]
    NotRelated { vault: String, other: String },
    #[error("{path} in vault '{vault}' is not in conflict")]
    NoConflict { vault: String, path: TreePath },
}

impl MergeError {
    pub fn code(&self) -> ErrorCode {
        match self {
            MergeError::WithItself { .. } => ErrorCode::MergeWithItself,
            MergeError::NotRelated { .. } => ErrorCode::NotRelated,
            MergeError::NoConflict { .. } => ErrorCode::NoConflict,
        }
    }

    pub fn hint(&self) -> Option<Hint> {
        let hint = match self {
            MergeError::NotRelated { .. } => Hint::MergeRelatives,
            MergeError::NoConflict { .. } => Hint::ListConflicts,
            MergeError::WithItself { .. } => return None,
        };
        Some(hint)
    }
}
