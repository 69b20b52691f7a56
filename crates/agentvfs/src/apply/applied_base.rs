//! The state with which a task is compared when it is applied again.
//!
//! The base of a task is its project as it began. Changes that were applied since are in the directory, and
//! compared with that base it would look as if the user and the task had both made them. So each applied path
//! has its applied state as the base, and only later changes of either side count.

use std::collections::BTreeMap;
use std::path::Path;

use avfs_core::{Entry, EntryKind, SnapshotId, TreePath};
use avfs_tree::{FsError, InodeKind, NewEntry, ReadError, StoredTree, TreeReader, WorkTree};

use super::host::{HostFiles, Look};
use super::print::Print;
use super::selection::Selection;
use crate::error::Result;
use crate::task::Task;

/// The base of a task with the paths that were applied to a directory, in their applied state.
#[derive(Clone, Copy)]
pub(crate) struct AppliedBase<'a> {
    task: &'a Task,
}

impl<'a> AppliedBase<'a> {
    pub(crate) fn of(task: &'a Task) -> AppliedBase<'a> {
        AppliedBase { task }
    }

    /// A path that is in the directory as it was before counts as not applied: the user has reverted it. So
    /// does a file of which only some hunks are selected, because hunks are numbered from the base of the task.
    pub(crate) fn in_directory(self, directory: &Path, selection: &Selection) -> Result<SnapshotId> {
        let mut applied = self.applied_paths(directory)?;
        applied.retain(|path, _| !selection.hunks.contains_key(path));
        if !applied.is_empty()
            && let Ok(host) = HostFiles::open(directory)
        {
            let before = self.task.vault().reader_at(self.task.base()?)?;
            applied.retain(|path, _| !is_taken_back(&host, &before, path));
        }
        self.base_with(applied)
    }

    /// The same without reading the directory, for callers that only need conflicts: reverted paths never
    /// conflict.
    pub(crate) fn without_reading(self, directory: &Path) -> Result<SnapshotId> {
        self.base_with(self.applied_paths(directory)?)
    }

    fn base_with(self, applied: BTreeMap<TreePath, SnapshotId>) -> Result<SnapshotId> {
        let base = self.task.base()?;
        if applied.is_empty() {
            return Ok(base);
        }
        let mut readers = BTreeMap::new();
        let mut entries = Vec::new();
        for (path, snapshot) in applied {
            let reader = match readers.get(&snapshot) {
                Some(reader) => reader,
                // A state that was thinned out and collected is no longer available.
                None => readers
                    .entry(snapshot)
                    .or_insert(self.task.vault().reader_at(snapshot).ok()),
            };
            let Some(reader) = reader else { continue };
            let entry = find(reader, &path).map_err(|error| self.task.vault().history().read_error(error))?;
            entries.push((path, entry));
        }
        let store = self.task.vault().store();
        let (state, _) = store.projects().altered(base, |tree| put_all(tree, &entries))?;
        Ok(state)
    }

    /// The paths that were applied since the task began where it begins now, each with the state from which
    /// it was last applied.
    fn applied_paths(self, directory: &Path) -> Result<BTreeMap<TreePath, SnapshotId>> {
        let mut paths = BTreeMap::new();
        let records = self
            .task
            .vault()
            .store()
            .applies()
            .undoable(|into| into == directory)?;
        for record in records {
            let record = record?;
            let is_ours = record.task.as_deref() == Some(self.task.vault_name().as_str());
            let is_in_force = record.undone.is_none() && !record.is_undo();
            let Some(brought) = record.brought.filter(|_| is_ours && is_in_force) else {
                continue;
            };
            if brought.base == self.task.began() {
                for path in brought.paths {
                    paths.entry(path.0).or_insert(record.snapshot);
                }
            }
        }
        Ok(paths)
    }
}

/// Whether the directory has a path as it was before anything was applied. If that cannot be compared, it
/// counts as no.
fn is_taken_back(host: &HostFiles, before: &TreeReader, path: &TreePath) -> bool {
    let (Ok(look), Ok(before_entry)) = (host.look(path), find(before, path)) else {
        return false;
    };
    match (look, before_entry) {
        (Look::Nothing, None) => true,
        (Look::There(here), Some(entry)) => {
            let print = Print::of_entry(before.objects(), &entry);
            print.is_ok_and(|print| here.print.holds_the_same(&print))
        }
        (Look::Nothing | Look::NoWay, _) | (Look::There(_), None) => false,
    }
}

fn find(reader: &TreeReader, path: &TreePath) -> Result<Option<Entry>, ReadError> {
    match reader.find(path) {
        Ok(found) => Ok(Some(found.entry)),
        Err(error @ ReadError::Object { .. }) => Err(error),
        Err(_) => Ok(None),
    }
}

/// Gives each path its entry. Paths are in order, so a directory comes before its contents.
fn put_all(tree: &WorkTree, entries: &[(TreePath, Option<Entry>)]) -> Result<(), FsError> {
    for (path, entry) in entries.iter().rev() {
        if entry.is_none() {
            remove(tree, path)?;
        }
    }
    for (path, entry) in entries {
        if let Some(entry) = entry {
            put(tree, path, entry)?;
        }
    }
    Ok(())
}

/// A directory is removed only if it is empty: other contents were not applied.
fn remove(tree: &WorkTree, path: &TreePath) -> Result<(), FsError> {
    let Some((parent, name)) = path.split_last() else {
        return Ok(());
    };
    let (Ok(parent), Ok(there)) = (tree.resolve(&parent), tree.resolve(path)) else {
        return Ok(());
    };
    let removed = match there.kind {
        InodeKind::Directory => tree.remove_directory(parent.ino, &name),
        _ => tree.unlink(parent.ino, &name),
    };
    match removed {
        Err(FsError::NotEmpty) => Ok(()),
        removed => removed,
    }
}

fn put(tree: &WorkTree, path: &TreePath, entry: &Entry) -> Result<(), FsError> {
    let Some((parent, name)) = path.split_last() else {
        return Ok(());
    };
    if entry.is_directory() && matches!(tree.resolve(path), Ok(there) if there.kind == InodeKind::Directory) {
        return Ok(());
    }
    remove(tree, path)?;
    let parent = make_directories(tree, &parent)?;
    let entry = match &entry.kind {
        EntryKind::Directory { .. } => Entry::empty_directory(entry.meta.clone()),
        _ => entry.clone(),
    };
    let links = Vec::new();
    match tree.graft(parent, &name, StoredTree { entry, links }) {
        // An entry that was not applied has that name.
        Err(FsError::Exists) => Ok(()),
        grafted => grafted.map(drop),
    }
}

fn make_directories(tree: &WorkTree, path: &TreePath) -> Result<avfs_tree::Ino, FsError> {
    if let Ok(there) = tree.resolve(path) {
        return Ok(there.ino);
    }
    let Some((parent, name)) = path.split_last() else {
        return Err(FsError::NotFound);
    };
    let parent = make_directories(tree, &parent)?;
    Ok(tree.create(parent, &name, NewEntry::directory(0o755))?.ino)
}
