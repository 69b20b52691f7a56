//! Entries by name, path, kind, size, age and emptiness.

use avfs_core::{EntryKind, Timestamp, TreePath};
use avfs_tree::{Found, ReadError, TreeReader};
use globset::GlobMatcher;
use regex::bytes::Regex;

use super::glob::{BadGlob, as_host_path, compile};
use super::walk::{Selection, Visit, Walk};

/// What an entry must be like. Everything that is set must hold.
#[derive(Clone, Debug, Default)]
pub struct Criteria {
    tests: Vec<Test>,
    /// How far below the start an entry lies at least and at most; the start itself is at 0.
    pub min_depth: usize,
    pub max_depth: Option<usize>,
}

/// One property of an entry, and the opposite of it.
#[derive(Clone, Debug)]
pub enum Test {
    /// The last component of the path.
    Name(GlobMatcher),
    /// The whole path, without a leading `/`.
    Path(GlobMatcher),
    /// Some part of the path, which begins with `/` here.
    Regex(Regex),
    /// One of these sorts.
    Kind(Vec<EntrySort>),
    Size(SizeTest),
    Newer(Timestamp),
    Older(Timestamp),
    /// A file without bytes or a directory without entries.
    Empty,
    Executable,
    Not(Box<Test>),
}

#[derive(Debug, thiserror::Error)]
pub enum BadTest {
    #[error(transparent)]
    Glob(#[from] BadGlob),
    #[error("'{pattern}' is not a regular expression: {reason}")]
    Regex { pattern: String, reason: String },
}

/// What an entry is, without what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntrySort {
    File,
    Directory,
    Symlink,
    Fifo,
    Socket,
    Device,
}

impl EntrySort {
    fn of(kind: &EntryKind) -> EntrySort {
        match kind {
            EntryKind::File { .. } => EntrySort::File,
            EntryKind::Directory { .. } => EntrySort::Directory,
            EntryKind::Symlink { .. } => EntrySort::Symlink,
            EntryKind::Fifo => EntrySort::Fifo,
            EntryKind::Socket => EntrySort::Socket,
            EntryKind::BlockDevice { .. } | EntryKind::CharDevice { .. } => EntrySort::Device,
        }
    }
}

/// A comparison with a number of bytes. Directories have none and never match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeTest {
    Above(u64),
    Below(u64),
    Exactly(u64),
}

impl SizeTest {
    fn holds(self, size: u64) -> bool {
        match self {
            SizeTest::Above(limit) => size > limit,
            SizeTest::Below(limit) => size < limit,
            SizeTest::Exactly(limit) => size == limit,
        }
    }
}

impl Test {
    pub fn name(glob: &str, ignore_case: bool) -> Result<Test, BadTest> {
        Ok(Test::Name(compile(glob, ignore_case)?))
    }

    pub fn path(glob: &str, ignore_case: bool) -> Result<Test, BadTest> {
        Ok(Test::Path(compile(glob.strip_prefix('/').unwrap_or(glob), ignore_case)?))
    }

    pub fn regex(pattern: &str) -> Result<Test, BadTest> {
        let compiled = Regex::new(pattern);
        compiled
            .map(Test::Regex)
            .map_err(|error| BadTest::Regex { pattern: pattern.to_owned(), reason: error.to_string() })
    }

    pub fn negated(self) -> Test {
        Test::Not(Box::new(self))
    }

    pub fn holds(&self, path: &TreePath, found: &Found) -> bool {
        let entry = &found.entry;
        match self {
            Test::Name(glob) => path.name().is_some_and(|name| glob.is_match(as_host_path(name.as_bytes()))),
            Test::Path(glob) => glob.is_match(as_host_path(path.as_bytes())),
            Test::Regex(regex) => regex.is_match(&[b"/", path.as_bytes()].concat()),
            Test::Kind(kinds) => kinds.contains(&EntrySort::of(&entry.kind)),
            Test::Size(test) => !entry.is_directory() && test.holds(entry.size()),
            Test::Newer(moment) => entry.meta.mtime > *moment,
            Test::Older(moment) => entry.meta.mtime < *moment,
            Test::Empty => is_empty(&entry.kind),
            Test::Executable => matches!(entry.kind, EntryKind::File { .. }) && entry.meta.mode & 0o111 != 0,
            Test::Not(test) => !test.holds(path, found),
        }
    }
}

fn is_empty(kind: &EntryKind) -> bool {
    match kind {
        EntryKind::File { size, .. } => *size == 0,
        EntryKind::Directory { entries, .. } => entries.is_none(),
        EntryKind::Symlink { .. }
        | EntryKind::Fifo
        | EntryKind::Socket
        | EntryKind::CharDevice { .. }
        | EntryKind::BlockDevice { .. } => false,
    }
}

impl Criteria {
    pub fn new(tests: Vec<Test>) -> Criteria {
        Criteria { tests, ..Criteria::default() }
    }

    pub fn accepts(&self, path: &TreePath, found: &Found) -> bool {
        self.tests.iter().all(|test| test.holds(path, found))
    }
}

/// Yields what lies at and below `start` and meets the criteria, in the order of a [`Walk`].
pub fn find<'a>(
    reader: &'a TreeReader,
    start: &TreePath,
    selection: &'a Selection,
    criteria: &'a Criteria,
) -> Result<impl Iterator<Item = Result<Visit, ReadError>> + 'a, ReadError> {
    let mut walk = Walk::new(reader, start, selection)?;
    Ok(std::iter::from_fn(move || {
        loop {
            let visit = match walk.next()? {
                Ok(visit) => visit,
                Err(error) => return Some(Err(error)),
            };
            if criteria.max_depth.is_some_and(|max| visit.depth >= max) {
                walk.prune();
            }
            let deep_enough = visit.depth >= criteria.min_depth;
            // A depth limit of zero still shows the start.
            if deep_enough && criteria.accepts(&visit.path, &visit.found) {
                return Some(Ok(visit));
            }
        }
    }))
}

#[cfg(test)]
mod tests;
