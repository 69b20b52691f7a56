//! The stable code of every error, and the kind of every code.

use avfs_exec::policy::BadEdit;
use avfs_store::StoreError;
use avfs_tree::{FsError, JournalError, ObjectError, ReadError, SourceError};

use super::{Error, ErrorKind};
use crate::apply::ApplyError;
use crate::git::GitError;
use crate::mount::MountError;
use crate::transfer::TransferError;

impl Error {
    /// A stable name for scripts.
    pub fn code(&self) -> &'static str {
        match self {
            Error::UnknownVault { .. } => "unknown-vault",
            Error::VaultExists { .. } => "vault-exists",
            Error::NotAProject { .. } => "not-a-project",
            Error::NotATask { .. } => "not-a-task",
            Error::UnknownTask { .. } => "unknown-task",
            Error::TaskElsewhere { .. } => "task-elsewhere",
            Error::TaskExists { .. } => "task-exists",
            Error::NoTask { .. } => "no-task",
            Error::NoProject { .. } => "no-project",
            Error::SeveralTasks { .. } => "several-tasks",
            Error::ProjectInUse { .. } => "project-in-use",
            Error::UnknownProject { .. } => "unknown-project",
            Error::Setup(_) => "bad-setup",
            Error::BadLabel { .. } => "bad-name",
            Error::UnknownCheckpoint { .. } => "unknown-checkpoint",
            Error::CheckpointExists { .. } => "checkpoint-exists",
            Error::UnknownRevision { .. } => "unknown-revision",
            Error::AmbiguousRevision { .. } => "ambiguous-revision",
            Error::BadPath { .. } => "bad-path",
            Error::File { source, .. } | Error::Tree(source) => fs_code(source),
            Error::Read { source, .. } => read_code(source),
            Error::StaleVersion { .. } => "stale-version",
            Error::Busy { .. } => "vault-busy",
            Error::Overtaken { .. } => "overtaken",
            Error::OwnerVersion { .. } => "owner-version",
            Error::OwnerSilent { .. } => "owner-silent",
            Error::OwnerGone { .. } => "owner-gone",
            Error::OwnerFailed { code, .. } => code,
            Error::Torn { .. } => "torn-tree",
            Error::BadRequest { .. } => "owner-failed",
            Error::UnknownApproval { .. } => "unknown-approval",
            Error::ApprovalExpired { .. } => "approval-expired",
            Error::ApprovalDecided { .. } => "approval-decided",
            Error::OnlyOnce { .. } => "approval-once-only",
            Error::NothingToSave { .. } => "nothing-to-save",
            Error::NoPreview { .. } => "no-preview",
            Error::UnknownSavedRule { .. } => "unknown-rule",
            Error::BadEdit(BadEdit::NotWords { .. }) => "bad-rules",
            Error::BadEdit(BadEdit::TooWide { .. } | BadEdit::Elsewhere { .. }) => "rule-too-wide",
            Error::Policy(source) => source.code(),
            Error::RulesNeedMount => "rules-need-mount",
            Error::NoPlaceForRuns => "no-mounts",
            Error::UnknownSession { .. } => "unknown-session",
            Error::SessionSilent { .. } => "session-silent",
            Error::NotRunning { .. } => "not-running",
            Error::NoTerminalInside { .. } => "no-terminal-inside",
            Error::RunSilent { .. } => "run-silent",
            Error::SlowKernel { .. } => "mount-busy",
            Error::BadRules(_) | Error::RuleFault(_) => "bad-rules",
            Error::NotThroughRules { .. } => "denied",
            Error::NoMounts { .. } => "no-mounts",
            Error::Mount(source) => mount_code(source),
            Error::Serving(_) => "mount-refused",
            Error::MountedAlone { .. } => "mounted-alone",
            Error::NotAlone { .. } => "not-alone",
            Error::RuleNeedsOpen { .. } => "rule-needs-open",
            Error::Unstored { .. } => "disk-full",
            Error::Needed { .. } => "vault-needed",
            Error::NothingToUndo { .. } => "nothing-to-undo",
            Error::NothingToRedo { .. } => "nothing-to-redo",
            Error::MergeWithItself { .. } => "merge-with-itself",
            Error::NotRelated { .. } => "not-related",
            Error::NoConflict { .. } => "no-conflict",
            Error::HistoryThinned { .. } => "history-thinned",
            Error::NoCheckpoint { .. } => "no-checkpoint",
            Error::DamagedRecord { .. } => "damaged-record",
            Error::AfterRepair => "after-repair",
            Error::AuditBroken { .. } => "audit-broken",
            Error::BadBundle { .. } => "bad-vault-file",
            Error::Host { source, .. } => host_code(source),
            Error::Store(source) => store_code(source),
            Error::Object(source) => object_code(source),
            Error::Transfer(source) => transfer_code(source),
            Error::Git(source) => git_code(source),
            Error::Apply(source) => apply_code(source),
            Error::Contended { .. } => "contended",
            Error::UnknownSource { .. } => "unknown-source",
            Error::StillPromised { .. } => "still-promised",
        }
    }

    pub fn kind(&self) -> ErrorKind {
        let code = self.code();
        let known = CODES.iter().find(|(known, _)| *known == code);
        known.map_or(ErrorKind::Internal, |(_, kind)| *kind)
    }
}

