//! Versions of files, for writes that must not overwrite what someone else wrote.

use std::fmt;

use crate::error::{Error, Result};

/// Names the contents of a file: the BLAKE3 of its bytes, or `absent` for a file that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(String);

const ABSENT: &str = "absent";
/// How many digits of a version must be given at least.
const SHORTEST: usize = 8;

impl Version {
    pub fn absent() -> Version {
        Version(ABSENT.into())
    }

    pub fn of_bytes(bytes: &[u8]) -> Version {
        Version(blake3::hash(bytes).to_hex().to_string())
    }

    /// Reads a version as a user gives it: `absent`, or at least 8 digits.
    pub fn parse(text: &str) -> Result<Version> {
        let is_hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        if text == ABSENT || (text.len() >= SHORTEST && text.len() <= 64 && text.chars().all(is_hex)) {
            return Ok(Version(text.to_owned()));
        }
        let reason = "a version is 'absent' or at least 8 hexadecimal digits, as `avfs stat` shows it";
        Err(Error::BadLabel { what: "version", name: avfs_core::printable(text.as_bytes()), reason })
    }

    /// Whether this full version is the one that was expected, maybe in short.
    pub fn matches(&self, expected: &Version) -> bool {
        self.0.starts_with(&expected.0)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}
