//! The file that the diff pane shows.

use agentvfs::patch::{Body, FileChange, FileDiff, Hunk, Side, Status};
use agentvfs::{EntryKind, Kind};

use super::rows::{Form, Row, rows};
use crate::entry::kind_name;
use crate::size::HumanSize;
use crate::versions::count;

/// A changed file with its rows in both forms.
pub struct OpenFile {
    /// Its place in the list of all changes.
    pub index: usize,
    /// What is to be said of it as a whole, safe to show.
    pub notes: Vec<String>,
    pub hunks: Vec<Hunk>,
    /// How many hunks can be decided one by one; 0 if the file is taken or left as a whole.
    pub choices: usize,
    unified: Vec<Row>,
    side_by_side: Vec<Row>,
}

impl OpenFile {
    pub fn new(index: usize, diff: FileDiff) -> OpenFile {
        let choices = hunk_choices(&diff);
        let notes = notes(&diff);
        let hunks = match diff.body {
            Body::Text(lines) => lines.hunks,
            Body::Same | Body::Binary { .. } => Vec::new(),
        };
        OpenFile::with_hunks(index, notes, hunks, choices)
    }

    pub fn with_hunks(index: usize, notes: Vec<String>, hunks: Vec<Hunk>, choices: usize) -> OpenFile {
        let rows = |form| rows(notes.len(), &hunks, form);
        let (unified, side_by_side) = (rows(Form::Unified), rows(Form::SideBySide));
        OpenFile { index, notes, hunks, choices, unified, side_by_side }
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
        self.hunks.last().map_or(0, |hunk| hunk.old.end.max(hunk.new.end))
    }
}

/// How many hunks of a file can be decided one by one: only where one text became another in the same place.
pub fn hunk_choices(diff: &FileDiff) -> usize {
    let is_file = |side: &Option<Side>| {
        side.as_ref().is_some_and(|side| matches!(side.entry.kind, EntryKind::File { .. }))
    };
    match &diff.body {
        Body::Text(lines)
            if diff.change.status == Status::Modified
                && is_file(&diff.change.old)
                && is_file(&diff.change.new) =>
        {
            lines.hunks.len()
        }
        Body::Text(_) | Body::Same | Body::Binary { .. } => 0,
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
            notes.push(format!("not shown as text: {} before, {} now", HumanSize(*old), HumanSize(*new)));
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
