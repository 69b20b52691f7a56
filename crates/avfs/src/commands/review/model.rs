//! The state of a review. Keys change it and drawing shows it; neither knows the other.

mod choosing;
mod deciding;
mod moving;

use std::collections::HashMap;

use agentvfs::KeptReview;
use agentvfs::patch::FileChange;
use ratatui_core::layout::Size;

use super::conflict::Choice;
use super::decision::Decision;
use super::file::OpenFile;
use super::geometry::{Geometry, scrolled};
use super::kept::keep;
use super::keys::{Mode, ReviewAction, ReviewQuestion};
use super::rows::{DiffForm, DiffRow};
use super::tree::{Fold, Group, TreeRow, tree_rows};

/// Columns of a row of the tree before its name: the marks and the letter.
const TREE_GUTTER: usize = 6;

pub struct Model {
    /// The name of the task, and the directory that it is about, safe to show.
    pub task: String,
    pub root: String,
    pub files: Vec<FileChange>,
    /// One decision for each file.
    pub decisions: Vec<Decision>,
    /// The group that each file is shown in.
    pub groups: Vec<Group>,
    /// The resolutions of conflicts.
    pub choices: HashMap<usize, Choice>,
    /// Conflicts are still looked for.
    pub is_looking: bool,
    /// The selected file is being compared.
    pub is_comparing: bool,
    pub tree: Vec<TreeRow>,
    /// The selected row of the tree, and the first visible one.
    pub tree_row: usize,
    pub tree_top: usize,
    /// The file of that row, once it was loaded.
    pub open: Option<OpenFile>,
    /// The selected row of the diff, the first visible one, and the first visible column.
    pub row: usize,
    pub top: usize,
    pub column: usize,
    pub pane: Pane,
    pub mode: Mode,
    pub filter: String,
    /// A message to display until the next key.
    pub message: Option<String>,
    /// The form that the user wants, whatever fits.
    form: Option<DiffForm>,
    starting: StartingHunk,
    size: Size,
    /// The rows that the user has opened and closed.
    folds: HashMap<Fold, bool>,
    /// The preferred width of the tree.
    tree_width: usize,
    /// Something was decided that is not kept yet.
    is_unkept: bool,
    /// No key was pressed yet.
    is_untouched: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pane {
    Tree,
    Diff,
}

/// Where to begin in a file that is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StartingHunk {
    FirstHunk,
    LastHunk,
}

/// What a key requests from the surrounding program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewEffect {
    Leave,
    Apply,
    Suspend,
    /// Have the user edit the conflict of this file.
    Edit(usize),
}

impl Model {
    pub fn new(task: String, root: String, files: Vec<FileChange>, decisions: Vec<Decision>) -> Model {
        let mut model = Model {
            task,
            root,
            groups: vec![Group::Usual; files.len()],
            choices: HashMap::new(),
            is_looking: false,
            is_comparing: false,
            files,
            decisions,
            tree: Vec::new(),
            tree_row: 0,
            tree_top: 0,
            open: None,
            row: 0,
            top: 0,
            column: 0,
            pane: Pane::Tree,
            mode: Mode::Browse,
            filter: String::new(),
            message: None,
            form: None,
            starting: StartingHunk::FirstHunk,
            size: Size::new(80, 24),
            folds: HashMap::new(),
            tree_width: 0,
            is_unkept: false,
            is_untouched: true,
        };
        model.build_tree();
        model.tree_row = model.first_file();
        model
    }

    /// Shows files in groups. The selection is kept, unless the user has done nothing yet: then conflicts
    /// come first.
    pub fn group(&mut self, groups: Vec<Group>) {
        let file = self
            .tree
            .get(self.tree_row)
            .and_then(TreeRow::file)
            .filter(|_| !self.is_untouched);
        self.groups = groups;
        self.build_tree();
        let row = file
            .and_then(|file| self.row_of(file))
            .unwrap_or_else(|| self.first_file());
        // The group decides what is shown of the file, so it is loaded again.
        self.open = None;
        self.look_at(row, StartingHunk::FirstHunk);
        self.keep_in_sight();
    }

