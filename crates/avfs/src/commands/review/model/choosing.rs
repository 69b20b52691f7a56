//! Resolutions of conflicts.

use std::ops::Range;

use super::{Model, Pane, ReviewEffect};
use crate::commands::review::conflict::{Choice, ChosenSide, ConflictView, How, TextConflict};
use crate::commands::review::decision::{Decision, Mark};
use crate::commands::review::file::OpenFile;
use crate::commands::review::keys::ReviewAction;
use crate::commands::review::tree::Group;

/// The message if a user accepts a conflict without a choice.
pub const CHOOSE: &str = "it conflicts: t takes the task's, b both with markers, e edits it, m keeps mine";

impl Model {
    pub fn is_conflict(&self, file: usize) -> bool {
        self.groups[file] == Group::Conflict
    }

    /// The number of undecided conflicts.
    pub fn open_conflicts(&self) -> usize {
        let is_open = |file: &usize| self.is_conflict(*file) && self.decisions[*file].is_undecided();
        (0..self.files.len()).filter(is_open).count()
    }

    /// Whether conflicts do not prevent applying it.
    pub(super) fn is_settled(&self, file: usize) -> bool {
        !self.is_conflict(file)
            || self
                .choices
                .get(&file)
                .is_some_and(|choice| choice.how.is_complete())
    }

    pub(super) fn choose(&mut self, action: ReviewAction) {
        let Some((file, view)) = self.looked_at() else {
            return;
        };
        let here_digest = view.here_digest.clone();
        if !view.places.is_empty() {
            let side = match action {
                ReviewAction::KeepMine => ChosenSide::Mine,
                ReviewAction::TakeTask => ChosenSide::Task,
                _ => ChosenSide::Both,
            };
            return self.choose_side(file, side);
        }
        // Without places in a text, the file is in conflict as a whole.
        let how = match action {
            ReviewAction::TakeTask if view.can_take_task => Some(How::Task),
            ReviewAction::TakeBoth if view.marked.is_some() => Some(How::Both),
            ReviewAction::KeepMine => None,
            ReviewAction::TakeTask => return self.say("the task's side cannot be taken here: m keeps mine"),
            _ => {
                return self
                    .say("these are not texts that markers fit into: t takes the task's, m keeps mine");
            }
        };
        match how {
            Some(how) => self.settle(file, how, here_digest),
            None => {
                self.choices.remove(&file);
                // Keeping the directory's version means applying nothing to the file.
                self.mark(file, Decision::Whole(Mark::Rejected));
            }
        }
        self.leave_row();
    }

    /// Decides the selected conflict of a text; in the list of files, or if there is only one, the whole
    /// file.
    fn choose_side(&mut self, file: usize, side: ChosenSide) {
        let count = self.open.as_ref().map_or(0, OpenFile::place_count);
        let chosen = match self.pane {
            Pane::Diff if count > 1 => match self.place() {
                Some(place) => place..place + 1,
                None => {
                    return self.say("this line is in no conflict: n and N go to the conflicts of the file");
                }
            },
            Pane::Diff | Pane::Tree => 0..count,
        };
        self.set_sides(file, chosen.clone(), Some(side));
        if self.is_settled(file) {
            self.accept_settled(file, chosen, side);
            match self.pane {
                Pane::Diff => self.next_file(),
                Pane::Tree => self.leave_row(),
            }
            if count > 1 {
                let path = self.files[file].path();
                self.say(&format!("all {count} conflicts of {path} are decided"));
            }
            return;
        }
        let open = self.open_places(file);
        // The next open one below, or else from the top.
        let next = open.iter().find(|place| **place >= chosen.end).or(open.first());
        if let Some(place) = next {
            self.go_to_place(*place);
        }
        self.say(&format!(
            "{} of {count} conflicts of this file are open",
            open.len()
        ));
    }

    /// The choice for one of several conflicts. `false`: the file is meant, or the hunk.
    pub(super) fn decide_place(&mut self, action: ReviewAction) -> bool {
        let several = self
            .open
            .as_ref()
            .filter(|open| self.pane == Pane::Diff && open.place_count() > 1);
        let (Some(file), Some(place)) = (several.map(|open| open.index), self.place()) else {
            return false;
        };
        match action {
            ReviewAction::Reject => self.choose_side(file, ChosenSide::Mine),
            ReviewAction::Clear => {
                self.set_sides(file, place..place + 1, None);
                self.mark(file, Decision::default());
            }
            _ if self.is_settled(file) => return false,
            _ => self.say(CHOOSE),
        }
        true
    }

