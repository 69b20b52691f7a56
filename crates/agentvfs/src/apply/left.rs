//! Which version of a large file an apply left in the directory: so that a forecast knows it again without reading it.

use std::collections::HashMap;
use std::path::Path;

use avfs_core::{Entry, SnapshotId, Timestamp, TreePath};
use avfs_tree::TreeReader;
use rustix::fs::Stat;
use serde::{Deserialize, Serialize};

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

/// The versions that the last applies to a directory left there.
#[derive(Default)]
pub(super) struct LeftFiles {
    /// With the state that each is from, by path. `None`: what is there is from no task.
    by_path: HashMap<TreePath, Option<(SnapshotId, LeftFile)>>,
}

impl LeftFiles {
    /// A forecast that cannot look this up is less exact, and no failure.
    pub fn of(store: &Store, directory: &Path) -> LeftFiles {
        let mut found = LeftFiles::default();
        let Ok(newest) = store.undoable_applies(|into| into == directory) else { return found };
        for record in newest.flatten() {
            found.add(store, record);
        }
        found
    }

    /// What is known already is newer.
    fn add(&mut self, store: &Store, record: ApplyRecord) {
        let left = Ledger::of(store).and_then(|ledger| ledger.open_done(record.id).read(Folder::LEFT));
        let left: Vec<LeftFile> = left.ok().flatten().unwrap_or_default();
        let mut left: HashMap<TreePath, LeftFile> =
            left.into_iter().map(|left| (left.path.clone(), left)).collect();
        let (is_undo, state) = (record.is_undo(), record.snapshot);
        for file in record.files {
            let is_tasks = matches!(file.deed, Deed::Added | Deed::Replaced) && !is_undo;
            let left = left.remove(&file.path).filter(|_| is_tasks);
            self.by_path.entry(file.path).or_insert(left.map(|left| (state, left)));
        }
    }

    /// What a path holds, if it is as it was left.
    pub fn find(&self, store: &Store, path: &TreePath, here: &Stat) -> Option<Entry> {
        let (state, left) = self.by_path.get(path)?.as_ref()?;
        if LeftFile::of(path, here).as_ref() != Some(left) {
            return None;
        }
        let root = store.objects().snapshot(*state).ok()?.root.clone();
        TreeReader::new(store.objects().clone(), root).find(path).ok().map(|found| found.entry)
    }
}
