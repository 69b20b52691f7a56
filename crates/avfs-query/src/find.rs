//! Entries by name, path, kind, size, age and emptiness.

use avfs_core::{EntryKind, Timestamp, TreePath};
use avfs_tree::{FoundEntry, ReadError, TreeReader};
use globset::GlobMatcher;
use regex::bytes::Regex;

use super::glob::{BadGlob, as_host_path, compile};
use super::walk::{EntryWalk, WalkSelection, WalkVisit};

/// The conditions for an entry. All that are set must hold.
#[derive(Clone, Debug, Default)]
pub struct Criteria {
    tests: Vec<FindTest>,
    /// The minimum and maximum depth of an entry below the start; the start itself is at 0.
    pub min_depth: usize,
    /// `None`: any depth.
    pub max_depth: Option<usize>,
}

/// One property of an entry, and the opposite of it.
#[derive(Clone, Debug)]
pub enum FindTest {
    /// The last component of the path.
    Name(GlobMatcher),
    /// The whole path, without a leading `/`.
    Path(GlobMatcher),
    /// Some part of the path, which begins with `/` here.
    Regex(Regex),
    /// One of these sorts.
    Kind(Vec<EntrySort>),
    /// The size of a file.
    Size(SizeTest),
    /// Its contents were changed after this moment.
    Newer(Timestamp),
    /// Its contents were changed before this moment.
    Older(Timestamp),
    /// A file without bytes or a directory without entries.
    Empty,
    /// A file that some user may execute.
    Executable,
    /// The opposite.
    Not(Box<FindTest>),
}

/// Why a test cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum BadTest {
    /// The text is not a glob.
    #[error(transparent)]
    Glob(#[from] BadGlob),
    /// The text is not a regular expression.
    #[error("'{pattern}' is not a regular expression: {reason}")]
    Regex {
        /// The text.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// The kind of an entry, without its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntrySort {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character or block device.
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
    /// More than so many bytes.
    Above(u64),
    /// Fewer than so many bytes.
    Below(u64),
    /// So many bytes.
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

impl FindTest {
    /// The last component of the path matches a glob.
    pub fn name(glob: &str, ignore_case: bool) -> Result<FindTest, BadTest> {
        Ok(FindTest::Name(compile(glob, ignore_case)?))
    }

    /// The whole path matches a glob.
    pub fn path(glob: &str, ignore_case: bool) -> Result<FindTest, BadTest> {
        Ok(FindTest::Path(compile(
            glob.strip_prefix('/').unwrap_or(glob),
            ignore_case,
        )?))
    }

    /// A part of the path matches a regular expression.
    pub fn regex(pattern: &str) -> Result<FindTest, BadTest> {
        let compiled = Regex::new(pattern);
        compiled.map(FindTest::Regex).map_err(|error| BadTest::Regex {
            pattern: pattern.to_owned(),
            reason: error.to_string(),
        })
    }

    /// The opposite test.
    pub fn negated(self) -> FindTest {
        FindTest::Not(Box::new(self))
    }

    /// Whether an entry passes.
    pub fn holds(&self, path: &TreePath, found: &FoundEntry) -> bool {
        let entry = &found.entry;
        match self {
            FindTest::Name(glob) => path
                .name()
                .is_some_and(|name| glob.is_match(as_host_path(name.as_bytes()))),
            FindTest::Path(glob) => glob.is_match(as_host_path(path.as_bytes())),
            FindTest::Regex(regex) => regex.is_match(&[b"/", path.as_bytes()].concat()),
            FindTest::Kind(kinds) => kinds.contains(&EntrySort::of(&entry.kind)),
            FindTest::Size(test) => !entry.is_directory() && test.holds(entry.size()),
            FindTest::Newer(moment) => entry.meta.mtime > *moment,
            FindTest::Older(moment) => entry.meta.mtime < *moment,
            FindTest::Empty => is_empty(&entry.kind),
            FindTest::Executable => {
                matches!(entry.kind, EntryKind::File { .. }) && entry.meta.mode & 0o111 != 0
            }
            FindTest::Not(test) => !test.holds(path, found),
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
    /// Criteria without limits of the depth.
    pub fn new(tests: Vec<FindTest>) -> Criteria {
        Criteria {
            tests,
            ..Criteria::default()
        }
    }

    /// Whether an entry passes all tests; its depth is not looked at.
    pub fn accepts(&self, path: &TreePath, found: &FoundEntry) -> bool {
        self.tests.iter().all(|test| test.holds(path, found))
    }
}

/// Yields the entries at and below `start` that meet the criteria, in the order of a [`EntryWalk`].
pub fn find<'a>(
    reader: &'a TreeReader,
    start: &TreePath,
    selection: &'a WalkSelection,
    criteria: &'a Criteria,
) -> Result<impl Iterator<Item = Result<WalkVisit, ReadError>> + 'a, ReadError> {
    let mut walk = EntryWalk::new(reader, start, selection)?;
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
