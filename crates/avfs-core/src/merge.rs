//! Three-way merge: what two sides made of one base, put together.
//!
//! A tree is merged from the lists of what each side changed ([`crate::diff`]), so the time it takes is that of the
//! changes, whatever the tree holds. Nothing is changed here: the result is a list of steps that make our tree the
//! merged one. Contents are reached through [`Contents`].

mod attributes;
mod directories;
mod entries;
pub mod lines;
mod moves;
mod tree;

pub use entries::{Contents, Merger};
pub use lines::{LineConflict, LineMerge, MarkerStyle, Sides, is_text, line_conflicts, merge_lines};
pub use moves::{Move, moves_by_content};
pub use tree::{Side, merge_trees};

use crate::entry::Entry;
use crate::name::TreePath;

/// What becomes of our tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// In the order in which they are to be done: moves, then removals from the deepest up, then the rest from the
    /// root down.
    pub steps: Vec<Step>,
    /// By path. Until they are resolved, the tree holds what [`Conflict`] says.
    pub conflicts: Vec<Conflict>,
}

/// One change of our tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// They moved it. Where it cannot be moved, because something is in the way, the steps that follow make it.
    Move(Move),
    /// With everything that is still below it. It may be gone already.
    Remove(TreePath),
    /// Makes a path this entry. Of a directory, the attributes alone are meant.
    Put { path: TreePath, entry: Entry },
}

/// A path that both sides changed, each in its own way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Where it is in the merged tree.
    pub path: TreePath,
    pub kind: ConflictKind,
    pub base: Option<Entry>,
    pub ours: Option<Entry>,
    pub theirs: Option<Entry>,
    /// Where they have it, if that is somewhere else.
    pub their_path: Option<TreePath>,
}

/// Why two changes cannot both be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConflictKind {
    /// Both changed the same lines. The tree holds the text with markers.
    Text,
    /// Both changed contents that are no text, or where a link leads. The tree holds ours.
    Binary,
    /// We removed what they changed or moved. The tree holds theirs.
    RemovedByUs,
    /// They removed what we changed or moved. The tree holds ours.
    RemovedByThem,
    /// Two things of different kinds, such as a file and a directory. The tree holds ours.
    Kinds,
    /// Both changed the same attribute. The tree holds ours.
    Attributes,
    /// Both moved it, to different places. The tree holds it at ours, with what both changed in it.
    Moved,
}

impl ConflictKind {
    pub const ALL: [ConflictKind; 7] = [
        ConflictKind::Text,
        ConflictKind::Binary,
        ConflictKind::RemovedByUs,
        ConflictKind::RemovedByThem,
        ConflictKind::Kinds,
        ConflictKind::Attributes,
        ConflictKind::Moved,
    ];

    /// In one word, for machines.
    pub fn name(self) -> &'static str {
        match self {
            ConflictKind::Text => "text",
            ConflictKind::Binary => "binary",
            ConflictKind::RemovedByUs => "removed-by-us",
            ConflictKind::RemovedByThem => "removed-by-them",
            ConflictKind::Kinds => "kinds",
            ConflictKind::Attributes => "attributes",
            ConflictKind::Moved => "moved",
        }
    }

    pub fn from_name(name: &str) -> Option<ConflictKind> {
        ConflictKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// What becomes of conflicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// They stay, and are marked in texts.
    #[default]
    Mark,
    /// Where both changed the same, we are right.
    Ours,
    /// Where both changed the same, they are right.
    Theirs,
}

#[cfg(test)]
mod tests;
