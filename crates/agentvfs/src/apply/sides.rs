//! The three sides of a conflict, to be looked at and put together by a person.

use std::collections::HashSet;

use avfs_core::merge::{MarkerStyle, is_text, line_conflicts};
use avfs_core::{Entry, EntryKind, SnapshotId, TreePath};
use avfs_tree::ReadError;
use bytes::Bytes;

use super::error::ApplyError;
use super::host::Look;
use super::plan::Plan;
use super::print::Print;
use super::three_way::{ThreeWay, promised_version};

/// What one side has at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SideText {
    Nothing,
    Text(Bytes),
    /// Something that is not shown as text: what it is, and how large a file is.
    Opaque {
        kind: &'static str,
        size: Option<u64>,
    },
    /// The task never read what was there before it was changed here.
    Unknown,
}

/// A conflict with everything that a person needs to decide on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictSides {
    pub base: SideText,
    pub here: SideText,
    pub task: SideText,
    /// Both sides put together, with the base, between markers. `None` if they are not texts.
    pub marked: Option<Vec<u8>>,
    /// Stands for what is here now: a decision holds for nothing else.
    pub here_digest: String,
}

/// Lines that both sides changed, with unchanged ones around them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictPlace {
    /// The number of the first line here, from 1 on.
    pub line: usize,
    pub before: Vec<Bytes>,
    pub here: Vec<Bytes>,
    pub base: Vec<Bytes>,
    pub task: Vec<Bytes>,
    pub after: Vec<Bytes>,
}

/// What a person made of a conflict, looking at what was here then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditedText {
    pub bytes: Vec<u8>,
    pub here_digest: String,
}

impl Plan {
    /// What the sides have at a path that is in conflict.
    pub fn sides(&self, path: &TreePath) -> Result<ConflictSides, ApplyError> {
        let application = &self.application;
        let moved = HashSet::new();
        let three_way = ThreeWay {
            objects: application.store.objects(),
            selection: &application.selection,
            task: application.options.own_name(),
            moved: &moved,
            edited: None,
        };
        let before = self.entry(application.base, path)?;
        let after = self.entry(application.theirs, path)?;
        let side = |entry: &Option<Entry>| match entry {
            Some(entry) => text_of(&three_way, path, entry),
            None => Ok(SideText::Nothing),
        };
        let base = side(&before)?;
        let mut task = side(&after)?;
        if let (SideText::Text(old), SideText::Text(new)) = (&base, &task)
            && let Some(chosen) = application.selection.chosen(path, old, new)?
        {
            task = SideText::Text(chosen.into());
        }
        let (here, here_digest) = here_of(self.host.look(path)?);
        let marked = match (&base, &here, &task) {
            (SideText::Text(base), SideText::Text(here), SideText::Text(task)) => {
                Some((base.clone(), here, task))
            }
            (SideText::Nothing, SideText::Text(here), SideText::Text(task)) => {
                Some((Bytes::new(), here, task))
            }
            _ => None,
        };
        let marked =
            marked.map(|(base, here, task)| three_way.put_together(&base, here, task, MarkerStyle::Diff3).0);
        Ok(ConflictSides { base, here, task, marked, here_digest })
    }

    fn entry(&self, snapshot: SnapshotId, path: &TreePath) -> Result<Option<Entry>, ApplyError> {
        match self.application.reader(snapshot)?.find(path) {
            Ok(found) => Ok(Some(found.entry)),
            Err(ReadError::NotFound { .. } | ReadError::NotADirectory { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

fn text_of(three_way: &ThreeWay<'_>, path: &TreePath, entry: &Entry) -> Result<SideText, ApplyError> {
    if promised_version(three_way.objects, entry)?.is_some_and(|version| version.is_unread) {
        return Ok(SideText::Unknown);
    }
    if let EntryKind::Symlink { target } = &entry.kind {
        return Ok(SideText::Text(Bytes::copy_from_slice(target)));
    }
    Ok(match three_way.text(path, entry)? {
        Some(text) => SideText::Text(text),
        None => {
            let is_file = matches!(entry.kind, EntryKind::File { .. });
            let kind = if is_file { "a file" } else { kind_of(entry) };
            SideText::Opaque { kind, size: is_file.then(|| entry.size()) }
        }
    })
}

fn kind_of(entry: &Entry) -> &'static str {
    if entry.is_directory() { Print::Directory.kind() } else { Print::Other.kind() }
}

fn here_of(look: Look) -> (SideText, String) {
    let Look::There(seen) = look else { return (SideText::Nothing, "nothing".to_owned()) };
    let digest = seen.print.digest_text();
    let side = match (&seen.print, &seen.bytes) {
        (Print::File { .. }, Some(bytes)) if is_text(bytes) => SideText::Text(bytes.clone()),
        (Print::File { size, .. }, _) => SideText::Opaque { kind: "a file", size: Some(*size) },
        (Print::Symlink { target }, _) => SideText::Text(Bytes::copy_from_slice(target.as_bytes())),
        (print, _) => SideText::Opaque { kind: print.kind(), size: None },
    };
    (side, digest)
}

impl ConflictSides {
    /// The lines that both sides changed, with so many unchanged ones around them. Empty where the sides are not texts.
    pub fn places(&self, context: usize) -> Vec<ConflictPlace> {
        let base = match &self.base {
            SideText::Text(base) => base.clone(),
            SideText::Nothing => Bytes::new(),
            SideText::Opaque { .. } | SideText::Unknown => return Vec::new(),
        };
        let (SideText::Text(here), SideText::Text(task)) = (&self.here, &self.task) else {
            return Vec::new();
        };
        let [base_lines, here_lines, task_lines] = [&base, here, task].map(lines);
        let conflicts = line_conflicts(&base, here, task);
        let place = |conflict: &avfs_core::merge::LineConflict| {
            let (start, end) = (conflict.ours.start, conflict.ours.end);
            ConflictPlace {
                line: start + 1,
                before: here_lines[start.saturating_sub(context)..start].to_vec(),
                here: here_lines[start..end].to_vec(),
                base: base_lines[conflict.base.clone()].to_vec(),
                task: task_lines[conflict.theirs.clone()].to_vec(),
                after: here_lines[end..(end + context).min(here_lines.len())].to_vec(),
            }
        };
        conflicts.iter().map(place).collect()
    }
}

fn lines(text: &Bytes) -> Vec<Bytes> {
    text.split_inclusive(|byte| *byte == b'\n').map(|line| text.slice_ref(line)).collect()
}
