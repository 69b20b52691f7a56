//! Typed access to the objects of a store: decoded nodes in a cache, new objects in batches.

mod prefetched;

use std::sync::{Arc, Mutex};

use avfs_core::chunks::{ChunkNode, ChunkNodes, ChunkSink};
use avfs_core::map::{self, MapNode, NodeSink, NodeSource};
use avfs_core::{
    BlobId, ChunksId, Content, DecodeError, Entry, EntryKind, LinkedFile, NodeId, ObjectId, ObjectKind,
    Promise, PromiseId, Slot, Snapshot, SnapshotId, TreePath,
};
use avfs_store::{NewObject, Store, StoreError};
use bytes::Bytes;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use self::prefetched::PrefetchedObjects;
use crate::inodes::InodeRecord;
use crate::promises::Promises;
use crate::source::SourceError;

pub use self::prefetched::PrefetchedObject;

/// Why an object could not be read or stored as a value.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// The store failed, or does not have it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The bytes match the id, but do not encode a value of ours: a foreign or forged object.
    #[error("{kind} {id} cannot be read")]
    Malformed {
        /// The object.
        id: ObjectId,
        /// The kind that it says it is.
        kind: ObjectKind,
        /// What is wrong with its bytes.
        #[source]
        source: DecodeError,
    },
    /// A reference leads to an object of another kind.
    #[error("object {id} is a {found}, where a {expected} belongs")]
    WrongKind {
        /// The object.
        id: ObjectId,
        /// The kind that it is.
        found: ObjectKind,
        /// The kind that belongs there.
        expected: ObjectKind,
    },
    /// Only for callers that do not wait for the store: fetch it and try again.
    #[error("object {id} would have to be read first")]
    NotAtHand {
        /// The object.
        id: ObjectId,
    },
    /// Must be read in parts.
    #[error("a file of {size} bytes does not fit into memory")]
    TooLarge {
        /// Its size in bytes.
        size: u64,
    },
    /// An entry of a source that was never read, and is not available.
    #[error("{path} of a source cannot be had")]
    Promised {
        /// Its path in the source.
        path: TreePath,
        /// Why it is not available.
        #[source]
        source: SourceError,
    },
    /// Found while walking a structure whose nodes are individually well-formed.
    #[error("a stored structure is inconsistent")]
    Structure(#[from] DecodeError),
}

/// The limit for decoded nodes in memory, for all vaults of a store together.
const NODE_CACHE_BYTES: u64 = 16 << 20;
/// The most names of a directory that are read ahead of time.
const MOST_NAMES: usize = 4096;
/// How many bytes of new objects are collected before they are put into the store.
const BATCH_BYTES: usize = 256 << 10;

/// A store as the working tree uses it. Cheap to clone; clones share their cache.
#[derive(Clone)]
pub struct Objects {
    store: Arc<dyn Store>,
    nodes: Arc<Cache<NodeId, CachedNode, ByCount>>,
    promises: Arc<Promises>,
    prefetched: Arc<PrefetchedObjects>,
    /// Whether objects that are not in memory are read, or refused with [`ObjectError::NotAtHand`].
    waits: bool,
}

#[derive(Clone)]
enum CachedNode {
    Directory(Arc<MapNode<Slot>>),
    Links(Arc<MapNode<LinkedFile>>),
    Inodes(Arc<MapNode<InodeRecord>>),
}

#[derive(Clone)]
struct ByCount;

impl Weighter<NodeId, CachedNode> for ByCount {
    fn weight(&self, _: &NodeId, node: &CachedNode) -> u64 {
        // About the size of a decoded record with a short name; nobody counts exactly.
        const RECORD_BYTES: u64 = 160;
        let items = match node {
            CachedNode::Directory(node) => items(node),
            CachedNode::Links(node) => items(node),
            CachedNode::Inodes(node) => items(node),
        };
        RECORD_BYTES * (1 + items as u64)
    }
}

fn items<V>(node: &MapNode<V>) -> usize {
    match node {
        MapNode::Leaf(records) => records.len(),
        MapNode::Inner { children, .. } => children.len(),
    }
}

