//! The differences between two trees, for people and for `git apply`.
//!
//! [`file_changes`] turns the changes of a tree diff into a list of files, with exact renames found.
//! [`FileDiff`] compares the two sides of one of them, line by line where both are text. [`write_patch`] writes
//! the list in git's format: `git apply` takes all of it, `patch -p1` everything but binary files.
//!
//! A file is text if its first 8 KiB have no NUL byte and it is not too large.

mod binary;
mod blob;
mod changes;
mod file;
mod format;
mod lines;
mod quote;
mod words;

use avfs_core::TreePath;
use avfs_tree::ObjectError;

pub use blob::blob_sha1;
pub use changes::{ChangeSide, ChangeStatus, FileChange, file_changes};
pub use file::{FileDiff, PatchBody, PatchStat};
pub use format::{PatchReport, write_patch};
pub use lines::{Hunk, HunkLine, HunkLineKind, LineDiff};
pub use quote::quoted_bytes;
pub use words::WordDiff;

/// How a patch is made.
#[derive(Clone, Copy, Debug)]
pub struct PatchOptions {
    /// How many unchanged lines to show around a change.
    pub context: u32,
    /// Larger files are not compared line by line but taken as binary.
    pub text_bytes: u64,
    /// The bytes of larger files are left out, and a patch with them does not apply.
    pub binary_bytes: u64,
    /// Whether `hunk N` follows the line numbers of each hunk, where `git apply` and `patch` ignore it.
    pub number_hunks: bool,
}

impl Default for PatchOptions {
    fn default() -> PatchOptions {
        PatchOptions {
            context: 3,
            text_bytes: 16 << 20,
            binary_bytes: 64 << 20,
            number_hunks: false,
        }
    }
}

/// Why a patch could not be made.
#[derive(Debug, thiserror::Error)]
pub enum PatchError {
    /// An entry could not be read.
    #[error("reading {path}")]
    Object {
        /// The entry.
        path: TreePath,
        /// The error of the store.
        #[source]
        source: ObjectError,
    },
    /// The patch could not be written.
    #[error("writing the patch")]
    Write(#[source] std::io::Error),
}

#[cfg(test)]
mod tests;
