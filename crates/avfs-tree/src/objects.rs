//! Typed access to the objects of a store: decoded nodes in a cache, new objects in batches.

mod tray;

use std::sync::{Arc, Mutex};

use avfs_core::chunks::{ChunkNode, ChunkNodes, ChunkSink};
use avfs_core::map::{Node, NodeSink, Nodes};
use avfs_core::{
    BlobId, ChunksId, Content, DecodeError, LinkedFile, NodeId, ObjectId, ObjectKind, Promise, PromiseId,
    Slot, Snapshot, SnapshotId, TreePath,
};
use avfs_store::{NewObject, Store, StoreError};
use bytes::Bytes;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use self::tray::Tray;
use crate::inodes::InodeRecord;
use crate::promises::Promises;
use crate::source::SourceError;

pub use self::tray::Fetched;

#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The bytes are those that the id names, but not a value of ours: a foreign or forged object.
    #[error("{kind} {id} cannot be read")]
    Malformed {
        id: ObjectId,
        kind: ObjectKind,
        #[source]
        source: DecodeError,
    },
    #[error("object {id} is a {found}, where a {expected} belongs")]
    WrongKind { id: ObjectId, found: ObjectKind, expected: ObjectKind },
    /// Only for those who do not wait for the store: fetch it and try again.
    #[error("object {id} would have to be read first")]
    NotAtHand { id: ObjectId },
    /// Read it in parts.
    #[error("a file of {size} bytes does not fit into memory")]
    TooLarge { size: u64 },
    /// Something of a source that was never kept, and cannot be had.
    #[error("{path} of a source cannot be had")]
    Promised {
        /// Where it is in the source.
        path: TreePath,
        #[source]
        source: SourceError,
    },
    /// Found while walking a structure whose nodes are well-formed by themselves.
    #[error("a stored structure is inconsistent")]
    Structure(#[from] DecodeError),
}

/// The bytes of decoded nodes that are kept, for all vaults of a store together.
const NODE_CACHE_BYTES: u64 = 16 << 20;
/// How many bytes of new objects are gathered before they are handed to the store.
const BATCH_BYTES: usize = 256 << 10;

/// A store as the working tree sees it. Cheap to clone; clones share their cache.
#[derive(Clone)]
pub struct Objects {
    store: Arc<dyn Store>,
    nodes: Arc<Cache<NodeId, CachedNode, ByCount>>,
    promises: Arc<Promises>,
    tray: Arc<Tray>,
    /// Whether what is not at hand is read, or refused with [`ObjectError::NotAtHand`].
    waits: bool,
}

#[derive(Clone)]
enum CachedNode {
    Directory(Arc<Node<Slot>>),
    Links(Arc<Node<LinkedFile>>),
    Inodes(Arc<Node<InodeRecord>>),
}

#[derive(Clone)]
struct ByCount;

impl Weighter<NodeId, CachedNode> for ByCount {
    fn weight(&self, _: &NodeId, node: &CachedNode) -> u64 {
        const RECORD_BYTES: u64 = 160;
        let items = match node {
            CachedNode::Directory(node) => items(node),
            CachedNode::Links(node) => items(node),
            CachedNode::Inodes(node) => items(node),
        };
        RECORD_BYTES * (1 + items as u64)
    }
}

fn items<V>(node: &Node<V>) -> usize {
    match node {
        Node::Leaf(records) => records.len(),
        Node::Inner { children, .. } => children.len(),
    }
}

impl Objects {
    pub fn new(store: Arc<dyn Store>) -> Objects {
        let nodes = Cache::with_weighter(1024, NODE_CACHE_BYTES, ByCount);
        Objects {
            store,
            nodes: Arc::new(nodes),
            promises: Arc::new(Promises::new()),
            tray: Arc::default(),
            waits: true,
        }
    }

    pub(crate) fn promises(&self) -> &Promises {
        &self.promises
    }

    /// From now on this clone does, or does not, wait for the store and for sources.
    pub(crate) fn set_waits(&mut self, waits: bool) {
        self.waits = waits;
    }