    fn first_file(&self) -> usize {
        self.tree.iter().position(|row| row.file().is_some()).unwrap_or(0)
    }

    fn row_of(&self, file: usize) -> Option<usize> {
        self.tree.iter().position(|row| row.file() == Some(file))
    }

    /// The decisions to store.
    pub fn kept(&self) -> KeptReview {
        keep(&self.files, &self.decisions, &self.choices)
    }

    /// Whether there are decisions that have not been stored; from now on they count as stored.
    pub fn take_unkept(&mut self) -> bool {
        std::mem::take(&mut self.is_unkept)
    }

    pub fn update(&mut self, action: ReviewAction) -> Option<ReviewEffect> {
        self.message = None;
        self.is_untouched = false;
        let effect = self.perform(action);
        self.keep_in_sight();
        effect
    }

    fn perform(&mut self, action: ReviewAction) -> Option<ReviewEffect> {
        match action {
            ReviewAction::Move(step) => self.step(step),
            ReviewAction::SwitchPane => {
                self.pane = if self.pane == Pane::Tree {
                    Pane::Diff
                } else {
                    Pane::Tree
                };
            }
            ReviewAction::NextHunk => self.enter_next_hunk(),
            ReviewAction::PreviousHunk => {
                self.pane = Pane::Diff;
                self.previous_hunk();
            }
            ReviewAction::Accept | ReviewAction::Reject | ReviewAction::Toggle | ReviewAction::Clear => {
                self.decide(action)
            }
            ReviewAction::AcceptAll | ReviewAction::RejectAll | ReviewAction::ClearAll => {
                self.decide_all(action)
            }
            ReviewAction::KeepMine | ReviewAction::TakeTask | ReviewAction::TakeBoth => self.choose(action),
            ReviewAction::Edit => return self.edit(),
            ReviewAction::SplitHunk => self.split_hunk(),
            ReviewAction::ToggleFold => self.toggle_fold(),
            ReviewAction::SwitchForm => self.switch_form(),
            ReviewAction::StartFilter => self.mode = Mode::Filter,
            ReviewAction::Type(c) => self.refilter(|filter| filter.push(c)),
            ReviewAction::Erase => self.refilter(|filter| {
                // By one character, which may have several bytes.
                filter.truncate(filter.char_indices().next_back().map_or(0, |(at, _)| at))
            }),
            ReviewAction::KeepFilter => self.mode = Mode::Browse,
            ReviewAction::DropFilter => {
                self.mode = Mode::Browse;
                self.refilter(String::clear);
            }
            ReviewAction::Help => {
                self.mode = if self.mode == Mode::Help {
                    Mode::Browse
                } else {
                    Mode::Help
                }
            }
            ReviewAction::Apply => {
                if self.accepts_anything() {
                    self.mode = Mode::Ask(ReviewQuestion::Apply)
                } else {
                    self.message = Some("nothing is accepted yet: a accepts one, A accepts all".to_owned());
                }
            }
            ReviewAction::Quit => return Some(ReviewEffect::Leave),
            ReviewAction::Suspend => return Some(ReviewEffect::Suspend),
            ReviewAction::Yes => return self.answer_yes(),
            ReviewAction::No => self.mode = Mode::Browse,
        }
        None
    }

    fn answer_yes(&mut self) -> Option<ReviewEffect> {
        // The question is over either way, also if its effect fails.
        match std::mem::replace(&mut self.mode, Mode::Browse) {
            Mode::Ask(ReviewQuestion::Apply) => Some(ReviewEffect::Apply),
            Mode::Browse | Mode::Filter | Mode::Help => None,
        }
    }

    pub fn resize(&mut self, size: Size) {
        if size != self.size {
            let hunk = self.hunk();
            self.size = size;
            // Side by side or unified depends on the width, so the same hunk may be in another row.
            self.stay_at(hunk);
        }
    }

