//! The fingerprint of one entry of a host directory: enough to detect a change.

use avfs_core::{Entry, EntryKind};
use avfs_tree::{ObjectError, Objects};
use serde::{Deserialize, Serialize};

use crate::digest;
use crate::stored_bytes::StoredBytes;

/// An entry by its contents and permissions. Times, owners and inode numbers are not included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Print {
    File {
        size: u64,
        digest: String,
        mode: u32,
    },
    Symlink {
        target: StoredBytes,
    },
    Directory,
    /// A pipe, a socket or a device.
    Other,
}

impl Print {
    pub(super) fn of_file(bytes: &[u8], mode: u32) -> Print {
        Print::File {
            size: bytes.len() as u64,
            digest: digest::of_bytes(bytes),
            mode,
        }
    }

    /// The fingerprint of an entry of a tree as a file of the host.
    pub(super) fn of_entry(objects: &Objects, entry: &Entry) -> Result<Print, ObjectError> {
        Ok(match &entry.kind {
            EntryKind::File { size, content } => Print::File {
                size: *size,
                digest: digest::of_content(objects, *content, *size)?,
                mode: entry.meta.mode & 0o777,
            },
            EntryKind::Symlink { target } => Print::Symlink {
                target: StoredBytes::from(&target[..]),
            },
            EntryKind::Directory { .. } => Print::Directory,
            EntryKind::Fifo
            | EntryKind::Socket
            | EntryKind::CharDevice { .. }
            | EntryKind::BlockDevice { .. } => Print::Other,
        })
    }

    /// Whether two entries have the same contents, whatever their permissions.
    pub(super) fn holds_the_same(&self, other: &Print) -> bool {
        match (self, other) {
            (Print::File { digest, .. }, Print::File { digest: other, .. }) => digest == other,
            (Print::Symlink { target }, Print::Symlink { target: other }) => target == other,
            // The contents of a pipe or a device are unknown.
            (Print::Directory, Print::Directory) => true,
            _ => false,
        }
    }

    pub(super) fn mode(&self) -> Option<u32> {
        match self {
            Print::File { mode, .. } => Some(*mode),
            Print::Symlink { .. } | Print::Directory | Print::Other => None,
        }
    }

    /// Represents its contents, in a text.
    pub(super) fn digest_text(&self) -> String {
        match self {
            Print::File { digest, .. } => digest.clone(),
            Print::Symlink { target } => format!("link {}", blake3::hash(target.as_bytes()).to_hex()),
            Print::Directory | Print::Other => self.kind().to_owned(),
        }
    }

    /// As a person would call it.
    pub(super) fn kind(&self) -> &'static str {
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