impl Objects {
    /// The objects of a store, without a source for promises.
    pub fn new(store: Arc<dyn Store>) -> Objects {
        let nodes = Cache::with_weighter(1024, NODE_CACHE_BYTES, ByCount);
        Objects {
            store,
            nodes: Arc::new(nodes),
            promises: Arc::new(Promises::new()),
            prefetched: Arc::default(),
            waits: true,
        }
    }

    pub(crate) fn promises(&self) -> &Promises {
        &self.promises
    }

    /// Sets whether this clone waits for the store and for sources from now on.
    pub(crate) fn set_waits(&mut self, waits: bool) {
        self.waits = waits;
    }

    pub(crate) fn waits(&self) -> bool {
        self.waits
    }

    /// Reads an object for callers that do not wait. A promise is resolved, so that they find the result.
    pub(crate) fn fetch(&self, id: ObjectId) -> Result<PrefetchedObject, ObjectError> {
        let waiting = Objects {
            waits: true,
            ..self.clone()
        };
        // A promise is fulfilled here as well, so that the next attempt has everything that it needs.
        let object = waiting.store.get(id)?;
        let promise = match object.kind {
            ObjectKind::Promise => waiting.promise(id)?,
            _ => None,
        };
        if let Some(promise) = &promise {
            waiting.keep(PromiseId::from_object(id), promise)?;
        }
        Ok(PrefetchedObject::new(&self.prefetched, id, object, promise))
    }

    /// Brings into memory what programs need of an entry first: the names in a directory with their numbers, or the
    /// contents of a small file. Returns how many bytes the contents have.
    pub fn read_ahead(&self, entry: &Entry) -> Result<u64, ObjectError> {
        match entry.kind {
            EntryKind::Directory {
                entries: Some(entries),
                ..
            } => {
                let (mut entries, mut numbers) = (Some(entries), None);
                if let Some(kept) = entries.map(|id| self.keep_listing(id)).transpose()?.flatten() {
                    (entries, numbers) = (kept.entries, kept.numbers);
                }
                let mut names = map::walk_after::<Slot, _>(self.clone(), entries, None)?;
                let mut numbers = map::walk_after::<InodeRecord, _>(self.clone(), numbers, None)?;
                for _ in 0..MOST_NAMES {
                    if names.advance()?.is_none() && numbers.advance()?.is_none() {
                        break;
                    }
                }
                Ok(0)
            }
            EntryKind::File {
                content: content @ Content::Blob(id),
                size,
            } => {
                // Another version than the promised one is found by the program that reads the file.
                if self.keep_contents_of(entry)? && matches!(self.known_content(content)?, Content::Blob(_)) {
                    self.blob(id)?;
                }
                Ok(size)
            }
            _ => Ok(0),
        }
    }

    /// The store itself.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The bytes of a blob.
    pub fn blob(&self, id: BlobId) -> Result<Bytes, ObjectError> {
        match self.bytes(id.object(), ObjectKind::Blob) {
            Err(ObjectError::WrongKind {
                found: ObjectKind::Promise,
                ..
            }) => match self.promised(id.object())? {
                Content::Blob(kept) => self.bytes(kept.object(), ObjectKind::Blob),
                Content::Empty | Content::Chunks(_) => Err(misplaced(id.object(), ObjectKind::Blob)),
            },
            read => read,
        }
    }

    /// The contents that a promise was resolved to.
    fn promised(&self, id: ObjectId) -> Result<Content, ObjectError> {
        let bytes = self.bytes(id, ObjectKind::Promise)?;
        let promise = Promise::decode(&bytes).map_err(|source| malformed(id, ObjectKind::Promise, source))?;
        self.keep_content(id, &promise)
    }

    /// A snapshot.
    pub fn snapshot(&self, id: SnapshotId) -> Result<Snapshot, ObjectError> {
        let bytes = self.bytes(id.object(), ObjectKind::Snapshot)?;
        Snapshot::decode(&bytes).map_err(|source| malformed(id.object(), ObjectKind::Snapshot, source))
    }

    fn bytes(&self, id: ObjectId, expected: ObjectKind) -> Result<Bytes, ObjectError> {
        let object = self.object(id)?;
        if object.kind == ObjectKind::Promise {
            self.promises.note_one();
        }
        if object.kind != expected {
            return Err(ObjectError::WrongKind {
                id,
                found: object.kind,
                expected,
            });
        }
        Ok(object.bytes)
    }

