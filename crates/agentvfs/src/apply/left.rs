//! Which version of a large file an apply left in the directory, so that a forecast recognises it without
//! reading it.

use std::collections::HashMap;
use std::path::Path;

use avfs_core::{Entry, SnapshotId, Timestamp, TreePath};
use avfs_tree::TreeReader;
use rustix::fs::Stat;
use serde::{Deserialize, Serialize};

use super::host::{FileKey, TEXT_MAX};
use super::ledger::{Folder, Ledger};
use super::record::{AppliedAction, ApplyRecord};
use super::step::tree_path;
use crate::record::time;
use crate::store::Store;
use avfs_transfer::host_file::meta;

/// A file when it reached its place. Its change time is not included, because moving it there sets that.
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
    pub(super) fn of(path: &TreePath, stat: &Stat) -> Option<LeftFile> {
        let size = stat.st_size as u64;
        let mtime = meta(stat, avfs_core::Xattrs::default()).mtime;
        (size > TEXT_MAX).then(|| LeftFile {
            path: path.clone(),
            key: FileKey::of(stat),
            size,
            mtime,
        })
    }
}

/// The versions that the last applies to a directory left there.
#[derive(Default)]
pub(super) struct LeftFiles {
    /// With the state from which each comes, by path. `None`: the file there is from no task.
    by_path: HashMap<TreePath, Option<(SnapshotId, LeftFile)>>,
}

impl LeftFiles {
    /// A forecast that cannot look this up is less exact, and no failure.
    pub(super) fn of(store: &Store, directory: &Path) -> LeftFiles {
        let mut found = LeftFiles::default();
        let Ok(newest) = store.applies().undoable(|into| into == directory) else {
            return found;
        };
        for record in newest.flatten() {
            found.add(store, record);
        }
        found
    }

    /// Records that are already known are newer.
    fn add(&mut self, store: &Store, record: ApplyRecord) {
        let ledger = Ledger::of(store).ok();
        let left = ledger.and_then(|ledger| ledger.open_done(record.id).read(Folder::LEFT).ok());
        let left: Vec<LeftFile> = left.flatten().unwrap_or_default();
        let mut left: HashMap<TreePath, LeftFile> =
            left.into_iter().map(|left| (left.path.clone(), left)).collect();
        let (is_undo, state) = (record.is_undo(), record.snapshot);
        for file in record.files {
            let is_tasks = matches!(file.action, AppliedAction::Added | AppliedAction::Replaced) && !is_undo;
            let left = left.remove(&file.path).filter(|_| is_tasks);
            self.by_path
                .entry(file.path)
                .or_insert(left.map(|left| (state, left)));
        }
    }

    /// The recorded version of a path, if the file is unchanged since.
    pub(super) fn find(&self, store: &Store, path: &TreePath, here: &Stat) -> Option<Entry> {
        let (state, left) = self.by_path.get(path)?.as_ref()?;
        if LeftFile::of(path, here).as_ref() != Some(left) {
            return None;
        }
        let root = store.objects().snapshot(*state).ok()?.root.clone();
        TreeReader::new(store.objects().clone(), root)
            .find(path)
            .ok()
            .map(|found| found.entry)
    }
}
