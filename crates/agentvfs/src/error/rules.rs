//! Path rules that cannot be read or stored, or that forbid a request.

use avfs_core::rules::BadRules;

use super::{ErrorCode, Hint};

#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    #[error("these rules can be kept by a mount only")]
    NeedMount,
    #[error(transparent)]
    Invalid(#[from] BadRules),
    #[error(transparent)]
    Fault(#[from] RuleFault),
    #[error("{action} is about all of vault '{vault}', which is seen through rules here")]
    WholeVault { vault: String, action: &'static str },
}

impl RulesError {
    pub fn code(&self) -> ErrorCode {
        match self {
            RulesError::NeedMount => ErrorCode::RulesNeedMount,
            RulesError::Invalid(_) | RulesError::Fault(_) => ErrorCode::BadRules,
            RulesError::WholeVault { .. } => ErrorCode::Denied,
        }
    }

    pub fn hint(&self) -> Option<Hint> {
        let hint = match self {
            RulesError::NeedMount => Hint::RulesOfWholeCopies,
            RulesError::Fault(fault) => Hint::Note(fault.hint.clone()?),
            RulesError::Invalid(_) | RulesError::WholeVault { .. } => return None,
        };
        Some(hint)
    }
}

/// Rules that cannot be used: where the mistake is and what it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct RuleFault {
    /// `FILE:LINE:COLUMN`, or the flag that holds it.
    pub place: String,
    pub reason: String,
    pub hint: Option<String>,
}
