//! What programs behind a mount had to wait for: entries of a source that were in no memory.

use std::sync::{Mutex, PoisonError};

use avfs_core::TreePath;

/// A program that requests more than this is walking through everything; there is nothing to learn from it.
const MOST: usize = 4096;

/// The entries of a source that were fetched for doors that never wait, by their paths there, in the order of the
/// requests.
#[derive(Default)]
pub(super) struct RequestedPaths(Mutex<Vec<TreePath>>);

impl RequestedPaths {
    pub(crate) fn note(&self, path: &TreePath) {
        let mut paths = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if paths.len() <= MOST {
            paths.push(path.clone());
        }
    }

    /// All of them; nothing if they were too many to be of use.
    pub(crate) fn all(&self) -> Vec<TreePath> {
        let paths = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if paths.len() > MOST {
            return Vec::new();
        }
        paths.clone()
    }
}
