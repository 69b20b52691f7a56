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
pub use diff::{Difference, diff};
pub use walk::{Walk, get, walk_after};

use crate::codec::{DecodeError, Reader, put_bytes, put_id, put_number};
use crate::entry::Totals;
use crate::id::NodeId;

/// A value in a map.
pub trait Record: Clone + PartialEq {
    fn encode(&self, out: &mut Vec<u8>);
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError>;
    /// What this record adds to the totals of the nodes above it.
    fn totals(&self) -> Totals;
    /// Whether a map of such records may have this key.
    fn allows_key(key: &[u8]) -> bool {
        !key.is_empty()
    }
}

/// The door through which nodes are fetched.
pub trait Nodes<V: Record> {
    type Error;
    fn load(&self, id: NodeId) -> Result<Arc<Node<V>>, Self::Error>;

    /// The root that the id of a map stands for: itself, or what a promise was kept as (`None`: an empty map).
    fn root(&self, id: NodeId) -> Result<Option<NodeId>, Self::Error> {
        Ok(Some(id))
    }

    /// Whether two maps are the same although their ids differ, because they are promises of one thing at which nobody
    /// looked by way of the older one: then it is as the newer one finds it.
    fn is_same_promise(&self, _: NodeId, _: NodeId) -> Result<bool, Self::Error> {
        Ok(false)
    }
}

impl<V: Record, N: Nodes<V> + ?Sized> Nodes<V> for &N {
    type Error = N::Error;

    fn load(&self, id: NodeId) -> Result<Arc<Node<V>>, N::Error> {
        (**self).load(id)
    }

    fn root(&self, id: NodeId) -> Result<Option<NodeId>, N::Error> {
        (**self).root(id)
    }

    fn is_same_promise(&self, one: NodeId, other: NodeId) -> Result<bool, N::Error> {
        (**self).is_same_promise(one, other)
    }
}

/// The door through which new nodes leave.
pub trait NodeSink {
    type Error;
    fn store(&mut self, bytes: Vec<u8>) -> Result<NodeId, Self::Error>;
}

type Keyed<T> = Vec<(Box<[u8]>, T)>;

/// One node: records (level 0) or children (above), strictly ascending by key and never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node<V> {
    Leaf(Keyed<V>),
    Inner { level: u8, children: Vec<Child> },
}

/// A node as its parent sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// The greatest key below.
    pub last_key: Box<[u8]>,
    pub id: NodeId,
    /// How many records lie below.
    pub records: u64,
    pub totals: Totals,
}

const RANK_BITS: u32 = 6;
/// Far above what 64-fold branching needs: deeper bytes are not a map of ours.
const MAX_LEVEL: u8 = 32;

/// On how many levels this key ends its node.
fn rank(key: &[u8]) -> u32 {
    let hash = blake3::hash(key);
    let mut low = [0u8; 8];
    low.copy_from_slice(&hash.as_bytes()[..8]);
    u64::from_le_bytes(low).trailing_zeros() / RANK_BITS
}

impl<V: Record> Node<V> {
    pub fn level(&self) -> u8 {
        match self {
            Node::Leaf(_) => 0,
            Node::Inner { level, .. } => *level,
        }
    }

    pub fn records(&self) -> u64 {
        match self {
            Node::Leaf(records) => records.len() as u64,
            Node::Inner { children, .. } => {
                children.iter().fold(0, |sum, child| sum.saturating_add(child.records))
            }
        }
    }

    pub fn totals(&self) -> Totals {
        let zero = Totals::default();
        match self {
            Node::Leaf(records) => records.iter().fold(zero, |sum, (_, record)| sum.plus(record.totals())),
            Node::Inner { children, .. } => children.iter().fold(zero, |sum, child| sum.plus(child.totals)),
        }
    }

    fn last_key(&self) -> &[u8] {
        match self {
            Node::Leaf(records) => &records.last().expect("a node is never empty").0,
            Node::Inner { children, .. } => &children.last().expect("a node is never empty").last_key,
        }
    }

    fn seen_from_above(&self, id: NodeId) -> Child {
        Child { last_key: self.last_key().into(), id, records: self.records(), totals: self.totals() }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(4096);
        out.push(self.level());
        match self {
            Node::Leaf(records) => {
                put_number(&mut out, records.len() as u64);
                for (key, record) in records {
                    put_bytes(&mut out, key);
                    record.encode(&mut out);
                }
            }
            Node::Inner { children, .. } => {
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

    pub fn decode(bytes: &[u8]) -> Result<Node<V>, DecodeError> {
        let mut reader = Reader::new(bytes);
        let level = reader.byte()?;
        let count = reader.number()?;
        if count == 0 || level > MAX_LEVEL {
            return Err(DecodeError::Invalid("a node is empty or too deep"));
        }
        let node = if level == 0 {
            Node::Leaf(decode_sorted(&mut reader, count, V::allows_key, V::decode)?)
        } else {
            let pairs = decode_sorted(&mut reader, count, V::allows_key, decode_child)?;
            let children = pairs.into_iter().map(|(last_key, child)| Child { last_key, ..child });
            Node::Inner { level, children: children.collect() }
        };
        reader.finish()?;
        Ok(node)
    }
}

fn decode_child(reader: &mut Reader<'_>) -> Result<Child, DecodeError> {
    Ok(Child {
        last_key: Box::default(),
        id: NodeId::from_object(reader.id()?),
        records: reader.number()?,
        totals: Totals::decode(reader)?,
    })
}

fn decode_sorted<T>(
    reader: &mut Reader<'_>,
    count: u64,
    allows_key: impl Fn(&[u8]) -> bool,
    decode: impl Fn(&mut Reader<'_>) -> Result<T, DecodeError>,
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

/// A map in the process, for tests and for building: both doors over a table.
#[derive(Clone, Debug, Default)]
pub struct NodeTable(pub std::collections::HashMap<NodeId, Vec<u8>>);

impl<V: Record> Nodes<V> for NodeTable {
    type Error = DecodeError;

    fn load(&self, id: NodeId) -> Result<Arc<Node<V>>, DecodeError> {
        let bytes = self.0.get(&id).ok_or(DecodeError::Invalid("a node is missing"))?;
        Node::decode(bytes).map(Arc::new)
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
