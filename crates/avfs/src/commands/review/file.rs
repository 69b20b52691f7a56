//! The file that the diff pane shows.

use std::collections::BTreeSet;
use std::ops::Range;

use agentvfs::patch::{
    ChangeSide, ChangeStatus, FileChange, FileDiff, Hunk, HunkLineKind, PatchBody, PatchOptions,
};
use agentvfs::{EntryKind, InodeKind};

use super::conflict::ConflictView;
use super::decision::{Decision, HunkPart, Together};
use super::rows::{DiffForm, DiffRow, rows};
use super::syntax::Syntax;
use crate::entry::kind_name;
use crate::size::HumanSize;
use crate::versions::count;

/// How many unchanged lines are shown around a change.
const CONTEXT: usize = 3;

/// A changed file with its rows in both forms.
pub struct OpenFile {
    /// Its place in the list of all changes.
    pub index: usize,
    /// Notes about the file as a whole, safe to display.
    pub notes: Vec<String>,
    /// The changes of both sides, if it is in conflict.
    pub conflict: Option<ConflictView>,
    /// The hunks as displayed: split hunks appear piece by piece.
    pub hunks: Vec<Hunk>,
    /// The part of the file that each of them represents.
    pub parts: Vec<HunkPart>,
    /// How many changes each hunk has that can be decided separately; empty if the file is accepted or
    /// rejected as a whole.
    pub shape: Vec<usize>,
    /// The syntax colouring of the texts.
    pub syntax: Option<Syntax>,
    /// The hunks of the file, and which of them are split.
    whole: Vec<Hunk>,
    split: BTreeSet<usize>,
    unified: Vec<DiffRow>,
    side_by_side: Vec<DiffRow>,
}

impl OpenFile {
    pub fn new(index: usize, diff: FileDiff, conflict: Option<ConflictView>) -> OpenFile {
        let (shape, notes) = (shape(&diff), notes(&diff));
        let syntax = Syntax::of(&diff);
        let hunks = match diff.body {
            PatchBody::Text(lines) => lines.hunks,
            PatchBody::Same | PatchBody::Binary { .. } => Vec::new(),
        };
        let mut open = OpenFile::with_hunks(index, notes, hunks, shape);
        (open.conflict, open.syntax) = (conflict, syntax);
        open.lay_out();
        open
    }

    pub fn with_hunks(index: usize, notes: Vec<String>, hunks: Vec<Hunk>, shape: Vec<usize>) -> OpenFile {
        let mut open = OpenFile {
            index,
            notes,
            conflict: None,
            hunks: Vec::new(),
            parts: Vec::new(),
            shape,
            syntax: None,
            whole: hunks,
            split: BTreeSet::new(),
            unified: Vec::new(),
            side_by_side: Vec::new(),
        };
        open.lay_out();
        open
    }

    /// Splits the hunk that is shown at this place into its changes, or puts it together again. Returns where its beginning is
    /// shown then; `None` if it is but one change.
    pub fn toggle_split(&mut self, shown: usize) -> Option<usize> {
        let hunk = self.parts.get(shown)?.hunk;
        if self.shape.get(hunk).is_none_or(|changes| *changes < 2) {
            return None;
        }
        if !self.split.remove(&hunk) {
            self.split.insert(hunk);
        }
        self.lay_out();
        // The selection stays at the hunk, wherever it is after that.
        self.parts.iter().position(|part| part.hunk == hunk)
    }

    /// Splits hunks whose changes have different decisions.
    pub fn split_mixed(&mut self, decision: &Decision) {
        let is_mixed = |hunk: &usize| {
            decision.part(HunkPart {
                hunk: *hunk,
                change: None,
            }) == Together::Mixed
        };
        // Decisions that differ within a hunk are only seen when it is split.
        self.split.extend((0..self.shape.len()).filter(is_mixed));
        self.lay_out();
    }

    fn lay_out(&mut self) {
        (self.hunks, self.parts) = (Vec::new(), Vec::new());
        for (hunk, whole) in self.whole.iter().enumerate() {
            if !self.split.contains(&hunk) {
                self.hunks.push(whole.clone());
                self.parts.push(HunkPart { hunk, change: None });
                continue;
            }
            for (change, piece) in whole.split(CONTEXT).into_iter().enumerate() {
                self.hunks.push(piece);
                self.parts.push(HunkPart {
                    hunk,
                    change: Some(change),
                });
            }
        }
        let places = self.conflict.as_ref().map_or(0, |conflict| conflict.lines.len());
        let rows = |form| rows(self.notes.len(), places, &self.hunks, form);
        (self.unified, self.side_by_side) = (rows(DiffForm::Unified), rows(DiffForm::SideBySide));
    }

    pub fn rows(&self, form: DiffForm) -> &[DiffRow] {
        match form {
            DiffForm::Unified => &self.unified,
            DiffForm::SideBySide => &self.side_by_side,
        }
    }

    /// The conflict of a text that a row is about.
    pub fn place_of(&self, row: &DiffRow) -> Option<usize> {
        match row {
            DiffRow::Conflict(line) => self.conflict.as_ref()?.place_of(*line),
            DiffRow::Note(_) | DiffRow::Header { .. } | DiffRow::Line { .. } => None,
        }
    }

