//! Entries of sources that were changed after a given time, and before they were first read.

use std::sync::{Arc, Mutex, PoisonError};

use avfs_core::{Timestamp, TreePath};

use super::Promises;
use crate::objects::Objects;
use crate::source::ListedDirectory;

/// Entries of sources that are newer than a given time, among directories that are first read while this
/// lives.
pub struct NewerEntries {
    since: Timestamp,
    paths: Mutex<Vec<Vec<u8>>>,
}

impl NewerEntries {
    /// Paths relative to the root of their source. A path that ends with a slash is a directory in which
    /// names were created or removed.
    pub fn paths(&self) -> Vec<Vec<u8>> {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, directory: &TreePath, listed: &ListedDirectory) {
        let is_newer = |ctime: Timestamp| ctime >= self.since;
        let mut paths = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        if listed.ctime.is_none_or(is_newer) {
            paths.push([directory.as_bytes(), b"/"].concat());
        }
        let newer = listed.entries.iter().filter(|entry| is_newer(entry.ctime));
        paths.extend(newer.map(|entry| directory.join(&entry.name).as_bytes().to_vec()));
    }
}

impl Objects {
    /// From now on, records entries found in sources that were changed at `since` or later in the returned
    /// value.
    pub fn note_newer(&self, since: Timestamp) -> Arc<NewerEntries> {
        let noting = Arc::new(NewerEntries {
            since,
            paths: Mutex::default(),
        });
        let mut all = self
            .promises()
            .newer
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(&noting));
        noting
    }
}

impl Promises {
    pub(super) fn note_newer(&self, directory: &TreePath, listed: &ListedDirectory) {
        let all = self.newer.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter()
            .filter_map(|one| one.upgrade())
            .for_each(|one| one.note(directory, listed));
    }
}
