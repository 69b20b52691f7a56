//! The changes of a task, as a review sees them.

use std::collections::HashSet;

use agentvfs::apply::Conflict;
use agentvfs::patch::{FileChange, FileDiff, PatchOptions};
use agentvfs::{ReadError, Task, TaskChanges};
use anyhow::Result;
use avfs_core::TreePath;

use super::tree::Group;
use crate::commands::diff::check_paths;
use crate::view::View;

const GIT_DIRECTORY: &[u8] = b".git";

pub struct Changes {
    pub from: View,
    pub to: View,
    /// The files to decide on, followed by those that git ignores.
    pub files: Vec<FileChange>,
    /// How many of them are not ignored.
    work: usize,
    /// Whether ignored files are treated like the others.
    pub with_ignored: bool,
}

impl Changes {
    /// At and below these paths, if there are any.
    pub fn of(task: &Task, paths: &[TreePath], with_ignored: bool) -> Result<Changes> {
        // Files that the rules of a task hide from it are not among its changes.
        let vault = match task.rules()? {
            Some(rules) => task.vault().through(rules),
            None => task.vault().clone(),
        };
        let from = View::new(vault.clone(), task.base()?)?;
        let to = View::new(vault, task.head()?)?;
        check_paths(&from, &to, paths)?;
        let TaskChanges {
            mut files, ignored, ..
        } = task.work().changes_seen(&from.reader, &to.reader, paths)?;
        // Git's own files are never applied as files, so there is nothing to decide about them.
        files.retain(|file| {
            !file
                .path()
                .components()
                .any(|name| name.as_bytes() == GIT_DIRECTORY)
        });
        let work = if with_ignored {
            files.len() + ignored.len()
        } else {
            files.len()
        };
        files.extend(ignored);
        if with_ignored {
            files.sort_by(|one, other| one.path().cmp(other.path()));
        }
        Ok(Changes {
            from,
            to,
            files,
            work,
            with_ignored,
        })
    }

    /// Whether git ignores a file.
    pub fn is_ignored(&self, file: usize) -> bool {
        file >= self.work
    }

    /// Where files are shown, with these conflicts.
    pub fn groups(&self, conflicts: &[Conflict]) -> Vec<Group> {
        let paths: HashSet<&TreePath> = conflicts.iter().map(|conflict| &conflict.path).collect();
        // Ignored files do not conflict: they are applied only if they are accepted by name.
        let group = |(index, file): (usize, &FileChange)| match paths.contains(file.path()) {
            _ if self.is_ignored(index) => Group::Ignored,
            true => Group::Conflict,
            false => Group::Usual,
        };
        self.files.iter().enumerate().map(group).collect()
    }

    /// The differences of one file. Its hunks have the numbers that `avfs diff --patch` shows.
    pub fn diff(&self, file: usize) -> Result<FileDiff> {
        let diff = FileDiff::compute(
            self.to.reader.objects(),
            &self.files[file],
            &PatchOptions::default(),
        );
        diff.map_err(|error| match error {
            agentvfs::patch::PatchError::Object { path, source } => {
                self.to.fail(ReadError::Object { path, source }).into()
            }
            error @ agentvfs::patch::PatchError::Write(_) => error.into(),
        })
    }
}
