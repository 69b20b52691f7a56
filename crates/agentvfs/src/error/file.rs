//! A file of a vault that does not exist, is not allowed, or has changed meanwhile.

use avfs_core::{BadName, TreePath};
use avfs_tree::{FsError, ReadError};

use super::sources::{fs_code, read_code};
use super::{ErrorCode, Hint};

#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("'{text}' is not a path in a vault")]
    BadPath {
        text: String,
        #[source]
        source: BadName,
    },
    #[error("{path} in vault '{vault}'")]
    Tree {
        vault: String,
        path: TreePath,
        #[source]
        source: FsError,
    },
    #[error("vault '{vault}'")]
    Read {
        vault: String,
        #[source]
        source: ReadError,
    },
    #[error("{path} has version {found}, and you expected {expected}")]
    StaleVersion {
        path: TreePath,
        expected: String,
        found: String,
    },
    /// The user of the sandbox may not do this by the mode of the file or directory.
    #[error("{action} {path} is not allowed by its mode {mode:04o}")]
    Mode {
        path: TreePath,
        mode: u32,
        action: &'static str,
    },
    #[error("{} in vault '{vault}' was changed by others at the same time", path.as_ref().map_or("something".to_owned(), TreePath::to_string))]
    Overtaken { vault: String, path: Option<TreePath> },
}

impl FileError {
    pub fn code(&self) -> ErrorCode {
        match self {
            FileError::BadPath { .. } => ErrorCode::BadPath,
            FileError::Tree { source, .. } => fs_code(source),
            FileError::Read { source, .. } => read_code(source),
            FileError::StaleVersion { .. } => ErrorCode::StaleVersion,
            FileError::Mode { .. } => ErrorCode::Denied,
            FileError::Overtaken { .. } => ErrorCode::Overtaken,
        }
    }

    pub fn hint(&self) -> Option<Hint> {
        let hint = match self {
            FileError::Tree {
                path,
                source: FsError::Denied { .. } | FsError::OtherRulesThere,
                ..
            }
            | FileError::Read {
                source: ReadError::Denied { path, .. },
                ..
            } => Hint::explain_rule(path),
            FileError::Tree {
                source: FsError::OverBytes { .. } | FsError::OverFiles { .. },
                ..
            } => Hint::ShowQuota,
            FileError::StaleVersion { path, .. } => Hint::ReadAgain {
                path: path.to_string(),
            },
            FileError::Overtaken { .. } => Hint::TryAgainUnchanged,
            FileError::Tree { .. }
            | FileError::Read { .. }
            | FileError::BadPath { .. }
            | FileError::Mode { .. } => return None,
        };
        Some(hint)
    }
}
