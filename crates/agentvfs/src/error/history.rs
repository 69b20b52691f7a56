//! A state of a vault that does not exist, or cannot be restored.

use super::{ErrorCode, Hint};

#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    #[error("vault '{vault}' has no checkpoint '{name}'")]
    UnknownCheckpoint {
        vault: String,
        name: String,
        similar: Option<String>,
    },
    #[error("vault '{vault}' already has a checkpoint '{name}'")]
    CheckpointExists { vault: String, name: String },
    #[error("'{text}' is neither a checkpoint of vault '{vault}', nor a vault, nor a snapshot of it")]
    UnknownRevision {
        vault: String,
        text: String,
        similar: Option<String>,
    },
    #[error("'{text}' could be several snapshots of vault '{vault}'")]
    AmbiguousRevision { vault: String, text: String },
    #[error("vault '{vault}' has nothing to undo")]
    NothingToUndo { vault: String },
    #[error("vault '{vault}' has nothing to redo: the last change was not an undo")]
    NothingToRedo { vault: String },
    #[error("the state of vault '{vault}' before entry {seq} ({action}) is no longer kept")]
    Thinned { vault: String, seq: u64, action: String },
    #[error("vault '{vault}' has no checkpoint to go back to")]
    NoCheckpoint { vault: String },
}

impl HistoryError {
    pub fn code(&self) -> ErrorCode {
        match self {
            HistoryError::UnknownCheckpoint { .. } => ErrorCode::UnknownCheckpoint,
            HistoryError::CheckpointExists { .. } => ErrorCode::CheckpointExists,
            HistoryError::UnknownRevision { .. } => ErrorCode::UnknownRevision,
            HistoryError::AmbiguousRevision { .. } => ErrorCode::AmbiguousRevision,
            HistoryError::NothingToUndo { .. } => ErrorCode::NothingToUndo,
            HistoryError::NothingToRedo { .. } => ErrorCode::NothingToRedo,
            HistoryError::Thinned { .. } => ErrorCode::HistoryThinned,
            HistoryError::NoCheckpoint { .. } => ErrorCode::NoCheckpoint,
        }
    }

    pub fn hint(&self) -> Option<Hint> {
        let hint = match self {
            HistoryError::UnknownCheckpoint { similar, .. } => {
                Hint::did_you_mean(similar).unwrap_or(Hint::ListCheckpoints)
            }
            HistoryError::UnknownRevision { similar, .. } => {
                Hint::did_you_mean(similar).unwrap_or(Hint::ListRevisions)
            }
            HistoryError::AmbiguousRevision { .. } => Hint::GiveMoreDigits,
            HistoryError::Thinned { .. } => Hint::ListKeptStates,
            HistoryError::NoCheckpoint { .. } => Hint::SaveCheckpoint,
            HistoryError::CheckpointExists { .. }
            | HistoryError::NothingToUndo { .. }
            | HistoryError::NothingToRedo { .. } => return None,
        };
        Some(hint)
    }
}
