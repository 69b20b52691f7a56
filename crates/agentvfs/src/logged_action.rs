//! Changes of a vault, in the words of its history, and how they reach a tree that other processes use.

use avfs_core::SnapshotId;

/// One action: its entry in the history and the audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoggedAction<'a> {
    pub actor: &'a str,
    pub action: &'a str,
    pub detail: &'a str,
    /// For an undo: the entry whose effect it reverts.
    pub undoes: Option<u64>,
    /// The entry after which it began, if snapshots were taken meanwhile.
    pub since: Option<u64>,
    /// For a task: its new base, if that changes.
    pub task_base: Option<SnapshotId>,
}

impl LoggedAction<'_> {
    /// As one line.
    pub(crate) fn line(&self) -> String {
        if self.detail.is_empty() {
            self.action.to_owned()
        } else {
            format!("{} {}", self.action, self.detail)
        }
    }
}

/// How a new state is merged into a tree that another process has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TreeUpdate {
    /// As if another process had written the files that changed: open ones show it.
    InPlace,
    /// The files that changed are others than before: handles on the old ones go stale.
    Renewed,
    /// The state wins as a whole, whatever was done meanwhile; files as in `Renewed`.
    Whole,
}

impl TreeUpdate {
    pub(crate) fn from_flags(exact: bool, renew: bool) -> TreeUpdate {
        match (exact, renew) {
            (true, _) => TreeUpdate::Whole,
            (false, true) => TreeUpdate::Renewed,
            (false, false) => TreeUpdate::InPlace,
        }
    }

    pub(crate) fn is_exact(self) -> bool {
        match self {
            TreeUpdate::Whole => true,
            TreeUpdate::InPlace | TreeUpdate::Renewed => false,
        }
    }

    pub(crate) fn renews(self) -> bool {
        match self {
            TreeUpdate::Whole | TreeUpdate::Renewed => true,
            TreeUpdate::InPlace => false,
        }
    }
}
