//! The differences between two trees, found in time proportional to them.

use std::collections::HashMap;

use crate::entry::{Entry, EntryKind, LinkId, LinkedFile, Slot};
use crate::id::NodeId;
use crate::map::{self, MapDifference, NodeSource};
use crate::name::{EntryName, TreePath};
use crate::snapshot::Root;

/// One path that is not the same on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeChange {
    /// The path, the same on both sides.
    pub path: TreePath,
    /// The entry of the older tree; `None` if it was added.
    pub before: Option<Entry>,
    /// The entry of the newer tree; `None` if it was removed.
    pub after: Option<Entry>,
}

impl TreeChange {
    /// Whether contents, target or kind differ, and not attributes alone.
    pub fn changes_content(&self) -> bool {
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => match (&before.kind, &after.kind) {
                (EntryKind::Directory { .. }, EntryKind::Directory { .. }) => false,
                (before, after) => before != after,
            },
            _ => true,
        }
    }
}

/// Calls `found` for each path that differs: a directory before what is below it, otherwise by name.
/// What lies below an added or removed directory is listed too. Shared subtrees are never loaded.
///
/// Files with several names have their records in a separate table. If such a record differs, its names are
/// searched for only in directories that contain such names.
pub fn diff_trees<N, E>(
    nodes: &N,
    before: &Root,
    after: &Root,
    found: &mut impl FnMut(TreeChange) -> Result<(), E>,
) -> Result<(), E>
where
    N: NodeSource<Slot, Error = E> + NodeSource<LinkedFile, Error = E>,
{
    visit_differences(
        nodes,
        TreePath::root(),
        before,
        after,
        &mut |path, before, after| {
            found(TreeChange {
                path: path.clone(),
                before,
                after,
            })
        },
    )
}

/// As [`diff_trees`], but a change that lies deeper than a path can express is reported at the topmost
/// directory that cannot be named ([`TreePath::folded`]), because whole paths would take space quadratic in
/// the depth. A directory below that point that was added or removed is reported through its contents.
pub fn diff_trees_folded<N, E>(
    nodes: &N,
    before: &Root,
    after: &Root,
    found: &mut impl FnMut(TreeChange) -> Result<(), E>,
) -> Result<(), E>
where
    N: NodeSource<Slot, Error = E> + NodeSource<LinkedFile, Error = E>,
{
    visit_differences(
        nodes,
        TreePath::root(),
        before,
        after,
        &mut |path, before, after| match folded(path, before.as_ref(), after.as_ref()) {
            Some(path) => found(TreeChange { path, before, after }),
            None => Ok(()),
        },
    )
}

/// The path at which a change is reported when paths are folded; `None` if the changes below it report it.
pub fn folded(path: &TreePath, before: Option<&Entry>, after: Option<&Entry>) -> Option<TreePath> {
    let folded = path.folded();
    // A directory on one side only is told by what is below it, if anything is.
    let only = before.xor(after);
    let is_told_below = only.is_some_and(|entry| entries_of(Some(entry)).is_some());
    (folded.as_bytes().len() == path.as_bytes().len() || !is_told_below).then_some(folded)
}

/// As [`diff_trees`], starting at `top`, with borrowed paths: memory is needed for the longest path only.
pub fn visit_differences<N, E>(
    nodes: &N,
    top: TreePath,
    before: &Root,
    after: &Root,
    found: &mut impl FnMut(&TreePath, Option<Entry>, Option<Entry>) -> Result<(), E>,
) -> Result<(), E>
where
    N: NodeSource<Slot, Error = E> + NodeSource<LinkedFile, Error = E>,
{
    // The tables come first: a linked file that changed has not changed any directory that names it.
    let mut relinked = HashMap::new();
    map::diff(
        nodes,
        before.links,
        after.links,
        |difference: MapDifference<LinkedFile>| {
            if let Ok(key) = <[u8; 8]>::try_from(&difference.key[..]) {
                let entry = |file: Option<LinkedFile>| file.map(|file| file.entry);
                let pair = (entry(difference.before), entry(difference.after));
                // A record may differ in its count of names alone.
                if pair.0 != pair.1 {
                    relinked.insert(LinkId(u64::from_be_bytes(key)), pair);
                }
            }
            Ok(())
        },
    )?;
    let mut walk = TreeDiff {
        nodes,
        links: (before.links, after.links),
        relinked,
        path: top,
        found,
    };
    walk.run(StatePair {
        before: Some(before.directory.clone()),
        after: Some(after.directory.clone()),
    })
}

type RelinkedFiles = HashMap<LinkId, (Option<Entry>, Option<Entry>)>;

/// Two states of one path, of which at least one is a directory.
struct StatePair {
    before: Option<Entry>,
    after: Option<Entry>,
}

/// A directory that is being compared: the remaining differences in it.
struct DiffLevel {
    /// The length of its path.
    end: usize,
    slots: std::vec::IntoIter<MapDifference<Slot>>,
}

struct TreeDiff<'a, N, F> {
    nodes: &'a N,
    links: (Option<NodeId>, Option<NodeId>),
    relinked: RelinkedFiles,
    /// The path that the walk has reached.
    path: TreePath,
    found: &'a mut F,
}

