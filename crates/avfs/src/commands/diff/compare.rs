//! Compares two states, in time proportional to the differences.

use std::collections::HashSet;

use agentvfs::patch::{FileChange, file_changes};
use agentvfs::{Entry, Error, ReadError, SnapshotId, TaskChanges, TreeChange, TreeReader, Vault};
use anyhow::Result;
use avfs_core::TreePath;

use crate::view::View;

/// The files that differ, at and below `paths` if there are any.
pub fn compare(from: &TreeReader, to: &TreeReader, paths: &[TreePath]) -> Result<Vec<FileChange>, Error> {
    Ok(compare_all(from, to, paths)?.files)
}

/// The same, with the directories that came or went. Nothing is taken for ignored.
pub fn compare_all(from: &TreeReader, to: &TreeReader, paths: &[TreePath]) -> Result<TaskChanges, Error> {
    let mut changes = Vec::new();
    let mut whole_directories = HashSet::new();
    let is_wanted = |path: &TreePath| paths.is_empty() || paths.iter().any(|wanted| path.starts_with(wanted));
    let found = from.diff_folded(to, &mut |seen| {
        let TreeChange { path, before, after } = &seen.change;
        if is_wanted(path) {
            let only = before.as_ref().xor(after.as_ref());
            if only.is_some_and(Entry::is_directory) {
                whole_directories.insert(path.clone());
            }
            changes.push(seen);
        }
        Ok(())
    });
    found.map_err(Error::from)?;
    Ok(TaskChanges {
        files: file_changes(changes),
        whole_directories,
        ..TaskChanges::default()
    })
}

/// A path that is on neither side is a mistake, and not a path without differences.
pub fn check_paths(from: &View, to: &View, paths: &[TreePath]) -> Result<(), Error> {
    for path in paths {
        if !exists(from, path)? && !exists(to, path)? {
            return Err(to.fail(ReadError::NotFound { path: path.clone() }));
        }
    }
    Ok(())
}

fn exists(state: &View, path: &TreePath) -> Result<bool, Error> {
    match state.reader.find(path) {
        Ok(_) => Ok(true),
        Err(ReadError::NotFound { .. } | ReadError::NotADirectory { .. }) => Ok(false),
        Err(error) => Err(state.fail(error)),
    }
}

/// The oldest state in the history of a vault.
pub fn first_snapshot(vault: &Vault) -> Result<SnapshotId, Error> {
    if let [first] = &vault.history().entries(Some(2), 1)?[..] {
        return Ok(first.snapshot);
    }
    let mut oldest = None;
    vault.history().for_each_entry(|entry| {
        oldest = Some(entry.snapshot);
        Ok(true)
    })?;
    oldest.map_or_else(|| vault.head(), Ok)
}
