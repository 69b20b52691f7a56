//! Going from row to row, from hunk to hunk, from file to file.

use super::{Landing, Model, Pane};
use crate::commands::review::keys::Step;
use crate::commands::review::tree::{Fold, TreeRow};

/// How many columns long lines move at once, and how far they can be moved.
const COLUMNS: usize = 8;
const COLUMN_MAX: usize = 4000;

impl Model {
    pub(super) fn step(&mut self, step: Step) {
        match (self.pane, step) {
            (Pane::Tree, Step::Right) => {
                if !self.open_here() {
                    self.pane = Pane::Diff;
                }
            }
            (Pane::Tree, Step::Left) => self.close_here(),
            (Pane::Diff, Step::Left) if self.column == 0 => self.pane = Pane::Tree,
            (Pane::Diff, Step::Left) => self.column -= COLUMNS,
            (Pane::Diff, Step::Right) => self.column = (self.column + COLUMNS).min(COLUMN_MAX),
            (Pane::Tree, step) => {
                let height = self.geometry().tree.height;
                let row = moved(self.tree_row, step, self.tree.len(), height);
                self.look_at(row, Landing::FirstHunk);
            }
            (Pane::Diff, step) => {
                self.row = moved(self.row, step, self.rows().len(), self.geometry().diff.height);
            }
        }
    }

    /// Goes to a row of the tree.
    pub(super) fn look_at(&mut self, tree_row: usize, landing: Landing) {
        self.tree_row = tree_row.min(self.tree.len().saturating_sub(1));
        let file = self.tree.get(self.tree_row).and_then(TreeRow::file);
        if file.is_none() || self.open.as_ref().map(|open| open.index) != file {
            self.open = None;
            self.landing = landing;
        }
    }

    /// From the tree, the first hunk of the file is the next one.
    pub(super) fn enter_next_hunk(&mut self) {
        let was_in_tree = std::mem::replace(&mut self.pane, Pane::Diff) == Pane::Tree;
        if !was_in_tree || self.hunk().is_none() {
            self.next_hunk();
        }
    }

    pub(super) fn next_hunk(&mut self) {
        let next = self.hunk().map_or(0, |hunk| hunk + 1);
        if next < self.hunk_count() {
            return self.go_to_hunk(next);
        }
        match self.file_behind() {
            Some(file) => self.reveal(file, Landing::FirstHunk),
            None => self.message = Some("this is the last one: Enter applies what is accepted".to_owned()),
        }
    }

    pub(super) fn previous_hunk(&mut self) {
        if let Some(previous) = self.hunk().and_then(|hunk| hunk.checked_sub(1)) {
            return self.go_to_hunk(previous);
        }
        match self.file_before() {
            Some(file) => self.reveal(file, Landing::LastHunk),
            None => self.message = Some("this is the first one".to_owned()),
        }
    }

    /// The first file behind what is looked at; of a directory, the first one in it.
    fn file_behind(&self) -> Option<usize> {
        let rest = &self.tree[(self.tree_row + 1).min(self.tree.len())..];
        let here = self.tree.get(self.tree_row).filter(|row| row.folded().is_some());
        let is_shut = |row: &&TreeRow| row.folded() == Some(&Fold::Ignored);
        here.into_iter().chain(rest).filter(|row| !is_shut(row)).find_map(|row| row.files().first().copied())
    }

    fn file_before(&self) -> Option<usize> {
        let before = self.tree[..self.tree_row.min(self.tree.len())].iter().rev();
        // An open directory is not a step of its own: its files are.
        before.filter(|row| row.unfolded().is_none()).find_map(|row| row.files().last().copied())
    }

    fn hunk_count(&self) -> usize {
        self.open.as_ref().map_or(0, |open| open.hunks.len())
    }

    /// As much of the hunk as possible comes into sight.
    fn go_to_hunk(&mut self, hunk: usize) {
        let (form, height) = (self.form(), usize::from(self.geometry().diff.height));
        let Some(open) = &self.open else { return };
        let Some(header) = open.header_of(hunk, form) else { return };
        let end = open.header_of(hunk + 1, form).unwrap_or(self.rows().len());
        self.row = header;
        self.top = self.top.max(end.saturating_sub(height)).min(header);
    }
}

fn moved(from: usize, step: Step, count: usize, height: u16) -> usize {
    let page = usize::from(height).saturating_sub(1).max(1);
    let last = count.saturating_sub(1);
    match step {
        Step::Up => from.saturating_sub(1),
        Step::Down => (from + 1).min(last),
        Step::PageUp => from.saturating_sub(page),
        Step::PageDown => (from + page).min(last),
        Step::First => 0,
        Step::Last => last,
        Step::Left | Step::Right => from,
    }
}
