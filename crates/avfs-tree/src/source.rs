//! The interface to a source: a location outside of the store whose directories and files are read on demand.

use std::io;

use avfs_core::{Content, Entry, EntryKind, EntryName, Meta, SourceId, Stamp, Timestamp, TreePath};

use crate::objects::{ObjectError, ObjectWriter, Objects};

/// A lazy, read-only provider of a base tree. Its results are stored: nothing is requested twice.
pub trait Source: Send + Sync {
    /// The current contents of a directory; empty if the directory no longer exists.
    fn list(&self, path: &TreePath) -> Result<ListedDirectory, SourceError>;

    /// Stores the bytes of the version `stamp` of a file, or of the version that replaced it. Never a mixture
    /// of two versions. A file of up to [`BLOB_MAX`](avfs_core::chunks::BLOB_MAX) bytes becomes one blob,
    /// even if it has holes.
    fn take(
        &self,
        path: &TreePath,
        stamp: &Stamp,
        objects: &Objects,
        writer: &ObjectWriter,
    ) -> Result<TakenFile, SourceError>;
}

/// Finds the source to which promises refer, on first use.
pub trait SourceFinder: Send + Sync {
    /// The source with this id.
    fn find(&self, id: SourceId) -> Result<std::sync::Arc<dyn Source>, SourceError>;
}

/// A directory of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedDirectory {
    /// The last time that names in it were created or removed; `None` if it is gone.
    pub ctime: Option<Timestamp>,
    /// Its entries, in no order.
    pub entries: Vec<ListedEntry>,
}

/// An entry of a directory of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedEntry {
    /// The name.
    pub name: EntryName,
    /// The attributes.
    pub meta: Meta,
    /// When it was last changed.
    pub ctime: Timestamp,
    /// What it is.
    pub kind: ListedEntryKind,
    /// The inode number for it, if that number is unique.
    pub number: Option<u64>,
}

/// What an entry of a source is, and what of it is promised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListedEntryKind {
    /// Its bytes are promised; an empty file has none.
    File(Stamp),
    /// Its entries are promised.
    Directory,
    /// Not promised: complete already.
    Other(EntryKind),
}

/// The result of reading a promised file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TakenFile {
    /// The bytes of the promised version.
    AsPromised(Content),
    /// The source has another version by now.
    Moved {
        /// The other version.
        entry: Entry,
        /// When it was last changed.
        ctime: Timestamp,
    },
    /// There is no file any longer.
    Gone,
}

/// Why a source could not be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The source is not there.
    #[error("the directory that it comes from is missing")]
    Unknown,
    /// The version that was promised no longer exists, and nothing was stored of it.
    #[error("it was changed before it was kept")]
    Moved,
    /// Each attempt found another state.
    #[error("it changes all the time")]
    Restless,
    /// The system reported an error.
    #[error("{action} {place}")]
    Io {
        /// What was attempted.
        action: &'static str,
        /// The path.
        place: String,
        /// The error.
        #[source]
        source: io::Error,
    },
    /// What was read could not be stored.
    #[error("keeping it")]
    Store(#[source] Box<ObjectError>),
}

impl From<ObjectError> for SourceError {
    fn from(error: ObjectError) -> SourceError {
        SourceError::Store(Box::new(error))
    }
}
