//! The codes of errors that come from below.

use avfs_exec::policy::PolicyError;
use avfs_store::StoreError;
use avfs_tree::{FsError, JournalError, ObjectError, ReadError, SourceError};

use super::ErrorCode;
use super::{ApplyError, GitError};
use avfs_fuse::mounting::MountError;
use avfs_transfer::TransferError;

pub(super) fn fs_code(error: &FsError) -> ErrorCode {
    match error {
        FsError::NotFound | FsError::Hidden => ErrorCode::NotFound,
        FsError::Denied { .. } => ErrorCode::Denied,
        FsError::OtherRulesThere => ErrorCode::OtherRules,
        FsError::Closed => ErrorCode::ViewClosed,
        FsError::InPreparation => ErrorCode::StoreBusy,
        FsError::Exists => ErrorCode::Exists,
        FsError::NotADirectory => ErrorCode::NotADirectory,
        FsError::IsADirectory => ErrorCode::IsADirectory,
        FsError::NotEmpty => ErrorCode::NotEmpty,
        FsError::Invalid(_) => ErrorCode::Invalid,
        FsError::IntoItself => ErrorCode::IntoItself,
        FsError::Stale(_) => ErrorCode::Stale,
        FsError::TooLarge => ErrorCode::TooLarge,
        FsError::TooManyLinks => ErrorCode::TooManyLinks,
        FsError::NoXattr => ErrorCode::NoXattr,
        FsError::OverBytes { .. } => ErrorCode::QuotaBytes,
        FsError::OverFiles { .. } => ErrorCode::QuotaFiles,
        FsError::Object(source) => object_code(source),
        FsError::Journal(JournalError::Full { .. }) => ErrorCode::DiskFull,
        FsError::Journal(
            JournalError::Damaged { .. }
            | JournalError::Missing { .. }
            | JournalError::Replaced { .. }
            | JournalError::Version { .. }
            | JournalError::Misfit { .. },
        ) => ErrorCode::DamagedJournal,
        FsError::Journal(JournalError::Io { .. } | JournalError::Failed { .. }) => ErrorCode::JournalIo,
    }
}

pub(super) fn mount_code(error: &MountError) -> ErrorCode {
    match error {
        MountError::NoSuchPlace { .. } => ErrorCode::HostNotFound,
        MountError::NotADirectory { .. } => ErrorCode::HostNotADirectory,
        MountError::NoDevice
        | MountError::NotTheDevice
        | MountError::DeviceDenied
        | MountError::Device(_)
        | MountError::NoFusermount => ErrorCode::NoFuse,
        MountError::Taken { .. } => ErrorCode::HostExists,
        MountError::Refused { .. } | MountError::Stuck { .. } => ErrorCode::MountRefused,
        MountError::Busy { .. } => ErrorCode::MountBusy,
        MountError::NotMounted { .. } => ErrorCode::NotMounted,
        MountError::Look { source, .. } | MountError::Table(source) => host_code(source),
    }
}

pub(super) fn transfer_code(error: &TransferError) -> ErrorCode {
    match error {
        TransferError::Host { source, .. } | TransferError::Output { source, .. } => host_code(source),
        TransferError::NotADirectory { .. } => ErrorCode::HostNotADirectory,
        TransferError::NotEmpty { .. } | TransferError::Exists { .. } => ErrorCode::HostExists,
        TransferError::Refused { .. } => ErrorCode::ImportRefused,
        TransferError::Archive { .. } | TransferError::BadImage { .. } => ErrorCode::BadArchive,
        TransferError::OverLimit { .. } => ErrorCode::TooLarge,
        TransferError::SeveralImages { .. } => ErrorCode::SeveralImages,
        TransferError::BadBundle { .. } => ErrorCode::BadVaultFile,
        TransferError::Object { source, .. } => object_code(source),
        TransferError::Read(source) => read_code(source),
    }
}

pub(super) fn git_code(error: &GitError) -> ErrorCode {
    match error {
        GitError::NoProgram(_) => ErrorCode::NoGit,
        GitError::NotARepository { .. } => ErrorCode::NotARepository,
        GitError::UnknownRevision { .. } => ErrorCode::UnknownCommit,
        GitError::BadBranch { .. } => ErrorCode::BadBranch,
        GitError::BranchExists { .. } | GitError::BranchInUse { .. } => ErrorCode::BranchExists,
        GitError::NoCommits | GitError::NotMoved { .. } => ErrorCode::NoCommits,
        GitError::SeveralBranches { .. } => ErrorCode::SeveralBranches,
        GitError::NoFiles => ErrorCode::NoFiles,
        GitError::Refused { .. } => ErrorCode::CommitsRefused,
        GitError::ChangesHidden { .. } => ErrorCode::HiddenChanged,
        GitError::ChangesGuarded { .. } => ErrorCode::GuardedChanged,
        GitError::Failed { .. } => ErrorCode::GitFailed,
        GitError::Host { source, .. } => host_code(source),
        GitError::Read(source) => read_code(source),
        GitError::Object(source) => object_code(source),
    }
}

