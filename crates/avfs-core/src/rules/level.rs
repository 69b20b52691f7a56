//! The levels that a rule can grant.

use std::fmt;
use std::str::FromStr;

/// Which operations a path allows; each level includes those below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// It does not exist.
    None,
    /// It is listed and has attributes; its contents, link target and extended attributes are closed.
    View,
    /// Its contents can be read.
    Read,
    /// Read, and add at the end: no overwriting, truncating, renaming or deleting.
    Append,
    /// Everything is allowed.
    Write,
}

impl Level {
    /// From the strictest to the most open.
    pub const ALL: [Level; 5] = [Level::None, Level::View, Level::Read, Level::Append, Level::Write];

    /// The word for it in rules.
    pub fn as_str(self) -> &'static str {
        match self {
            Level::None => "none",
            Level::View => "view",
            Level::Read => "read",
            Level::Append => "append",
            Level::Write => "write",
        }
    }
}

/// The text is not a level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{}' is not a level: none, view, read, append or write", crate::printable(.0.as_bytes()))]
pub struct BadLevel(pub String);

impl FromStr for Level {
    type Err = BadLevel;

    fn from_str(text: &str) -> Result<Level, BadLevel> {
        let found = Level::ALL.into_iter().find(|level| level.as_str() == text);
        found.ok_or_else(|| BadLevel(text.to_owned()))
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
