//! Going from row to row, from hunk to hunk, from file to file; opening and closing directories on the way.

use super::{Model, Pane, StartingHunk};
use crate::commands::review::keys::CursorStep;
use crate::commands::review::tree::{Fold, TreeRow};

/// The step for scrolling long lines sideways, and the maximum.
const COLUMNS: usize = 8;
const COLUMN_MAX: usize = 4000;

impl Model {
    pub(super) fn step(&mut self, step: CursorStep) {
        match (self.pane, step) {
            (Pane::Tree, CursorStep::Right) => {
                if !self.open_here() {
                    self.pane = Pane::Diff;
                }
            }
            (Pane::Tree, CursorStep::Left) => self.close_here(),
            (Pane::Diff, CursorStep::Left) if self.column == 0 => self.pane = Pane::Tree,
            (Pane::Diff, CursorStep::Left) => self.column -= COLUMNS,
            (Pane::Diff, CursorStep::Right) => self.column = (self.column + COLUMNS).min(COLUMN_MAX),
            (Pane::Tree, step) => {
                let height = self.geometry().tree.height;
                let row = moved(self.tree_row, step, self.tree.len(), height);
                self.look_at(row, StartingHunk::FirstHunk);
            }
            (Pane::Diff, step) => {
                self.row = moved(self.row, step, self.rows().len(), self.geometry().diff.height);
            }
        }
    }

    /// Goes to a row of the tree.
    pub(super) fn look_at(&mut self, tree_row: usize, starting: StartingHunk) {
        self.tree_row = tree_row.min(self.tree.len().saturating_sub(1));
        let file = self.tree.get(self.tree_row).and_then(TreeRow::file);
        if file.is_none() || self.open.as_ref().map(|open| open.index) != file {
            self.open = None;
            self.starting = starting;
        }
    }

    /// From the tree, the first hunk of the file is the next one.
    pub(super) fn enter_next_hunk(&mut self) {
        let was_in_tree = std::mem::replace(&mut self.pane, Pane::Diff) == Pane::Tree;
        // Of several conflicts, the one that is on the screen is the first to be entered.
        let has_places = self.place().is_some() && self.place_count() > 1;
        if !was_in_tree || self.hunk().is_none() && !has_places {
            self.next_hunk();
        }
    }

    pub(super) fn next_hunk(&mut self) {
        if let Some(next) = self.place().map(|place| place + 1)
            && next < self.place_count()
        {
            return self.go_to_place(next);
        }
        let next = self.hunk().map_or(0, |hunk| hunk + 1);
        if next < self.hunk_count() {
            return self.go_to_hunk(next);
        }
        match self.file_behind() {
            Some(file) => self.reveal(file, StartingHunk::FirstHunk),
            None => self.message = Some("this is the last one: Enter applies what is accepted".to_owned()),
        }
    }

    pub(super) fn previous_hunk(&mut self) {
        if let Some(previous) = self.hunk().and_then(|hunk| hunk.checked_sub(1)) {
            return self.go_to_hunk(previous);
        }
        let place = self.place().or_else(|| self.hunk().map(|_| self.place_count()));
        if let Some(previous) = place.and_then(|place| place.checked_sub(1)) {
            return self.go_to_place(previous);
        }
        match self.file_before() {
            Some(file) => self.reveal(file, StartingHunk::LastHunk),
            None => self.message = Some("this is the first one".to_owned()),
        }
    }

    /// The first file after the selection; for a directory, the first one in it.
    fn file_behind(&self) -> Option<usize> {
        let rest = &self.tree[(self.tree_row + 1).min(self.tree.len())..];
        let here = self.tree.get(self.tree_row).filter(|row| row.folded().is_some());
        let is_shut = |row: &&TreeRow| row.folded() == Some(&Fold::Ignored);
        here.into_iter()
            .chain(rest)
            .filter(|row| !is_shut(row))
            .find_map(|row| row.files().first().copied())
    }

    fn file_before(&self) -> Option<usize> {
        let before = self.tree[..self.tree_row.min(self.tree.len())].iter().rev();
        // An open directory is not a step of its own: its files are.
        before
            .filter(|row| row.unfolded().is_none())
            .find_map(|row| row.files().last().copied())
    }

    fn hunk_count(&self) -> usize {
        self.open.as_ref().map_or(0, |open| open.hunks.len())
    }

    pub(super) fn place_count(&self) -> usize {
        self.open.as_ref().map_or(0, |open| open.place_count())
    }

