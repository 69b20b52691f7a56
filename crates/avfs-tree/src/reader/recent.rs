//! The way to the path that was looked up last. A walk through a tree looks up many paths that are close
//! together: without this, visiting every directory of a deep tree would cost the square of its depth.

use std::sync::{Mutex, TryLockError};

use avfs_core::TreePath;
use avfs_core::rules::RuleState;

use super::FoundEntry;

/// A cell for one [`PathWay`]. Threads never wait for it: one that finds it in use starts at the root.
#[derive(Default)]
pub(super) struct RecentPath(Mutex<PathWay>);

impl Clone for RecentPath {
    fn clone(&self) -> RecentPath {
        RecentPath::default()
    }
}

impl RecentPath {
    pub(super) fn take(&self) -> PathWay {
        match self.0.try_lock() {
            Ok(mut way) => std::mem::take(&mut way),
            // The way is a cache that is replaced as a whole, so a panic cannot have left half of one.
            Err(TryLockError::Poisoned(poisoned)) => std::mem::take(&mut poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => PathWay::default(),
        }
    }

    pub(super) fn put(&self, way: PathWay) {
        if let Ok(mut cell) = self.0.try_lock() {
            *cell = way;
        }
    }
}

/// Directories, each in the one before it, the first in the root.
#[derive(Default)]
pub(super) struct PathWay {
    path: Vec<u8>,
    directories: Vec<VisitedDirectory>,
}

/// A directory, unfiltered, and its rule state.
pub(super) struct VisitedDirectory {
    pub found: FoundEntry,
    pub rule_state: Option<RuleState>,
    /// The end of its path.
    end: usize,
}

impl PathWay {
    /// Goes back to the nearest directory at or above `path`, and returns the names that remain to be walked.
    pub(super) fn rest_of<'a>(&mut self, path: &'a TreePath) -> &'a [u8] {
        let path = path.as_bytes();
        let common = common_len(&self.path, path);
        let is_above = |end: usize| end <= common && matches!(path.get(end), None | Some(b'/'));
        while self.directories.pop_if(|last| !is_above(last.end)).is_some() {}
        let end = self.directories.last().map_or(0, |last| last.end);
        self.path.truncate(end);
        let rest = &path[end..];
        rest.strip_prefix(b"/").unwrap_or(rest)
    }

    pub(super) fn last(&self) -> Option<&VisitedDirectory> {
        self.directories.last()
    }

    pub(super) fn push(&mut self, name: &[u8], found: FoundEntry, rule_state: Option<RuleState>) {
        if !self.path.is_empty() {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(name);
        self.directories.push(VisitedDirectory {
            found,
            rule_state,
            end: self.path.len(),
        });
    }
}

/// The length of the common prefix of two paths.
fn common_len(one: &[u8], other: &[u8]) -> usize {
    const PIECE: usize = 64;
    let same = one
        .chunks_exact(PIECE)
        .zip(other.chunks_exact(PIECE))
        .take_while(|(one, other)| one == other);
    let start = same.count() * PIECE;
    start
        + one[start..]
            .iter()
            .zip(&other[start..])
            .take_while(|(one, other)| one == other)
            .count()
}
