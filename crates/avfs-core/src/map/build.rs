//! Changing a map: old nodes and sorted edits stream into a builder that ends nodes where the keys say.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use super::{ChildNode, MapNode, MapRecord, NodeSink, NodeSource, rank};
use crate::id::NodeId;

/// New records by key; `None` removes.
pub type Edits<V> = BTreeMap<Box<[u8]>, Option<V>>;

/// Returns the map that results from `edits` to the map under `root`, as its parent would store it; `None` if
/// it is empty. Loads and stores only nodes on the way to an edit.
pub fn apply<V, S, E>(
    nodes: &impl NodeSource<V, Error = E>,
    sink: &mut S,
    root: Option<NodeId>,
    edits: &Edits<V>,
) -> Result<Option<ChildNode>, E>
where
    V: MapRecord,
    S: NodeSink<Error = E>,
{
    let root = root.map(|id| nodes.root(id)).transpose()?.flatten();
    let old = match root {
        Some(id) => Some((id, nodes.load(id)?)),
        None => None,
    };
    let old_child = old.as_ref().map(|(id, node)| node.seen_from_above(*id));
    if edits.is_empty() {
        return Ok(old_child);
    }
    let mut builder = MapBuilder::new(sink);
    let mut pending = PendingEdits { edits, after: None };
    if let Some(((_, node), child)) = old.zip(old_child) {
        feed(nodes, &mut builder, &mut pending, &child, node.level())?;
    }
    pending.push_rest(&mut builder)?;
    builder.finish(nodes)
}

/// Builds a map from nothing, as [`apply`] would from its records as edits, but without a lookup for each.
/// `records` must be strictly ascending by key.
pub fn from_sorted<V, S, E>(
    nodes: &impl NodeSource<V, Error = E>,
    sink: &mut S,
    records: impl IntoIterator<Item = (Box<[u8]>, V)>,
) -> Result<Option<ChildNode>, E>
where
    V: MapRecord,
    S: NodeSink<Error = E>,
{
    let mut builder = MapBuilder::new(sink);
    for (key, record) in records {
        builder.push_record(key, record)?;
    }
    builder.finish(nodes)
}

/// Streams the subtree `child` into the builder, with the edits up to its last key.
fn feed<V, S, E>(
    nodes: &impl NodeSource<V, Error = E>,
    builder: &mut MapBuilder<'_, V, S>,
    pending: &mut PendingEdits<'_, V>,
    child: &ChildNode,
    level: u8,
) -> Result<(), E>
where
    V: MapRecord,
    S: NodeSink<Error = E>,
{
    // An unchanged subtree is taken over by its id, if it begins where a node of this level begins in the
    // new map as well.
    if !pending.touches(child, level) && builder.is_aligned(level) {
        return builder.push_child(level, child.clone());
    }
    match &*nodes.load(child.id)? {
        MapNode::Leaf(records) => {
            for (key, record) in records {
                pending.push_before(builder, key)?;
                match pending.take(key) {
                    Some(Some(new)) => builder.push_record(key.clone(), new)?,
                    Some(None) => {}
                    None => builder.push_record(key.clone(), record.clone())?,
                }
            }
        }
        MapNode::Inner { level, children } => {
            for below in children {
                feed(nodes, builder, pending, below, level - 1)?;
            }
        }
    }
    Ok(())
}

/// The edits that have not been streamed yet: those with keys greater than `after`.
struct PendingEdits<'a, V> {
    edits: &'a Edits<V>,
    after: Option<Box<[u8]>>,
}

impl<V: MapRecord> PendingEdits<'_, V> {
    fn next(&self) -> Option<(&[u8], &Option<V>)> {
        let start = self.after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = self.edits.range::<[u8], _>((start, Bound::Unbounded));
        rest.next().map(|(key, edit)| (&key[..], edit))
    }

    /// Whether an edit falls into this node. The last node of a level has no upper bound: every later key
    /// belongs to it.
    fn touches(&self, node: &ChildNode, level: u8) -> bool {
        // A node is closed by a key of a higher rank; one that is not closed is the last of its level.
        let is_open = || rank(&node.last_key) <= u32::from(level);
        self.next()
            .is_some_and(|(key, _)| *key <= *node.last_key || is_open())
    }

    /// Takes the edit of exactly this key, if there is one.
    fn take(&mut self, key: &[u8]) -> Option<Option<V>> {
        let (next, edit) = self.next()?;
        let edit = (next == key).then(|| edit.clone())?;
        // Only an edit that is used moves the position: others are still to come.
        self.after = Some(key.into());
        Some(edit)
    }

    /// Streams the new records that come before `key`.
    fn push_before<S: NodeSink>(
        &mut self,
        builder: &mut MapBuilder<'_, V, S>,
        key: &[u8],
    ) -> Result<(), S::Error> {
        while self.next().is_some_and(|(next, _)| next < key) {
            self.push_next(builder)?;
        }
        Ok(())
    }

    fn push_rest<S: NodeSink>(&mut self, builder: &mut MapBuilder<'_, V, S>) -> Result<(), S::Error> {
        while self.next().is_some() {
            self.push_next(builder)?;
        }
        Ok(())
    }

    fn push_next<S: NodeSink>(&mut self, builder: &mut MapBuilder<'_, V, S>) -> Result<(), S::Error> {
        let Some((key, edit)) = self.next() else {
            return Ok(());
        };
        let (key, edit): (Box<[u8]>, _) = (key.into(), edit.clone());
        if let Some(record) = edit {
            builder.push_record(key.clone(), record)?;
        }
        self.after = Some(key);
        Ok(())
    }
}

