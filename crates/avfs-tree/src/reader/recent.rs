//! The way to the path that was looked up last. Whoever goes through a tree asks for one path after the other that lie
//! close together: without it, looking at every directory of a deep tree costs the square of its depth.

use std::sync::{Mutex, TryLockError};

use avfs_core::TreePath;
use avfs_core::rules::Standing;

use super::Found;

/// A cell for one [`Way`]. Nobody waits for it: a thread that finds it in use begins at the root.
#[derive(Default)]
pub(super) struct Recent(Mutex<Way>);

impl Clone for Recent {
    fn clone(&self) -> Recent {
        Recent::default()
    }
}

impl Recent {
    pub fn take(&self) -> Way {
        match self.0.try_lock() {
            Ok(mut way) => std::mem::take(&mut way),
            Err(TryLockError::Poisoned(poisoned)) => std::mem::take(&mut poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Way::default(),
        }
    }

    pub fn put(&self, way: Way) {
        if let Ok(mut cell) = self.0.try_lock() {
            *cell = way;
        }
    }
}

/// Directories, each in the one before it, the first in the root.
#[derive(Default)]
pub(super) struct Way {
    path: Vec<u8>,
    directories: Vec<Passed>,
}

/// A directory as it is, and where it stands.
pub(super) struct Passed {
    pub found: Found,
    pub standing: Option<Standing>,
    /// Where its path ends.
    end: usize,
}

impl Way {
    /// Goes back to the nearest directory that is at or above `path`, and returns the names that are still to be walked.
    pub fn rest_of<'a>(&mut self, path: &'a TreePath) -> &'a [u8] {
        let path = path.as_bytes();
        let common = common_len(&self.path, path);
        let is_above = |end: usize| end <= common && matches!(path.get(end), None | Some(b'/'));
        while self.directories.pop_if(|last| !is_above(last.end)).is_some() {}
        let end = self.directories.last().map_or(0, |last| last.end);
        self.path.truncate(end);
        let rest = &path[end..];
        rest.strip_prefix(b"/").unwrap_or(rest)
    }

    pub fn last(&self) -> Option<&Passed> {
        self.directories.last()
    }

    pub fn push(&mut self, name: &[u8], found: Found, standing: Option<Standing>) {
        if !self.path.is_empty() {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(name);
        self.directories.push(Passed { found, standing, end: self.path.len() });
    }
}

/// How many bytes two paths have in common at their beginnings.
fn common_len(one: &[u8], other: &[u8]) -> usize {
    const PIECE: usize = 64;
    let same = one.chunks_exact(PIECE).zip(other.chunks_exact(PIECE)).take_while(|(one, other)| one == other);
    let start = same.count() * PIECE;
    start + one[start..].iter().zip(&other[start..]).take_while(|(one, other)| one == other).count()
}
