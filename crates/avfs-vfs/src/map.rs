//! An ordered map whose clones share everything that has not changed since.
//!
//! A B-tree whose nodes are counted pointers. A clone costs one pointer; the first change after it copies the nodes
//! on the way to the key and shares the rest. Nodes that no other map shares are changed in place. [`diff`] skips
//! every subtree that two maps share, so it costs what differs.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::sync::Arc;

/// The most entries of a leaf, and the most children of a branch: a copied node fits into a few cache lines, and
/// 10,000 names make a tree of three levels.
const NODE_MAX: usize = 32;
/// A node with fewer is joined with a neighbour.
const NODE_MIN: usize = NODE_MAX / 4;

#[derive(Clone, Debug)]
enum MapTree<K, V> {
    Leaf(Arc<Vec<(K, V)>>),
    Branch(Arc<MapBranch<K, V>>),
}

#[derive(Clone, Debug)]
struct MapBranch<K, V> {
    /// The leaves are this many levels below.
    height: u8,
    /// Before each child but the first: no key of the child is smaller, and every key before it is.
    bounds: Vec<K>,
    children: Vec<MapTree<K, V>>,
}

/// An ordered map with cheap clones.
#[derive(Clone, Debug)]
pub(crate) struct PersistentMap<K, V> {
    root: MapTree<K, V>,
    len: usize,
}

impl<K, V> Default for PersistentMap<K, V> {
    fn default() -> Self {
        PersistentMap {
            root: MapTree::Leaf(Arc::default()),
            len: 0,
        }
    }
}

impl<K: Ord + Clone, V: Clone> PersistentMap<K, V> {
    #[cfg(test)]
    fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether both are the same tree in memory, so that nothing can differ.
    pub(crate) fn is_shared_with(&self, other: &Self) -> bool {
        self.root.is_same(&other.root)
    }

    pub(crate) fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let mut tree = &self.root;
        loop {
            match tree {
                MapTree::Branch(branch) => tree = &branch.children[branch.child_of(key)],
                MapTree::Leaf(entries) => {
                    let index = entries.binary_search_by(|entry| entry.0.borrow().cmp(key)).ok()?;
                    return Some(&entries[index].1);
                }
            }
        }
    }

    /// The value to change in place. What other maps share on the way to it is copied first.
    pub(crate) fn get_mut<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let mut tree = &mut self.root;
        loop {
            match tree {
                MapTree::Branch(branch) => {
                    let branch = Arc::make_mut(branch);
                    let index = branch.child_of(key);
                    tree = &mut branch.children[index];
                }
                MapTree::Leaf(entries) => {
                    let index = entries.binary_search_by(|entry| entry.0.borrow().cmp(key)).ok()?;
                    return Some(&mut Arc::make_mut(entries)[index].1);
                }
            }
        }
    }

    /// Returns the value that was there.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let (old, split) = self.root.insert(key, value);
        if let Some((bound, right)) = split {
            // The tree grows at its root, so that all leaves stay at one depth.
            let left = std::mem::replace(&mut self.root, MapTree::Leaf(Arc::default()));
            self.root = MapTree::Branch(Arc::new(MapBranch {
                height: left.height() + 1,
                bounds: vec![bound],
                children: vec![left, right],
            }));
        }
        self.len += usize::from(old.is_none());
        old
    }

    pub(crate) fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        // A key that is absent copies nothing.
        self.get(key)?;
        let old = self.root.remove(key);
        // It shrinks there too: joining children may leave a branch with one.
        while let Some(only) = self.root.only_child() {
            self.root = only;
        }
        self.len -= usize::from(old.is_some());
        old
    }

    pub(crate) fn iter(&self) -> MapIter<'_, K, V> {
        MapIter {
            stack: vec![PendingVisit::Tree(&self.root)],
        }
    }
}