    /// As much of the conflict as possible comes into sight.
    pub(super) fn go_to_place(&mut self, place: usize) {
        let (form, height) = (self.form(), usize::from(self.geometry().diff.height));
        let Some(open) = &self.open else { return };
        let Some(row) = open.row_of_place(place, form) else {
            return;
        };
        let end = open.row_of_place(place + 1, form).or(open.header_of(0, form));
        self.top = self
            .top
            .max(end.unwrap_or(self.rows().len()).saturating_sub(height))
            .min(row);
        self.row = row;
    }

    /// Moves to the file after the selected one.
    pub(super) fn next_file(&mut self) {
        if let Some(file) = self.file_behind() {
            self.reveal(file, StartingHunk::FirstHunk);
        }
    }

    /// As much of the hunk as possible comes into sight.
    fn go_to_hunk(&mut self, hunk: usize) {
        let (form, height) = (self.form(), usize::from(self.geometry().diff.height));
        let Some(open) = &self.open else { return };
        let Some(header) = open.header_of(hunk, form) else {
            return;
        };
        let end = open.header_of(hunk + 1, form).unwrap_or(self.rows().len());
        self.row = header;
        self.top = self.top.max(end.saturating_sub(height)).min(header);
    }

    /// Opens or closes the selected directory, or the parent of the selected file.
    pub(super) fn toggle_fold(&mut self) {
        let Some(row) = self.tree.get(self.tree_row) else {
            return;
        };
        match (row.folded().cloned(), row.unfolded().cloned()) {
            (Some(fold), _) => self.fold(fold, true),
            (None, Some(fold)) => self.fold(fold, false),
            (None, None) => self.close_around(),
        }
    }

    /// Opens the selected directory. `false`: the selection is not a closed directory.
    pub(super) fn open_here(&mut self) -> bool {
        let fold = self.tree.get(self.tree_row).and_then(TreeRow::folded).cloned();
        fold.map(|fold| self.fold(fold, true)).is_some()
    }

    /// Closes the selected directory; otherwise moves to the parent.
    pub(super) fn close_here(&mut self) {
        match self.tree.get(self.tree_row).and_then(TreeRow::unfolded).cloned() {
            Some(fold) => self.fold(fold, false),
            None => {
                if let Some(row) = self.around() {
                    self.look_at(row, StartingHunk::FirstHunk);
                }
            }
        }
    }

    fn close_around(&mut self) {
        if let Some(row) = self.around() {
            self.look_at(row, StartingHunk::FirstHunk);
            self.close_here();
        }
    }

    /// The row of the selection's parent directory.
    fn around(&self) -> Option<usize> {
        let depth = self.tree.get(self.tree_row)?.depth();
        self.tree[..self.tree_row]
            .iter()
            .rposition(|row| row.depth() < depth)
    }

    fn fold(&mut self, fold: Fold, is_open: bool) {
        let row = self.tree_row;
        self.folds.insert(fold, is_open);
        self.build_tree();
        self.look_at(row, StartingHunk::FirstHunk);
    }

    /// Goes to a file, whatever directories are closed around it.
    pub(super) fn reveal(&mut self, file: usize, starting: StartingHunk) {
        while self.row_of(file).is_none() {
            let around = self
                .tree
                .iter()
                .find(|row| row.folded().is_some() && row.files().contains(&file));
            let Some(fold) = around.and_then(TreeRow::folded).cloned() else {
                return;
            };
            self.folds.insert(fold, true);
            self.build_tree();
        }
        if let Some(row) = self.row_of(file) {
            self.look_at(row, starting);
        }
    }

    /// All displayed files, in order, including those in closed directories. Ignored files count only if they
    /// were opened.
    pub(super) fn shown_files(&self) -> Vec<usize> {
        let is_shut = |row: &TreeRow| row.folded() == Some(&Fold::Ignored);
        let tops = self.tree.iter().filter(|row| row.depth() == 0 && !is_shut(row));
        tops.flat_map(|row| row.files().iter().copied()).collect()
    }
}

fn moved(from: usize, step: CursorStep, count: usize, height: u16) -> usize {
    let page = usize::from(height).saturating_sub(1).max(1);
    let last = count.saturating_sub(1);
    match step {
        CursorStep::Up => from.saturating_sub(1),
        CursorStep::Down => (from + 1).min(last),
        CursorStep::PageUp => from.saturating_sub(page),
        CursorStep::PageDown => (from + page).min(last),
        CursorStep::First => 0,
        CursorStep::Last => last,
        CursorStep::Left | CursorStep::Right => from,
    }
}
