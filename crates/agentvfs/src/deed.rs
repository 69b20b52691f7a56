//! What is done to a vault, in the words of its history, and how it reaches a tree that others use.

use avfs_core::SnapshotId;

/// One thing that was done: what the history and the audit log say of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deed<'a> {
    pub actor: &'a str,
    pub action: &'a str,
    pub detail: &'a str,
    /// For an undo: the entry whose effect it takes back.
    pub undoes: Option<u64>,
    /// The entry after which it began, if snapshots were taken meanwhile.
    pub since: Option<u64>,
    /// For a task: what it is compared with from now on, if that is another state than before.
    pub task_base: Option<SnapshotId>,
}

impl Deed<'_> {
    /// As one line.
    pub fn line(&self) -> String {
        if self.detail.is_empty() {
            self.action.to_owned()
        } else {
            format!("{} {}", self.action, self.detail)
        }
    }
}

/// How a new state lands in a tree that another process has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Landing {
    /// As if another process had written the files that changed: open ones show it.
    InPlace,
    /// The files that changed are others than before: handles on the old ones go stale.
    Renewed,
    /// The state wins as a whole, whatever was done meanwhile; files as in `Renewed`.
    Whole,
}

impl Landing {
    pub fn from_flags(exact: bool, renew: bool) -> Landing {
        match (exact, renew) {
            (true, _) => Landing::Whole,
            (false, true) => Landing::Renewed,
            (false, false) => Landing::InPlace,
        }
    }

    pub fn is_exact(self) -> bool {
        match self {
            Landing::Whole => true,
            Landing::InPlace | Landing::Renewed => false,
        }
    }

    pub fn renews(self) -> bool {
        match self {
            Landing::Whole | Landing::Renewed => true,
            Landing::InPlace => false,
        }
    }
}