    /// An object, unless it is not in memory and this clone does not wait.
    pub(crate) fn object(&self, id: ObjectId) -> Result<avfs_store::StoredObject, ObjectError> {
        if self.waits {
            Ok(self.store.get(id)?)
        } else {
            self.at_hand(id).ok_or(ObjectError::NotAtHand { id })
        }
    }

    fn at_hand(&self, id: ObjectId) -> Option<avfs_store::StoredObject> {
        // The store first: what its cache has needs no second copy.
        self.store.at_hand(id).or_else(|| self.prefetched.get(id))
    }

    fn node_bytes(&self, id: NodeId) -> Result<Bytes, ObjectError> {
        self.bytes(id.object(), ObjectKind::Node)
    }
}

fn misplaced(id: ObjectId, expected: ObjectKind) -> ObjectError {
    ObjectError::WrongKind {
        id,
        found: ObjectKind::Promise,
        expected,
    }
}

fn malformed(id: ObjectId, kind: ObjectKind, source: DecodeError) -> ObjectError {
    ObjectError::Malformed { id, kind, source }
}

macro_rules! cached_nodes {
    ($load:ident, $record:ty, $variant:ident) => {
        impl Objects {
            fn $load(&self, id: NodeId) -> Result<Arc<MapNode<$record>>, ObjectError> {
                if let Some(CachedNode::$variant(node)) = self.nodes.get(&id) {
                    return Ok(node);
                }
                let bytes = self.node_bytes(id)?;
                let node = MapNode::decode(&bytes)
                    .map(Arc::new)
                    .map_err(|source| malformed(id.object(), ObjectKind::Node, source))?;
                self.nodes
                    .insert(id, CachedNode::$variant(Arc::clone(&node)));
                Ok(node)
            }
        }
    };
}

cached_nodes!(directory_node, Slot, Directory);
cached_nodes!(links_node, LinkedFile, Links);
cached_nodes!(inodes_node, InodeRecord, Inodes);

/// Only the map of a directory can be promised.
impl NodeSource<Slot> for Objects {
    type Error = ObjectError;

    fn load(&self, id: NodeId) -> Result<Arc<MapNode<Slot>>, ObjectError> {
        match self.directory_node(id) {
            Err(ObjectError::WrongKind {
                found: ObjectKind::Promise,
                ..
            }) => match NodeSource::<Slot>::root(self, id)? {
                Some(root) => self.directory_node(root),
                // The directory of the source is empty, and has no node.
                None => Ok(Arc::new(MapNode::Leaf(Vec::new()))),
            },
            loaded => loaded,
        }
    }

    fn root(&self, id: NodeId) -> Result<Option<NodeId>, ObjectError> {
        // Promises are never in the cache.
        if matches!(self.nodes.get(&id), Some(CachedNode::Directory(_))) {
            return Ok(Some(id));
        }
        Ok(self.keep_listing(id)?.map_or(Some(id), |kept| kept.entries))
    }

    fn is_same_promise(&self, one: NodeId, other: NodeId) -> Result<bool, ObjectError> {
        // A node that was decoded is no promise, and asking the cache is cheaper than reading an object.
        let is_own = |id: NodeId| matches!(self.nodes.get(&id), Some(CachedNode::Directory(_)));
        if is_own(one) || is_own(other) {
            return Ok(false);
        }
        self.is_same_directory(one.object(), other.object())
    }
}

impl NodeSource<LinkedFile> for Objects {
    type Error = ObjectError;

    fn load(&self, id: NodeId) -> Result<Arc<MapNode<LinkedFile>>, ObjectError> {
        self.links_node(id)
    }
}

impl NodeSource<InodeRecord> for Objects {
    type Error = ObjectError;

    fn load(&self, id: NodeId) -> Result<Arc<MapNode<InodeRecord>>, ObjectError> {
        self.inodes_node(id)
    }
}

impl ChunkNodes for Objects {
    type Error = ObjectError;

