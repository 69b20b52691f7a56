//! Opening and closing directories.

use super::{Landing, Model};
use crate::commands::review::tree::{Fold, TreeRow};

impl Model {
    /// Opens or closes the directory that is looked at, or the one around the file.
    pub(super) fn toggle_fold(&mut self) {
        let Some(row) = self.tree.get(self.tree_row) else { return };
        match (row.folded().cloned(), row.unfolded().cloned()) {
            (Some(fold), _) => self.fold(fold, true),
            (None, Some(fold)) => self.fold(fold, false),
            (None, None) => self.close_around(),
        }
    }

    /// Opens the directory that is looked at. `false`: it is none that is closed.
    pub(super) fn open_here(&mut self) -> bool {
        let fold = self.tree.get(self.tree_row).and_then(TreeRow::folded).cloned();
        fold.map(|fold| self.fold(fold, true)).is_some()
    }

    /// Closes the directory that is looked at; otherwise goes to the one around.
    pub(super) fn close_here(&mut self) {
        match self.tree.get(self.tree_row).and_then(TreeRow::unfolded).cloned() {
            Some(fold) => self.fold(fold, false),
            None => {
                if let Some(row) = self.around() {
                    self.look_at(row, Landing::FirstHunk);
                }
            }
        }
    }

    fn close_around(&mut self) {
        if let Some(row) = self.around() {
            self.look_at(row, Landing::FirstHunk);
            self.close_here();
        }
    }

    /// The row of the directory around what is looked at.
    fn around(&self) -> Option<usize> {
        let depth = self.tree.get(self.tree_row)?.depth();
        self.tree[..self.tree_row].iter().rposition(|row| row.depth() < depth)
    }

    fn fold(&mut self, fold: Fold, is_open: bool) {
        let row = self.tree_row;
        self.folds.insert(fold, is_open);
        self.build_tree();
        self.look_at(row, Landing::FirstHunk);
    }

    /// Goes to a file, whatever directories are closed around it.
    pub(super) fn reveal(&mut self, file: usize, landing: Landing) {
        while self.row_of(file).is_none() {
            let around = self.tree.iter().find(|row| row.folded().is_some() && row.files().contains(&file));
            let Some(fold) = around.and_then(TreeRow::folded).cloned() else { return };
            self.folds.insert(fold, true);
            self.build_tree();
        }
        if let Some(row) = self.row_of(file) {
            self.look_at(row, landing);
        }
    }

    /// Everything that is shown, in order, also what closed directories hold. What git ignores counts only if it was opened.
    pub(super) fn shown_files(&self) -> Vec<usize> {
        let is_shut = |row: &TreeRow| row.folded() == Some(&Fold::Ignored);
        let tops = self.tree.iter().filter(|row| row.depth() == 0 && !is_shut(row));
        tops.flat_map(|row| row.files().iter().copied()).collect()
    }
}
