//! An approval that does not exist, or cannot be given as requested.

use avfs_exec::policy::BadEdit;

use super::{ErrorCode, Hint};

#[derive(Debug, thiserror::Error)]
pub enum ApprovalError {
    #[error("there is no approval '{id}'")]
    Unknown { id: String },
    #[error("approval {id} holds no more: {}", if with.is_some() { "the vault has changed since" } else { "it has expired" })]
    Expired { id: String, with: Option<String> },
    #[error("approval {id} was {how} already")]
    Decided { id: String, how: String },
    #[error("approval {id} was denied by {by} already")]
    Denied { id: String, by: String },
    #[error("no rule can be kept for approval {id}: what it runs is not known word by word")]
    NothingToSave { id: String },
    #[error("approval {id} can be given once only: {reason}")]
    OnlyOnce { id: String, reason: String },
    #[error("approval {id} has no preview: {reason}")]
    NoPreview { id: String, reason: &'static str },
    #[error("there is no saved rule number {number}")]
    UnknownSavedRule { number: usize },
    #[error(transparent)]
    BadEdit(#[from] BadEdit),
}

impl ApprovalError {
    pub fn code(&self) -> ErrorCode {
        match self {
            ApprovalError::Unknown { .. } => ErrorCode::UnknownApproval,
            ApprovalError::Expired { .. } => ErrorCode::ApprovalExpired,
            ApprovalError::Decided { .. } | ApprovalError::Denied { .. } => ErrorCode::ApprovalDecided,
            ApprovalError::NothingToSave { .. } => ErrorCode::NothingToSave,
            ApprovalError::OnlyOnce { .. } => ErrorCode::ApprovalOnceOnly,
            ApprovalError::NoPreview { .. } => ErrorCode::NoPreview,
            ApprovalError::UnknownSavedRule { .. } => ErrorCode::UnknownRule,
            ApprovalError::BadEdit(BadEdit::NotWords { .. }) => ErrorCode::BadRules,
            ApprovalError::BadEdit(BadEdit::TooWide { .. } | BadEdit::Elsewhere { .. }) => {
                ErrorCode::RuleTooWide
            }
        }
    }

    pub fn hint(&self) -> Option<Hint> {
        let hint = match self {
            ApprovalError::Unknown { .. } => Hint::ListApprovals,
            ApprovalError::Expired { with: Some(id), .. } => Hint::UseApproval { id: id.clone() },
            ApprovalError::Expired { with: None, .. } => Hint::RunAgainToAsk,
            ApprovalError::Decided { .. } => Hint::WithdrawApproval,
            ApprovalError::Denied { .. } => Hint::DenialHolds,
            ApprovalError::OnlyOnce { .. } => Hint::AllowOnce,
            ApprovalError::NothingToSave { .. } => Hint::AllowOnceOrForSession,
            ApprovalError::UnknownSavedRule { .. } => Hint::ListSavedRules,
            ApprovalError::BadEdit(BadEdit::TooWide { .. } | BadEdit::Elsewhere { .. }) => {
                Hint::BeginWithWordsOfCommand
            }
            ApprovalError::BadEdit(BadEdit::NotWords { .. }) | ApprovalError::NoPreview { .. } => {
                return None;
            }
        };
        Some(hint)
    }
}
