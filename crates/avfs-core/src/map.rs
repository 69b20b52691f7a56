//! A sorted map from byte strings to records, kept as a Merkle tree of nodes.
//!
//! Directories, link tables and inode tables are such maps. Where a node ends is decided by the hash of the
//! key at its end and nothing else, so equal maps have equal nodes whatever their history, and changing
//! one record rewrites one node per level. A key of rank *r* ends its node on the levels 0 to *r* − 1;
//! a key has rank ≥ 1 with probability 1/64, ≥ 2 with 1/4096, and so on. The root is the lowest node that
//! stands alone on its level. An empty map has no node at all.

mod build;
mod diff;
mod walk;

use std::sync::Arc;

pub use build::{Edits, apply, from_sorted};
pub use diff::{MapDifference, diff};
pub use walk::{MapWalk, get, walk_after};

use crate::codec::{ByteReader, DecodeError, put_bytes, put_id, put_number};
use crate::entry::Totals;
use crate::id::NodeId;

/// A value in a map.
pub trait MapRecord: Clone + PartialEq {
    /// Appends the canonical encoding.
    fn encode(&self, out: &mut Vec<u8>);
    /// Reads what [`MapRecord::encode`] wrote.
    fn decode(reader: &mut ByteReader<'_>) -> Result<Self, DecodeError>;
    /// What this record adds to the totals of the nodes above it.
    fn totals(&self) -> Totals;
    /// Whether a map of such records may have this key.
    fn allows_key(key: &[u8]) -> bool {
        !key.is_empty()
    }
}

/// The interface through which nodes are fetched.
pub trait NodeSource<V: MapRecord> {
    /// Why a node could not be loaded.
    type Error;
    /// Loads the node with this id.
    fn load(&self, id: NodeId) -> Result<Arc<MapNode<V>>, Self::Error>;

    /// The root that the id of a map stands for: the id itself or, for a promise, the root that it was
    /// resolved to (`None`: an empty map).
    fn root(&self, id: NodeId) -> Result<Option<NodeId>, Self::Error> {
        Ok(Some(id))
    }

    /// Whether two maps are equal although their ids differ, because both are promises of the same directory
    /// and the older one was never resolved: the contents are then whatever the newer one resolves to.
    fn is_same_promise(&self, _: NodeId, _: NodeId) -> Result<bool, Self::Error> {
        Ok(false)
    }
}

impl<V: MapRecord, N: NodeSource<V> + ?Sized> NodeSource<V> for &N {
    type Error = N::Error;

    fn load(&self, id: NodeId) -> Result<Arc<MapNode<V>>, N::Error> {
        (**self).load(id)
    }

    fn root(&self, id: NodeId) -> Result<Option<NodeId>, N::Error> {
        (**self).root(id)
    }

    fn is_same_promise(&self, one: NodeId, other: NodeId) -> Result<bool, N::Error> {
        (**self).is_same_promise(one, other)
    }
}

/// The interface through which new nodes are stored.
pub trait NodeSink {
    /// Why a node could not be stored.
    type Error;
    /// Stores the encoding of a node; returns its id.
    fn store(&mut self, bytes: Vec<u8>) -> Result<NodeId, Self::Error>;
}

type Keyed<T> = Vec<(Box<[u8]>, T)>;

/// One node: records (level 0) or children (above), strictly ascending by key and never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapNode<V> {
    /// Records, by key.
    Leaf(Keyed<V>),
    /// Nodes of the level below, by their last keys.
    Inner {
        /// How many levels lie below this one.
        level: u8,
        /// The nodes.
        children: Vec<ChildNode>,
    },
}

/// A node as its parent sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildNode {
    /// The greatest key below.
    pub last_key: Box<[u8]>,
    /// The node.
    pub id: NodeId,
    /// How many records lie below.
    pub records: u64,
    /// The totals of these records.
    pub totals: Totals,
}

const RANK_BITS: u32 = 6;
/// Far above what 64-fold branching needs: an encoding with more levels is not a map of ours.
const MAX_LEVEL: u8 = 32;

/// The number of levels on which this key ends its node.
fn rank(key: &[u8]) -> u32 {
    let hash = blake3::hash(key);
    let mut low = [0u8; 8];
    low.copy_from_slice(&hash.as_bytes()[..8]);
    u64::from_le_bytes(low).trailing_zeros() / RANK_BITS
}

impl<V: MapRecord> MapNode<V> {
    /// How far it is above the records: 0 for a leaf.
    pub fn level(&self) -> u8 {
        match self {
            MapNode::Leaf(_) => 0,
            MapNode::Inner { level, .. } => *level,
        }
    }

