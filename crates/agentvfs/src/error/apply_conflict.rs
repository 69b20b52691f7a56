//! Paths that both sides changed, and their resolution.

use std::fmt;

use avfs_core::TreePath;

/// A path that needs a decision by the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub path: TreePath,
    pub kind: ConflictKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConflictKind {
    /// Both changed the same lines, in this many places.
    Lines(usize),
    /// Both changed a file that is not text.
    Contents,
    /// Both made something else of this name.
    BothAdded,
    /// It is gone from the directory, and the task changed it.
    RemovedHere,
    /// The task removed it, and it was changed in the directory.
    RemovedThere,
    /// Something of another kind is there.
    Kinds { here: &'static str, there: &'static str },
    /// A parent of it is not a directory on the host, or is a symbolic link.
    NoWay,
    /// It takes the place of a directory that has other files.
    DirectoryInUse,
    /// When undoing: it has changed since it was applied.
    ChangedSince,
}

impl ConflictKind {
    /// A stable name for programs.
    pub fn as_str(&self) -> &'static str {
        match self {
            ConflictKind::Lines(_) => "lines",
            ConflictKind::Contents => "contents",
            ConflictKind::BothAdded => "both-added",
            ConflictKind::RemovedHere => "removed-here",
            ConflictKind::RemovedThere => "removed-there",
            ConflictKind::Kinds { .. } => "kinds",
            ConflictKind::NoWay => "no-way",
            ConflictKind::DirectoryInUse => "directory-in-use",
            ConflictKind::ChangedSince => "changed-since",
        }
    }

    /// Whether the task's side can be used nevertheless.
    pub fn can_take_theirs(&self) -> bool {
        match self {
            ConflictKind::Lines(_)
            | ConflictKind::Contents
            | ConflictKind::BothAdded
            | ConflictKind::RemovedHere
            | ConflictKind::RemovedThere => true,
            ConflictKind::Kinds { .. }
            | ConflictKind::NoWay
            | ConflictKind::DirectoryInUse
            | ConflictKind::ChangedSince => false,
        }
    }
}

impl fmt::Display for ConflictKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConflictKind::Lines(1) => f.write_str("both changed the same lines"),
            ConflictKind::Lines(places) => write!(f, "both changed the same lines in {places} places"),
            ConflictKind::Contents => f.write_str("both changed it, and it is not text"),
            ConflictKind::BothAdded => f.write_str("both added it"),
            ConflictKind::RemovedHere => f.write_str("removed here, changed in the task"),
            ConflictKind::RemovedThere => f.write_str("changed here, removed in the task"),
            ConflictKind::Kinds { here, there } => write!(f, "{here} here, {there} in the task"),
            ConflictKind::NoWay => {
                f.write_str("what is above it here is not a directory, or its path is too long")
            }
            ConflictKind::DirectoryInUse => f.write_str("a directory here that has other files"),
            ConflictKind::ChangedSince => f.write_str("changed since it was applied"),
        }
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // As in the list of applied files.
        write!(
            f,
            "{} ({})",
            avfs_core::printable(self.path.as_bytes()),
            self.kind
        )
    }
}
