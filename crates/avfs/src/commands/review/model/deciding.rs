//! Decisions, and what they add up to.

use avfs_core::TreePath;

use super::{Model, Pane};
use crate::commands::review::accepted::Accepted;
use crate::commands::review::decision::{Decision, Mark};
use crate::commands::review::keys::Action;
use crate::commands::review::tree::TreeRow;

/// How many files there are of each decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub accepted: usize,
    pub partly: usize,
    pub rejected: usize,
    pub undecided: usize,
}

impl Model {
    /// Decides what is looked at: a hunk, or the files of a row of the tree.
    pub(super) fn decide(&mut self, action: Action) {
        let goes_on = matches!(action, Action::Accept | Action::Reject);
        match (self.pane, self.hunk_choice()) {
            (Pane::Diff, Some((file, hunk, choices))) => {
                let mark = new_mark(action, self.decisions[file].hunk(hunk));
                self.decisions[file] = self.decisions[file].with_hunk(hunk, choices, mark);
            }
            _ => self.decide_row(action),
        }
        match self.pane {
            Pane::Diff if goes_on => self.next_hunk(),
            Pane::Tree if goes_on => self.leave_row(),
            Pane::Diff | Pane::Tree => {}
        }
    }

    pub(super) fn decide_all(&mut self, action: Action) {
        let mark = new_mark(action, Mark::Undecided);
        let shown: Vec<usize> = self.tree.iter().filter_map(TreeRow::file).collect();
        shown.into_iter().for_each(|file| self.decisions[file] = Decision::Whole(mark));
    }

    /// The file, the hunk and how many there are, if hunks are decided one by one here.
    fn hunk_choice(&self) -> Option<(usize, usize, usize)> {
        let open = self.open.as_ref().filter(|open| open.choices > 0)?;
        Some((open.index, self.hunk()?, open.choices))
    }

    fn decide_row(&mut self, action: Action) {
        let Some(row) = self.tree.get(self.tree_row) else { return };
        let files = row.files().to_vec();
        let now = match files.iter().all(|file| self.decisions[*file] == Decision::Whole(Mark::Accepted)) {
            true => Mark::Accepted,
            false => Mark::Undecided,
        };
        let mark = new_mark(action, now);
        files.into_iter().for_each(|file| self.decisions[file] = Decision::Whole(mark));
    }

    /// Goes behind everything that was decided with the row.
    fn leave_row(&mut self) {
        let Some(row) = self.tree.get(self.tree_row) else { return };
        let last = row.files().last().copied();
        let end = self.tree.iter().rposition(|row| row.file() == last && last.is_some());
        let behind = end.unwrap_or(self.tree_row) + 1;
        if behind < self.tree.len() {
            self.look_at(behind, super::Landing::FirstHunk);
        }
    }

    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for decision in &self.decisions {
            match decision {
                Decision::Hunks(_) => counts.partly += 1,
                Decision::Whole(Mark::Accepted) => counts.accepted += 1,
                Decision::Whole(Mark::Rejected) => counts.rejected += 1,
                Decision::Whole(Mark::Undecided) => counts.undecided += 1,
            }
        }
        counts
    }

    pub fn accepted(&self) -> Accepted {
        Accepted::of(&self.files, &self.decisions)
    }

    pub(super) fn accepts_anything(&self) -> bool {
        !self.accepted().is_empty()
    }

    pub(super) fn decides_anything(&self) -> bool {
        !self.decisions.iter().all(Decision::is_undecided)
    }

    /// The path of what is looked at.
    pub fn path(&self) -> Option<&TreePath> {
        let file = self.tree.get(self.tree_row)?.file()?;
        Some(self.files[file].path())
    }
}

fn new_mark(action: Action, now: Mark) -> Mark {
    match action {
        Action::Accept | Action::AcceptAll => Mark::Accepted,
        Action::Reject | Action::RejectAll => Mark::Rejected,
        Action::Toggle => now.toggled(),
        _ => Mark::Undecided,
    }
}
