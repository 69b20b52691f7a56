//! What differs between two maps, without looking into what they share.

use std::cmp::Ordering;

use super::{Node, Nodes, Record};
use crate::id::NodeId;

/// One key whose record differs: `None` on the side that lacks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference<V> {
    pub key: Box<[u8]>,
    pub before: Option<V>,
    pub after: Option<V>,
}

/// Calls `found` for each differing key in order. Subtrees with the same id are never loaded.
pub fn diff<V: Record, E>(
    nodes: &impl Nodes<V, Error = E>,
    before: Option<NodeId>,
    after: Option<NodeId>,
    mut found: impl FnMut(Difference<V>) -> Result<(), E>,
) -> Result<(), E> {
    if before == after {
        return Ok(());
    }
    if let (Some(before), Some(after)) = (before, after)
        && nodes.is_same_promise(before, after)?
    {
        return Ok(());
    }
    let root = |id: Option<NodeId>| Ok::<_, E>(id.map(|id| nodes.root(id)).transpose()?.flatten());
    let (before, after) = (root(before)?, root(after)?);
    if before == after {
        return Ok(());
    }
    let mut left = Side::new(nodes, before)?;
    let mut right = Side::new(nodes, after)?;
    loop {
        let order = match (left.front(), right.front()) {
            (None, None) => return Ok(()),
            (Some(Front::Node(_)), None) => left.expand()?,
            (None, Some(Front::Node(_))) => right.expand()?,
            (Some(Front::Node(a)), Some(Front::Node(b))) if a.1 == b.1 => {
                left.skip();
                right.skip();
                None
            }
            (Some(Front::Node(a)), Some(Front::Node(b))) if a.0 < b.0 => right.expand()?,
            (Some(Front::Node(_)), _) => left.expand()?,
            (_, Some(Front::Node(_))) => right.expand()?,
            (Some(Front::Record(a)), Some(Front::Record(b))) => Some(a.cmp(b)),
            (Some(Front::Record(_)), None) => Some(Ordering::Less),
            (None, Some(Front::Record(_))) => Some(Ordering::Greater),
        };
        let Some(order) = order else { continue };
        let old = if order.is_le() { left.take() } else { None };
        let new = if order.is_ge() { right.take() } else { None };
        let old_record = old.as_ref().map(|(_, record)| record);
        if old_record != new.as_ref().map(|(_, record)| record) {
            let key = old.as_ref().or(new.as_ref()).map(|(key, _)| key.clone()).unwrap_or_default();
            let before = old.map(|(_, record)| record);
            found(Difference { key, before, after: new.map(|(_, record)| record) })?;
        }
    }
}

/// What comes next on one side: a node that was not opened (its level and id), or a record's key.
enum Front<'a> {
    Node((u8, NodeId)),
    Record(&'a [u8]),
}

enum Item<V> {
    Node(u8, NodeId),
    Record(Box<[u8]>, V),
}

/// The rest of one map as a stack, the next item on top.
struct Side<'a, V, N> {
    nodes: &'a N,
    rest: Vec<Item<V>>,
}

impl<'a, V: Record, N: Nodes<V>> Side<'a, V, N> {
    fn new(nodes: &'a N, root: Option<NodeId>) -> Result<Side<'a, V, N>, N::Error> {
        let mut side = Side { nodes, rest: Vec::new() };
        if let Some(id) = root {
            let level = nodes.load(id)?.level();
            side.rest.push(Item::Node(level, id));
        }
        Ok(side)
    }

    fn front(&self) -> Option<Front<'_>> {
        self.rest.last().map(|item| match item {
            Item::Node(level, id) => Front::Node((*level, *id)),
            Item::Record(key, _) => Front::Record(key),
        })
    }

    fn skip(&mut self) {
        self.rest.pop();
    }

    fn take(&mut self) -> Option<(Box<[u8]>, V)> {
        match self.rest.pop()? {
            Item::Record(key, record) => Some((key, record)),
            Item::Node(..) => None,
        }
    }

    /// Replaces the node on top by what it holds. Returns no order, to go on comparing.
    fn expand(&mut self) -> Result<Option<Ordering>, N::Error> {
        if let Some(Item::Node(_, id)) = self.rest.pop() {
            match &*self.nodes.load(id)? {
                Node::Leaf(records) => {
                    let items = records.iter().rev();
                    self.rest.extend(items.map(|(key, record)| Item::Record(key.clone(), record.clone())));
                }
                Node::Inner { level, children } => {
                    let items = children.iter().rev();
                    self.rest.extend(items.map(|child| Item::Node(level - 1, child.id)));
                }
            }
        }
        Ok(None)
    }
}
