//! What becomes of conflicts.

use super::{Effect, Model};
use crate::commands::review::conflict::{Choice, ConflictView, How};
use crate::commands::review::decision::{Decision, Mark};
use crate::commands::review::keys::Action;
use crate::commands::review::tree::Group;

/// What a user who accepts a conflict has still to say.
pub const CHOOSE: &str = "it conflicts: t takes the task's, b both with markers, e edits it, m keeps mine";

impl Model {
    pub fn is_conflict(&self, file: usize) -> bool {
        self.groups[file] == Group::Conflict
    }

    /// How many conflicts nothing was decided about.
    pub fn open_conflicts(&self) -> usize {
        let is_open = |file: &usize| self.is_conflict(*file) && self.decisions[*file].is_undecided();
        (0..self.files.len()).filter(is_open).count()
    }

    /// Whether it can be applied as far as conflicts are concerned.
    pub(super) fn is_settled(&self, file: usize) -> bool {
        !self.is_conflict(file) || self.choices.contains_key(&file)
    }

    pub(super) fn choose(&mut self, action: Action) {
        let Some((file, view)) = self.looked_at() else { return };
        let here_digest = view.here_digest.clone();
        let how = match action {
            Action::TakeTask if view.can_take_task => Some(How::Task),
            Action::TakeBoth if view.marked.is_some() => Some(How::Both),
            Action::KeepMine => None,
            Action::TakeTask => return self.say("the task's side cannot be taken here: m keeps mine"),
            _ => {
                return self
                    .say("these are not texts that markers fit into: t takes the task's, m keeps mine");
            }
        };
        match how {
            Some(how) => self.settle(file, how, here_digest),
            None => {
                self.choices.remove(&file);
                self.mark(file, Decision::Whole(Mark::Rejected));
            }
        }
        self.leave_row();
    }

    pub(super) fn edit(&mut self) -> Option<Effect> {
        let (file, view) = self.looked_at()?;
        match view.marked.is_some() {
            true => Some(Effect::Edit(file)),
            false => {
                self.say("these are not texts: t takes the task's, m keeps mine");
                None
            }
        }
    }

    /// What the user begins with: what was edited before, or both sides with markers.
    pub fn text_to_edit(&self, file: usize) -> Option<Vec<u8>> {
        if let Some(Choice { how: How::Edited(text), .. }) = self.choices.get(&file) {
            return Some(text.clone());
        }
        self.open.as_ref().filter(|open| open.index == file)?.conflict.as_ref()?.marked.clone()
    }

    /// Choices that do not hold any more.
    pub fn reopen(&mut self, files: &[usize]) {
        for file in files {
            self.choices.remove(file);
            self.mark(*file, Decision::default());
        }
        if !files.is_empty() {
            self.say("the directory changed since you chose: these conflicts are open again");
        }
    }

    /// What the user made of a conflict.
    pub fn edited(&mut self, file: usize, text: Vec<u8>) {
        let Some((_, view)) = self.looked_at() else { return };
        let here_digest = view.here_digest.clone();
        self.settle(file, How::Edited(text), here_digest);
        self.say("your text is applied in place of both");
    }

    fn settle(&mut self, file: usize, how: How, here_digest: String) {
        self.choices.insert(file, Choice { how, here_digest });
        self.mark(file, Decision::Whole(Mark::Accepted));
    }

    /// The conflict that is looked at. If there is none, that is said.
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