    pub fn geometry(&self) -> Geometry {
        Geometry::new(self.size, self.tree_width + TREE_GUTTER)
    }

    pub fn form(&self) -> DiffForm {
        self.form.unwrap_or_else(|| self.geometry().form())
    }

    /// The rows of the selected file.
    pub fn rows(&self) -> &[DiffRow] {
        self.open.as_ref().map_or(&[], |open| open.rows(self.form()))
    }

    /// The selected hunk.
    pub fn hunk(&self) -> Option<usize> {
        self.rows().get(self.row)?.hunk()
    }

    /// The selected conflict of a text.
    pub fn place(&self) -> Option<usize> {
        self.open.as_ref()?.place_of(self.rows().get(self.row)?)
    }

    /// The selected file, if it has not been loaded yet.
    pub fn wanted(&self) -> Option<usize> {
        let file = self.tree.get(self.tree_row)?.file()?;
        (self.open.as_ref().map(|open| open.index) != Some(file)).then_some(file)
    }

    /// Whether the effect of an action depends on the selected file. Only moving through the tree does not.
    pub fn needs_file(&self, action: ReviewAction) -> bool {
        self.pane == Pane::Diff || !matches!(action, ReviewAction::Move(_))
    }

    /// Shows the file that was wanted.
    pub fn show(&mut self, mut open: OpenFile) {
        open.split_mixed(&self.decisions[open.index]);
        let hunk = match self.starting {
            StartingHunk::FirstHunk => 0,
            StartingHunk::LastHunk => open.hunks.len().saturating_sub(1),
        };
        // The selection starts at a conflict, before the hunks.
        self.row = match &open.conflict {
            Some(_) if self.starting == StartingHunk::FirstHunk => open.notes.len(),
            _ => open.header_of(hunk, self.form()).unwrap_or(0),
        };
        (self.top, self.column) = (0, 0);
        self.starting = StartingHunk::FirstHunk;
        self.open = Some(open);
        self.keep_in_sight();
    }

    fn switch_form(&mut self) {
        let hunk = self.hunk();
        self.form = Some(match self.form() {
            DiffForm::Unified => DiffForm::SideBySide,
            DiffForm::SideBySide => DiffForm::Unified,
        });
        self.stay_at(hunk);
    }

    /// The rows have other numbers now.
    fn stay_at(&mut self, hunk: Option<usize>) {
        let form = self.form();
        if let (Some(hunk), Some(open)) = (hunk, &self.open) {
            self.row = open.header_of(hunk, form).unwrap_or(0);
        }
        self.keep_in_sight();
    }

    fn refilter(&mut self, edit: impl FnOnce(&mut String)) {
        let file = self.tree.get(self.tree_row).and_then(TreeRow::file);
        edit(&mut self.filter);
        self.build_tree();
        let same = file.and_then(|file| self.row_of(file));
        self.look_at(same.unwrap_or_else(|| self.first_file()), StartingHunk::FirstHunk);
    }

    fn build_tree(&mut self) {
        // Case never matters in the filter: file names are typed from memory.
        let wanted = self.filter.to_lowercase();
        let is_wanted = |file: &FileChange| file.path().to_string().to_lowercase().contains(&wanted);
        let shown = self.files.iter().enumerate().filter(|(_, file)| is_wanted(file));
        let rows = shown.map(|(index, file)| (index, file.path(), self.groups[index]));
        self.tree = tree_rows(rows, &self.folds);
        self.tree_width = self.tree.iter().map(TreeRow::width).max().unwrap_or(0);
    }

    fn keep_in_sight(&mut self) {
        let geometry = self.geometry();
        let count = self.rows().len();
        self.row = self.row.min(count.saturating_sub(1));
        self.top = scrolled(self.top, self.row, count, geometry.diff.height.into());
        self.tree_top = scrolled(
            self.tree_top,
            self.tree_row,
            self.tree.len(),
            geometry.tree.height.into(),
        );
    }
}

#[cfg(test)]
mod tests;