impl<N, E, F> TreeDiff<'_, N, F>
where
    N: NodeSource<Slot, Error = E> + NodeSource<LinkedFile, Error = E>,
    F: FnMut(&TreePath, Option<Entry>, Option<Entry>) -> Result<(), E>,
{
    /// Walks with an explicit stack, because a tree may be deeper than the stack of a thread allows.
    fn run(&mut self, root: StatePair) -> Result<(), E> {
        // A list instead of recursion: a tree may be deeper than a stack.
        let mut levels = vec![self.enter(root)?];
        while let Some(level) = levels.last_mut() {
            self.path.truncate(level.end);
            match level.slots.next() {
                Some(slot) => {
                    if let Some(pair) = self.slot(slot)? {
                        levels.push(self.enter(pair)?);
                    }
                }
                None => {
                    levels.pop();
                }
            }
        }
        Ok(())
    }

    /// Starts on the directory that the walk has reached.
    fn enter(&mut self, pair: StatePair) -> Result<DiffLevel, E> {
        let StatePair { before, after } = pair;
        let (old, new) = (entries_of(before.as_ref()), entries_of(after.as_ref()));
        if !same_but_contents(before.as_ref(), after.as_ref()) {
            (self.found)(&self.path, before, after)?;
        }
        let mut slots = Vec::new();
        map::diff(self.nodes, old, new, |difference: MapDifference<Slot>| {
            // Collected before the first is visited: one path is built for all levels, and visiting moves
            // it.
            slots.push(difference);
            Ok(())
        })?;
        // A directory on one side only is walked whole, with all links in it.
        if !self.relinked.is_empty() && old.is_some() && new.is_some() {
            self.add_relinked(new, &mut slots)?;
        }
        Ok(DiffLevel {
            end: self.path.as_bytes().len(),
            slots: slots.into_iter(),
        })
    }

    /// Moves to a name and compares the entries there; returns them if there is a directory to enter.
    fn slot(&mut self, slot: MapDifference<Slot>) -> Result<Option<StatePair>, E> {
        let Ok(name) = EntryName::new(&slot.key) else {
            return Ok(None);
        };
        self.path.push(&name);
        let before = self.resolve(slot.before, self.links.0)?;
        let after = self.resolve(slot.after, self.links.1)?;
        let is_directory = |entry: &Option<Entry>| entry.as_ref().is_some_and(Entry::is_directory);
        if is_directory(&before) || is_directory(&after) {
            return Ok(Some(StatePair { before, after }));
        }
        if before != after {
            (self.found)(&self.path, before, after)?;
        }
        Ok(None)
    }

    fn resolve(&self, slot: Option<Slot>, links: Option<NodeId>) -> Result<Option<Entry>, E> {
        Ok(match slot {
            None => None,
            Some(Slot::Own(entry)) => Some(entry),
            Some(Slot::Link(id)) => {
                let file: Option<LinkedFile> = map::get(self.nodes, links, &id.key())?;
                file.map(|file| file.entry)
            }
        })
    }

    /// Adds the slots that are the same on both sides but name a linked file whose record differs, or
    /// a directory that may hold such a name.
    fn add_relinked(&self, entries: Option<NodeId>, slots: &mut Vec<MapDifference<Slot>>) -> Result<(), E> {
        let mut same = Vec::new();
        self.collect_link_bearing(entries, &mut same)?;
        let known: std::collections::HashSet<_> = slots.iter().map(|slot| slot.key.clone()).collect();
        let fresh = same.into_iter().filter(|(key, _)| !known.contains(key));
        slots.extend(fresh.map(|(key, slot)| MapDifference {
            key,
            // The same slot on both sides: it is resolved in the two tables, where it differs.
            before: Some(slot.clone()),
            after: Some(slot),
        }));
        slots.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(())
    }

    fn collect_link_bearing(&self, node: Option<NodeId>, out: &mut Vec<(Box<[u8]>, Slot)>) -> Result<(), E> {
        let Some(id) = node else { return Ok(()) };
        match &*NodeSource::<Slot>::load(self.nodes, id)? {
            map::MapNode::Leaf(records) => {
                let bearing = records.iter().filter(|(_, slot)| match slot {
                    Slot::Link(id) => self.relinked.contains_key(id),
                    Slot::Own(entry) => {
                        matches!(&entry.kind, EntryKind::Directory { below, .. } if below.links > 0)
                    }
                });
                out.extend(bearing.cloned());
            }
            map::MapNode::Inner { children, .. } => {
                // The totals lead to the links: everything else of a large directory stays unread.
                for child in children.iter().filter(|child| child.totals.links > 0) {
                    self.collect_link_bearing(Some(child.id), out)?;
                }
            }
        }
        Ok(())
    }
}

fn entries_of(entry: Option<&Entry>) -> Option<NodeId> {
    match entry.map(|entry| &entry.kind) {
        Some(EntryKind::Directory { entries, .. }) => *entries,
        _ => None,
    }
}

/// Whether both are directories with the same attributes.
fn same_but_contents(before: Option<&Entry>, after: Option<&Entry>) -> bool {
    match (before, after) {
        (Some(before), Some(after)) => {
            before.is_directory() && after.is_directory() && before.meta == after.meta
        }
        _ => false,
    }
}
