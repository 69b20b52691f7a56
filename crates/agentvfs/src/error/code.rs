//! The stable name of every error, and the kind of thing that it is.

use std::fmt;

/// The kind of an error: one for each way in which a caller can react.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The input is wrong; asking again will not help.
    BadInput,
    NotFound,
    /// Something is in the way: it exists, is newer, or is needed by others.
    Conflict,
    /// Try again later.
    Busy,
    /// The store is damaged.
    Corrupt,
    /// Rules do not allow it.
    Denied,
    /// No room, by quota or by disk.
    Full,
    /// The machine, a store that this version cannot use, or a bug.
    Internal,
}

macro_rules! error_codes {
    ($($code:ident = $text:literal: $kind:ident,)*) => {
        /// A name of an error that programs can rely on: it stays the same when the words change.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $(#[doc = concat!("`", $text, "`")] $code,)*
        }

        impl ErrorCode {
            pub const ALL: &[ErrorCode] = &[$(ErrorCode::$code,)*];

            pub fn as_str(self) -> &'static str {
                match self {
                    $(ErrorCode::$code => $text,)*
                }
            }

            pub fn kind(self) -> ErrorKind {
                match self {
                    $(ErrorCode::$code => ErrorKind::$kind,)*
                }
            }
        }
    };
}

