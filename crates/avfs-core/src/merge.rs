//! Three-way merge: combines the changes that two sides made to one base.
//!
//! A tree is merged from the lists of changes of each side ([`crate::diff`]), so the time depends on the
//! changes and not on the size of the tree. Nothing is modified here: the result is a list of steps that turn
//! our tree into the merged one. Contents are reached through [`MergeContents`].

mod attributes;
mod directories;
mod entries;
pub mod lines;
mod moves;
mod tree;

pub use entries::{EntryMerger, MergeContents};
pub use lines::{
    LineConflict, LineMerge, MarkerStyle, SideNames, is_text, line_conflicts, merge_lines,
    merge_lines_choosing,
};
pub use moves::{PathMove, moves_by_content};
pub use tree::{MergeSide, merge_trees};

use crate::entry::Entry;
use crate::name::TreePath;

/// The result of a merge, relative to our tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergeResult {
    /// In the order of execution: moves, then removals from the deepest up, then the rest from the root down.
    pub steps: Vec<MergeStep>,
    /// By path. Until they are resolved, the tree holds what [`MergeConflict`] says.
    pub conflicts: Vec<MergeConflict>,
}

/// One change of our tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeStep {
    /// They moved it. If something at the target prevents the move, the steps that follow create the entry.
    Move(PathMove),
    /// With everything that is still below it. The path may have been removed already.
    Remove(TreePath),
    /// Sets the entry at a path. For a directory, only its attributes are set.
    Put {
        /// The path in the merged tree.
        path: TreePath,
        /// The entry that it has there.
        entry: Entry,
    },
}

/// A path that both sides changed in different ways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeConflict {
    /// Its path in the merged tree.
    pub path: TreePath,
    /// Why the changes cannot be combined.
    pub kind: MergeConflictKind,
    /// The entry in the common state.
    pub base: Option<Entry>,
    /// The entry on our side; `None` if we removed it.
    pub ours: Option<Entry>,
    /// The entry on their side; `None` if they removed it.
    pub theirs: Option<Entry>,
    /// Its path on their side, if that is different.
    pub their_path: Option<TreePath>,
}

/// Why two changes cannot be combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MergeConflictKind {
    /// Both changed the same lines. The tree holds the text with markers.
    Text,
    /// Both changed contents that are not text, or the target of a link. The tree holds ours.
    Binary,
    /// We removed what they changed or moved. The tree holds theirs.
    RemovedByUs,
    /// They removed what we changed or moved. The tree holds ours.
    RemovedByThem,
    /// Entries of different kinds, such as a file and a directory. The tree holds ours.
    Kinds,
    /// Both changed the same attribute. The tree holds ours.
    Attributes,
    /// Both moved it, to different places. The tree holds it at our place, with the changes of both sides.
    Moved,
}

impl MergeConflictKind {
    /// Every kind.
    pub const ALL: [MergeConflictKind; 7] = [
        MergeConflictKind::Text,
        MergeConflictKind::Binary,
        MergeConflictKind::RemovedByUs,
        MergeConflictKind::RemovedByThem,
        MergeConflictKind::Kinds,
        MergeConflictKind::Attributes,
        MergeConflictKind::Moved,
    ];

    /// One word, for machines.
    pub fn name(self) -> &'static str {
        match self {
            MergeConflictKind::Text => "text",
            MergeConflictKind::Binary => "binary",
            MergeConflictKind::RemovedByUs => "removed-by-us",
            MergeConflictKind::RemovedByThem => "removed-by-them",
            MergeConflictKind::Kinds => "kinds",
            MergeConflictKind::Attributes => "attributes",
            MergeConflictKind::Moved => "moved",
        }
    }

    /// The kind with this [name](MergeConflictKind::name).
    pub fn from_name(name: &str) -> Option<MergeConflictKind> {
        MergeConflictKind::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
    }
}

/// How conflicts are resolved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConflictPolicy {
    /// They stay, and are marked in texts.
    #[default]
    Mark,
    /// Where both changed the same part, ours is used.
    Ours,
    /// Where both changed the same part, theirs is used.
    Theirs,
}

#[cfg(test)]
mod tests;
