//! Reading a map: one record, or all records in order from a given key.

use std::sync::Arc;

use super::{MapNode, MapRecord, NodeSource};
use crate::id::NodeId;

/// The record under `key`.
pub fn get<V: MapRecord, E>(
    nodes: &impl NodeSource<V, Error = E>,
    root: Option<NodeId>,
    key: &[u8],
) -> Result<Option<V>, E> {
    let Some(mut id) = root else { return Ok(None) };
    loop {
        match &*nodes.load(id)? {
            MapNode::Leaf(records) => {
                let found = records.binary_search_by(|(candidate, _)| candidate[..].cmp(key));
                return Ok(found.ok().map(|index| records[index].1.clone()));
            }
            MapNode::Inner { children, .. } => {
                let index = children.partition_point(|child| &child.last_key[..] < key);
                match children.get(index) {
                    Some(child) => id = child.id,
                    None => return Ok(None),
                }
            }
        }
    }
}

/// Starts a walk over the records behind `after` (or all of them).
pub fn walk_after<V: MapRecord, N: NodeSource<V>>(
    nodes: N,
    root: Option<NodeId>,
    after: Option<&[u8]>,
) -> Result<MapWalk<V, N>, N::Error> {
    let mut walk = MapWalk {
        nodes,
        path: Vec::new(),
    };
    if let Some(id) = root {
        walk.descend(id, after)?;
    }
    Ok(walk)
}

/// Yields the records of a map in order, loading one path of nodes at a time.
pub struct MapWalk<V, N> {
    nodes: N,
    /// From the root down: a node and the index of the next item in it.
    path: Vec<(Arc<MapNode<V>>, usize)>,
}

impl<V: MapRecord, N: NodeSource<V>> MapWalk<V, N> {
    fn descend(&mut self, mut id: NodeId, after: Option<&[u8]>) -> Result<(), N::Error> {
        loop {
            let node = self.nodes.load(id)?;
            let is_before = |key: &[u8]| after.is_some_and(|after| key <= after);
            let (start, next) = match &*node {
                MapNode::Leaf(records) => (records.partition_point(|(key, _)| is_before(key)), None),
                MapNode::Inner { children, .. } => {
                    let start = children.partition_point(|child| is_before(&child.last_key));
                    (start + 1, children.get(start).map(|child| child.id))
                }
            };
            self.path.push((node, start));
            match next {
                Some(below) => id = below,
                None => return Ok(()),
            }
        }
    }

    /// The next record, or `None` at the end.
    #[allow(
        clippy::type_complexity,
        reason = "a record with its key, or the end, or an error"
    )]
    pub fn advance(&mut self) -> Result<Option<(Box<[u8]>, V)>, N::Error> {
        while let Some((node, next)) = self.path.last_mut() {
            let index = *next;
            *next += 1;
            match &**node {
                MapNode::Leaf(records) => {
                    if let Some((key, record)) = records.get(index) {
                        return Ok(Some((key.clone(), record.clone())));
                    }
                    self.path.pop();
                }
                MapNode::Inner { children, .. } => match children.get(index).map(|child| child.id) {
                    Some(id) => self.descend(id, None)?,
                    None => {
                        self.path.pop();
                    }
                },
            }
        }
        Ok(None)
    }
}
