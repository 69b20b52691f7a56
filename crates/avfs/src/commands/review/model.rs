//! The state of a review. Keys change it and drawing shows it; neither knows the other.

mod choosing;
mod deciding;
mod folding;
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
use super::keys::{Action, Mode, Question};
use super::rows::{Form, Row};
use super::tree::{Fold, Group, TreeRow, tree_rows};

/// Columns of a row of the tree before its name: the marks and the letter.
const TREE_GUTTER: usize = 6;

pub struct Model {
    /// The name of the task, and the directory that it is about, safe to show.
    pub task: String,
    pub root: String,
    pub files: Vec<FileChange>,
    /// One for each file.
    pub decisions: Vec<Decision>,
    /// The group that each file is shown in.
    pub groups: Vec<Group>,
    /// What becomes of conflicts.
    pub choices: HashMap<usize, Choice>,
    /// Conflicts are still looked for.
    pub is_looking: bool,
    /// The file that is looked at is being compared.
    pub is_comparing: bool,
    pub tree: Vec<TreeRow>,
    /// The row of the tree that is looked at, and the first one that is shown.
    pub tree_row: usize,
    pub tree_top: usize,
    /// The file of that row, once it was loaded.
    pub open: Option<OpenFile>,
    /// The row of the diff that is looked at, the first one that is shown, and the first column.
    pub row: usize,
    pub top: usize,
    pub column: usize,
    pub pane: Pane,
    pub mode: Mode,
    pub filter: String,
    /// What there is to say until the next key.
    pub message: Option<String>,
    /// The form that the user wants, whatever fits.
    form: Option<Form>,
    landing: Landing,
    size: Size,
    /// What the user has opened and closed.
    folds: HashMap<Fold, bool>,
    /// How wide the tree would like to be.
    tree_width: usize,
    /// Something was decided that is not kept yet.
    is_unkept: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pane {
    Tree,
    Diff,
}

/// Where to begin in a file that is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Landing {
    FirstHunk,
    LastHunk,
}

