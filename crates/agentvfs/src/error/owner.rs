//! The process that has a vault open, and does not fulfil a request.

use std::io;
use std::path::PathBuf;

use super::{ErrorCode, Hint};

#[derive(Debug, thiserror::Error)]
pub enum OwnerError {
    #[error("vault '{vault}' is in use by {}", user(owner, by.as_ref()))]
    Busy {
        vault: String,
        owner: String,
        /// Why the process has it, as far as that is known.
        by: Option<VaultUser>,
    },
    #[error("process {pid} has vault '{vault}' open and speaks version {theirs}, not {ours}")]
    Version {
        vault: String,
        pid: u32,
        theirs: u32,
        ours: u32,
    },
    #[error("the process that has vault '{vault}' open does not answer")]
    Silent {
        vault: String,
        #[source]
        source: io::Error,
    },
    #[error("process {pid}, which had vault '{vault}' open, ended before it answered")]
    Gone { vault: String, pid: u32 },
    /// It ended in order, or was killed before it had the whole request: nothing was done.
    #[error("process {pid}, which had vault '{vault}' open, ended before it took the request")]
    Left { vault: String, pid: u32 },
    /// It was killed under a sandbox that showed its files.
    #[error("the process that served vault '{vault}' ended, so the sandbox on it was ended")]
    Died {
        /// The vault that it served.
        vault: String,
    },
    /// An error of the owner, in its words.
    #[error("{message}")]
    Failed {
        vault: String,
        code: ErrorCode,
        message: String,
        hint: Option<Hint>,
    },
    #[error("the tree of vault '{vault}' in memory is not whole")]
    Torn { vault: String },
    #[error("this is no request: {reason}")]
    BadRequest { reason: String },
    #[error("process {pid} has the vault open and serves no mounts")]
    NoMounts { pid: u32 },
}

/// The purpose for which a process has a vault open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VaultUser {
    Sessions { ids: Vec<String> },
    Mount { dir: PathBuf },
}

fn user(owner: &str, by: Option<&VaultUser>) -> String {
    match by {
        Some(VaultUser::Sessions { ids }) => match &ids[..] {
            [only] => format!("session {only}"),
            several => format!("sessions {}", several.join(", ")),
        },
        Some(VaultUser::Mount { dir }) => {
            format!(
                "its mount at {}",
                avfs_core::printable(dir.as_os_str().as_encoded_bytes())
            )
        }
        None => format!("process {owner}"),
    }
}

impl OwnerError {
    /// Whether the process is gone without an answer.
    pub fn is_end(&self) -> bool {
        matches!(self, OwnerError::Gone { .. } | OwnerError::Left { .. })
    }

    pub fn code(&self) -> ErrorCode {
        match self {
            OwnerError::Busy { .. } => ErrorCode::VaultBusy,
            OwnerError::Version { .. } => ErrorCode::OwnerVersion,
            OwnerError::Silent { .. } => ErrorCode::OwnerSilent,
            OwnerError::Gone { .. } | OwnerError::Left { .. } | OwnerError::Died { .. } => {
                ErrorCode::OwnerGone
            }
            OwnerError::Failed { code, .. } => *code,
            OwnerError::Torn { .. } => ErrorCode::TornTree,
            OwnerError::BadRequest { .. } => ErrorCode::OwnerFailed,
            OwnerError::NoMounts { .. } => ErrorCode::NoMounts,
        }
    }

    pub fn hint(&self) -> Option<Hint> {
        let hint = match self {
            OwnerError::Busy { by, .. } => match by {
                Some(VaultUser::Sessions { ids }) => Hint::StopSessions { ids: ids.clone() },
                Some(VaultUser::Mount { dir }) => Hint::UnmountFirst { dir: dir.clone() },
                None => Hint::WaitForOwner,
            },
            OwnerError::Version { .. } => Hint::UseVersionOfOwner,
            OwnerError::Torn { .. } => Hint::EndOwner,
            OwnerError::Gone { .. } | OwnerError::Died { .. } => Hint::LookWhetherDone,
            OwnerError::Left { .. } => Hint::TryAgainUnchanged,
            OwnerError::Failed { hint, .. } => return hint.clone(),
            OwnerError::Silent { .. } | OwnerError::BadRequest { .. } | OwnerError::NoMounts { .. } => {
                return None;
            }
        };
        Some(hint)
    }
}
