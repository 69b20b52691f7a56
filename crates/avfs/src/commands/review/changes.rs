//! The changes of a task, as a review sees them.

use agentvfs::patch::{FileChange, FileDiff, PatchOptions};
use agentvfs::{ReadError, Task};
use anyhow::Result;
use avfs_core::TreePath;

use crate::commands::diff::{check_paths, compare};
use crate::view::View;

/// What git keeps for itself is never applied as files, so there is nothing to decide about it.
const GIT_DIRECTORY: &[u8] = b".git";

pub struct Changes {
    pub from: View,
    pub to: View,
    pub files: Vec<FileChange>,
}

impl Changes {
    /// At and below these paths, if there are any.
    pub fn of(task: &Task, paths: &[TreePath]) -> Result<Changes> {
        // What the rules of a task hide from it is none of its changes.
        let vault = match task.rules()? {
            Some(rules) => task.vault().through(rules),
            None => task.vault().clone(),
        };
        let from = View::new(vault.clone(), task.base()?)?;
        let to = View::new(vault, task.head()?)?;
        check_paths(&from, &to, paths)?;
        let mut files = compare(&from.reader, &to.reader, paths)?;
        files.retain(|file| !file.path().components().any(|name| name.as_bytes() == GIT_DIRECTORY));
        Ok(Changes { from, to, files })
    }

    /// The differences of one file. Its hunks have the numbers that `avfs diff --patch` shows.
    pub fn diff(&self, file: usize) -> Result<FileDiff> {
        let diff = FileDiff::compute(self.to.reader.objects(), &self.files[file], &PatchOptions::default());
        diff.map_err(|error| match error {
            agentvfs::patch::PatchError::Object { path, source } => {
                self.to.fail(ReadError::Object { path, source }).into()
            }
            error @ agentvfs::patch::PatchError::Write(_) => error.into(),
        })
    }
}