/// Every code with its kind. A test holds it against the codes above and below.
pub const CODES: &[(&str, ErrorKind)] = {
    use ErrorKind::*;
    &[
        ("unknown-vault", NotFound),
        ("unknown-source", NotFound),
        ("still-promised", Conflict),
        ("source-gone", NotFound),
        ("source-moved", Conflict),
        ("source-restless", Busy),
        ("source-io", Internal),
        ("vault-exists", Conflict),
        ("bad-name", BadInput),
        ("unknown-checkpoint", NotFound),
        ("checkpoint-exists", Conflict),
        ("unknown-revision", NotFound),
        ("ambiguous-revision", BadInput),
        ("bad-path", BadInput),
        ("stale-version", Conflict),
        ("vault-busy", Busy),
        ("overtaken", Busy),
        ("owner-version", Internal),
        ("owner-silent", Busy),
        ("owner-gone", Busy),
        ("owner-failed", Internal),
        ("torn-tree", Corrupt),
        ("no-mounts", Conflict),
        ("unknown-session", NotFound),
        ("session-silent", Busy),
        ("not-running", NotFound),
        ("no-terminal-inside", BadInput),
        ("run-silent", Busy),
        ("bad-rules", BadInput),
        ("rules-need-mount", BadInput),
        ("denied", Denied),
        ("other-rules", Denied),
        ("view-closed", Internal),
        ("no-fuse", Internal),
        ("mount-refused", Internal),
        ("mount-busy", Busy),
        ("mounted-alone", Busy),
        ("not-alone", Busy),
        ("rule-needs-open", BadInput),
        ("not-mounted", NotFound),
        ("not-a-project", BadInput),
        ("not-a-task", BadInput),
        ("unknown-task", NotFound),
        ("task-elsewhere", BadInput),
        ("task-exists", Conflict),
        ("no-task", NotFound),
        ("no-project", NotFound),
        ("several-tasks", BadInput),
        ("project-in-use", Conflict),
        ("unknown-project", NotFound),
        ("bad-setup", BadInput),
        ("vault-needed", Conflict),
        ("merge-with-itself", BadInput),
        ("not-related", Conflict),
        ("no-conflict", NotFound),
        ("nothing-to-undo", Conflict),
        ("nothing-to-redo", Conflict),
        ("history-thinned", Conflict),
        ("no-checkpoint", Conflict),
        ("damaged-record", Corrupt),
        ("audit-broken", Corrupt),
        ("bad-vault-file", BadInput),
        ("host-io", Internal),
        ("host-not-found", NotFound),
        ("host-denied", Internal),
        ("host-not-a-directory", BadInput),
        ("host-exists", Conflict),
        ("import-refused", BadInput),
        ("bad-archive", BadInput),
        ("contended", Busy),
        ("not-found", NotFound),
        ("exists", Conflict),
        ("not-a-directory", BadInput),
        ("is-a-directory", BadInput),
        ("not-a-file", BadInput),
        ("not-empty", Conflict),
        ("invalid", BadInput),
        ("into-itself", BadInput),
        ("stale", BadInput),
        ("too-large", BadInput),
        ("too-many-links", BadInput),
        ("no-xattr", BadInput),
        ("quota-bytes", Full),
        ("quota-files", Full),
        ("disk-full", Full),
        ("damaged-journal", Corrupt),
        ("after-repair", Conflict),
        ("journal-io", Internal),
        ("missing-object", Corrupt),
        ("corrupt", Corrupt),
        ("damaged-store", Corrupt),
        ("store-busy", Busy),
        ("newer-store", Internal),
        ("unsuitable-place", Internal),
        ("store-io", Internal),
        ("store-database", Internal),
        ("unknown-approval", NotFound),
        ("approval-expired", Conflict),
        ("approval-decided", Conflict),
        ("approval-once-only", BadInput),
        ("nothing-to-save", BadInput),
        ("no-preview", Conflict),
        ("unknown-rule", NotFound),
        ("rule-too-wide", BadInput),
        ("policy-syntax", BadInput),
        ("policy-unknown-key", BadInput),
        ("policy-bad-value", BadInput),
        ("policy-example", BadInput),
        ("no-git", Internal),
        ("not-a-repository", BadInput),
        ("unknown-commit", NotFound),
        ("bad-branch", BadInput),
        ("branch-exists", Conflict),
        ("no-commits", Conflict),
        ("several-branches", BadInput),
        ("no-files", Conflict),
        ("commits-refused", BadInput),
        ("hidden-changed", Conflict),
        ("guarded-changed", Conflict),
        ("git-failed", Internal),
        ("apply-conflicts", Conflict),
        ("out-of-reach", Conflict),
        ("open-conflicts", Conflict),
        ("apply-overtaken", Busy),
        ("apply-stuck", Internal),
        ("apply-busy", Busy),
        ("unknown-apply", NotFound),
        ("apply-gone", Conflict),
        ("bad-hunks", BadInput),
        ("not-changed", NotFound),
    ]
};

