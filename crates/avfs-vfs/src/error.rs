//! What can go wrong, with a stable code for programs.

use std::fmt;
use std::sync::Arc;

use avfs_core::{BadName, TreePath};

/// An error of a caller's own code: a provider, a hook or a storage adapter.
pub type CallbackError = Box<dyn std::error::Error + Send + Sync>;

/// The result of every call here.
pub type Result<T, E = VfsError> = std::result::Result<T, E>;

/// Which right a policy did not give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Reading contents, listing a directory, reading a link.
    Read,
    /// Replacing, moving or removing; creating in a directory.
    Write,
    /// Adding at the end.
    Append,
    /// Something that only the owner of the filesystem may do: policies, hooks, mounts, snapshots.
    Own,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Right::Read => "read",
            Right::Write => "write",
            Right::Append => "append",
            Right::Own => "own",
        })
    }
}

/// Why a call changed nothing, except for [`VfsError::AfterHook`]: that change has happened.
#[derive(Debug, thiserror::Error)]
pub enum VfsError {
    /// The text is not a path.
    #[error("{0}")]
    BadPath(#[from] BadName),
    /// More directories inside each other than [`DEPTH_MAX`](crate::DEPTH_MAX).
    #[error("{path} lies more than {} directories deep", crate::DEPTH_MAX)]
    TooDeep {
        /// The path that was asked for.
        path: TreePath,
    },
    /// Nothing has that name, or a view hides it.
    #[error("{path} does not exist")]
    NotFound {
        /// The path that was asked for.
        path: TreePath,
    },
    /// Something has that name already.
    #[error("{path} exists already")]
    Exists {
        /// The path that was asked for.
        path: TreePath,
    },
    /// A directory is needed.
    #[error("{path} is not a directory")]
    NotADirectory {
        /// What is something else.
        path: TreePath,
    },
    /// A file is needed.
    #[error("{path} is a directory")]
    IsADirectory {
        /// What is a directory.
        path: TreePath,
    },
    /// A symbolic link is needed.
    #[error("{path} is not a symbolic link")]
    NotALink {
        /// What is something else.
        path: TreePath,
    },
    /// Only a recursive removal removes it.
    #[error("{path} is not empty")]
    NotEmpty {
        /// The directory.
        path: TreePath,
    },
    /// A link that leads back to itself, or a very long chain of links.
    #[error("{path} leads through too many symbolic links")]
    TooManyLinks {
        /// The path that was asked for.
        path: TreePath,
    },
    /// A directory cannot be moved or copied into itself.
    #[error("{path} cannot be moved or copied into itself")]
    IntoItself {
        /// The directory.
        path: TreePath,
    },
    /// The root can be neither removed, moved nor replaced.
    #[error("the root directory cannot be {action}")]
    Root {
        /// What was asked, as a participle.
        action: &'static str,
    },
    /// A policy or a view does not allow it.
    #[error("{path} is protected by its policy: {right} is not allowed")]
    Denied {
        /// What is protected.
        path: TreePath,
        /// What is not allowed.
        right: Right,
    },
    /// The file has another version than the caller expected.
    #[error("{path} has version {actual}, not {expected}")]
    VersionMismatch {
        /// The file.
        path: TreePath,
        /// What the caller expected; 0 stands for no file.
        expected: u64,
        /// What it has; 0 if there is no file.
        actual: u64,
    },
    /// The limits of the filesystem.
    #[error("{path} does not fit: the filesystem may hold {limit} {unit}")]
    OverLimit {
        /// What was written.
        path: TreePath,
        /// The limit.
        limit: u64,
        /// `bytes` or `entries`.
        unit: &'static str,
    },
    /// A value that no call accepts.
    #[error("{0}")]
    Invalid(&'static str),
    /// What is stored outside keeps files only.
    #[error("{path} lies in a storage mount, which keeps files only")]
    FilesOnly {
        /// The path that was asked for.
        path: TreePath,
    },
    /// A write hook refused.
    #[error("a hook stopped the change of {path}")]
    Hook {
        /// The path that was to change.
        path: TreePath,
        /// What the hook said.
        #[source]
        source: CallbackError,
    },
    /// A hook failed that runs after a change. The change has happened.
    #[error("{path} was changed, and a hook after it failed")]
    AfterHook {
        /// The path that changed.
        path: TreePath,
        /// What the hook said.
        #[source]
        source: CallbackError,
    },
    /// A provider failed, or gave something that is no directory or file.
    #[error("the provider of {path} failed")]
    Provider {
        /// What it was asked for.
        path: TreePath,
        /// What the provider said. Shared: a cached answer may be an error.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// A storage adapter failed.
    #[error("the storage of {path} failed")]
    Storage {
        /// What it was asked for.
        path: TreePath,
        /// What the adapter said.
        #[source]
        source: CallbackError,
    },
    /// The storage holds something newer than this filesystem has seen.
    #[error("the storage of {path} has changed meanwhile")]
    StorageConflict {
        /// The file.
        path: TreePath,
        /// What the adapter said.
        #[source]
        source: CallbackError,
    },
    /// A hook, an adapter or a provider asked for a change in the middle of a change.
    #[error("a change cannot be made from within the callback of another change")]
    WithinChange,
    /// A hook that runs after changes makes changes without end.
    #[error("hooks caused {} changes in a row", crate::change::hooks::CHAIN_MAX)]
    HookChain,
    /// A storage is mounted there, so it can be neither moved, removed nor replaced.
    #[error("{path} is in use: a storage is mounted there or below")]
    Mounted {
        /// What was to be moved or removed.
        path: TreePath,
    },
    /// The host refused.
    #[error("{action} {place}")]
    Host {
        /// What was done, as a participle.
        action: &'static str,
        /// The host's path.
        place: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

impl VfsError {
    /// A stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            VfsError::BadPath(_) => "bad-path",
            VfsError::TooDeep { .. } => "too-deep",
            VfsError::NotFound { .. } => "not-found",
            VfsError::Exists { .. } => "exists",
            VfsError::NotADirectory { .. } => "not-a-directory",
            VfsError::IsADirectory { .. } => "is-a-directory",
            VfsError::NotALink { .. } => "not-a-link",
            VfsError::NotEmpty { .. } => "not-empty",
            VfsError::TooManyLinks { .. } => "too-many-links",
            VfsError::IntoItself { .. } => "into-itself",
            VfsError::Root { .. } => "root",
            VfsError::Denied { .. } => "denied",
            VfsError::VersionMismatch { .. } => "stale-version",
            VfsError::OverLimit { .. } => "over-limit",
            VfsError::Invalid(_) => "invalid",
            VfsError::FilesOnly { .. } => "files-only",
            VfsError::Hook { .. } => "stopped-by-hook",
            VfsError::AfterHook { .. } => "hook-failed",
            VfsError::Provider { .. } => "provider-failed",
            VfsError::Storage { .. } => "storage-failed",
            VfsError::StorageConflict { .. } => "storage-conflict",
            VfsError::WithinChange => "within-change",
            VfsError::HookChain => "hook-chain",
            VfsError::Mounted { .. } => "mounted",
            VfsError::Host { .. } => "host-refused",
        }
    }
}
