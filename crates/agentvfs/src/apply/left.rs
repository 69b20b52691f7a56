//! Which version of a large file an apply left in the directory: so that a forecast knows it again without reading it.

use std::path::Path;

use avfs_core::{Entry, Timestamp, TreePath};
use avfs_tree::TreeReader;
use rustix::fs::Stat;
use serde::{Deserialize, Serialize};

use super::error::ApplyError;
use super::host::{FileKey, TEXT_MAX};
use super::ledger::{Folder, Ledger};
use super::record::{ApplyRecord, Deed};
use super::step::tree_path;
use crate::record::time;
use crate::store::Store;
use crate::transfer::host_file::meta;

/// A file as it was given its place. Its change time is not in it: getting the place sets that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LeftFile {
    #[serde(with = "tree_path")]
    pub path: TreePath,
    pub key: FileKey,
    pub size: u64,
    #[serde(with = "time")]
    pub mtime: Timestamp,
}

impl LeftFile {
    /// `None`: it is small enough to be read again at any time.
    pub fn of(path: &TreePath, stat: &Stat) -> Option<LeftFile> {
        let size = stat.st_size as u64;
        let mtime = meta(stat, avfs_core::Xattrs::default()).mtime;
        (size > TEXT_MAX).then(|| LeftFile { path: path.clone(), key: FileKey::of(stat), size, mtime })
    }
}

impl Store {
    /// What a path of a directory holds, if it is the version of a task that the last apply left there.
    pub(super) fn left_by_apply(
        &self,
        directory: &Path,
        path: &TreePath,
        here: &Stat,
    ) -> Result<Option<Entry>, ApplyError> {
        let Some(now) = LeftFile::of(path, here) else { return Ok(None) };
        // A forecast that cannot look this up is less exact, and no failure.
        let (Ok(ledger), Ok(records)) = (Ledger::of(self), self.newest_applies()) else { return Ok(None) };
        let is_of_path = |record: &&ApplyRecord| {
            record.directory() == directory && record.files.iter().any(|file| file.path == *path)
        };
        let Some(last) = records.iter().find(is_of_path) else { return Ok(None) };
        let is_tasks = last.files.iter().any(|file| {
            file.path == *path && matches!(file.deed, Deed::Added | Deed::Replaced) && !last.is_undo()
        });
        let left = ledger.open_done(last.id).read::<Vec<LeftFile>>(Folder::LEFT)?.unwrap_or_default();
        if !is_tasks || !left.contains(&now) {
            return Ok(None);
        }
        let Ok(snapshot) = self.objects().snapshot(last.snapshot) else { return Ok(None) };
        let applied = TreeReader::new(self.objects().clone(), snapshot.root.clone());
        Ok(applied.find(path).ok().map(|found| found.entry))
    }
}
