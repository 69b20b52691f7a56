//! The doors to a store, and what can go wrong behind them.

use std::any::Any;
use std::path::PathBuf;

use avfs_core::{ObjectId, ObjectKind};
use bytes::Bytes;

/// An object read from a store, already verified against its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    pub kind: ObjectKind,
    pub bytes: Bytes,
}

/// An object to store. `id` must be `kind.hash(bytes)`: whoever made the bytes has hashed them already.
#[derive(Clone, Copy, Debug)]
pub struct NewObject<'a> {
    pub id: ObjectId,
    pub kind: ObjectKind,
    pub bytes: &'a [u8],
}

/// While a pin lives, a garbage collection removes nothing: neither what the store holds nor what is put.
/// Whoever puts objects holds one from before the first put until the refs that need them are committed.
#[must_use = "dropping a pin lets a garbage collection remove what was just put"]
pub struct Pin(#[allow(dead_code, reason = "held for its drop")] Box<dyn Any + Send + Sync>);

impl Pin {
    /// A pin that ends when `guard` is dropped.
    pub fn new(guard: impl Any + Send + Sync) -> Pin {
        Pin(Box::new(guard))
    }
}

/// Immutable bytes named by their hash. Batch-shaped, so that a remote store can hide its latency.
pub trait ObjectStore: Send + Sync {
    /// Returns the objects with these ids, in the order asked, each verified against its name.
    /// Fails with [`StoreError::Missing`] or [`StoreError::Corrupt`] if one cannot be given.
    fn get_many(&self, ids: &[ObjectId]) -> Result<Vec<Object>, StoreError>;

    /// Stores objects. Storing one again is a success and costs no space. What was put can be read back
    /// through this store at once, and by others after [`ObjectStore::sync`] or [`RefStore::commit`].
    fn put_many(&self, objects: &[NewObject<'_>]) -> Result<(), StoreError>;

    /// Says for each id whether it is stored, without reading it.
    fn contains_many(&self, ids: &[ObjectId]) -> Result<Vec<bool>, StoreError>;

    /// Returns once everything put before this call survives a power loss.
    fn sync(&self) -> Result<(), StoreError>;

    /// Holds back garbage collection until the pin is dropped.
    fn pin(&self) -> Result<Pin, StoreError>;

    /// An object that can be had at once, without a disk, a network or a lock that somebody may hold for long.
    /// `None` says nothing about whether it is stored.
    fn at_hand(&self, _id: ObjectId) -> Option<Object> {
        None
    }

    fn get(&self, id: ObjectId) -> Result<Object, StoreError> {
        self.get_many(&[id])?.pop().ok_or(StoreError::Missing { id })
    }
}

/// The name of a ref: readable text in components, such as `vault/000012`.
pub type RefKey = String;

/// A stretch of ref keys: those that start with `prefix`, in ascending order or from the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefRange {
    pub prefix: String,
    /// Start behind this key (or, in reverse, before it).
    pub after: Option<RefKey>,
    pub reverse: bool,
    pub limit: Option<usize>,
}

impl RefRange {
    pub fn prefix(prefix: impl Into<String>) -> RefRange {
        RefRange { prefix: prefix.into(), after: None, reverse: false, limit: None }
    }

    pub fn after(self, key: impl Into<String>) -> RefRange {
        RefRange { after: Some(key.into()), ..self }
    }

    pub fn reversed(self) -> RefRange {
        RefRange { reverse: true, ..self }
    }

    pub fn limit(self, limit: usize) -> RefRange {
        RefRange { limit: Some(limit), ..self }
    }
}

/// One part of a commit: what a ref must be now, and what it becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefEdit {
    pub key: RefKey,
    /// The value the ref must have for the commit to happen; `None`: it must not exist.
    pub expect: Option<Vec<u8>>,
    /// The new value; `None` deletes the ref. The same as `expect`: only checked.
    pub value: Option<Vec<u8>>,
}

impl RefEdit {
    pub fn create(key: impl Into<String>, value: impl Into<Vec<u8>>) -> RefEdit {
        RefEdit { key: key.into(), expect: None, value: Some(value.into()) }
    }

    pub fn replace(key: impl Into<String>, expect: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> RefEdit {
        RefEdit { key: key.into(), expect: Some(expect.into()), value: Some(value.into()) }
    }

    pub fn delete(key: impl Into<String>, expect: impl Into<Vec<u8>>) -> RefEdit {
        RefEdit { key: key.into(), expect: Some(expect.into()), value: None }
    }
}

/// Small mutable values under sorted names, changed together by compare-and-swap.
pub trait RefStore: Send + Sync {
    fn read(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Returns the refs of each range, in the order of ranges and all as of one moment.
    fn scan_many(&self, ranges: &[RefRange]) -> Result<Vec<Vec<(RefKey, Vec<u8>)>>, StoreError>;

    /// Returns the refs of a range, all as of one moment.
    fn scan(&self, range: &RefRange) -> Result<Vec<(RefKey, Vec<u8>)>, StoreError> {
        Ok(self.scan_many(std::slice::from_ref(range))?.pop().unwrap_or_default())
    }

    /// Makes all edits or none, and returns when they survive a power loss. Every object put through this
    /// store before is durable before the edits are. A ref that is not what an edit expects fails the
    /// whole commit with [`CommitError::Conflict`] and changes nothing.
    fn commit(&self, edits: &[RefEdit]) -> Result<(), CommitError>;
}

/// Both doors of one store.
pub trait Store: ObjectStore + RefStore {}

impl<S: ObjectStore + RefStore + ?Sized> Store for S {}

/// What can go wrong behind a door. Each variant is one thing for the caller to do.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Not there: the id is wrong, or it was collected.
    #[error("object {id} is not in the store")]
    Missing { id: ObjectId },
    /// There, but not the bytes that its name promises. Run fsck.
    #[error("object {id} is corrupt: {detail} ({place})")]
    Corrupt { id: ObjectId, place: String, detail: &'static str },
    /// A file of the store itself is damaged. Run fsck.
    #[error("{place} is damaged: {detail}")]
    Damaged { place: String, detail: String },
    /// No room left: free some space and try again; nothing was changed.
    #[error("no space left on the disk that holds {place}")]
    Full { place: String },
    /// Another process holds what this call needs. Try again later.
    #[error("{what} is in use by another process")]
    Busy { what: String },
    /// Made by a newer version of agentvfs.
    #[error("the store at {} has format {found}, and this version reads up to {supported}", place.display())]
    Newer { place: PathBuf, found: u32, supported: u32 },
    /// The place cannot hold a store.
    #[error("{} cannot hold a store: {reason}", place.display())]
    Unsuitable { place: PathBuf, reason: String },
    /// The operating system refused; the source says why.
    #[error("{action} {place}")]
    Io {
        action: &'static str,
        place: String,
        #[source]
        source: std::io::Error,
    },
    /// The database refused; the source says why.
    #[error("{action} in {place}")]
    Database {
        action: &'static str,
        place: String,
        #[source]
        source: rusqlite::Error,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// A ref was not what the commit expected: read it again and decide anew.
    #[error("{key} was changed by someone else")]
    Conflict { key: RefKey },
    #[error(transparent)]
    Store(#[from] StoreError),
}
