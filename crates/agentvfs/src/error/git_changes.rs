//! Changes of commits that are refused.

use std::fmt;

use avfs_core::TreePath;

use super::guarded::GuardReason;
use crate::git_names::ObjectName;

/// A commit that changes a hidden path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HiddenChange {
    pub commit: ObjectName,
    /// From the root of the project.
    pub path: TreePath,
    pub is_deleted: bool,
}

impl fmt::Display for HiddenChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let does = if self.is_deleted { "deletes" } else { "changes" };
        write!(f, "{} {does} {}", &self.commit.as_str()[..7], self.path)
    }
}

/// A commit that changes what the host runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardedChange {
    pub commit: ObjectName,
    /// What the user has to name, from the root of the project.
    pub path: TreePath,
    pub reason: GuardReason,
}

impl fmt::Display for GuardedChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} changes {} ({})",
            &self.commit.as_str()[..7],
            self.path,
            self.reason
        )
    }
}
