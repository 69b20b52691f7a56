//! The door to a source: a place outside of the store whose directories and files are looked at when they are
//! needed.

use std::io;

use avfs_core::{Content, Entry, EntryKind, EntryName, Meta, SourceId, Stamp, Timestamp, TreePath};

use crate::objects::{ObjectError, ObjectWriter, Objects};

/// A lazy, read-only provider of a base tree. What it gives is kept: nothing is asked for twice.
pub trait Source: Send + Sync {
    /// What is in a directory now; nothing if there is no such directory any more.
    fn list(&self, path: &TreePath) -> Result<ListedDirectory, SourceError>;

    /// Stores the bytes of the version `stamp` of a file, or of the version that took its place. Never a
    /// mixture of two versions. A file of up to [`BLOB_MAX`](avfs_core::chunks::BLOB_MAX) bytes becomes one
    /// blob, whatever holes it has.
    fn take(
        &self,
        path: &TreePath,
        stamp: &Stamp,
        objects: &Objects,
        writer: &ObjectWriter,
    ) -> Result<Taken, SourceError>;
}

/// Finds the source that promises name, when one is first asked for.
pub trait Sources: Send + Sync {
    fn find(&self, id: SourceId) -> Result<std::sync::Arc<dyn Source>, SourceError>;
}

/// A directory of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedDirectory {
    /// When names in it were last made or removed; `None` if it is gone.
    pub ctime: Option<Timestamp>,
    pub entries: Vec<Listed>,
}

/// An entry of a directory of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub name: EntryName,
    pub meta: Meta,
    pub ctime: Timestamp,
    pub kind: ListedKind,
    /// The inode number that it shall have, if that is good for it alone.
    pub number: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListedKind {
    /// Its bytes are promised; an empty file has none.
    File(Stamp),
    /// Its entries are promised.
    Directory,
    /// Nothing is left to promise.
    Other(EntryKind),
}

/// What became of a file that was promised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    AsPromised(Content),
    /// The source has another version by now.
    Moved {
        entry: Entry,
        ctime: Timestamp,
    },
    Gone,
}

#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error("nobody knows the place that it comes from")]
    Unknown,
    /// The version that was promised is not there any more, and nothing was kept of it.
    #[error("it was changed before it was kept")]
    Moved,
    #[error("it changes all the time")]
    Restless,
    #[error("{action} {place}")]
    Io {
        action: &'static str,
        place: String,
        #[source]
        source: io::Error,
    },
    #[error("keeping it")]
    Store(#[source] Box<ObjectError>),
}

impl From<ObjectError> for SourceError {
    fn from(error: ObjectError) -> SourceError {
        SourceError::Store(Box::new(error))
    }
}
