//! Decisions, and their totals.

use avfs_core::TreePath;

use super::choosing::CHOOSE;
use super::{Model, Pane};
use crate::commands::review::accepted::Accepted;
use crate::commands::review::decision::{Decision, HunkPart, Mark};
use crate::commands::review::keys::ReviewAction;
use crate::commands::review::tree::Group;
use crate::versions::count;

/// The number of files with each decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub accepted: usize,
    pub partly: usize,
    pub rejected: usize,
    pub undecided: usize,
}

impl Model {
    /// Decides the selection: a hunk or a change, or the files of a row of the tree.
    pub(super) fn decide(&mut self, action: ReviewAction) {
        if self.decide_place(action) {
            return;
        }
        let goes_on = matches!(action, ReviewAction::Accept | ReviewAction::Reject);
        match (self.pane, self.hunk_choice()) {
            (Pane::Diff, Some((file, part, shape))) => {
                let mark = new_mark(action, self.decisions[file].part(part).mark());
                self.mark(file, self.decisions[file].with_part(part, &shape, mark));
            }
            _ if !self.decide_row(action) => return,
            _ => {}
        }
        match self.pane {
            Pane::Diff if goes_on => self.next_hunk(),
            Pane::Tree if goes_on => self.leave_row(),
            Pane::Diff | Pane::Tree => {}
        }
    }

    pub(super) fn mark(&mut self, file: usize, decision: Decision) {
        if self.decisions[file] != decision {
            self.decisions[file] = decision;
            self.is_unkept = true;
        }
    }

    /// Accepts, rejects or clears everything that is shown. A conflict is accepted by a choice alone.
    pub(super) fn decide_all(&mut self, action: ReviewAction) {
        let mark = new_mark(action, Mark::Undecided);
        let (settled, open) = self.decidable(self.shown_files(), mark);
        settled.into_iter().for_each(|file| self.mark_whole(file, mark));
        if open > 0 {
            let conflicts = count(open as u64, "conflict");
            self.say(&format!(
                "{conflicts} not accepted: they stand first, and take a choice each"
            ));
        }
    }

    /// Those that can be given a mark, and how many cannot because they are in conflict.
    fn decidable(&self, files: Vec<usize>, mark: Mark) -> (Vec<usize>, usize) {
        let all = files.len();
        let can = |file: &usize| mark != Mark::Accepted || self.is_settled(*file);
        let settled: Vec<usize> = files.into_iter().filter(can).collect();
        let open = all - settled.len();
        (settled, open)
    }

    fn mark_whole(&mut self, file: usize, mark: Mark) {
        if mark != Mark::Accepted {
            self.is_unkept |= self.choices.remove(&file).is_some();
        }
        self.mark(file, Decision::Whole(mark));
    }

    /// The file, the selected part and the shape of the file, if parts are decided separately here.
    fn hunk_choice(&self) -> Option<(usize, HunkPart, Vec<usize>)> {
        let open = self.open.as_ref().filter(|open| !open.shape.is_empty())?;
        Some((open.index, open.parts[self.hunk()?], open.shape.clone()))
    }

    /// Splits the selected hunk into its changes, or joins them again.
    pub(super) fn split_hunk(&mut self) {
        let (form, hunk) = (self.form(), self.hunk());
        let (Some(open), Some(hunk)) = (&mut self.open, hunk) else {
            return self.say("Tab goes to the differences: there s splits a hunk");
        };
        match open.toggle_split(hunk) {
            Some(shown) => self.row = open.header_of(shown, form).unwrap_or(0),
            None if open.shape.is_empty() => self.say("this file is accepted or rejected as a whole"),
            None => self.say("this hunk is one change: it cannot be split"),
        }
    }

    /// `false`: nothing was decided, because a conflict requires a choice.
    fn decide_row(&mut self, action: ReviewAction) -> bool {
        let Some(row) = self.tree.get(self.tree_row) else {
            return false;
        };
        let files = row.files().to_vec();
        let now = if files
            .iter()
            .all(|file| self.decisions[*file] == Decision::Whole(Mark::Accepted))
        {
            Mark::Accepted
        } else {
            Mark::Undecided
        };
        let mark = new_mark(action, now);
        let (settled, open) = self.decidable(files, mark);
        if settled.is_empty() && open > 0 {
            self.say(CHOOSE);
            return false;
        }
        settled.into_iter().for_each(|file| self.mark_whole(file, mark));
        true
    }

    /// Moves past everything that was decided with the row.
    pub(super) fn leave_row(&mut self) {
        let Some(row) = self.tree.get(self.tree_row) else {
            return;
        };
        let depth = row.depth();
        let behind = self
            .tree
            .iter()
            .skip(self.tree_row + 1)
            .position(|row| row.depth() <= depth);
        if let Some(skipped) = behind {
            self.look_at(self.tree_row + 1 + skipped, super::StartingHunk::FirstHunk);
        }
    }

    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        let ignored =
            |file: usize| self.groups[file] == Group::Ignored && self.decisions[file].is_undecided();
        for (_, decision) in self
            .decisions
            .iter()
            .enumerate()
            .filter(|(file, _)| !ignored(*file))
        {
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
        Accepted::of(&self.files, &self.decisions, &self.choices)
    }

    pub(super) fn accepts_anything(&self) -> bool {
        !self.accepted().is_empty()
    }

    /// The path of the selection.
    pub fn path(&self) -> Option<&TreePath> {
        let file = self.tree.get(self.tree_row)?.file()?;
        Some(self.files[file].path())
    }
}

fn new_mark(action: ReviewAction, now: Mark) -> Mark {
    match action {
        ReviewAction::Accept | ReviewAction::AcceptAll => Mark::Accepted,
        ReviewAction::Reject | ReviewAction::RejectAll => Mark::Rejected,
        ReviewAction::Toggle => now.toggled(),
        _ => Mark::Undecided,
    }
}