    pub(crate) fn waits(&self) -> bool {
        self.waits
    }

    /// Reads an object for those who do not wait. A promise is kept, so that they find what it was kept as.
    pub(crate) fn fetch(&self, id: ObjectId) -> Result<Fetched, ObjectError> {
        let waiting = Objects { waits: true, ..self.clone() };
        let object = waiting.store.get(id)?;
        if object.kind == ObjectKind::Promise
            && let Some(promise) = waiting.promise(id)?
        {
            waiting.keep(PromiseId::from_object(id), &promise)?;
        }
        Ok(Fetched::new(&self.tray, id, object))
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    pub fn blob(&self, id: BlobId) -> Result<Bytes, ObjectError> {
        match self.bytes(id.object(), ObjectKind::Blob) {
            Err(ObjectError::WrongKind { found: ObjectKind::Promise, .. }) => {
                match self.promised(id.object())? {
                    Content::Blob(kept) => self.bytes(kept.object(), ObjectKind::Blob),
                    Content::Empty | Content::Chunks(_) => Err(misplaced(id.object(), ObjectKind::Blob)),
                }
            }
            read => read,
        }
    }

    /// The contents that a promise was kept as.
    fn promised(&self, id: ObjectId) -> Result<Content, ObjectError> {
        let bytes = self.bytes(id, ObjectKind::Promise)?;
        let promise = Promise::decode(&bytes).map_err(|source| malformed(id, ObjectKind::Promise, source))?;
        self.keep_content(id, &promise)
    }

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
            return Err(ObjectError::WrongKind { id, found: object.kind, expected });
        }
        Ok(object.bytes)
    }

    /// An object, unless it is not at hand and this clone does not wait.
    pub(crate) fn object(&self, id: ObjectId) -> Result<avfs_store::Object, ObjectError> {
        match self.waits {
            true => Ok(self.store.get(id)?),
            false => self.at_hand(id).ok_or(ObjectError::NotAtHand { id }),
        }
    }

    fn at_hand(&self, id: ObjectId) -> Option<avfs_store::Object> {
        self.store.at_hand(id).or_else(|| self.tray.get(id))
    }

    fn node_bytes(&self, id: NodeId) -> Result<Bytes, ObjectError> {
        self.bytes(id.object(), ObjectKind::Node)
    }
}

fn misplaced(id: ObjectId, expected: ObjectKind) -> ObjectError {
    ObjectError::WrongKind { id, found: ObjectKind::Promise, expected }
}

fn malformed(id: ObjectId, kind: ObjectKind, source: DecodeError) -> ObjectError {
    ObjectError::Malformed { id, kind, source }
}

macro_rules! cached_nodes {
    ($load:ident, $record:ty, $variant:ident) => {
        impl Objects {
            fn $load(&self, id: NodeId) -> Result<Arc<Node<$record>>, ObjectError> {
                if let Some(CachedNode::$variant(node)) = self.nodes.get(&id) {
                    return Ok(node);
                }
                let bytes = self.node_bytes(id)?;
                let node = Node::decode(&bytes)
                    .map(Arc::new)
                    .map_err(|source| malformed(id.object(), ObjectKind::Node, source))?;
                self.nodes.insert(id, CachedNode::$variant(Arc::clone(&node)));
                Ok(node)
            }
        }
    };
}

cached_nodes!(directory_node, Slot, Directory);
cached_nodes!(links_node, LinkedFile, Links);
cached_nodes!(inodes_node, InodeRecord, Inodes);

/// Only the map of a directory can be promised.
impl Nodes<Slot> for Objects {
    type Error = ObjectError;

    fn load(&self, id: NodeId) -> Result<Arc<Node<Slot>>, ObjectError> {
        match self.directory_node(id) {
            Err(ObjectError::WrongKind { found: ObjectKind::Promise, .. }) => {
                match Nodes::<Slot>::root(self, id)? {
                    Some(root) => self.directory_node(root),
                    None => Ok(Arc::new(Node::Leaf(Vec::new()))),
                }
            }
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
        let is_own = |id: NodeId| matches!(self.nodes.get(&id), Some(CachedNode::Directory(_)));
        if is_own(one) || is_own(other) {
            return Ok(false);
        }
        self.is_same_directory(one.object(), other.object())
    }
}

impl Nodes<LinkedFile> for Objects {
    type Error = ObjectError;

