//! What a task changed: its work, and apart from that what is ignored.

use std::collections::{HashMap, HashSet};

use avfs_core::diff::Change;
use avfs_core::{Content, Entry, EntryKind, SnapshotId, TreePath};
use avfs_tree::{ObjectError, Objects, ReadError, SeenChange, TreeReader};

use super::Task;
use crate::error::{Error, Result};
use crate::git::{MovedRef, RefName, Repositories, Work, is_in_repository};
use crate::ignored::{Ignored, IgnoredSummary};
use crate::patch::{FileChange, Status, file_changes};

/// The changes of a task. What is in git repositories is not among them: commits are.
#[derive(Clone, Debug, Default)]
pub struct TaskChanges {
    /// What somebody would look at and apply.
    pub files: Vec<FileChange>,
    /// What git ignores or build tools make.
    pub ignored: Vec<FileChange>,
    /// The same, counted.
    pub ignored_places: IgnoredSummary,
    /// Directories that came or went, with everything in them.
    pub whole_directories: HashSet<TreePath>,
}

impl Task {
    /// Everything that it changed.
    pub fn changes(&self) -> Result<TaskChanges> {
        self.changes_between(self.base()?, self.head()?)
    }

    /// Whether its repositories hold something that no commit on a branch shows: a stash, a commit that no branch names,
    /// staged files, settings. What git notes by itself when it looks at files is not meant.
    pub fn has_other_git_work(&self) -> Result<bool> {
        if !self.brought().is_empty() {
            return Ok(false);
        }
        let (base, head) = (self.base()?, self.head()?);
        let (from, to) = (self.vault().reader_at(base)?, self.vault().reader_at(head)?);
        let mut changes = Vec::new();
        let looked = from.diff(&to, &TreePath::root(), &mut |seen| {
            if is_in_repository(&seen.change.path) && !is_rewritten(to.objects(), &seen.change)? {
                changes.push(seen.change);
            }
            Ok(())
        });
        looked.map_err(Error::Object)?;
        let mut repositories = Repositories::in_states(vec![from.clone(), to.clone()]);
        for (place, touched) in repositories.touched(changes.iter()) {
            let moved = Work::in_repository(from.clone(), to.clone(), place).moved_refs()?;
            let is_told = |moved: &MovedRef| moved.name.as_ref().is_none_or(RefName::holds_work);
            let is_own =
                |moved: &MovedRef| !is_told(moved) && !moved.name.as_ref().is_some_and(RefName::is_remote);
            // The objects of a branch that moved are its commits.
            let has_objects = touched.objects && !moved.iter().any(is_told);
            if touched.other || has_objects || moved.iter().any(is_own) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) fn changes_between(&self, from: SnapshotId, to: SnapshotId) -> Result<TaskChanges> {
        if from == to {
            return Ok(TaskChanges::default());
        }
        self.changes_seen(&self.vault().reader_at(from)?, &self.vault().reader_at(to)?, &[])
    }

    /// What differs between two states of it as they are seen, at and below `paths` if there are any. What is ignored
    /// and named by one of them is no less work than the rest.
    pub fn changes_seen(
        &self,
        from: &TreeReader,
        to: &TreeReader,
        paths: &[TreePath],
    ) -> Result<TaskChanges> {
        let mut changes = Vec::new();
        let is_wanted = |path: &TreePath| paths.is_empty() || paths.iter().any(|top| path.starts_with(top));
        let found = from.diff(to, &TreePath::root(), &mut |seen| {
            if is_wanted(&seen.change.path) {
                changes.push(seen);
            }
            Ok(())
        });
        found.map_err(Error::Object)?;
        if !paths.iter().any(is_in_repository) {
            changes.retain(|seen| !is_in_repository(&seen.change.path));
        }
        let mut ignored = Ignored::new(from.clone(), to.clone());
        let sorted =
            sort_out(&mut ignored, changes, paths).map_err(|error| self.vault().read_error(error))?;
        let files = |mut changes: Vec<SeenChange>| {
            settle_copies(to.objects(), &mut changes).map_err(Error::Object)?;
            let mut files = file_changes(changes);
            files.retain(is_applicable);
            Ok::<_, Error>(files)
        };
        let (files, left_out) = (files(sorted.work)?, files(sorted.ignored)?);
        let places = count(&mut ignored, &left_out).map_err(|error| self.vault().read_error(error))?;
        Ok(TaskChanges {
            files,
            ignored: left_out,
            ignored_places: places,
            whole_directories: sorted.whole_directories,
        })
    }
}

#[derive(Default)]
struct Sorted {
    work: Vec<SeenChange>,
    ignored: Vec<SeenChange>,
    whole_directories: HashSet<TreePath>,
}

/// Tells work from what is ignored.
fn sort_out(
    ignored: &mut Ignored,
    changes: Vec<SeenChange>,
    named: &[TreePath],
) -> Result<Sorted, ReadError> {
    let mut sorted = Sorted::default();
    let named: HashSet<TreePath> = named.iter().cloned().collect();
    for seen in changes {
        let is_directory = is_directory(&seen.change);
        if is_directory && (seen.change.before.is_none() || seen.change.after.is_none()) {
            sorted.whole_directories.insert(seen.change.path.clone());
        }
        match ignored.left_out(&seen.change.path, is_directory, &named)? {
            None => sorted.work.push(seen),
            Some(_) => sorted.ignored.push(seen),
        }
    }
    Ok(sorted)
}

fn count(ignored: &mut Ignored, files: &[FileChange]) -> Result<IgnoredSummary, ReadError> {
    let mut places = IgnoredSummary::default();
    let is_directory = |file: &&FileChange| {
        let side = file.new.as_ref().or(file.old.as_ref());
        side.is_some_and(|side| side.entry.is_directory())
    };
    for file in files.iter().filter(|file| !is_directory(file)) {
        if let Some(place) = ignored.place_of(file.path(), false)? {
            let is_below = place != *file.path();
            places.add(place, is_below);
        }
    }
    Ok(places)
}

/// Whether a path is a directory now, or was when it went.
pub(crate) fn is_directory(change: &Change) -> bool {
    change.after.as_ref().or(change.before.as_ref()).is_some_and(Entry::is_directory)
}

/// Gives files that were promised the contents that they were kept as, where a copy of one may be among what is new: so
/// that a file which was copied and removed is known as renamed.
fn settle_copies(objects: &Objects, changes: &mut [SeenChange]) -> Result<(), ObjectError> {
    let file = |entry: &Option<Entry>| match entry.as_ref().map(|entry| &entry.kind) {
        Some(EntryKind::File { size, content }) if *content != Content::Empty => Some(*size),
        _ => None,
    };
    let mut sizes: HashMap<u64, (bool, bool)> = HashMap::new();
    for Change { before, after, .. } in changes.iter().map(|seen| &seen.change) {
        match (file(before), file(after)) {
            (Some(size), None) => sizes.entry(size).or_default().0 = true,
            (None, Some(size)) => sizes.entry(size).or_default().1 = true,
            _ => {}
        }
    }
    for Change { before, after, .. } in changes.iter_mut().map(|seen| &mut seen.change) {
        let only = match (before, after) {
            (Some(entry), None) | (None, Some(entry)) => entry,
            _ => continue,
        };
        if let EntryKind::File { size, content } = &mut only.kind
            && sizes.get(size) == Some(&(true, true))
        {
            *content = objects.known_content(*content)?;
        }
    }
    Ok(())
}

/// Whether a file was written with the bytes that it had.
fn is_rewritten(objects: &Objects, change: &Change) -> Result<bool, ObjectError> {
    match (&change.before, &change.after) {
        (Some(before), Some(after)) if before.meta.mode == after.meta.mode => {
            objects.has_same_bytes(before, after)
        }
        _ => Ok(false),
    }
}

/// Owners are never applied, so that another owner alone is no change of a task.
fn is_applicable(file: &FileChange) -> bool {
    let (Status::Attributes, Some(old), Some(new)) = (file.status, &file.old, &file.new) else { return true };
    let (old, new) = (&old.entry.meta, &new.entry.meta);
    (old.mode, &old.xattrs, &old.labels) != (new.mode, &new.xattrs, &new.labels)
}