    fn set_sides(&mut self, file: usize, chosen: Range<usize>, side: Option<ChosenSide>) {
        let Some(view) = self.open.as_ref().and_then(|open| open.conflict.as_ref()) else {
            return;
        };
        let before = self.choices.get(&file).map(|choice| &choice.how);
        // A choice for the whole file is taken over as the same choice for each place.
        let known = |index: usize| match before {
            Some(How::Places(places)) => places.get(index).and_then(|place| place.side),
            Some(How::Task) => Some(ChosenSide::Task),
            Some(How::Both) => Some(ChosenSide::Both),
            Some(How::Edited(_)) | None => None,
        };
        let places: Vec<TextConflict> = view
            .places
            .iter()
            .enumerate()
            .map(|(index, base)| TextConflict {
                base: base.clone(),
                side: if chosen.contains(&index) {
                    side
                } else {
                    known(index)
                },
            })
            .collect();
        let here_digest = view.here_digest.clone();
        self.is_unkept = true;
        if places.iter().all(|place| place.side.is_none()) {
            self.choices.remove(&file);
        } else {
            let how = How::Places(places);
            self.choices.insert(file, Choice { how, here_digest });
        }
    }

    /// The other changes of a file come along with its conflicts, but for those that were rejected. If nothing of the task
    /// is left then, the file is rejected.
    fn accept_settled(&mut self, file: usize, chosen: Range<usize>, side: ChosenSide) {
        let (Some(open), Some(choice)) = (&self.open, self.choices.get(&file)) else {
            return;
        };
        let How::Places(places) = &choice.how else { return };
        let is_all_mine = places.iter().all(|place| place.side == Some(ChosenSide::Mine));
        let has_more = open.conflict.as_ref().is_some_and(|view| view.has_more);
        let decision = if is_all_mine && !has_more {
            Decision::Whole(Mark::Rejected)
        } else {
            let taken = places[chosen].iter().filter(|_| side != ChosenSide::Mine);
            let parts = taken.flat_map(|place| open.parts_at(&place.base));
            let rest = self.decisions[file].with_rest_accepted();
            parts.fold(rest, |decision, part| {
                decision.with_part(part, &open.shape, Mark::Accepted)
            })
        };
        self.mark(file, decision);
    }

    /// The conflicts of the file that nothing was decided about.
    fn open_places(&self, file: usize) -> Vec<usize> {
        let Some(Choice {
            how: How::Places(places),
            ..
        }) = self.choices.get(&file)
        else {
            return Vec::new();
        };
        let open = places
            .iter()
            .enumerate()
            .filter(|(_, place)| place.side.is_none());
        open.map(|(index, _)| index).collect()
    }

    pub(super) fn edit(&mut self) -> Option<ReviewEffect> {
        let (file, view) = self.looked_at()?;
        if view.marked.is_some() {
            Some(ReviewEffect::Edit(file))
        } else {
            self.say("these are not texts: t takes the task's, m keeps mine");
            None
        }
    }

    /// The initial text for the user: an earlier edit, or both sides with markers.
    pub fn text_to_edit(&self, file: usize) -> Option<Vec<u8>> {
        if let Some(Choice {
            how: How::Edited(text),
            ..
        }) = self.choices.get(&file)
        {
            return Some(text.clone());
        }
        self.open
            .as_ref()
            .filter(|open| open.index == file)?
            .conflict
            .as_ref()?
            .marked
            .clone()
    }

    /// Reopens choices that are no longer valid.
    pub fn reopen(&mut self, files: &[usize]) {
        for file in files {
            self.choices.remove(file);
            self.mark(*file, Decision::default());
        }
        if !files.is_empty() {
            self.say("the directory changed since you chose: these conflicts are open again");
        }
    }

    /// The user's resolution of a conflict.
    pub fn edited(&mut self, file: usize, text: Vec<u8>) {
        let Some((_, view)) = self.looked_at() else { return };
        let here_digest = view.here_digest.clone();
        self.settle(file, How::Edited(text), here_digest);
        self.say("your text is applied in place of both");
    }

    fn settle(&mut self, file: usize, how: How, here_digest: String) {
        self.is_unkept = true;
        self.choices.insert(file, Choice { how, here_digest });
        self.mark(file, Decision::Whole(Mark::Accepted));
    }

    /// The selected conflict. If there is none, a message says so.
    fn looked_at(&mut self) -> Option<(usize, &ConflictView)> {
        let is_there = self.open.as_ref().is_some_and(|open| open.conflict.is_some());
        if !is_there {
            self.say("there is no conflict here");
            return None;
        }
        let open = self.open.as_ref()?;
        Some((open.index, open.conflict.as_ref()?))
    }

    pub(super) fn say(&mut self, text: &str) {
        self.message = Some(text.to_owned());
    }
}