/// Cuts an ascending stream into nodes. A node that its last key has ended is kept open until the next
/// push on its level, so that the root is known before it is stored.
struct MapBuilder<'a, V, S> {
    sink: &'a mut S,
    leaf: Vec<(Box<[u8]>, V)>,
    leaf_closed: bool,
    /// The levels from 1 upwards.
    inner: Vec<OpenLevel>,
    /// The inner nodes stored so far; with their child, if they have only one.
    new_inner: HashMap<NodeId, Option<NodeId>>,
}

#[derive(Default)]
struct OpenLevel {
    children: Vec<ChildNode>,
    closed: bool,
}

impl<'a, V: MapRecord, S: NodeSink> MapBuilder<'a, V, S> {
    fn new(sink: &'a mut S) -> MapBuilder<'a, V, S> {
        MapBuilder {
            sink,
            leaf: Vec::new(),
            leaf_closed: false,
            inner: Vec::new(),
            new_inner: HashMap::new(),
        }
    }

    /// Whether a whole old node of `level` may be reused unchanged: no node is open below it or beside it.
    fn is_aligned(&self, level: u8) -> bool {
        let leaf_clear = self.leaf.is_empty() || self.leaf_closed;
        let open = |above: &OpenLevel| above.children.is_empty() || above.closed;
        leaf_clear && self.inner.iter().take(usize::from(level)).all(open)
    }

    fn push_record(&mut self, key: Box<[u8]>, record: V) -> Result<(), S::Error> {
        if self.leaf_closed {
            self.flush_leaf()?;
        }
        debug_assert!(
            self.leaf.last().is_none_or(|(last, _)| *last < key),
            "records come in order"
        );
        self.leaf_closed = rank(&key) > 0;
        self.leaf.push((key, record));
        Ok(())
    }

    /// Reuses a node of `level` from the old map.
    fn push_child(&mut self, level: u8, child: ChildNode) -> Result<(), S::Error> {
        for below in 0..=level {
            self.flush_level(below)?;
        }
        self.push_to_level(level + 1, child)
    }

    fn push_to_level(&mut self, level: u8, child: ChildNode) -> Result<(), S::Error> {
        let index = usize::from(level) - 1;
        if self.inner.len() <= index {
            self.inner.resize_with(index + 1, OpenLevel::default);
        }
        if self.inner[index].closed {
            self.flush_level(level)?;
        }
        let open = &mut self.inner[index];
        open.closed = rank(&child.last_key) > u32::from(level);
        open.children.push(child);
        Ok(())
    }

    fn flush_level(&mut self, level: u8) -> Result<(), S::Error> {
        if level == 0 {
            return self.flush_leaf();
        }
        let index = usize::from(level) - 1;
        let Some(open) = self.inner.get_mut(index) else {
            return Ok(());
        };
        let open = std::mem::take(open);
        if open.children.is_empty() {
            return Ok(());
        }
        let only = only_child(&open.children);
        let node: MapNode<V> = MapNode::Inner {
            level,
            children: open.children,
        };
        let child = self.store(&node)?;
        self.new_inner.insert(child.id, only);
        self.push_to_level(level + 1, child)
    }

    fn flush_leaf(&mut self) -> Result<(), S::Error> {
        self.leaf_closed = false;
        if self.leaf.is_empty() {
            return Ok(());
        }
        let node = MapNode::Leaf(std::mem::take(&mut self.leaf));
        let child = self.store(&node)?;
        self.push_to_level(1, child)
    }

    fn store(&mut self, node: &MapNode<V>) -> Result<ChildNode, S::Error> {
        let id = self.sink.store(node.encode())?;
        Ok(node.seen_from_above(id))
    }

    fn finish(mut self, nodes: &impl NodeSource<V, Error = S::Error>) -> Result<Option<ChildNode>, S::Error> {
        let mut level = 0;
        loop {
            let above_is_empty = self
                .inner
                .iter()
                .skip(usize::from(level))
                .all(|above| above.children.is_empty());
            if above_is_empty {
                return self.finish_root(level, nodes);
            }
            self.flush_level(level)?;
            level += 1;
        }
    }

    /// Everything is in the open node of `level`: store it, unless it only leads to one lower node.
    fn finish_root(
        mut self,
        level: u8,
        nodes: &impl NodeSource<V, Error = S::Error>,
    ) -> Result<Option<ChildNode>, S::Error> {
        if level == 0 {
            let leaf = std::mem::take(&mut self.leaf);
            return if leaf.is_empty() {
                Ok(None)
            } else {
                self.store(&MapNode::Leaf(leaf)).map(Some)
            };
        }
        let mut children = std::mem::take(&mut self.inner[usize::from(level) - 1].children);
        match children.pop() {
            Some(only) if children.is_empty() => {
                let id = self.lowest_alone(level - 1, only.id, nodes)?;
                Ok(Some(ChildNode { id, ..only }))
            }
            last => {
                children.extend(last);
                self.store(&MapNode::Inner { level, children }).map(Some)
            }
        }
    }

    /// Follows nodes with a single child downwards from the node `id` of `level`.
    fn lowest_alone(
        &self,
        mut level: u8,
        mut id: NodeId,
        nodes: &impl NodeSource<V, Error = S::Error>,
    ) -> Result<NodeId, S::Error> {
        while level > 0 {
            let only = match self.new_inner.get(&id) {
                Some(only) => *only,
                None => match &*nodes.load(id)? {
                    MapNode::Leaf(_) => None,
                    MapNode::Inner { children, .. } => only_child(children),
                },
            };
            let Some(only) = only else { break };
            id = only;
            level -= 1;
        }
        Ok(id)
    }
}

fn only_child(children: &[ChildNode]) -> Option<NodeId> {
    match children {
        [only] => Some(only.id),
        _ => None,
    }
}