error_codes! {
    UnknownVault = "unknown-vault": NotFound,
    UnknownImage = "unknown-image": NotFound,
    UnusableImage = "unusable-image": BadInput,
    SeveralImages = "several-images": BadInput,
    UnknownSource = "unknown-source": NotFound,
    StillPromised = "still-promised": Conflict,
    SourceGone = "source-gone": NotFound,
    SourceMoved = "source-moved": Conflict,
    SourceRestless = "source-restless": Busy,
    SourceIo = "source-io": Internal,
    VaultExists = "vault-exists": Conflict,
    BadName = "bad-name": BadInput,
    UnknownCheckpoint = "unknown-checkpoint": NotFound,
    CheckpointExists = "checkpoint-exists": Conflict,
    UnknownRevision = "unknown-revision": NotFound,
    AmbiguousVault = "ambiguous-vault": BadInput,
    AmbiguousRevision = "ambiguous-revision": BadInput,
    BadPath = "bad-path": BadInput,
    StaleVersion = "stale-version": Conflict,
    VaultBusy = "vault-busy": Busy,
    Overtaken = "overtaken": Busy,
    OwnerVersion = "owner-version": Internal,
    OwnerSilent = "owner-silent": Busy,
    OwnerGone = "owner-gone": Busy,
    OwnerFailed = "owner-failed": Internal,
    TornTree = "torn-tree": Corrupt,
    NoMounts = "no-mounts": Conflict,
    UnknownSession = "unknown-session": NotFound,
    SessionSilent = "session-silent": Busy,
    NotRunning = "not-running": NotFound,
    NoTerminalInside = "no-terminal-inside": BadInput,
    RunSilent = "run-silent": Busy,
    BadRules = "bad-rules": BadInput,
    RulesNeedMount = "rules-need-mount": BadInput,
    Denied = "denied": Denied,
    OtherRules = "other-rules": Denied,
    ViewClosed = "view-closed": Internal,
    NoFuse = "no-fuse": Internal,
    MountRefused = "mount-refused": Internal,
    MountBusy = "mount-busy": Busy,
    MountedAlone = "mounted-alone": Busy,
    NotAlone = "not-alone": Busy,
    RuleNeedsOpen = "rule-needs-open": BadInput,
    NotMounted = "not-mounted": NotFound,
    NotAProject = "not-a-project": BadInput,
    NotATask = "not-a-task": BadInput,
    UnknownTask = "unknown-task": NotFound,
    TaskElsewhere = "task-elsewhere": BadInput,
    TaskExists = "task-exists": Conflict,
    NoTask = "no-task": NotFound,
    NoProject = "no-project": NotFound,
    SeveralTasks = "several-tasks": BadInput,
    ProjectInUse = "project-in-use": Conflict,
    UnknownProject = "unknown-project": NotFound,
    ProjectMissing = "project-missing": NotFound,
    ProjectNotMoved = "project-not-moved": Conflict,
    ProjectExists = "project-exists": Conflict,
    ProjectRunning = "project-running": Busy,
    ProjectUnlike = "project-unlike": Conflict,
    BadSetup = "bad-setup": BadInput,
    VaultNeeded = "vault-needed": Conflict,
    MergeWithItself = "merge-with-itself": BadInput,
    NotRelated = "not-related": Conflict,
    NoConflict = "no-conflict": NotFound,
    NothingToUndo = "nothing-to-undo": Conflict,
    NothingToRedo = "nothing-to-redo": Conflict,
    HistoryThinned = "history-thinned": Conflict,
    NoCheckpoint = "no-checkpoint": Conflict,
    DamagedRecord = "damaged-record": Corrupt,
    AuditBroken = "audit-broken": Corrupt,
    BadVaultFile = "bad-vault-file": BadInput,
    HostIo = "host-io": Internal,
    HostNotFound = "host-not-found": NotFound,
    HostDenied = "host-denied": Internal,
    HostNotADirectory = "host-not-a-directory": BadInput,
    HostExists = "host-exists": Conflict,
    ImportRefused = "import-refused": BadInput,
    BadArchive = "bad-archive": BadInput,
    Contended = "contended": Busy,
    NotFound = "not-found": NotFound,
    Exists = "exists": Conflict,
    NotADirectory = "not-a-directory": BadInput,
    IsADirectory = "is-a-directory": BadInput,
    NotAFile = "not-a-file": BadInput,
    NotEmpty = "not-empty": Conflict,
    Invalid = "invalid": BadInput,
    IntoItself = "into-itself": BadInput,
    Stale = "stale": BadInput,
    TooLarge = "too-large": BadInput,
    TooManyLinks = "too-many-links": BadInput,
    NoXattr = "no-xattr": BadInput,
    QuotaBytes = "quota-bytes": Full,
    QuotaFiles = "quota-files": Full,
    DiskFull = "disk-full": Full,
    DamagedJournal = "damaged-journal": Corrupt,
    AfterRepair = "after-repair": Conflict,
    JournalIo = "journal-io": Internal,
    MissingObject = "missing-object": Corrupt,
    Corrupt = "corrupt": Corrupt,
    DamagedStore = "damaged-store": Corrupt,
    StoreBusy = "store-busy": Busy,
    NewerStore = "newer-store": Internal,
    UnsuitablePlace = "unsuitable-place": Internal,
    StoreIo = "store-io": Internal,
    StoreDatabase = "store-database": Internal,
    UnknownApproval = "unknown-approval": NotFound,
    ApprovalExpired = "approval-expired": Conflict,
    ApprovalDecided = "approval-decided": Conflict,
    ApprovalOnceOnly = "approval-once-only": BadInput,
    NothingToSave = "nothing-to-save": BadInput,
    NoPreview = "no-preview": Conflict,
    UnknownRule = "unknown-rule": NotFound,
    RuleTooWide = "rule-too-wide": BadInput,
    PolicySyntax = "policy-syntax": BadInput,
    PolicyUnknownKey = "policy-unknown-key": BadInput,
    PolicyBadValue = "policy-bad-value": BadInput,
    PolicyExample = "policy-example": BadInput,
    NoGit = "no-git": Internal,
    NotARepository = "not-a-repository": BadInput,
    UnknownCommit = "unknown-commit": NotFound,
    BadBranch = "bad-branch": BadInput,
    BranchExists = "branch-exists": Conflict,
    NoCommits = "no-commits": Conflict,
    SeveralBranches = "several-branches": BadInput,
    NoFiles = "no-files": Conflict,
    CommitsRefused = "commits-refused": BadInput,
    HiddenChanged = "hidden-changed": Conflict,
    GuardedChanged = "guarded-changed": Conflict,
    GitFailed = "git-failed": Internal,
    ApplyConflicts = "apply-conflicts": Conflict,
    OutOfReach = "out-of-reach": Conflict,
    OpenConflicts = "open-conflicts": Conflict,
    ApplyOvertaken = "apply-overtaken": Busy,
    ApplyStuck = "apply-stuck": Internal,
    ApplyBusy = "apply-busy": Busy,
    UnknownApply = "unknown-apply": NotFound,
    ApplyGone = "apply-gone": Conflict,
    BadHunks = "bad-hunks": BadInput,
    NotChanged = "not-changed": NotFound,
}

impl ErrorCode {
    /// The code with this name.
    pub fn named(text: &str) -> Option<ErrorCode> {
        ErrorCode::ALL.iter().copied().find(|code| code.as_str() == text)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl PartialEq<&str> for ErrorCode {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_codes() {
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::named(code.as_str()), Some(*code));
        }
        assert_eq!(ErrorCode::named("no-such-code"), None);
    }
}