fn fs_code(error: &FsError) -> &'static str {
    match error {
        FsError::NotFound | FsError::Hidden => "not-found",
        FsError::Denied { .. } => "denied",
        FsError::OtherRulesThere => "other-rules",
        FsError::Closed => "view-closed",
        FsError::InPreparation => "store-busy",
        FsError::Exists => "exists",
        FsError::NotADirectory => "not-a-directory",
        FsError::IsADirectory => "is-a-directory",
        FsError::NotEmpty => "not-empty",
        FsError::Invalid(_) => "invalid",
        FsError::IntoItself => "into-itself",
        FsError::Stale(_) => "stale",
        FsError::TooLarge => "too-large",
        FsError::TooManyLinks => "too-many-links",
        FsError::NoXattr => "no-xattr",
        FsError::OverBytes { .. } => "quota-bytes",
        FsError::OverFiles { .. } => "quota-files",
        FsError::Object(source) => object_code(source),
        FsError::Journal(JournalError::Full { .. }) => "disk-full",
        FsError::Journal(
            JournalError::Damaged { .. }
            | JournalError::Missing { .. }
            | JournalError::Replaced { .. }
            | JournalError::Version { .. }
            | JournalError::Misfit { .. },
        ) => "damaged-journal",
        FsError::Journal(JournalError::Io { .. } | JournalError::Failed { .. }) => "journal-io",
    }
}

fn mount_code(error: &MountError) -> &'static str {
    match error {
        MountError::NoSuchPlace { .. } => "host-not-found",
        MountError::NotADirectory { .. } => "host-not-a-directory",
        MountError::NoDevice
        | MountError::NotTheDevice
        | MountError::DeviceDenied
        | MountError::Device(_)
        | MountError::NoFusermount => "no-fuse",
        MountError::Taken { .. } => "host-exists",
        MountError::Refused { .. } | MountError::Stuck { .. } => "mount-refused",
        MountError::Busy { .. } => "mount-busy",
        MountError::NotMounted { .. } => "not-mounted",
        MountError::Look { source, .. } | MountError::Table(source) => host_code(source),
    }
}

fn transfer_code(error: &TransferError) -> &'static str {
    match error {
        TransferError::Host { source, .. } | TransferError::Output { source, .. } => host_code(source),
        TransferError::NotADirectory { .. } => "host-not-a-directory",
        TransferError::NotEmpty { .. } | TransferError::Exists { .. } => "host-exists",
        TransferError::Refused { .. } => "import-refused",
        TransferError::Archive { .. } => "bad-archive",
        TransferError::Object { source, .. } => object_code(source),
        TransferError::Read(source) => read_code(source),
        TransferError::Git(source) => git_code(source),
    }
}

fn git_code(error: &GitError) -> &'static str {
    match error {
        GitError::NoProgram(_) => "no-git",
        GitError::NotARepository { .. } => "not-a-repository",
        GitError::UnknownRevision { .. } => "unknown-commit",
        GitError::BadBranch { .. } => "bad-branch",
        GitError::BranchExists { .. } | GitError::BranchInUse { .. } => "branch-exists",
        GitError::NoCommits | GitError::NotMoved { .. } => "no-commits",
        GitError::SeveralBranches { .. } => "several-branches",
        GitError::NoFiles => "no-files",
        GitError::Refused { .. } => "commits-refused",
        GitError::ChangesHidden { .. } => "hidden-changed",
        GitError::ChangesGuarded { .. } => "guarded-changed",
        GitError::Failed { .. } => "git-failed",
        GitError::Host { source, .. } => host_code(source),
        GitError::Read(source) => read_code(source),
        GitError::Object(source) => object_code(source),
    }
}

