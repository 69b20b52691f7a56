//! The interfaces to a store ("doors"), and their errors.

use std::any::Any;
use std::path::PathBuf;

use avfs_core::{ObjectId, ObjectKind};
use bytes::Bytes;

use crate::upkeep::Upkeep;

/// An object read from a store, already verified against its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredObject {
    /// The kind of object.
    pub kind: ObjectKind,
    /// Its bytes.
    pub bytes: Bytes,
}

/// An object to store. `id` must be `kind.hash(bytes)`: the caller that created the bytes has already hashed
/// them.
#[derive(Clone, Copy, Debug)]
pub struct NewObject<'a> {
    /// The id under which it is stored.
    pub id: ObjectId,
    /// The kind of object, which is part of the hash.
    pub kind: ObjectKind,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// While a pin lives, a garbage collection removes nothing: neither stored objects nor new ones. A caller
/// that puts objects holds a pin from before the first put until the refs that need them are committed.
#[must_use = "dropping a pin lets a garbage collection remove what was just put"]
pub struct Pin(#[allow(dead_code, reason = "held for its drop")] Box<dyn Any + Send + Sync>);

impl Pin {
    /// A pin that ends when `guard` is dropped.
    pub fn new(guard: impl Any + Send + Sync) -> Pin {
        Pin(Box::new(guard))
    }
}

/// Immutable bytes named by their hash. Calls take batches, so that a remote store can hide its latency.
pub trait ObjectStore: Send + Sync {
    /// Returns the objects with these ids, in the same order, each verified against its name. Fails with
    /// [`StoreError::Missing`] or [`StoreError::Corrupt`] if an object cannot be returned.
    fn get_many(&self, ids: &[ObjectId]) -> Result<Vec<StoredObject>, StoreError>;

    /// Stores objects. Storing one again succeeds and costs no space. The objects can be read back through
    /// this store immediately, and by other processes after [`ObjectStore::sync`] or [`RefStore::commit`].
    fn put_many(&self, objects: &[NewObject<'_>]) -> Result<(), StoreError>;

    /// Returns for each id whether it is stored, without reading it.
    fn contains_many(&self, ids: &[ObjectId]) -> Result<Vec<bool>, StoreError>;

    /// Returns once everything put before this call survives a power loss.
    fn sync(&self) -> Result<(), StoreError>;

    /// Blocks garbage collection until the pin is dropped.
    fn pin(&self) -> Result<Pin, StoreError>;

    /// An object that is available immediately, without a disk, a network or a lock that another thread may
    /// hold for long. `None` does not mean that it is not stored.
    fn at_hand(&self, _id: ObjectId) -> Option<StoredObject> {
        None
    }

    /// What counts, verifies and sweeps the store; `None`: that is nothing that its users do.
    fn upkeep(&self) -> Option<&dyn Upkeep> {
        None
    }

    /// As [`ObjectStore::get_many`], for one object.
    fn get(&self, id: ObjectId) -> Result<StoredObject, StoreError> {
        self.get_many(&[id])?.pop().ok_or(StoreError::Missing { id })
    }
}

/// The name of a ref: readable text in components, such as `vault/000012`.
pub type RefKey = String;

/// A range of ref keys: those that start with `prefix`, in ascending order or from the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefRange {
    /// Only keys that start with this.
    pub prefix: String,
    /// Start after this key (or, in reverse, before it).
    pub after: Option<RefKey>,
    /// From the last key to the first.
    pub reverse: bool,
    /// At most so many keys.
    pub limit: Option<usize>,
}

impl RefRange {
    /// All keys that start with `prefix`, in ascending order.
    pub fn prefix(prefix: impl Into<String>) -> RefRange {
        RefRange {
            prefix: prefix.into(),
            after: None,
            reverse: false,
            limit: None,
        }
    }

    /// The same range from behind this key on.
    pub fn after(self, key: impl Into<String>) -> RefRange {
        RefRange {
            after: Some(key.into()),
            ..self
        }
    }

    /// The same range in descending order.
    pub fn reversed(self) -> RefRange {
        RefRange {
            reverse: true,
            ..self
        }
    }

    /// The same range, cut off after so many keys.
    pub fn limit(self, limit: usize) -> RefRange {
        RefRange {
            limit: Some(limit),
            ..self
        }
    }
}

/// One part of a commit: the expected value of a ref, and its new value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefEdit {
    /// The ref that is changed or checked.
    pub key: RefKey,
    /// The value that the ref must have for the commit to succeed; `None`: it must not exist.
    pub expect: Option<Vec<u8>>,
    /// The new value; `None` deletes the ref. If it equals `expect`, the ref is only checked.
    pub value: Option<Vec<u8>>,
}

impl RefEdit {
    /// Makes a ref that must not exist yet.
    pub fn create(key: impl Into<String>, value: impl Into<Vec<u8>>) -> RefEdit {
        RefEdit {
            key: key.into(),
            expect: None,
            value: Some(value.into()),
        }
    }

    /// Gives a ref another value.
    pub fn replace(key: impl Into<String>, expect: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> RefEdit {
        RefEdit {
            key: key.into(),
            expect: Some(expect.into()),
            value: Some(value.into()),
        }
    }

    /// Deletes a ref.
    pub fn delete(key: impl Into<String>, expect: impl Into<Vec<u8>>) -> RefEdit {
        RefEdit {
            key: key.into(),
            expect: Some(expect.into()),
            value: None,
        }
    }
}

/// Small mutable values under sorted names, changed together by compare-and-swap.
pub trait RefStore: Send + Sync {
    /// The value of a ref; `None` if it does not exist.
    fn read(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Returns the refs of each range, in the order of the ranges, all as of one moment.
    fn scan_many(&self, ranges: &[RefRange]) -> Result<Vec<Vec<(RefKey, Vec<u8>)>>, StoreError>;

    /// Returns the refs of a range, all as of one moment.
    fn scan(&self, range: &RefRange) -> Result<Vec<(RefKey, Vec<u8>)>, StoreError> {
        Ok(self
            .scan_many(std::slice::from_ref(range))?
            .pop()
            .unwrap_or_default())
    }

    /// Makes all edits or none, and returns when they survive a power loss. Every object that was put through
    /// this store before is durable before the edits are. A ref that differs from what an edit expects fails
    /// the whole commit with [`CommitError::Conflict`], and nothing changes.
    fn commit(&self, edits: &[RefEdit]) -> Result<(), CommitError>;
}

/// Both interfaces of one store.
pub trait Store: ObjectStore + RefStore {}

impl<S: ObjectStore + RefStore + ?Sized> Store for S {}

/// The errors of a store. Each variant calls for one reaction of the caller.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Not stored: the id is wrong, or the object was collected.
    #[error("object {id} is not in the store")]
    Missing {
        /// The object.
        id: ObjectId,
    },
    /// Stored, but the bytes do not match the name. Run fsck.
    #[error("object {id} is corrupt: {detail} ({place})")]
    Corrupt {
        /// The object.
        id: ObjectId,
        /// Where its bytes are.
        place: String,
        /// What does not match.
        detail: &'static str,
    },
    /// A file of the store itself is damaged. Run fsck.
    #[error("{place} is damaged: {detail}")]
    Damaged {
        /// The file, and the place in it.
        place: String,
        /// What does not match.
        detail: String,
    },
    /// No space left: free some space and try again; nothing was changed.
    #[error("no space left on the disk that holds {place}")]
    Full {
        /// The directory that is on that disk.
        place: String,
    },
    /// Another process holds a lock that this call needs. Try again later.
    #[error("{what} is in use by another process")]
    Busy {
        /// What is in use.
        what: String,
    },
    /// Made by a newer version of agentvfs.
    #[error("the store at {} has format {found}, and this version reads up to {supported}", place.display())]
    Newer {
        /// The directory of the store.
        place: PathBuf,
        /// The version that it has.
        found: u32,
        /// The newest version that this build can read.
        supported: u32,
    },
    /// The directory cannot hold a store.
    #[error("{} cannot hold a store: {reason}", place.display())]
    Unsuitable {
        /// The directory.
        place: PathBuf,
        /// Why it cannot be used.
        reason: String,
    },
    /// An operating system call failed; the source says why.
    #[error("{action} {place}")]
    Io {
        /// What was attempted.
        action: &'static str,
        /// The file or directory.
        place: String,
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
    /// A call of what holds the store, such as a database, failed; the source says why.
    #[error("{action} in {place}")]
    Engine {
        /// What was attempted.
        action: &'static str,
        /// The file or directory.
        place: String,
        /// The error of the engine.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Why a commit did not happen.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// A ref differs from what the commit expected: read it again and decide again.
    #[error("{key} was changed by someone else")]
    Conflict {
        /// The ref.
        key: RefKey,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
