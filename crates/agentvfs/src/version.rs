//! Versions of files, for writes that must not overwrite what someone else wrote.

use std::fmt;

use avfs_core::{Content, TreePath};
use avfs_tree::{ReadError, TreeReader};

use crate::error::{Error, Result};

/// Names the contents of a file: the BLAKE3 of its bytes, or `absent` for a file that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(String);

const ABSENT: &str = "absent";
/// How many digits of a version must be given at least.
const SHORTEST: usize = 8;
/// How much of a large file is hashed at a time.
const PIECE: usize = 1 << 20;

impl Version {
    pub fn absent() -> Version {
        Version(ABSENT.into())
    }

    pub fn of_bytes(bytes: &[u8]) -> Version {
        Version(blake3::hash(bytes).to_hex().to_string())
    }

    /// The version of a file in a tree. Only a piece of a large file is in memory at a time.
    pub fn of_file(reader: &TreeReader, path: &TreePath) -> Result<Version, ReadError> {
        match reader.file(path)? {
            // A blob is named by the BLAKE3 of its bytes: nothing has to be read.
            (_, Content::Blob(id)) => Ok(Version(id.to_string())),
            (_, Content::Empty | Content::Chunks(_)) => {
                Version::of_pieces(|offset, piece| reader.read_at(path, offset, piece))
            }
        }
    }

    /// The version of what `read` gives from an offset on, until it gives nothing.
    pub(crate) fn of_pieces<E>(
        mut read: impl FnMut(u64, &mut [u8]) -> Result<usize, E>,
    ) -> Result<Version, E> {
        let mut hasher = blake3::Hasher::new();
        let mut piece = vec![0; PIECE];
        loop {
            match read(hasher.count(), &mut piece)? {
                0 => return Ok(Version(hasher.finalize().to_hex().to_string())),
                len => hasher.update(&piece[..len]),
            };
        }
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