    /// How many records lie in it or below.
    pub fn records(&self) -> u64 {
        match self {
            MapNode::Leaf(records) => records.len() as u64,
            MapNode::Inner { children, .. } => children
                .iter()
                .fold(0, |sum, child| sum.saturating_add(child.records)),
        }
    }

    /// The totals of the records in it or below.
    pub fn totals(&self) -> Totals {
        let zero = Totals::default();
        match self {
            MapNode::Leaf(records) => records
                .iter()
                .fold(zero, |sum, (_, record)| sum.plus(record.totals())),
            MapNode::Inner { children, .. } => {
                children.iter().fold(zero, |sum, child| sum.plus(child.totals))
            }
        }
    }

    fn last_key(&self) -> &[u8] {
        match self {
            MapNode::Leaf(records) => &records.last().expect("a node is never empty").0,
            MapNode::Inner { children, .. } => &children.last().expect("a node is never empty").last_key,
        }
    }

    fn seen_from_above(&self, id: NodeId) -> ChildNode {
        ChildNode {
            last_key: self.last_key().into(),
            id,
            records: self.records(),
            totals: self.totals(),
        }
    }

    /// The canonical encoding, by which the node is named.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(4096);
        out.push(self.level());
        match self {
            MapNode::Leaf(records) => {
                put_number(&mut out, records.len() as u64);
                for (key, record) in records {
                    put_bytes(&mut out, key);
                    record.encode(&mut out);
                }
            }
            MapNode::Inner { children, .. } => {
                put_number(&mut out, children.len() as u64);
                for child in children {
                    put_bytes(&mut out, &child.last_key);
                    put_id(&mut out, child.id.object());
                    put_number(&mut out, child.records);
                    child.totals.encode(&mut out);
                }
            }
        }
        out
    }

    /// Reads an encoding; fails unless it is canonical.
    pub fn decode(bytes: &[u8]) -> Result<MapNode<V>, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        let level = reader.byte()?;
        let count = reader.number()?;
        if count == 0 || level > MAX_LEVEL {
            return Err(DecodeError::Invalid("a node is empty or too deep"));
        }
        let node = if level == 0 {
            MapNode::Leaf(decode_sorted(&mut reader, count, V::allows_key, V::decode)?)
        } else {
            let pairs = decode_sorted(&mut reader, count, V::allows_key, decode_child)?;
            let children = pairs
                .into_iter()
                .map(|(last_key, child)| ChildNode { last_key, ..child });
            MapNode::Inner {
                level,
                children: children.collect(),
            }
        };
        reader.finish()?;
        Ok(node)
    }
}

fn decode_child(reader: &mut ByteReader<'_>) -> Result<ChildNode, DecodeError> {
    Ok(ChildNode {
        last_key: Box::default(),
        id: NodeId::from_object(reader.id()?),
        records: reader.number()?,
        totals: Totals::decode(reader)?,
    })
}

fn decode_sorted<T>(
    reader: &mut ByteReader<'_>,
    count: u64,
    allows_key: impl Fn(&[u8]) -> bool,
    decode: impl Fn(&mut ByteReader<'_>) -> Result<T, DecodeError>,
) -> Result<Keyed<T>, DecodeError> {
    let mut items: Keyed<T> = Vec::new();
    for _ in 0..count {
        let key = reader.bytes()?;
        if !allows_key(key) {
            return Err(DecodeError::Invalid("a key is not allowed here"));
        }
        if items.last().is_some_and(|last| &last.0[..] >= key) {
            return Err(DecodeError::Invalid("keys are not in order"));
        }
        items.push((key.into(), decode(reader)?));
    }
    Ok(items)
}

/// An in-memory map for tests and for building: a table that implements both interfaces.
#[derive(Clone, Debug, Default)]
pub struct NodeTable(pub std::collections::HashMap<NodeId, Vec<u8>>);

impl<V: MapRecord> NodeSource<V> for NodeTable {
    type Error = DecodeError;

    fn load(&self, id: NodeId) -> Result<Arc<MapNode<V>>, DecodeError> {
        let bytes = self.0.get(&id).ok_or(DecodeError::Invalid("a node is missing"))?;
        MapNode::decode(bytes).map(Arc::new)
    }
}

impl NodeSink for NodeTable {
    type Error = DecodeError;

    fn store(&mut self, bytes: Vec<u8>) -> Result<NodeId, DecodeError> {
        let id = NodeId::of(&bytes);
        self.0.insert(id, bytes);
        Ok(id)
    }
}

#[cfg(test)]
mod tests;
