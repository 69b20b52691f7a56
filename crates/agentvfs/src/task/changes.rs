//! The changes of a task: its work, and separately its ignored files.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use avfs_core::diff::TreeChange;
use avfs_core::{Content, Entry, EntryKind, SnapshotId, TreePath};
use avfs_tree::{ObjectError, Objects, ReadError, TreeReader, VisibleChange, settle_rewritten};

use super::Task;
use crate::apply::{AppliedBase, Selection};
use crate::error::{Error, Result};
use crate::git::is_in_repository;
use crate::ignored::is_directory;
use crate::ignored::{Ignored, IgnoredSummary};
use avfs_query::patch::{ChangeStatus, FileChange, file_changes};

/// The changes of a task. Files of git repositories are not among them, but their commits are reported.
#[derive(Clone, Debug, Default)]
pub struct TaskChanges {
    /// Files to review and apply.
    pub files: Vec<FileChange>,
    /// Files that git ignores or build tools create.
    pub ignored: Vec<FileChange>,
    /// The same, counted.
    pub ignored_places: IgnoredSummary,
    /// Directories that came or went, with everything in them.
    pub whole_directories: HashSet<TreePath>,
}

/// The work of a task: its changes, those that are nowhere else, and the files that its rules hide.
#[derive(Clone, Copy)]
pub struct TaskWork<'a> {
    pub(crate) task: &'a Task,
}

impl TaskWork<'_> {
    /// Everything that it changed.
    pub fn changes(&self) -> Result<TaskChanges> {
        self.changes_between(self.task.base()?, self.task.head()?)
    }

    /// The changes between two states of it, for example at the beginning and the end of a run.
    pub fn changed_between(&self, from: SnapshotId, to: SnapshotId) -> Result<TaskChanges> {
        let store = self.task.vault().store();
        self.changes_between(
            store.projects().with_moved(from)?,
            store.projects().with_moved(to)?,
        )
    }

    /// The state with which the task is compared when it is applied to a directory: its base, with the paths
    /// that were applied there in their applied state. A path that the user has reverted there counts as not
    /// applied, and so does a file of which only some hunks are selected.
    pub fn applied_base(&self, directory: &Path, selection: &Selection) -> Result<SnapshotId> {
        AppliedBase::of(self.task).in_directory(directory, selection)
    }

    pub(super) fn changes_between(&self, from: SnapshotId, to: SnapshotId) -> Result<TaskChanges> {
        if from == to {
            return Ok(TaskChanges::default());
        }
        self.changes_seen(
            &self.task.vault().reader_at(from)?,
            &self.task.vault().reader_at(to)?,
            &[],
        )
    }

    /// The visible differences between two states of it, at and below `paths` if there are any. An ignored
    /// file that one of them names counts as work.
    pub fn changes_seen(
        &self,
        from: &TreeReader,
        to: &TreeReader,
        paths: &[TreePath],
    ) -> Result<TaskChanges> {
        let mut changes = Vec::new();
        let is_wanted = |path: &TreePath| paths.is_empty() || paths.iter().any(|top| path.starts_with(top));
        let found = from.diff_folded(to, &mut |seen| {
            if is_wanted(&seen.change.path) {
                changes.push(seen);
            }
            Ok(())
        });
        found.map_err(Error::from)?;
        if !paths.iter().any(is_in_repository) {
            changes.retain(|seen| !is_in_repository(&seen.change.path));
        }
        let mut ignored = Ignored::new(from.clone(), to.clone());
        let mut sorted = sort_out(&mut ignored, changes, paths)
            .map_err(|error| self.task.vault().history().read_error(error))?;
        settle_rewritten(to.objects(), &mut sorted.work).map_err(Error::from)?;
        let files = |changes| changed_files(to.objects(), changes).map_err(Error::from);
        let (files, left_out) = (files(sorted.work)?, files(sorted.ignored)?);
        let places = ignored
            .count(&left_out)
            .map_err(|error| self.task.vault().history().read_error(error))?;
        Ok(TaskChanges {
            files,
            ignored: left_out,
            ignored_places: places,
            whole_directories: sorted.whole_directories,
        })
    }
}

#[derive(Default)]
struct SortedChanges {
    work: Vec<VisibleChange>,
    ignored: Vec<VisibleChange>,
    whole_directories: HashSet<TreePath>,
}

/// Separates work from ignored files.
fn sort_out(
    ignored: &mut Ignored,
    changes: Vec<VisibleChange>,
    named: &[TreePath],
) -> Result<SortedChanges, ReadError> {
    let mut sorted = SortedChanges::default();
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

/// The files that were changed, one for each line of a listing: a renamed one is one.
pub(crate) fn changed_files(
    objects: &Objects,
    mut changes: Vec<VisibleChange>,
) -> Result<Vec<FileChange>, ObjectError> {
    settle_copies(objects, &mut changes)?;
    let mut files = file_changes(changes);
    files.retain(is_applicable);
    Ok(files)
}

/// Gives promised files the contents to which they were resolved, if a copy of one may be among the new
/// files: so that a file which was copied and removed is recognised as renamed.
fn settle_copies(objects: &Objects, changes: &mut [VisibleChange]) -> Result<(), ObjectError> {
    let file = |entry: &Option<Entry>| match entry.as_ref().map(|entry| &entry.kind) {
        Some(EntryKind::File { size, content }) if *content != Content::Empty => Some(*size),
        _ => None,
    };
    let mut sizes: HashMap<u64, (bool, bool)> = HashMap::new();
    for TreeChange { before, after, .. } in changes.iter().map(|seen| &seen.change) {
        match (file(before), file(after)) {
            (Some(size), None) => sizes.entry(size).or_default().0 = true,
            (None, Some(size)) => sizes.entry(size).or_default().1 = true,
            _ => {}
        }
    }
    for TreeChange { before, after, .. } in changes.iter_mut().map(|seen| &mut seen.change) {
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

/// Whether a file was rewritten with the same bytes.
pub(super) fn is_rewritten(objects: &Objects, change: &TreeChange) -> Result<bool, ObjectError> {
    match (&change.before, &change.after) {
        (Some(before), Some(after)) if before.meta.mode == after.meta.mode => {
            objects.has_same_bytes(before, after)
        }
        _ => Ok(false),
    }
}

/// Owners are never applied, so a change of owner alone is not a change of a task.
fn is_applicable(file: &FileChange) -> bool {
    let (ChangeStatus::Attributes, Some(old), Some(new)) = (file.status, &file.old, &file.new) else {
        return true;
    };
    let (old, new) = (&old.entry.meta, &new.entry.meta);
    (old.mode, &old.xattrs, &old.labels) != (new.mode, &new.xattrs, &new.labels)
}
