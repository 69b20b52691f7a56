//! A session that does not exist, or does not answer.

use std::io;

use super::{ErrorCode, Hint};

#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error("there is no session '{id}'")]
    Unknown { id: String },
    #[error("session '{id}' does not answer")]
    Silent {
        id: String,
        #[source]
        source: io::Error,
    },
}

impl SessionError {
    pub fn code(&self) -> ErrorCode {
        match self {
            SessionError::Unknown { .. } => ErrorCode::UnknownSession,
            SessionError::Silent { .. } => ErrorCode::SessionSilent,
        }
    }

    pub fn hint(&self) -> Option<Hint> {
        let hint = match self {
            SessionError::Unknown { .. } => Hint::ListSessions,
            SessionError::Silent { .. } => return None,
        };
        Some(hint)
    }
}