    fn load(&self, id: ChunksId) -> Result<Arc<ChunkNode>, ObjectError> {
        let bytes = match self.bytes(id.object(), ObjectKind::Chunks) {
            Err(ObjectError::WrongKind {
                found: ObjectKind::Promise,
                ..
            }) => match self.promised(id.object())? {
                Content::Chunks(kept) => self.bytes(kept.object(), ObjectKind::Chunks)?,
                Content::Empty | Content::Blob(_) => return Err(misplaced(id.object(), ObjectKind::Chunks)),
            },
            read => read?,
        };
        let node = ChunkNode::decode(&bytes);
        node.map(Arc::new)
            .map_err(|source| malformed(id.object(), ObjectKind::Chunks, source))
    }
}

/// New objects on their way into a store, collected into batches. Several threads may use the same writer.
pub struct ObjectWriter {
    store: Arc<dyn Store>,
    promises: Arc<Promises>,
    batch: Mutex<WriteBatch>,
}

#[derive(Default)]
struct WriteBatch {
    objects: Vec<(ObjectId, ObjectKind, Vec<u8>)>,
    bytes: usize,
}

impl ObjectWriter {
    /// A writer into the store of these objects.
    pub fn new(objects: &Objects) -> ObjectWriter {
        let store = Arc::clone(&objects.store);
        let promises = Arc::clone(&objects.promises);
        ObjectWriter {
            store,
            promises,
            batch: Mutex::default(),
        }
    }

    /// Stores the bytes of a file.
    pub fn put_blob(&self, bytes: Vec<u8>) -> Result<BlobId, ObjectError> {
        let id = BlobId::of(&bytes);
        self.put(id.object(), ObjectKind::Blob, bytes)?;
        Ok(id)
    }

    /// Stores a snapshot.
    pub fn put_snapshot(&self, snapshot: &Snapshot) -> Result<SnapshotId, ObjectError> {
        let bytes = snapshot.encode();
        let id = SnapshotId::of(&bytes);
        self.put(id.object(), ObjectKind::Snapshot, bytes)?;
        Ok(id)
    }

    /// Stores a promise.
    pub fn put_promise(&self, promise: &Promise) -> Result<PromiseId, ObjectError> {
        let bytes = promise.encode();
        let id = PromiseId::of(&bytes);
        self.promises.note_one();
        self.put(id.object(), ObjectKind::Promise, bytes)?;
        Ok(id)
    }

    fn put(&self, id: ObjectId, kind: ObjectKind, bytes: Vec<u8>) -> Result<(), ObjectError> {
        let full = {
            let mut batch = self
                .batch
                .lock()
                .expect("no panic happens while the lock is held");
            batch.bytes += bytes.len();
            batch.objects.push((id, kind, bytes));
            // Taken out under the lock and sent without it, so that other threads go on collecting.
            (batch.bytes >= BATCH_BYTES).then(|| std::mem::take(&mut *batch))
        };
        match full {
            Some(batch) => self.send(&batch),
            None => Ok(()),
        }
    }

    fn send(&self, batch: &WriteBatch) -> Result<(), ObjectError> {
        let new = batch.objects.iter().map(|(id, kind, bytes)| NewObject {
            id: *id,
            kind: *kind,
            bytes,
        });
        Ok(self.store.put_many(&new.collect::<Vec<_>>())?)
    }

    /// Puts the rest into the store: from now on it can be read through it.
    pub fn flush(&self) -> Result<(), ObjectError> {
        let batch = {
            let mut batch = self
                .batch
                .lock()
                .expect("no panic happens while the lock is held");
            std::mem::take(&mut *batch)
        };
        if batch.objects.is_empty() {
            Ok(())
        } else {
            self.send(&batch)
        }
    }
}

impl NodeSink for &ObjectWriter {
    type Error = ObjectError;

    fn store(&mut self, bytes: Vec<u8>) -> Result<NodeId, ObjectError> {
        let id = NodeId::of(&bytes);
        self.put(id.object(), ObjectKind::Node, bytes)?;
        Ok(id)
    }
}

impl ChunkSink for &ObjectWriter {
    type Error = ObjectError;

    fn store(&mut self, bytes: Vec<u8>) -> Result<ChunksId, ObjectError> {
        let id = ChunksId::of(&bytes);
        self.put(id.object(), ObjectKind::Chunks, bytes)?;
        Ok(id)
    }
}
