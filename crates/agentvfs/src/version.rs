//! Versions of files, for writes that must not overwrite changes by others.

use std::fmt;

use avfs_core::{Content, TreePath};
use avfs_tree::{ReadError, TreeReader};

use crate::digest::{self, Extents};
use crate::error::{Error, Result, VaultError};

/// Identifies the contents of a file, or its absence (`absent`). Up to 16 MiB it is the BLAKE3 of its bytes;
/// for larger files, that of the blocks with data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(String);

const ABSENT: &str = "absent";
/// The minimum number of digits of a version.
const SHORTEST: usize = 8;

impl Version {
    /// The version of a file that does not exist.
    pub fn absent() -> Version {
        Version(ABSENT.into())
    }

    /// The version of a file with these bytes.
    pub fn of_bytes(bytes: &[u8]) -> Version {
        Version(digest::of_bytes(bytes))
    }

    /// The version of a file in a tree. Only a piece of a large file is in memory at a time, and holes are not read.
    pub fn of_file(reader: &TreeReader, path: &TreePath) -> Result<Version, ReadError> {
        let failed = |source| ReadError::Object {
            path: path.clone(),
            source,
        };
        let objects = reader.objects();
        let (size, content) = reader.file(path)?;
        if let Content::Blob(id) = content {
            // A blob is named by the BLAKE3 of its bytes: nothing has to be read. A promise of one has another name.
            let promise = objects.promise(id.object()).map_err(failed)?;
            return Ok(match promise {
                None => Version(id.to_string()),
                Some(_) => Version::of_bytes(&objects.blob(id).map_err(failed)?),
            });
        }
        let found = digest::of_content(objects, content, size);
        Ok(Version(found.map_err(failed)?))
    }

    /// The version of a file of `size` bytes that is open; `None` if it is shorter by now.
    pub(crate) fn of_extents<X: Extents>(file: &mut X, size: u64) -> Result<Option<Version>, X::Error> {
        Ok(digest::digest(file, size)?.map(Version))
    }

    /// Reads a version as a user gives it: `absent`, or at least 8 digits.
    pub fn parse(text: &str) -> Result<Version> {
        let is_hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        if text == ABSENT || (text.len() >= SHORTEST && text.len() <= 64 && text.chars().all(is_hex)) {
            return Ok(Version(text.to_owned()));
        }
        let reason = "a version is 'absent' or at least 8 hexadecimal digits";
        Err(Error::Vault(VaultError::BadName {
            what: "version",
            name: avfs_core::printable(text.as_bytes()),
            reason,
        }))
    }

    /// Whether this full version is the expected one, which may be abbreviated.
    pub fn matches(&self, expected: &Version) -> bool {
        self.0.starts_with(&expected.0)
    }

    /// The version as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}