impl<K: Ord + Clone, V: Clone> MapBranch<K, V> {
    fn child_of<Q>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.bounds.partition_point(|bound| bound.borrow() <= key)
    }

    /// Joins the child with a neighbour, and splits the result if it is too large for one node.
    fn rebalance(&mut self, index: usize) {
        let left = if index + 1 < self.children.len() {
            index
        } else {
            index - 1
        };
        // The bound between the two goes with the border; joining may make another one.
        let bound = self.bounds.remove(left);
        let right = self.children.remove(left + 1);
        if let Some((bound, split)) = self.children[left].join(bound, right) {
            self.bounds.insert(left, bound);
            self.children.insert(left + 1, split);
        }
    }
}

/// A node that became too large, as the rest of it and the bound before that.
type Split<K, V> = Option<(K, MapTree<K, V>)>;

impl<K: Ord + Clone, V: Clone> MapTree<K, V> {
    fn height(&self) -> u8 {
        match self {
            MapTree::Leaf(_) => 0,
            MapTree::Branch(branch) => branch.height,
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (MapTree::Leaf(a), MapTree::Leaf(b)) => Arc::ptr_eq(a, b),
            (MapTree::Branch(a), MapTree::Branch(b)) => Arc::ptr_eq(a, b),
            (MapTree::Leaf(_), MapTree::Branch(_)) | (MapTree::Branch(_), MapTree::Leaf(_)) => false,
        }
    }

    fn count(&self) -> usize {
        match self {
            MapTree::Leaf(entries) => entries.len(),
            MapTree::Branch(branch) => branch.children.len(),
        }
    }

    fn only_child(&self) -> Option<Self> {
        match self {
            MapTree::Branch(branch) if branch.children.len() == 1 => branch.children.first().cloned(),
            MapTree::Branch(_) | MapTree::Leaf(_) => None,
        }
    }

    fn insert(&mut self, key: K, value: V) -> (Option<V>, Split<K, V>) {
        match self {
            MapTree::Leaf(entries) => {
                let entries = Arc::make_mut(entries);
                match entries.binary_search_by(|entry| entry.0.cmp(&key)) {
                    Ok(index) => (Some(std::mem::replace(&mut entries[index].1, value)), None),
                    Err(index) => {
                        entries.insert(index, (key, value));
                        (None, split_leaf(entries, index))
                    }
                }
            }
            MapTree::Branch(branch) => {
                let branch = Arc::make_mut(branch);
                let index = branch.child_of(&key);
                let (old, split) = branch.children[index].insert(key, value);
                if let Some((bound, right)) = split {
                    branch.bounds.insert(index, bound);
                    branch.children.insert(index + 1, right);
                }
                (old, split_branch(branch, index + 1))
            }
        }
    }

    fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        match self {
            MapTree::Leaf(entries) => {
                let index = entries.binary_search_by(|entry| entry.0.borrow().cmp(key)).ok()?;
                Some(Arc::make_mut(entries).remove(index).1)
            }
            MapTree::Branch(branch) => {
                let branch = Arc::make_mut(branch);
                let index = branch.child_of(key);
                let old = branch.children[index].remove(key);
                if branch.children[index].count() < NODE_MIN && branch.children.len() > 1 {
                    branch.rebalance(index);
                }
                old
            }
        }
    }

    /// Appends a neighbour of the same height.
    fn join(&mut self, bound: K, right: Self) -> Split<K, V> {
        match (self, right) {
            (MapTree::Leaf(left), MapTree::Leaf(right)) => {
                let left = Arc::make_mut(left);
                left.extend(Arc::unwrap_or_clone(right));
                split_leaf(left, left.len() / 2)
            }
            (MapTree::Branch(left), MapTree::Branch(right)) => {
                let left = Arc::make_mut(left);
                let right = Arc::unwrap_or_clone(right);
                left.bounds.push(bound);
                left.bounds.extend(right.bounds);
                left.children.extend(right.children);
                split_branch(left, left.children.len() / 2)
            }
            (MapTree::Leaf(_), MapTree::Branch(_)) | (MapTree::Branch(_), MapTree::Leaf(_)) => {
                unreachable!("the children of a branch have one height")
            }
        }
    }
}

/// Keys that arrive in order leave full nodes behind: a node that grew at its end is split there.
fn split_at(count: usize, grown: usize) -> usize {
    if grown + 1 == count { count - 1 } else { count / 2 }
}