    fn load(&self, id: NodeId) -> Result<Arc<Node<LinkedFile>>, ObjectError> {
        self.links_node(id)
    }
}

impl Nodes<InodeRecord> for Objects {
    type Error = ObjectError;

    fn load(&self, id: NodeId) -> Result<Arc<Node<InodeRecord>>, ObjectError> {
        self.inodes_node(id)
    }
}

impl ChunkNodes for Objects {
    type Error = ObjectError;

    fn load(&self, id: ChunksId) -> Result<Arc<ChunkNode>, ObjectError> {
        let bytes = match self.bytes(id.object(), ObjectKind::Chunks) {
            Err(ObjectError::WrongKind { found: ObjectKind::Promise, .. }) => match self
                .promised(id.object())?
            {
                Content::Chunks(kept) => self.bytes(kept.object(), ObjectKind::Chunks)?,
                Content::Empty | Content::Blob(_) => return Err(misplaced(id.object(), ObjectKind::Chunks)),
            },
            read => read?,
        };
        let node = ChunkNode::decode(&bytes);
        node.map(Arc::new).map_err(|source| malformed(id.object(), ObjectKind::Chunks, source))
    }
}

/// New objects on their way into a store, gathered into batches. Several threads may write through one.
pub struct ObjectWriter {
    store: Arc<dyn Store>,
    promises: Arc<Promises>,
    batch: Mutex<Batch>,
}

#[derive(Default)]
struct Batch {
    objects: Vec<(ObjectId, ObjectKind, Vec<u8>)>,
    bytes: usize,
}

impl ObjectWriter {
    pub fn new(objects: &Objects) -> ObjectWriter {
        let (store, promises) = (Arc::clone(&objects.store), Arc::clone(&objects.promises));
        ObjectWriter { store, promises, batch: Mutex::default() }
    }

    pub fn put_blob(&self, bytes: Vec<u8>) -> Result<BlobId, ObjectError> {
        let id = BlobId::of(&bytes);
        self.put(id.object(), ObjectKind::Blob, bytes)?;
        Ok(id)
    }

    pub fn put_snapshot(&self, snapshot: &Snapshot) -> Result<SnapshotId, ObjectError> {
        let bytes = snapshot.encode();
        let id = SnapshotId::of(&bytes);
        self.put(id.object(), ObjectKind::Snapshot, bytes)?;
        Ok(id)
    }

    pub fn put_promise(&self, promise: &Promise) -> Result<PromiseId, ObjectError> {
        let bytes = promise.encode();
        let id = PromiseId::of(&bytes);
        self.promises.note_one();
        self.put(id.object(), ObjectKind::Promise, bytes)?;
        Ok(id)
    }

    fn put(&self, id: ObjectId, kind: ObjectKind, bytes: Vec<u8>) -> Result<(), ObjectError> {
        let full = {
            let mut batch = self.batch.lock().expect("no panic happens while the lock is held");
            batch.bytes += bytes.len();
            batch.objects.push((id, kind, bytes));
            (batch.bytes >= BATCH_BYTES).then(|| std::mem::take(&mut *batch))
        };
        match full {
            Some(batch) => self.send(&batch),
            None => Ok(()),
        }
    }

    fn send(&self, batch: &Batch) -> Result<(), ObjectError> {
        let new = batch.objects.iter().map(|(id, kind, bytes)| NewObject { id: *id, kind: *kind, bytes });
        Ok(self.store.put_many(&new.collect::<Vec<_>>())?)
    }

    /// Hands what is left to the store: from now on it can be read through it.
    pub fn flush(&self) -> Result<(), ObjectError> {
        let batch = {
            let mut batch = self.batch.lock().expect("no panic happens while the lock is held");
            std::mem::take(&mut *batch)
        };
        if batch.objects.is_empty() { Ok(()) } else { self.send(&batch) }
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
