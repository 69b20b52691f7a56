//! What is done about conflicts.

use avfs_core::merge::ConflictPolicy;

/// What is done where both sides changed something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnConflict {
    /// Nothing at all is applied.
    #[default]
    Refuse,
    /// Both sides, between markers; what is not text is left as it is.
    Mark,
    /// What is in the directory stays; of a text, in the lines that both changed.
    Ours,
    /// What the task has is taken; of a text, in the lines that both changed.
    Theirs,
}

impl OnConflict {
    /// The same for conflicts of lines. `None`: they are not decided.
    pub(super) fn for_lines(self) -> Option<ConflictPolicy> {
        match self {
            OnConflict::Refuse => None,
            OnConflict::Mark => Some(ConflictPolicy::Mark),
            OnConflict::Ours => Some(ConflictPolicy::Ours),
            OnConflict::Theirs => Some(ConflictPolicy::Theirs),
        }
    }
}
