//! Errors, one type for each group of calls: their subject, their cause, and the remedy.
//!
//! Programs decide by [`Error::kind`] or by the stable [`ErrorCode`]. A [`Hint`] is data: this library knows
//! of no command line, so each front end phrases it for its users.

mod apply;
mod apply_conflict;
mod approval;
mod code;
mod file;
mod git;
mod git_changes;
mod guarded;
mod hint;
mod history;
mod merge;
mod mount;
mod owner;
mod project;
mod rules;
mod session;
mod sources;
mod storage;
mod task;
mod vault;

use avfs_core::rules::BadRules;
use avfs_exec::policy::{BadEdit, PolicyError};
use avfs_fuse::transport::ServingError;
use avfs_store::{CommitError, StoreError};
use avfs_tree::{FsError, ObjectError, ReadError};

pub use apply::{ApplyError, ApplyGoal, ApplyId, KeptCopy};
pub use apply_conflict::{Conflict, ConflictKind};
pub use approval::ApprovalError;
use avfs_fuse::mounting::MountError;
pub use avfs_transfer::TransferError;
pub use code::{ErrorCode, ErrorKind};
pub use file::FileError;
pub use git::GitError;
pub use git_changes::{GuardedChange, HiddenChange};
pub use guarded::GuardReason;
pub use hint::{Hint, NetworkedCommand, NetworkedRun};
pub use history::HistoryError;
pub use merge::MergeError;
pub use mount::VaultMountError;
pub use owner::{OwnerError, VaultUser};
pub use project::{ProjectError, SetupFault};
pub use rules::{RuleFault, RulesError};
pub use session::SessionError;
pub use storage::StorageError;
pub use task::TaskError;
pub use vault::VaultError;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    History(#[from] HistoryError),
    #[error(transparent)]
    Merge(#[from] MergeError),
    #[error(transparent)]
    Project(#[from] ProjectError),
    #[error(transparent)]
    Task(#[from] TaskError),
    #[error(transparent)]
    Apply(#[from] ApplyError),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Transfer(#[from] TransferError),
    #[error(transparent)]
    Rules(#[from] RulesError),
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error(transparent)]
    Approval(#[from] ApprovalError),
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Mount(#[from] VaultMountError),
    #[error(transparent)]
    Owner(#[from] OwnerError),
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A system call on the host failed; the source says why.
    #[error("{action} {place}")]
    Host {
        action: &'static str,
        place: String,
        #[source]
        source: std::io::Error,
    },
}

impl Error {
    /// A stable name for programs.
    pub fn code(&self) -> ErrorCode {
        match self {
            Error::Vault(error) => error.code(),
            Error::File(error) => error.code(),
            Error::History(error) => error.code(),
            Error::Merge(error) => error.code(),
            Error::Project(error) => error.code(),
            Error::Task(error) => error.code(),
            Error::Apply(error) => sources::apply_code(error),
            Error::Git(error) => sources::git_code(error),
            Error::Transfer(error) => sources::transfer_code(error),
            Error::Rules(error) => error.code(),
            Error::Policy(error) => sources::policy_code(error),
            Error::Approval(error) => error.code(),
            Error::Session(error) => error.code(),
            Error::Mount(error) => error.code(),
            Error::Owner(error) => error.code(),
            Error::Storage(error) => error.code(),
            Error::Host { source, .. } => sources::host_code(source),
        }
    }

    /// How a caller can react.
    pub fn kind(&self) -> ErrorKind {
        self.code().kind()
    }

    /// The remedy, if there is one.
    pub fn hint(&self) -> Option<Hint> {
        self.own_hint().or_else(|| damage_hint(self.code()))
    }

    fn own_hint(&self) -> Option<Hint> {
        match self {
            Error::Vault(error) => error.hint(),
            Error::File(error) => error.hint(),
            Error::History(error) => error.hint(),
            Error::Merge(error) => error.hint(),
            Error::Project(error) => error.hint(),
            Error::Task(error) => error.hint(),
            Error::Apply(error) => apply_hint(error),
            Error::Git(error) => error.hint(),
            Error::Transfer(error) => transfer_hint(error),
            Error::Rules(error) => error.hint(),
            Error::Policy(error) => error.hint().map(Hint::Note),
            Error::Approval(error) => error.hint(),
            Error::Session(error) => error.hint(),
            Error::Mount(error) => error.hint(),
            Error::Owner(error) => error.hint(),
            Error::Storage(error) => error.hint(),
            Error::Host { .. } => None,
        }
    }
}

fn damage_hint(code: ErrorCode) -> Option<Hint> {
    if code == ErrorCode::DamagedJournal {
        return Some(Hint::RepairJournal);
    }
    (code.kind() == ErrorKind::Corrupt).then_some(Hint::CheckStore)
}

fn transfer_hint(error: &TransferError) -> Option<Hint> {
    match error {
        TransferError::NotEmpty { .. } | TransferError::Exists { .. } => Some(Hint::ForceExport),
        TransferError::OverLimit { .. } => Some(Hint::AllowLargerImage),
        TransferError::SeveralImages { names } => names.first().map(|name| Hint::NameImage {
            example: name.clone(),
        }),
        TransferError::Read(ReadError::Denied { path, .. }) => Some(Hint::explain_rule(path)),
        _ => None,
    }
}

fn apply_hint(error: &ApplyError) -> Option<Hint> {
    let hint = match error {
        ApplyError::Conflicts {
            wanted: ApplyGoal::Undo,
            ..
        } => Hint::ForceUndo,
        ApplyError::Conflicts {
            wanted: ApplyGoal::Redo,
            ..
        } => Hint::ForceRedo,
        ApplyError::Conflicts {
            wanted: ApplyGoal::Apply,
            ..
        } => Hint::DecideConflicts,
        ApplyError::NotChanged { .. } => Hint::PathsOfProject,
        ApplyError::OutOfReach { .. } => Hint::LeaveWorkspace,
        ApplyError::OpenConflicts { vault, .. } => Hint::ResolveConflicts { vault: vault.clone() },
        ApplyError::Overtaken { .. } => Hint::ApplyWhenQuiet,
        ApplyError::Stuck { .. } => Hint::RepairObstacle,
        ApplyError::BadHunks { .. } => Hint::ListHunks,
        _ => return None,
    };
    Some(hint)
}

/// Errors of the parts below, which `?` brings into their group.
macro_rules! into_group {
    ($($source:ty => $group:ident($error:ident),)*) => {
        $(impl From<$source> for Error {
            fn from(source: $source) -> Error {
                Error::$group($error::from(source))
            }
        })*
    };
}

into_group! {
    SetupFault => Project(ProjectError),
    MountError => Mount(VaultMountError),
    ServingError => Mount(VaultMountError),
    BadEdit => Approval(ApprovalError),
    BadRules => Rules(RulesError),
    RuleFault => Rules(RulesError),
    StoreError => Storage(StorageError),
    ObjectError => Storage(StorageError),
    FsError => Storage(StorageError),
    CommitError => Storage(StorageError),
}
