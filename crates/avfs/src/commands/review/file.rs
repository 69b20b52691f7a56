//! The file that the diff pane shows.

use std::collections::BTreeSet;

use agentvfs::patch::{Body, FileChange, FileDiff, Hunk, PatchOptions, Side, Status};
use agentvfs::{EntryKind, Kind};

use super::conflict::ConflictView;
use super::decision::{Decision, Part, Together};
use super::rows::{Form, Row, rows};
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
    /// What is to be said of it as a whole, safe to show.
    pub notes: Vec<String>,
    /// What both sides did, if it is in conflict.
    pub conflict: Option<ConflictView>,
    /// The hunks as they are shown: those that are split are there piece by piece.
    pub hunks: Vec<Hunk>,
    /// What each of them is of the file.
    pub parts: Vec<Part>,
    /// How many changes each hunk has that can be decided one by one; empty if the file is taken or left as a whole.
    pub shape: Vec<usize>,
    /// How the texts are coloured.
    pub syntax: Option<Syntax>,
    /// The hunks of the file, and which of them are split.
    whole: Vec<Hunk>,
    split: BTreeSet<usize>,
    unified: Vec<Row>,
    side_by_side: Vec<Row>,
}

impl OpenFile {
    pub fn new(index: usize, diff: FileDiff, conflict: Option<ConflictView>) -> OpenFile {
        let (shape, notes) = (shape(&diff), notes(&diff));
        let syntax = Syntax::of(&diff);
        let hunks = match diff.body {
            Body::Text(lines) => lines.hunks,
            Body::Same | Body::Binary { .. } => Vec::new(),
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
        self.parts.iter().position(|part| part.hunk == hunk)
    }

    /// Splits hunks of which not all was decided the same.
    pub fn split_mixed(&mut self, decision: &Decision) {
        let is_mixed = |hunk: &usize| decision.part(Part { hunk: *hunk, change: None }) == Together::Mixed;
        self.split.extend((0..self.shape.len()).filter(is_mixed));
        self.lay_out();
    }

    fn lay_out(&mut self) {
        (self.hunks, self.parts) = (Vec::new(), Vec::new());
        for (hunk, whole) in self.whole.iter().enumerate() {
            if !self.split.contains(&hunk) {
                self.hunks.push(whole.clone());
                self.parts.push(Part { hunk, change: None });
                continue;
            }
            for (change, piece) in whole.split(CONTEXT).into_iter().enumerate() {
                self.hunks.push(piece);
                self.parts.push(Part { hunk, change: Some(change) });
            }
        }
        let places = self.conflict.as_ref().map_or(0, |conflict| conflict.lines.len());
        let rows = |form| rows(self.notes.len(), places, &self.hunks, form);
        (self.unified, self.side_by_side) = (rows(Form::Unified), rows(Form::SideBySide));
    }

    pub fn rows(&self, form: Form) -> &[Row] {
        match form {
            Form::Unified => &self.unified,
            Form::SideBySide => &self.side_by_side,
        }
    }

    /// The row where a hunk begins.
    pub fn header_of(&self, hunk: usize, form: Form) -> Option<usize> {
        self.rows(form).iter().position(|row| *row == Row::Header { hunk })
    }

    /// The largest number of a line in it.
    pub fn last_line(&self) -> u32 {
        self.whole.last().map_or(0, |hunk| hunk.old.end.max(hunk.new.end))
    }

    /// How many hunks the file has, whatever is split.
    pub fn hunk_count(&self) -> usize {
        self.whole.len()
    }
}

/// How many changes the hunks of a file have that can be decided one by one: only where one text became another in the same
/// place.
pub fn shape(diff: &FileDiff) -> Vec<usize> {
    let is_file = |side: &Option<Side>| {
        side.as_ref().is_some_and(|side| matches!(side.entry.kind, EntryKind::File { .. }))
    };
    match &diff.body {
        Body::Text(lines)
            if diff.change.status == Status::Modified
                && is_file(&diff.change.old)
                && is_file(&diff.change.new) =>
        {
            lines.hunks.iter().map(|hunk| hunk.changes().len()).collect()
        }
        Body::Text(_) | Body::Same | Body::Binary { .. } => Vec::new(),
    }
}

fn notes(diff: &FileDiff) -> Vec<String> {
    let change = &diff.change;
    let mut notes = vec![headline(change)];
    if let (Some(old), Some(new)) = (&change.old, &change.new) {
        notes.extend(attributes(old, new));
    }
    match &diff.body {
        Body::Same => {}
        Body::Text(lines) if lines.hunks.is_empty() => notes.push("empty".to_owned()),
        Body::Text(lines) => {
            let (came, went) = (u64::from(lines.insertions), u64::from(lines.deletions));
            notes.push(format!("{} came, {} went", count(came, "line"), count(went, "line")));
        }
        Body::Binary { old, new } => {
            let why = if old.max(new) > &PatchOptions::default().text_bytes {
                "too large to be shown"
            } else {
                "not text"
            };
            notes.push(format!("{why}: {} before, {} now", HumanSize(*old), HumanSize(*new)));
        }
    }
    notes
}

fn headline(change: &FileChange) -> String {
    let kind =
        |side: &Option<Side>| side.as_ref().map_or("file", |side| kind_name(Kind::from(&side.entry.kind)));
    match (change.status, &change.old) {
        (Status::Added, _) => format!("new {}", kind(&change.new)),
        (Status::Removed, _) => format!("deleted {}", kind(&change.old)),
        (Status::Renamed, Some(old)) => format!("renamed from {}", old.path),
        (Status::TypeChanged, _) => format!("was a {}, is a {}", kind(&change.old), kind(&change.new)),
        (Status::Modified | Status::Renamed, _) => format!("changed {}", kind(&change.new)),
        (Status::Attributes, _) => format!("same {}, other attributes", kind(&change.new)),
    }
}

fn attributes(old: &Side, new: &Side) -> Vec<String> {
    let (old, new) = (&old.entry.meta, &new.entry.meta);
    let mut notes = Vec::new();
    if old.mode != new.mode {
        notes.push(format!("mode {:03o}, now {:03o}", old.mode, new.mode));
    }
    if (old.uid, old.gid) != (new.uid, new.gid) {
        notes.push(format!("owner {}:{}, now {}:{}", old.uid, old.gid, new.uid, new.gid));
    }
    if old.xattrs != new.xattrs {
        notes.push("other extended attributes".to_owned());
    }
    if old.labels != new.labels {
        notes.push("other labels".to_owned());
    }
    notes
}
