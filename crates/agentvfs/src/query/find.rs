//! Entries by name, path, kind, size, age and emptiness.

use std::fmt;

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
    /// One of these kinds.
    Kind(Vec<Kind>),
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
    #[error("'{0}' is not a kind of entry: use f, d, l, p, s, b or c")]
    Kind(char),
    #[error("'{0}' is not a size: write a number with k, M, G or T, and + or - in front for more or less")]
    Size(String),
    #[error("'{0}' is not an age: write a number with s, m, h, d or w")]
    Age(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Directory,
    Symlink,
    Fifo,
    Socket,
    BlockDevice,
    CharDevice,
}

impl Kind {
    pub fn of(kind: &EntryKind) -> Kind {
        match kind {
            EntryKind::File { .. } => Kind::File,
            EntryKind::Directory { .. } => Kind::Directory,
            EntryKind::Symlink { .. } => Kind::Symlink,
            EntryKind::Fifo => Kind::Fifo,
            EntryKind::Socket => Kind::Socket,
            EntryKind::BlockDevice { .. } => Kind::BlockDevice,
            EntryKind::CharDevice { .. } => Kind::CharDevice,
        }
    }

    /// The letter that `find` and `ls` use.
    pub fn from_letter(letter: char) -> Result<Kind, BadTest> {
        match letter {
            'f' => Ok(Kind::File),
            'd' => Ok(Kind::Directory),
            'l' => Ok(Kind::Symlink),
            'p' => Ok(Kind::Fifo),
            's' => Ok(Kind::Socket),
            'b' => Ok(Kind::BlockDevice),
            'c' => Ok(Kind::CharDevice),
            other => Err(BadTest::Kind(other)),
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
    /// Reads `+10k`, `-2M` or `0`. Units are powers of 1024, and bytes are compared, not rounded units.
    pub fn parse(text: &str) -> Result<SizeTest, BadTest> {
        let (test, rest): (fn(u64) -> SizeTest, &str) = match text.as_bytes().first() {
            Some(b'+') => (SizeTest::Above, &text[1..]),
            Some(b'-') => (SizeTest::Below, &text[1..]),
            _ => (SizeTest::Exactly, text),
        };
        number_with_unit(rest, size_unit).map(test).ok_or_else(|| BadTest::Size(text.to_owned()))
    }

    fn holds(self, size: u64) -> bool {
        match self {
            SizeTest::Above(limit) => size > limit,
            SizeTest::Below(limit) => size < limit,
            SizeTest::Exactly(limit) => size == limit,
        }
    }
}

fn size_unit(unit: &str) -> Option<u64> {
    match unit {
        "" | "b" | "B" | "c" => Some(1),
        "k" | "K" => Some(1 << 10),
        "m" | "M" => Some(1 << 20),
        "g" | "G" => Some(1 << 30),
        "t" | "T" => Some(1 << 40),
        _ => None,
    }
}

/// Reads an age such as `90s` or `2d`; the moment is that long before `now`.
pub fn moment_before(now: Timestamp, age: &str) -> Result<Timestamp, BadTest> {
    let unit = |unit: &str| match unit {
        "s" => Some(1),
        "m" => Some(60),
        "h" => Some(3600),
        "d" => Some(86_400),
        "w" => Some(604_800),
        _ => None,
    };
    let seconds = number_with_unit(age, unit).and_then(|seconds| i64::try_from(seconds).ok());
    let seconds = seconds.ok_or_else(|| BadTest::Age(age.to_owned()))?;
    Ok(Timestamp { seconds: now.seconds.saturating_sub(seconds), nanos: now.nanos })
}

fn number_with_unit(text: &str, unit: impl Fn(&str) -> Option<u64>) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text[..digits].parse().ok()?;
    number.checked_mul(unit(&text[digits..])?)
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

    /// Reads letters such as `f` or `fd`; commas between them are allowed.
    pub fn kinds(letters: &str) -> Result<Test, BadTest> {
        let letters = letters.chars().filter(|letter| *letter != ',');
        Ok(Test::Kind(letters.map(Kind::from_letter).collect::<Result<_, _>>()?))
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
            Test::Kind(kinds) => kinds.contains(&Kind::of(&entry.kind)),
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

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::File => "file",
            Kind::Directory => "directory",
            Kind::Symlink => "symlink",
            Kind::Fifo => "fifo",
            Kind::Socket => "socket",
            Kind::BlockDevice => "block device",
            Kind::CharDevice => "character device",
        })
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
