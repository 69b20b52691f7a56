//! What is known of one entry of a host directory: enough to tell whether it is still the same.

use avfs_core::{Entry, EntryKind};
use avfs_tree::{ObjectError, Objects};
use serde::{Deserialize, Serialize};

use crate::approvals::raw::Raw;
use crate::digest;

/// An entry by what it holds and who may use it. Times, owners and inode numbers are not in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Print {
    File {
        size: u64,
        digest: String,
        mode: u32,
    },
    Symlink {
        target: Raw,
    },
    Directory,
    /// A pipe, a socket or a device.
    Other,
}

impl Print {
    pub fn of_file(bytes: &[u8], mode: u32) -> Print {
        Print::File { size: bytes.len() as u64, digest: digest::of_bytes(bytes), mode }
    }

    /// What an entry of a tree is as a file of the host.
    pub fn of_entry(objects: &Objects, entry: &Entry) -> Result<Print, ObjectError> {
        Ok(match &entry.kind {
            EntryKind::File { size, content } => Print::File {
                size: *size,
                digest: digest::of_content(objects, *content, *size)?,
                mode: entry.meta.mode & 0o777,
            },
            EntryKind::Symlink { target } => Print::Symlink { target: Raw::from(&target[..]) },
            EntryKind::Directory { .. } => Print::Directory,
            EntryKind::Fifo
            | EntryKind::Socket
            | EntryKind::CharDevice { .. }
            | EntryKind::BlockDevice { .. } => Print::Other,
        })
    }

    /// Whether two entries hold the same, whoever may use them.
    pub fn holds_the_same(&self, other: &Print) -> bool {
        match (self, other) {
            (Print::File { digest, .. }, Print::File { digest: other, .. }) => digest == other,
            (Print::Symlink { target }, Print::Symlink { target: other }) => target == other,
            // Nothing is known of what a pipe or a device holds.
            (Print::Directory, Print::Directory) => true,
            _ => false,
        }
    }

    pub fn mode(&self) -> Option<u32> {
        match self {
            Print::File { mode, .. } => Some(*mode),
            Print::Symlink { .. } | Print::Directory | Print::Other => None,
        }
    }

    /// Stands for what it holds, in a text.
    pub fn digest_text(&self) -> String {
        match self {
            Print::File { digest, .. } => digest.clone(),
            Print::Symlink { target } => format!("link {}", blake3::hash(target.as_bytes()).to_hex()),
            Print::Directory | Print::Other => self.kind().to_owned(),
        }
    }

    /// As a person would call it.
    pub fn kind(&self) -> &'static str {
        match self {
            Print::File { .. } => "a file",
            Print::Symlink { .. } => "a symbolic link",
            Print::Directory => "a directory",
            Print::Other => "a pipe, socket or device",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_no_content() {
        let (one, other) = (Print::of_file(b"x", 0o644), Print::of_file(b"x", 0o755));
        assert_ne!(one, other);
        assert!(one.holds_the_same(&other));
        assert!(!one.holds_the_same(&Print::of_file(b"y", 0o644)));
        assert!(!Print::Other.holds_the_same(&Print::Other));
    }
}
