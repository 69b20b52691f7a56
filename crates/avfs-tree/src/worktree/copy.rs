//! Copies within a tree: the copy shares its stored parts with the original.

use std::collections::{BTreeMap, HashMap};

use avfs_core::map::{self, Edits};
use avfs_core::{Entry, EntryKind, LinkId, LinkedFile, Slot};

use super::StoredTree;
use crate::error::FsError;
use crate::inodes::Ino;
use crate::objects::ObjectWriter;
use crate::reach::link_bearing_slots;
use crate::worktree::capture::capture_entry;
use crate::worktree::freeze::store_entry;
use crate::worktree::state::TreeState;

/// Stores one entry with everything below it, as it is now, and returns it.
pub(super) fn freeze_entry(state: &mut TreeState, ino: Ino, writer: &ObjectWriter) -> Result<Entry, FsError> {
    let (entry, directories) = capture_entry(state, ino)?;
    store_entry(&state.objects, writer, &entry, &directories)
}

/// A stored entry as a separate tree: files with several names in it get link ids that are unused here.
pub(super) fn with_new_links(
    state: &TreeState,
    entry: Entry,
    files: BTreeMap<LinkId, LinkedFile>,
    seed: Ino,
    writer: &ObjectWriter,
) -> Result<StoredTree, FsError> {
    if files.is_empty() {
        return Ok(StoredTree {
            entry,
            links: Vec::new(),
        });
    }
    let mut links = Vec::new();
    let mut renamed = HashMap::new();
    for (old, file) in files {
        let slot = match file.names {
            1 => Slot::Own(file.entry),
            _ => {
                let new = free_link(state, seed, old)?;
                links.push((new, file));
                Slot::Link(new)
            }
        };
        renamed.insert(old, slot);
    }
    Ok(StoredTree {
        entry: relink(state, writer, &entry, &renamed)?,
        links,
    })
}

/// An unused link id, the same for the same copy.
fn free_link(state: &TreeState, seed: Ino, old: LinkId) -> Result<LinkId, FsError> {
    for attempt in 0u32.. {
        let mut hasher = blake3::Hasher::new();
        hasher
            .update(&seed.0.to_le_bytes())
            .update(&old.key())
            .update(&attempt.to_le_bytes());
        let ino = Ino::from_hash(&hasher.finalize());
        if !state.is_taken(ino)? {
            return Ok(LinkId(ino.0));
        }
    }
    unreachable!("there are more numbers than inodes")
}

/// The slots of a stored directory that are links or lead to links.
fn link_bearing(state: &TreeState, entry: &Entry) -> Result<Vec<(Box<[u8]>, Slot)>, FsError> {
    match entry.kind {
        EntryKind::Directory { entries, .. } => Ok(link_bearing_slots(&state.objects, entries)?),
        _ => Ok(Vec::new()),
    }
}

/// The linked files with names below a directory, with the number of names.
pub(super) fn count_links(state: &TreeState, top: &Entry) -> Result<BTreeMap<LinkId, u32>, FsError> {
    let mut names = BTreeMap::new();
    if !matches!(&top.kind, EntryKind::Directory { below, .. } if below.links > 0) {
        return Ok(names);
    }
    let mut open = vec![top.clone()];
    while let Some(entry) = open.pop() {
        for (_, slot) in link_bearing(state, &entry)? {
            match slot {
                Slot::Link(link) => *names.entry(link).or_default() += 1,
                Slot::Own(below) => open.push(below),
            }
        }
    }
    Ok(names)
}

/// The same directory with other link ids.
fn relink(
    state: &TreeState,
    writer: &ObjectWriter,
    top: &Entry,
    renamed: &HashMap<LinkId, Slot>,
) -> Result<Entry, FsError> {
    let mut bearing = vec![RelinkedEntry {
        entry: top.clone(),
        edits: Edits::new(),
        parent: None,
    }];
    let mut next = 0;
    while next < bearing.len() {
        for (name, slot) in link_bearing(state, &bearing[next].entry)? {
            match slot {
                Slot::Link(link) => {
                    let slot = renamed.get(&link).cloned().unwrap_or(Slot::Link(link));
                    bearing[next].edits.insert(name, Some(slot));
                }
                Slot::Own(entry) => {
                    bearing.push(RelinkedEntry {
                        entry,
                        edits: Edits::new(),
                        parent: Some((next, name)),
                    });
                }
            }
        }
        next += 1;
    }
    // Each directory comes after its parent, so going backwards everything below is done already.
    while let Some(directory) = bearing.pop() {
        let entry = directory.rebuilt(state, writer)?;
        match directory.parent {
            Some((above, name)) => bearing[above].edits.insert(name, Some(Slot::Own(entry))),
            None => return Ok(entry),
        };
    }
    Ok(top.clone())
}

/// A directory with links below, and what changes in it.
struct RelinkedEntry {
    entry: Entry,
    edits: Edits<Slot>,
    parent: Option<(usize, Box<[u8]>)>,
}

impl RelinkedEntry {
    fn rebuilt(&self, state: &TreeState, writer: &ObjectWriter) -> Result<Entry, FsError> {
        let EntryKind::Directory { entries, .. } = self.entry.kind else {
            return Ok(self.entry.clone());
        };
        let mut sink = writer;
        let root = map::apply(&state.objects, &mut sink, entries, &self.edits)?;
        let below = root.as_ref().map(|root| root.totals).unwrap_or_default();
        let kind = EntryKind::Directory {
            entries: root.map(|root| root.id),
            below,
        };
        Ok(Entry {
            meta: self.entry.meta.clone(),
            kind,
        })
    }
}