fn apply_code(error: &ApplyError) -> &'static str {
    match error {
        ApplyError::Conflicts { .. } => "apply-conflicts",
        ApplyError::OpenConflicts { .. } => "open-conflicts",
        ApplyError::Host { source, .. } => host_code(source),
        ApplyError::NotADirectory { .. } => "host-not-a-directory",
        ApplyError::OutOfReach { .. } => "out-of-reach",
        ApplyError::Overtaken { .. } => "apply-overtaken",
        ApplyError::Versions { first, .. } => apply_code(first),
        ApplyError::Stuck { .. } => "apply-stuck",
        ApplyError::Busy => "apply-busy",
        ApplyError::NoPlace => "no-mounts",
        ApplyError::Unknown { .. } => "unknown-apply",
        ApplyError::NothingToUndo => "nothing-to-undo",
        ApplyError::Undone { .. } | ApplyError::Forgotten { .. } => "apply-gone",
        ApplyError::BadHunks { .. } => "bad-hunks",
        ApplyError::NotChanged { .. } => "not-changed",
        ApplyError::Damaged { .. } => "damaged-record",
        ApplyError::Object(source) => object_code(source),
        ApplyError::Read(source) => read_code(source),
        ApplyError::Tree(source) => fs_code(source),
    }
}

fn host_code(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::NotFound => "host-not-found",
        std::io::ErrorKind::AlreadyExists => "host-exists",
        std::io::ErrorKind::PermissionDenied => "host-denied",
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => "disk-full",
        _ => "host-io",
    }
}

fn read_code(error: &ReadError) -> &'static str {
    match error {
        ReadError::NotFound { .. } => "not-found",
        ReadError::NotADirectory { .. } => "not-a-directory",
        ReadError::IsADirectory { .. } => "is-a-directory",
        ReadError::NotAFile { .. } => "not-a-file",
        ReadError::Denied { .. } => "denied",
        ReadError::Object { source, .. } => object_code(source),
    }
}

fn object_code(error: &ObjectError) -> &'static str {
    match error {
        ObjectError::Store(source) => store_code(source),
        ObjectError::NotAtHand { .. } => "store-busy",
        ObjectError::TooLarge { .. } => "too-large",
        ObjectError::Promised { source, .. } => source_code(source),
        ObjectError::Malformed { .. } | ObjectError::WrongKind { .. } | ObjectError::Structure(_) => {
            "corrupt"
        }
    }
}

fn source_code(error: &SourceError) -> &'static str {
    match error {
        SourceError::Unknown => "source-gone",
        SourceError::Moved => "source-moved",
        SourceError::Restless => "source-restless",
        SourceError::Io { .. } => "source-io",
        SourceError::Store(source) => object_code(source),
    }
}

fn store_code(error: &StoreError) -> &'static str {
    match error {
        StoreError::Missing { .. } => "missing-object",
        StoreError::Corrupt { .. } => "corrupt",
        StoreError::Damaged { .. } => "damaged-store",
        StoreError::Full { .. } => "disk-full",
        StoreError::Busy { .. } => "store-busy",
        StoreError::Newer { .. } => "newer-store",
        StoreError::Unsuitable { .. } => "unsuitable-place",
        StoreError::Io { .. } => "store-io",
        StoreError::Database { .. } => "store-database",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_kind() {
        let source = include_str!("codes.rs");
        let (product, _) = source.split_once("mod tests").expect("this module");
        let arms = product.lines().filter_map(|line| line.trim().split_once("=> \"")?.1.strip_suffix("\","));
        let alone = product.lines().filter_map(|line| line.trim().strip_prefix('"')?.strip_suffix('"'));
        let policies = ["policy-syntax", "policy-unknown-key", "policy-bad-value", "policy-example"];
        let mut given: Vec<&str> = arms.chain(alone).chain(policies).collect();
        given.sort_unstable();
        given.dedup();
        let mut listed: Vec<&str> = CODES.iter().map(|(code, _)| *code).collect();
        listed.sort_unstable();
        assert_eq!(given, listed);
    }
}