/// What a key asks of the program around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
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
            landing: Landing::FirstHunk,
            size: Size::new(80, 24),
            folds: HashMap::new(),
            tree_width: 0,
            is_unkept: false,
        };
        model.build_tree();
        model.tree_row = model.first_file();
        model
    }

    /// Shows files in groups. What is looked at stays so, unless nothing was done yet: conflicts come first.
    pub fn group(&mut self, groups: Vec<Group>, is_first: bool) {
        let file = self.tree.get(self.tree_row).and_then(TreeRow::file).filter(|_| !is_first);
        self.groups = groups;
        self.build_tree();
        let row = file.and_then(|file| self.row_of(file)).unwrap_or_else(|| self.first_file());
        self.open = None;
        self.look_at(row, Landing::FirstHunk);
        self.keep_in_sight();
    }

    fn first_file(&self) -> usize {
        self.tree.iter().position(|row| row.file().is_some()).unwrap_or(0)
    }

    fn row_of(&self, file: usize) -> Option<usize> {
        self.tree.iter().position(|row| row.file() == Some(file))
    }

    /// What is to be kept of the decisions.
    pub fn kept(&self) -> KeptReview {
        keep(&self.files, &self.decisions, &self.choices)
    }

    /// Whether there is something to keep that was not kept; from now on it counts as kept.
    pub fn take_unkept(&mut self) -> bool {
        std::mem::take(&mut self.is_unkept)
    }

    pub fn update(&mut self, action: Action) -> Option<Effect> {
        self.message = None;
        let effect = self.perform(action);
        self.keep_in_sight();
        effect
    }

    fn perform(&mut self, action: Action) -> Option<Effect> {
        match action {
            Action::Move(step) => self.step(step),
            Action::SwitchPane => {
                self.pane = if self.pane == Pane::Tree { Pane::Diff } else { Pane::Tree };
            }
            Action::NextHunk => self.enter_next_hunk(),
            Action::PreviousHunk => {
                self.pane = Pane::Diff;
                self.previous_hunk();
            }
            Action::Accept | Action::Reject | Action::Toggle | Action::Clear => self.decide(action),
            Action::AcceptAll | Action::RejectAll | Action::ClearAll => self.decide_all(action),
            Action::KeepMine | Action::TakeTask | Action::TakeBoth => self.choose(action),
            Action::Edit => return self.edit(),
            Action::SplitHunk => self.split_hunk(),
            Action::ToggleFold => self.toggle_fold(),
            Action::SwitchForm => self.switch_form(),
            Action::StartFilter => self.mode = Mode::Filter,
            Action::Type(c) => self.refilter(|filter| filter.push(c)),
            Action::Erase => self.refilter(|filter| {
                filter.truncate(filter.char_indices().next_back().map_or(0, |(at, _)| at))
            }),
            Action::KeepFilter => self.mode = Mode::Browse,
            Action::DropFilter => {
                self.mode = Mode::Browse;
                self.refilter(String::clear);
            }
            Action::Help => self.mode = if self.mode == Mode::Help { Mode::Browse } else { Mode::Help },
            Action::Apply => match self.accepts_anything() {
                true => self.mode = Mode::Ask(Question::Apply),
                false => {
                    self.message = Some("nothing is accepted yet: a accepts one, A accepts all".to_owned());
                }
            },
            Action::Quit => return Some(Effect::Leave),
            Action::Suspend => return Some(Effect::Suspend),
            Action::Yes => return self.answer_yes(),
            Action::No => self.mode = Mode::Browse,
        }
        None
    }

    fn answer_yes(&mut self) -> Option<Effect> {
        match std::mem::replace(&mut self.mode, Mode::Browse) {
            Mode::Ask(Question::Apply) => Some(Effect::Apply),
            Mode::Browse | Mode::Filter | Mode::Help => None,
        }
    }

    pub fn resize(&mut self, size: Size) {
        if size != self.size {
            let hunk = self.hunk();
            self.size = size;
            self.stay_at(hunk);
        }
    }

    pub fn geometry(&self) -> Geometry {
        Geometry::new(self.size, self.tree_width + TREE_GUTTER)
    }

    pub fn form(&self) -> Form {
        self.form.unwrap_or_else(|| self.geometry().form())
    }

    /// The rows of the file that is looked at.
    pub fn rows(&self) -> &[Row] {
        self.open.as_ref().map_or(&[], |open| open.rows(self.form()))
    }

    /// The hunk that is looked at.
    pub fn hunk(&self) -> Option<usize> {
        self.rows().get(self.row)?.hunk()
    }

    /// The file that is looked at, if it has still to be loaded.
    pub fn wanted(&self) -> Option<usize> {
        let file = self.tree.get(self.tree_row)?.file()?;
        (self.open.as_ref().map(|open| open.index) != Some(file)).then_some(file)
    }

    /// Whether what an action does depends on the file that is looked at. Only going through the tree does not.
    pub fn needs_file(&self, action: Action) -> bool {
        self.pane == Pane::Diff || !matches!(action, Action::Move(_))
    }

    /// Shows the file that was wanted.
    pub fn show(&mut self, mut open: OpenFile) {
        open.split_mixed(&self.decisions[open.index]);
        let hunk = match self.landing {
            Landing::FirstHunk => 0,
            Landing::LastHunk => open.hunks.len().saturating_sub(1),
        };
        // A conflict is looked at before the hunks.
        self.row = match &open.conflict {
            Some(_) if self.landing == Landing::FirstHunk => open.notes.len(),
            _ => open.header_of(hunk, self.form()).unwrap_or(0),
        };
        (self.top, self.column) = (0, 0);
        self.landing = Landing::FirstHunk;
        self.open = Some(open);
        self.keep_in_sight();
    }

    fn switch_form(&mut self) {
        let hunk = self.hunk();
        self.form = Some(match self.form() {
            Form::Unified => Form::SideBySide,
            Form::SideBySide => Form::Unified,
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
        self.look_at(same.unwrap_or_else(|| self.first_file()), Landing::FirstHunk);
    }

    fn build_tree(&mut self) {
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
        self.tree_top = scrolled(self.tree_top, self.tree_row, self.tree.len(), geometry.tree.height.into());
    }
}

#[cfg(test)]
mod tests;