fn split_leaf<K: Clone, V: Clone>(entries: &mut Vec<(K, V)>, grown: usize) -> Split<K, V> {
    if entries.len() <= NODE_MAX {
        return None;
    }
    let right = entries.split_off(split_at(entries.len(), grown));
    Some((right[0].0.clone(), MapTree::Leaf(Arc::new(right))))
}

fn split_branch<K: Clone, V: Clone>(branch: &mut MapBranch<K, V>, grown: usize) -> Split<K, V> {
    if branch.children.len() <= NODE_MAX {
        return None;
    }
    let at = split_at(branch.children.len(), grown);
    let children = branch.children.split_off(at);
    let bounds = branch.bounds.split_off(at);
    // The bound between the halves moves up, to the branch above.
    let bound = branch.bounds.pop()?;
    let right = MapBranch {
        height: branch.height,
        bounds,
        children,
    };
    Some((bound, MapTree::Branch(Arc::new(right))))
}

/// What an iterator has yet to visit.
enum PendingVisit<'a, K, V> {
    Tree(&'a MapTree<K, V>),
    Entry(&'a K, &'a V),
}

impl<'a, K, V> PendingVisit<'a, K, V> {
    /// Puts the parts of a tree on the stack, the first on top.
    fn expand(tree: &'a MapTree<K, V>, stack: &mut Vec<PendingVisit<'a, K, V>>) {
        match tree {
            MapTree::Leaf(entries) => {
                stack.extend(
                    entries
                        .iter()
                        .rev()
                        .map(|(key, value)| PendingVisit::Entry(key, value)),
                );
            }
            MapTree::Branch(branch) => stack.extend(branch.children.iter().rev().map(PendingVisit::Tree)),
        }
    }
}

/// The entries in order.
pub(crate) struct MapIter<'a, K, V> {
    stack: Vec<PendingVisit<'a, K, V>>,
}

impl<'a, K, V> Iterator for MapIter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.stack.pop()? {
                PendingVisit::Entry(key, value) => return Some((key, value)),
                PendingVisit::Tree(tree) => PendingVisit::expand(tree, &mut self.stack),
            }
        }
    }
}

