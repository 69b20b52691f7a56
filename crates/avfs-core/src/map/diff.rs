//! The differences between two maps; subtrees that they share are not loaded.

use std::cmp::Ordering;

use super::{MapNode, MapRecord, NodeSource};
use crate::id::NodeId;

/// One key whose record differs: `None` on the side that lacks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapDifference<V> {
    /// The key.
    pub key: Box<[u8]>,
    /// The record of the older map.
    pub before: Option<V>,
    /// The record of the newer map.
    pub after: Option<V>,
}

/// Calls `found` for each differing key in order. Subtrees with the same id are never loaded.
pub fn diff<V: MapRecord, E>(
    nodes: &impl NodeSource<V, Error = E>,
    before: Option<NodeId>,
    after: Option<NodeId>,
    mut found: impl FnMut(MapDifference<V>) -> Result<(), E>,
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
    let before = root(before)?;
    let after = root(after)?;
    if before == after {
        return Ok(());
    }
    let mut left = DiffSide::new(nodes, before)?;
    let mut right = DiffSide::new(nodes, after)?;
    loop {
        let order = match (left.next_item(), right.next_item()) {
            (None, None) => return Ok(()),
            (Some(NextItem::Node(_)), None) => left.expand()?,
            (None, Some(NextItem::Node(_))) => right.expand()?,
            (Some(NextItem::Node(a)), Some(NextItem::Node(b))) if a.1 == b.1 => {
                left.skip();
                right.skip();
                None
            }
            (Some(NextItem::Node(a)), Some(NextItem::Node(b))) if a.0 < b.0 => right.expand()?,
            (Some(NextItem::Node(_)), _) => left.expand()?,
            (_, Some(NextItem::Node(_))) => right.expand()?,
            (Some(NextItem::Record(a)), Some(NextItem::Record(b))) => Some(a.cmp(b)),
            (Some(NextItem::Record(_)), None) => Some(Ordering::Less),
            (None, Some(NextItem::Record(_))) => Some(Ordering::Greater),
        };
        let Some(order) = order else { continue };
        let old = if order.is_le() { left.take() } else { None };
        let new = if order.is_ge() { right.take() } else { None };
        let old_record = old.as_ref().map(|(_, record)| record);
        if old_record != new.as_ref().map(|(_, record)| record) {
            let key = old
                .as_ref()
                .or(new.as_ref())
                .map(|(key, _)| key.clone())
                .unwrap_or_default();
            let before = old.map(|(_, record)| record);
            found(MapDifference {
                key,
                before,
                after: new.map(|(_, record)| record),
            })?;
        }
    }
}

/// The next item of one side: a node that was not opened (its level and id), or a record's key.
enum NextItem<'a> {
    Node((u8, NodeId)),
    Record(&'a [u8]),
}

enum DiffItem<V> {
    Node(u8, NodeId),
    Record(Box<[u8]>, V),
}

/// The rest of one map as a stack, the next item on top.
struct DiffSide<'a, V, N> {
    nodes: &'a N,
    rest: Vec<DiffItem<V>>,
}

impl<'a, V: MapRecord, N: NodeSource<V>> DiffSide<'a, V, N> {
    fn new(nodes: &'a N, root: Option<NodeId>) -> Result<DiffSide<'a, V, N>, N::Error> {
        let mut side = DiffSide {
            nodes,
            rest: Vec::new(),
        };
        if let Some(id) = root {
            let level = nodes.load(id)?.level();
            side.rest.push(DiffItem::Node(level, id));
        }
        Ok(side)
    }

    fn next_item(&self) -> Option<NextItem<'_>> {
        self.rest.last().map(|item| match item {
            DiffItem::Node(level, id) => NextItem::Node((*level, *id)),
            DiffItem::Record(key, _) => NextItem::Record(key),
        })
    }

    fn skip(&mut self) {
        self.rest.pop();
    }

    fn take(&mut self) -> Option<(Box<[u8]>, V)> {
        match self.rest.pop()? {
            DiffItem::Record(key, record) => Some((key, record)),
            DiffItem::Node(..) => None,
        }
    }

    /// Replaces the node on top by its items. Returns no order, so that the comparison continues.
    fn expand(&mut self) -> Result<Option<Ordering>, N::Error> {
        if let Some(DiffItem::Node(_, id)) = self.rest.pop() {
            match &*self.nodes.load(id)? {
                MapNode::Leaf(records) => {
                    let items = records.iter().rev();
                    self.rest
                        .extend(items.map(|(key, record)| DiffItem::Record(key.clone(), record.clone())));
                }
                MapNode::Inner { level, children } => {
                    let items = children.iter().rev();
                    self.rest
                        .extend(items.map(|child| DiffItem::Node(level - 1, child.id)));
                }
            }
        }
        Ok(None)
    }
}
