//! The three sides of a conflict, for a person who resolves it.

use std::collections::HashSet;
use std::ops::Range;

use avfs_core::merge::{MarkerStyle, SideNames, is_text, line_conflicts, merge_lines};
use avfs_core::{Entry, EntryKind, SnapshotId, TreePath};
use avfs_tree::ReadError;
use bytes::Bytes;

use super::host::Look;
use super::on_conflict::OnConflict;
use super::plan::Plan;
use super::print::Print;
use super::three_way::{ThreeWay, promised_version};
use crate::error::ApplyError;

/// The version of one side at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SideText {
    /// There is no entry.
    Nothing,
    /// The text.
    Text(Bytes),
    /// A version that is not shown as text: its kind, and the size of a file.
    Opaque {
        /// The kind of the entry, in a word.
        kind: &'static str,
        /// The size of a file.
        size: Option<u64>,
    },
    /// The task never read the original before it was changed here.
    Unknown,
}

/// A conflict with everything that a person needs to decide on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictSides {
    /// The version that both sides had.
    pub base: SideText,
    /// The version in the directory.
    pub here: SideText,
    /// The version of the task.
    pub task: SideText,
    /// Both sides put together, with the base, between markers. `None` if they are not texts.
    pub marked: Option<Vec<u8>>,
    /// Identifies the current version here: a decision is valid only for that one.
    pub here_digest: String,
}

/// Lines that both sides changed, with unchanged ones around them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictPlace {
    /// The number of the first line here, from 1 on.
    pub line: usize,
    /// Unchanged lines before it.
    pub before: Vec<Bytes>,
    /// The lines in the directory.
    pub here: Vec<Bytes>,
    /// The lines that both sides had.
    pub base: Vec<Bytes>,
    /// The lines of the task.
    pub task: Vec<Bytes>,
    /// Unchanged lines after it.
    pub after: Vec<Bytes>,
    /// The line numbers of the base, from 0: they identify the conflict.
    pub base_range: Range<usize>,
}

/// The user's resolution of a conflict, based on the version that was here then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditedText {
    /// The text.
    pub bytes: Vec<u8>,
    /// The version in the directory that it was made for.
    pub here_digest: String,
}

/// The user's decisions on single conflicts of a text, based on the version that was here then. A conflict
/// that is not among them is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenPlaces {
    /// By [`ConflictPlace::base_range`].
    pub places: Vec<(Range<usize>, OnConflict)>,
    /// The version in the directory that they were made for.
    pub here_digest: String,
}

impl ChosenPlaces {
    /// The decision on a conflict. If only some hunks of the task are wanted, it may be a part of the
    /// conflict that the user saw.
    pub(super) fn choice(&self, base: &Range<usize>) -> Option<OnConflict> {
        let mut about = self
            .places
            .iter()
            .filter(|(place, _)| place.start <= base.end && base.start <= place.end)
            .map(|(_, choice)| *choice);
        let first = about.next()?;
        about.all(|other| other == first).then_some(first)
    }

    /// The common decision on all of them, if there is one.
    pub(super) fn of_all(&self) -> Option<OnConflict> {
        let (_, first) = self.places.first()?;
        let mut others = self.places.iter().map(|(_, choice)| choice);
        others.all(|other| other == first).then_some(*first)
    }
}

impl Plan {
    /// The versions of the sides at a path that is in conflict.
    pub fn sides(&self, path: &TreePath) -> Result<ConflictSides, ApplyError> {
        let application = &self.application;
        let moved = HashSet::new();
        let three_way = ThreeWay {
            objects: application.store.objects(),
            selection: &application.selection,
            task: application.options.own_name(),
            moved: &moved,
            edited: None,
            places: None,
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
        Ok(ConflictSides {
            base,
            here,
            task,
            marked,
            here_digest,
        })
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
            SideText::Opaque {
                kind,
                size: is_file.then(|| entry.size()),
            }
        }
    })
}

fn kind_of(entry: &Entry) -> &'static str {
    if entry.is_directory() {
        Print::Directory.kind()
    } else {
        Print::Other.kind()
    }
}

fn here_of(look: Look) -> (SideText, String) {
    let Look::There(seen) = look else {
        return (SideText::Nothing, "nothing".to_owned());
    };
    let digest = seen.print.digest_text();
    let side = match (&seen.print, &seen.bytes) {
        (Print::File { .. }, Some(bytes)) if is_text(bytes) => SideText::Text(bytes.clone()),
        (Print::File { size, .. }, _) => SideText::Opaque {
            kind: "a file",
            size: Some(*size),
        },
        (Print::Symlink { target }, _) => SideText::Text(Bytes::copy_from_slice(target.as_bytes())),
        (print, _) => SideText::Opaque {
            kind: print.kind(),
            size: None,
        },
    };
    (side, digest)
}

impl ConflictSides {
    /// Whether the task changed lines of a text that the directory does not have yet and that do not
    /// conflict.
    pub fn has_other_changes(&self) -> bool {
        let base = match &self.base {
            SideText::Text(base) => base.clone(),
            SideText::Nothing => Bytes::new(),
            SideText::Opaque { .. } | SideText::Unknown => return false,
        };
        let (SideText::Text(here), SideText::Text(task)) = (&self.here, &self.task) else {
            return false;
        };
        let names = SideNames {
            ours: String::new(),
            theirs: String::new(),
            base: String::new(),
            style: MarkerStyle::Ours,
        };
        merge_lines(&base, here, task, &names).merged != *here
    }

    /// The lines that both sides changed, with this many unchanged ones around them. Empty if the sides are
    /// not texts.
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
                base_range: conflict.base.clone(),
            }
        };
        conflicts.iter().map(place).collect()
    }
}

fn lines(text: &Bytes) -> Vec<Bytes> {
    text.split_inclusive(|byte| *byte == b'\n')
        .map(|line| text.slice_ref(line))
        .collect()
}