/// Calls `visit` for every key that is in one map only, or in both unless the value is in a part that they share.
pub(crate) fn diff<'a, K: Ord + Clone, V: Clone, E>(
    before: &'a PersistentMap<K, V>,
    after: &'a PersistentMap<K, V>,
    visit: &mut dyn FnMut(&'a K, Option<&'a V>, Option<&'a V>) -> Result<(), E>,
) -> Result<(), E> {
    let mut left = vec![PendingVisit::Tree(&before.root)];
    let mut right = vec![PendingVisit::Tree(&after.root)];
    loop {
        match (left.pop(), right.pop()) {
            (None, None) => return Ok(()),
            (Some(PendingVisit::Tree(a)), Some(PendingVisit::Tree(b))) => {
                if a.is_same(b) {
                    continue;
                }
                // The taller tree is opened first, so that shared subtrees meet at the top of both stacks.
                match a.height().cmp(&b.height()) {
                    Ordering::Greater => {
                        PendingVisit::expand(a, &mut left);
                        right.push(PendingVisit::Tree(b));
                    }
                    Ordering::Less => {
                        left.push(PendingVisit::Tree(a));
                        PendingVisit::expand(b, &mut right);
                    }
                    Ordering::Equal => {
                        PendingVisit::expand(a, &mut left);
                        PendingVisit::expand(b, &mut right);
                    }
                }
            }
            // An entry waits until the other side is opened down to its entries.
            (Some(PendingVisit::Tree(a)), b) => {
                PendingVisit::expand(a, &mut left);
                right.extend(b);
            }
            (a, Some(PendingVisit::Tree(b))) => {
                left.extend(a);
                PendingVisit::expand(b, &mut right);
            }
            (Some(PendingVisit::Entry(key, value)), None) => visit(key, Some(value), None)?,
            (None, Some(PendingVisit::Entry(key, value))) => visit(key, None, Some(value))?,
            (Some(PendingVisit::Entry(a, old)), Some(PendingVisit::Entry(b, new))) => match a.cmp(b) {
                Ordering::Equal => visit(a, Some(old), Some(new))?,
                Ordering::Less => {
                    right.push(PendingVisit::Entry(b, new));
                    visit(a, Some(old), None)?;
                }
                Ordering::Greater => {
                    left.push(PendingVisit::Entry(a, old));
                    visit(b, None, Some(new))?;
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    type Pairs = Vec<(u16, u32)>;

    #[derive(Clone, Debug)]
    enum Op {
        Insert(u16, u32),
        Remove(u16),
        Change(u16, u32),
        Clone,
    }

    fn op() -> impl Strategy<Value = Op> {
        let key = 0u16..600;
        prop_oneof![
            8 => (key.clone(), any::<u32>()).prop_map(|(key, value)| Op::Insert(key, value)),
            5 => key.clone().prop_map(Op::Remove),
            2 => (key, any::<u32>()).prop_map(|(key, value)| Op::Change(key, value)),
            1 => Just(Op::Clone),
        ]
    }

    fn pairs(map: &PersistentMap<u16, u32>) -> Pairs {
        map.iter().map(|(key, value)| (*key, *value)).collect()
    }

    fn check_shape(tree: &MapTree<u16, u32>, is_root: bool) {
        assert!(tree.count() <= NODE_MAX);
        if let MapTree::Branch(branch) = tree {
            assert!(branch.children.len() >= if is_root { 2 } else { 1 });
            assert_eq!(branch.bounds.len() + 1, branch.children.len());
            for child in &branch.children {
                assert_eq!(child.height() + 1, branch.height);
                check_shape(child, false);
            }
        }
    }

    proptest! {
        #[test]
        fn a_map_and_its_clones_behave_as_ordered_maps_of_their_own(ops in prop::collection::vec(op(), 1..1500)) {
            let mut map = PersistentMap::default();
            let mut model = BTreeMap::new();
            let mut clones: Vec<(PersistentMap<u16, u32>, BTreeMap<u16, u32>)> = Vec::new();
            for op in ops {
                match op {
                    Op::Insert(key, value) => prop_assert_eq!(map.insert(key, value), model.insert(key, value)),
                    Op::Remove(key) => prop_assert_eq!(map.remove(&key), model.remove(&key)),
                    Op::Change(key, value) => {
                        let found = map.get_mut(&key).map(|slot| std::mem::replace(slot, value));
                        let expected = model.get_mut(&key).map(|slot| std::mem::replace(slot, value));
                        prop_assert_eq!(found, expected);
                    }
                    Op::Clone => clones.push((map.clone(), model.clone())),
                }
                prop_assert_eq!(map.len(), model.len());
            }
            check_shape(&map.root, true);
            clones.push((map, model));
            for (map, model) in &clones {
                prop_assert_eq!(pairs(map), model.iter().map(|(key, value)| (*key, *value)).collect::<Pairs>());
                for key in 0..600 {
                    prop_assert_eq!(map.get(&key), model.get(&key));
                }
            }
            for pair in clones.windows(2) {
                let mut found = BTreeMap::new();
                let Ok(()) = diff(&pair[0].0, &pair[1].0, &mut |key, old, new| {
                    if old != new {
                        found.insert(*key, (old.copied(), new.copied()));
                    }
                    Ok::<(), std::convert::Infallible>(())
                });
                let keys = pair[0].1.keys().chain(pair[1].1.keys());
                let expected = keys
                    .map(|key| (*key, (pair[0].1.get(key).copied(), pair[1].1.get(key).copied())))
                    .filter(|(_, (old, new))| old != new)
                    .collect();
                prop_assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn a_diff_of_a_large_map_visits_what_changed_and_little_more() {
        let mut map = PersistentMap::default();
        for key in 0..100_000u32 {
            map.insert(key, key);
        }
        let before = map.clone();
        map.insert(50_000, 1);
        map.insert(100_001, 1);
        map.remove(&7);
        let mut visited = 0;
        let Ok(()) = diff(&before, &map, &mut |_, _, _| {
            visited += 1;
            Ok::<(), std::convert::Infallible>(())
        });
        assert!((3..=3 * 2 * NODE_MAX).contains(&visited), "visited {visited}");
    }
}
