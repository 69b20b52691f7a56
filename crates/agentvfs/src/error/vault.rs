//! A vault that does not exist, or cannot have the requested properties.

use super::{ErrorCode, Hint};

#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    #[error("there is no vault '{name}'")]
    Unknown { name: String, similar: Option<String> },
    #[error("'{name}' is both a vault and a task of this project")]
    Ambiguous { name: String, task: String },
    #[error("vault '{vault}' is that of the project {directory}")]
    OfProject { vault: String, directory: String },
    #[error("there is already a vault '{name}'")]
    Exists { name: String },
    #[error("'{name}' cannot be the name of a {what}: {reason}")]
    BadName {
        what: &'static str,
        name: String,
        reason: &'static str,
    },
    #[error("there is no image '{name}'")]
    UnknownImage { name: String, similar: Option<String> },
    #[error("image '{name}' cannot be used: {reason}")]
    UnusableImage { name: String, reason: String },
    #[error("vault '{vault}' holds files that lie in the directory it was started from")]
    StillPromised { vault: String },
    #[error("there is no source {id}")]
    UnknownSource { id: String },
    #[error("vault '{vault}' has {} it: {}", if forks.len() == 1 { "a fork that needs" } else { "forks that need" }, forks.join(", "))]
    HasForks { vault: String, forks: Vec<String> },
}

impl VaultError {
    pub fn code(&self) -> ErrorCode {
        match self {
            VaultError::Unknown { .. } => ErrorCode::UnknownVault,
            VaultError::UnknownImage { .. } => ErrorCode::UnknownImage,
            VaultError::UnusableImage { .. } => ErrorCode::UnusableImage,
            VaultError::Ambiguous { .. } => ErrorCode::AmbiguousVault,
            VaultError::OfProject { .. } => ErrorCode::VaultNeeded,
            VaultError::Exists { .. } => ErrorCode::VaultExists,
            VaultError::BadName { .. } => ErrorCode::BadName,
            VaultError::StillPromised { .. } => ErrorCode::StillPromised,
            VaultError::UnknownSource { .. } => ErrorCode::UnknownSource,
            VaultError::HasForks { .. } => ErrorCode::VaultNeeded,
        }
    }

    pub fn hint(&self) -> Option<Hint> {
        let hint = match self {
            VaultError::Unknown { similar, .. } => Hint::did_you_mean(similar).unwrap_or(Hint::ListVaults),
            VaultError::UnknownImage { similar, .. } => {
                Hint::did_you_mean(similar).unwrap_or(Hint::ListImages)
            }
            VaultError::Ambiguous { name, task } => Hint::NameVaultInFull {
                vault: format!("/{name}"),
                task: task.clone(),
            },
            VaultError::OfProject { directory, .. } => Hint::ForgetProject {
                directory: directory.clone(),
            },
            VaultError::StillPromised { .. } => Hint::ExportAndCreate,
            VaultError::HasForks { vault, .. } => Hint::RemoveForksFirst { vault: vault.clone() },
            VaultError::Exists { .. }
            | VaultError::UnusableImage { .. }
            | VaultError::BadName { .. }
            | VaultError::UnknownSource { .. } => {
                return None;
            }
        };
        Some(hint)
    }
}
