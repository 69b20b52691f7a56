//! What differs between two trees, for people and for `git apply`.
//!
//! [`file_changes`] turns the changes of a tree diff into a list of files, with exact renames found.
//! [`FileDiff`] compares the two sides of one of them, line by line where both are text. [`write_patch`] writes
//! the list in git's format: `git apply` takes all of it, `patch -p1` everything but binary files.
//!
//! A file is text if its first 8 KiB have no NUL byte and it is not too large.

mod binary;
mod changes;
mod file;
mod format;
mod lines;
mod quote;
mod words;

use avfs_core::TreePath;
use avfs_tree::ObjectError;

pub use changes::{FileChange, Side, Status, file_changes};
pub use file::{Body, FileDiff, Stat};
pub use format::{PatchReport, write_patch};
pub use lines::{Hunk, HunkLine, HunkLineKind, LineDiff};
pub(crate) use quote::quoted_bytes;
pub use words::WordDiff;

#[derive(Clone, Copy, Debug)]
pub struct PatchOptions {
    /// How many unchanged lines to show around a change.
    pub context: u32,
    /// Larger files are not compared line by line but taken as binary.
    pub text_bytes: u64,
    /// The bytes of larger files are left out, and a patch with them does not apply.
    pub binary_bytes: u64,
    /// Whether `hunk N` stands behind the line numbers of each hunk, where `git apply` and `patch` ignore it.
    pub number_hunks: bool,
}

impl Default for PatchOptions {
    fn default() -> PatchOptions {
        PatchOptions { context: 3, text_bytes: 16 << 20, binary_bytes: 64 << 20, number_hunks: false }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum PatchError {
    #[error("reading {path}")]
    Object {
        path: TreePath,
        #[source]
        source: ObjectError,
    },
    #[error("writing the patch")]
    Write(#[source] std::io::Error),
}

#[cfg(test)]
mod tests;