pub(super) fn apply_code(error: &ApplyError) -> ErrorCode {
    match error {
        ApplyError::Conflicts { .. } => ErrorCode::ApplyConflicts,
        ApplyError::OpenConflicts { .. } => ErrorCode::OpenConflicts,
        ApplyError::Host { source, .. } => host_code(source),
        ApplyError::NotADirectory { .. } => ErrorCode::HostNotADirectory,
        ApplyError::OutOfReach { .. } => ErrorCode::OutOfReach,
        ApplyError::Overtaken { .. } => ErrorCode::ApplyOvertaken,
        ApplyError::Versions { first, .. } => first.code(),
        ApplyError::Stuck { .. } => ErrorCode::ApplyStuck,
        ApplyError::Busy => ErrorCode::ApplyBusy,
        ApplyError::NothingKept => ErrorCode::NoMounts,
        ApplyError::Unknown { .. } => ErrorCode::UnknownApply,
        ApplyError::NothingToUndo => ErrorCode::NothingToUndo,
        ApplyError::Undone { .. } | ApplyError::Forgotten { .. } => ErrorCode::ApplyGone,
        ApplyError::BadHunks { .. } => ErrorCode::BadHunks,
        ApplyError::NotChanged { .. } => ErrorCode::NotChanged,
        ApplyError::Damaged { .. } => ErrorCode::DamagedRecord,
        ApplyError::Object(source) => object_code(source),
        ApplyError::Read(source) => read_code(source),
        ApplyError::Tree(source) => fs_code(source),
    }
}

pub(super) fn host_code(error: &std::io::Error) -> ErrorCode {
    match error.kind() {
        std::io::ErrorKind::NotFound => ErrorCode::HostNotFound,
        std::io::ErrorKind::AlreadyExists => ErrorCode::HostExists,
        std::io::ErrorKind::PermissionDenied => ErrorCode::HostDenied,
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => ErrorCode::DiskFull,
        _ => ErrorCode::HostIo,
    }
}

pub(super) fn read_code(error: &ReadError) -> ErrorCode {
    match error {
        ReadError::NotFound { .. } => ErrorCode::NotFound,
        ReadError::NotADirectory { .. } => ErrorCode::NotADirectory,
        ReadError::IsADirectory { .. } => ErrorCode::IsADirectory,
        ReadError::NotAFile { .. } => ErrorCode::NotAFile,
        ReadError::Denied { .. } => ErrorCode::Denied,
        ReadError::Object { source, .. } => object_code(source),
    }
}

pub(super) fn object_code(error: &ObjectError) -> ErrorCode {
    match error {
        ObjectError::Store(source) => store_code(source),
        ObjectError::NotAtHand { .. } => ErrorCode::StoreBusy,
        ObjectError::TooLarge { .. } => ErrorCode::TooLarge,
        ObjectError::Promised { source, .. } => source_code(source),
        ObjectError::Malformed { .. } | ObjectError::WrongKind { .. } | ObjectError::Structure(_) => {
            ErrorCode::Corrupt
        }
    }
}

pub(super) fn source_code(error: &SourceError) -> ErrorCode {
    match error {
        SourceError::Unknown => ErrorCode::SourceGone,
        SourceError::Moved => ErrorCode::SourceMoved,
        SourceError::Restless => ErrorCode::SourceRestless,
        SourceError::Io { .. } => ErrorCode::SourceIo,
        SourceError::Store(source) => object_code(source),
    }
}

pub(super) fn store_code(error: &StoreError) -> ErrorCode {
    match error {
        StoreError::Missing { .. } => ErrorCode::MissingObject,
        StoreError::Corrupt { .. } => ErrorCode::Corrupt,
        StoreError::Damaged { .. } => ErrorCode::DamagedStore,
        StoreError::Full { .. } => ErrorCode::DiskFull,
        StoreError::Busy { .. } => ErrorCode::StoreBusy,
        StoreError::Newer { .. } => ErrorCode::NewerStore,
        StoreError::Unsuitable { .. } => ErrorCode::UnsuitablePlace,
        StoreError::Io { .. } => ErrorCode::StoreIo,
        StoreError::Engine { .. } => ErrorCode::StoreDatabase,
    }
}

pub(super) fn policy_code(error: &PolicyError) -> ErrorCode {
    ErrorCode::named(error.code()).unwrap_or(ErrorCode::PolicyBadValue)
}
