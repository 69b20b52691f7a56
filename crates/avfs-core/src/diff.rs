//! What differs between two trees, in the time of what differs.

use std::collections::HashMap;

use crate::entry::{Entry, EntryKind, LinkId, LinkedFile, Slot};
use crate::id::NodeId;
use crate::map::{self, Difference, Nodes};
use crate::name::{EntryName, TreePath};
use crate::snapshot::Root;

/// One path that is not the same on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub path: TreePath,
    pub before: Option<Entry>,
    pub after: Option<Entry>,
}

impl Change {
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
/// Files with several names live in a table of their own. Where records of it differ, their names are
/// searched in those directories only that hold such names.
pub fn diff_trees<N, E>(
    nodes: &N,
    before: &Root,
    after: &Root,
    found: &mut impl FnMut(Change) -> Result<(), E>,
) -> Result<(), E>
where
    N: Nodes<Slot, Error = E> + Nodes<LinkedFile, Error = E>,
{
    let mut relinked = HashMap::new();
    map::diff(nodes, before.links, after.links, |difference: Difference<LinkedFile>| {
        if let Ok(key) = <[u8; 8]>::try_from(&difference.key[..]) {
            let entry = |file: Option<LinkedFile>| file.map(|file| file.entry);
            let pair = (entry(difference.before), entry(difference.after));
            if pair.0 != pair.1 {
                relinked.insert(LinkId(u64::from_be_bytes(key)), pair);
            }
        }
        Ok(())
    })?;
    let mut walk = TreeDiff { nodes, links: (before.links, after.links), relinked, found };
    walk.run(Pair {
        path: TreePath::root(),
        before: Some(before.directory.clone()),
        after: Some(after.directory.clone()),
    })
}

type Relinked = HashMap<LinkId, (Option<Entry>, Option<Entry>)>;

/// Two states of one path, of which at least one is a directory.
struct Pair {
    path: TreePath,
    before: Option<Entry>,
    after: Option<Entry>,
}

/// A directory that is being compared: what is still to do in it.
struct Level {
    path: TreePath,
    slots: std::vec::IntoIter<Difference<Slot>>,
}

struct TreeDiff<'a, N, F> {
    nodes: &'a N,
    links: (Option<NodeId>, Option<NodeId>),
    relinked: Relinked,
    found: &'a mut F,
}

impl<N, E, F> TreeDiff<'_, N, F>
where
    N: Nodes<Slot, Error = E> + Nodes<LinkedFile, Error = E>,
    F: FnMut(Change) -> Result<(), E>,
{
    /// Walks with a stack of its own: a tree may be deeper than the stack of a thread allows.
    fn run(&mut self, root: Pair) -> Result<(), E> {
        let mut levels = vec![self.enter(root)?];
        while let Some(level) = levels.last_mut() {
            match level.slots.next() {
                Some(slot) => {
                    if let Some(pair) = self.slot(&level.path, slot)? {
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

    fn enter(&mut self, pair: Pair) -> Result<Level, E> {
        let Pair { path, before, after } = pair;
        let (old, new) = (entries_of(before.as_ref()), entries_of(after.as_ref()));
        if !same_but_contents(before.as_ref(), after.as_ref()) {
            (self.found)(Change { path: path.clone(), before, after })?;
        }
        let mut slots = Vec::new();
        map::diff(self.nodes, old, new, |difference: Difference<Slot>| {
            slots.push(difference);
            Ok(())
        })?;
        if !self.relinked.is_empty() && old.is_some() && new.is_some() {
            self.add_relinked(new, &mut slots)?;
        }
        Ok(Level { path, slots: slots.into_iter() })
    }

    /// Compares what a name stands for; returns it if there is a directory to enter.
    fn slot(&mut self, parent: &TreePath, slot: Difference<Slot>) -> Result<Option<Pair>, E> {
        let Ok(name) = EntryName::new(&slot.key) else { return Ok(None) };
        let path = parent.join(&name);
        let before = self.resolve(slot.before, self.links.0)?;
        let after = self.resolve(slot.after, self.links.1)?;
        let is_directory = |entry: &Option<Entry>| entry.as_ref().is_some_and(Entry::is_directory);
        if is_directory(&before) || is_directory(&after) {
            return Ok(Some(Pair { path, before, after }));
        }
        if before != after {
            (self.found)(Change { path, before, after })?;
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
    fn add_relinked(&self, entries: Option<NodeId>, slots: &mut Vec<Difference<Slot>>) -> Result<(), E> {
        let mut same = Vec::new();
        self.collect_link_bearing(entries, &mut same)?;
        let known: std::collections::HashSet<_> = slots.iter().map(|slot| slot.key.clone()).collect();
        let fresh = same.into_iter().filter(|(key, _)| !known.contains(key));
        slots.extend(fresh.map(|(key, slot)| Difference {
            key,
            before: Some(slot.clone()),
            after: Some(slot),
        }));
        slots.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(())
    }

    fn collect_link_bearing(&self, node: Option<NodeId>, out: &mut Vec<(Box<[u8]>, Slot)>) -> Result<(), E> {
        let Some(id) = node else { return Ok(()) };
        match &*Nodes::<Slot>::load(self.nodes, id)? {
            map::Node::Leaf(records) => {
                let bearing = records.iter().filter(|(_, slot)| match slot {
                    Slot::Link(id) => self.relinked.contains_key(id),
                    Slot::Own(entry) => {
                        matches!(&entry.kind, EntryKind::Directory { below, .. } if below.links > 0)
                    }
                });
                out.extend(bearing.cloned());
            }
            map::Node::Inner { children, .. } => {
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