    /// The row where a conflict of a text begins.
    pub fn row_of_place(&self, place: usize, form: DiffForm) -> Option<usize> {
        let line = self.conflict.as_ref()?.line_of(place)?;
        self.rows(form)
            .iter()
            .position(|row| *row == DiffRow::Conflict(line))
    }

    /// The number of conflicts that can be decided separately.
    pub fn place_count(&self) -> usize {
        self.conflict.as_ref().map_or(0, |conflict| conflict.places.len())
    }

    /// The changes that a conflict is about, by the lines of the base.
    pub fn parts_at(&self, base: &Range<usize>) -> Vec<HunkPart> {
        let mut parts = Vec::new();
        for hunk in 0..self.shape.len() {
            let touching = base_ranges(&self.whole[hunk])
                .into_iter()
                .enumerate()
                // Touching is enough: a conflict and a change may be next to each other, as one of them adds
                // lines.
                .filter(|(_, change)| change.start <= base.end && base.start <= change.end);
            parts.extend(touching.map(|(change, _)| HunkPart {
                hunk,
                change: Some(change),
            }));
        }
        parts
    }

    /// The row where a hunk begins.
    pub fn header_of(&self, hunk: usize, form: DiffForm) -> Option<usize> {
        self.rows(form)
            .iter()
            .position(|row| *row == DiffRow::Header { hunk })
    }

    /// The largest number of a line in it.
    pub fn last_line(&self) -> u32 {
        self.whole.last().map_or(0, |hunk| hunk.old.end.max(hunk.new.end))
    }

    /// The number of hunks of the file, whether split or not.
    pub fn hunk_count(&self) -> usize {
        self.whole.len()
    }
}

/// The lines of the base that each change of a hunk is about.
fn base_ranges(hunk: &Hunk) -> Vec<Range<usize>> {
    let line_at = |at: usize| {
        let before = hunk.lines[..at]
            .iter()
            .filter(|line| line.kind != HunkLineKind::Added);
        hunk.old.start as usize + before.count()
    };
    let changes = hunk.changes().into_iter();
    changes
        .map(|change| line_at(change.start)..line_at(change.end))
        .collect()
}

/// How many changes of each hunk can be decided separately: only if one text became another in the same
/// place.
pub fn shape(diff: &FileDiff) -> Vec<usize> {
    let is_file = |side: &Option<ChangeSide>| {
        side.as_ref()
            .is_some_and(|side| matches!(side.entry.kind, EntryKind::File { .. }))
    };
    match &diff.body {
        PatchBody::Text(lines)
            if diff.change.status == ChangeStatus::Modified
                && is_file(&diff.change.old)
                && is_file(&diff.change.new) =>
        {
            lines.hunks.iter().map(|hunk| hunk.changes().len()).collect()
        }
        PatchBody::Text(_) | PatchBody::Same | PatchBody::Binary { .. } => Vec::new(),
    }
}

fn notes(diff: &FileDiff) -> Vec<String> {
    let change = &diff.change;
    let mut notes = vec![headline(change)];
    if let (Some(old), Some(new)) = (&change.old, &change.new) {
        notes.extend(attributes(old, new));
    }
    match &diff.body {
        PatchBody::Same => {}
        PatchBody::Text(lines) if lines.hunks.is_empty() => notes.push("empty".to_owned()),
        PatchBody::Text(lines) => {
            let (added, removed) = (u64::from(lines.insertions), u64::from(lines.deletions));
            notes.push(format!("{} added, {removed} removed", count(added, "line")));
        }
        PatchBody::Binary { old, new } => {
            // The size was the reason before anyone could look whether it is text.
            let why = if old.max(new) > &PatchOptions::default().text_bytes {
                "too large to be shown"
            } else {
                "not text"
            };
            notes.push(format!(
                "{why}: {} before, {} now",
                HumanSize(*old),
                HumanSize(*new)
            ));
        }
    }
    notes
}

fn headline(change: &FileChange) -> String {
    let kind = |side: &Option<ChangeSide>| {
        side.as_ref()
            .map_or("file", |side| kind_name(InodeKind::from(&side.entry.kind)))
    };
    match (change.status, &change.old) {
        (ChangeStatus::Added, _) => format!("new {}", kind(&change.new)),
        (ChangeStatus::Removed, _) => format!("deleted {}", kind(&change.old)),
        (ChangeStatus::Renamed, Some(old)) => format!("renamed from {}", old.path),
        (ChangeStatus::TypeChanged, _) => format!("was a {}, is a {}", kind(&change.old), kind(&change.new)),
        (ChangeStatus::Modified | ChangeStatus::Renamed, _) => format!("changed {}", kind(&change.new)),
        (ChangeStatus::Attributes, _) => format!("same {}, other attributes", kind(&change.new)),
    }
}

fn attributes(old: &ChangeSide, new: &ChangeSide) -> Vec<String> {
    let (old, new) = (&old.entry.meta, &new.entry.meta);
    let mut notes = Vec::new();
    if old.mode != new.mode {
        notes.push(format!("mode {:03o}, now {:03o}", old.mode, new.mode));
    }
    if (old.uid, old.gid) != (new.uid, new.gid) {
        notes.push(format!(
            "owner {}:{}, now {}:{}",
            old.uid, old.gid, new.uid, new.gid
        ));
    }
    if old.xattrs != new.xattrs {
        notes.push("other extended attributes".to_owned());
    }
    if old.labels != new.labels {
        notes.push("other labels".to_owned());
    }
    notes
}
