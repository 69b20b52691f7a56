//! Checks that the names of linked files in a tree are those that its link table counts.
//!
//! Each link gets a random number. The sum of the numbers of all names below a directory does not depend on
//! its snapshot, so each directory is summed up once. The names of a tree are those of its table if both have
//! the same sum: other names have it by chance once in 2^64 times, and the author of a file cannot know the
//! random numbers.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use avfs_core::map::{MapNode, MapRecord, NodeSource};
use avfs_core::{EntryKind, LinkId, LinkedFile, NodeId, Root, Slot, SnapshotId, Totals};

use super::TreeFlaw;
use crate::objects::{ObjectError, Objects};

pub(super) struct LinkSums<'a> {
    objects: &'a Objects,
    key: [u8; 32],
    directories: HashMap<NodeId, u128>,
    tables: HashMap<NodeId, u128>,
}

/// The share of one node in the sum: its own names, and other nodes.
#[derive(Default)]
struct LinkShare {
    own: u128,
    nodes: Vec<NodeId>,
}

impl<'a> LinkSums<'a> {
    pub(super) fn new(objects: &'a Objects) -> LinkSums<'a> {
        let mut key = [0; 32];
        for part in key.chunks_mut(8) {
            part.copy_from_slice(&RandomState::new().hash_one(0u8).to_le_bytes());
        }
        LinkSums {
            objects,
            key,
            directories: HashMap::new(),
            tables: HashMap::new(),
        }
    }

    /// Checks the claims of a snapshot about its whole tree, whose parts are consistent.
    pub(super) fn check(&mut self, id: SnapshotId, root: &Root) -> Result<(), TreeFlaw> {
        let flaw = |reason| {
            Err(TreeFlaw::Structure {
                id: id.object(),
                reason,
            })
        };
        let EntryKind::Directory { entries, below } = root.directory.kind else {
            return Ok(());
        };
        let table = match root.links {
            Some(links) => NodeSource::<LinkedFile>::load(self.objects, links)?.totals(),
            None => Totals::default(),
        };
        if root.totals != below.plus(table) {
            return flaw("the totals of a snapshot are not those of its tree");
        }
        let named = match entries {
            Some(entries) if below.links > 0 => self.named_below(entries)?,
            _ => 0,
        };
        let counted = root.links.map(|links| self.counted_in(links)).transpose()?;
        if named != counted.unwrap_or(0) {
            return flaw("the names of linked files are not those that the link table counts");
        }
        Ok(())
    }

    fn named_below(&mut self, root: NodeId) -> Result<u128, ObjectError> {
        let mut sums = std::mem::take(&mut self.directories);
        let sum = sum_up(&mut sums, root, |node| self.directory_share(node));
        self.directories = sums;
        sum
    }

    fn counted_in(&mut self, root: NodeId) -> Result<u128, ObjectError> {
        let mut sums = std::mem::take(&mut self.tables);
        let sum = sum_up(&mut sums, root, |node| self.table_share(node));
        self.tables = sums;
        sum
    }

    fn directory_share(&self, id: NodeId) -> Result<LinkShare, ObjectError> {
        let mut share = LinkShare::default();
        match &*NodeSource::<Slot>::load(self.objects, id)? {
            MapNode::Inner { children, .. } => {
                let linked = children.iter().filter(|child| child.totals.links > 0);
                share.nodes.extend(linked.map(|child| child.id));
            }
            MapNode::Leaf(records) => {
                for (_, slot) in records {
                    match slot {
                        Slot::Link(link) => share.own = share.own.wrapping_add(self.number(*link)),
                        Slot::Own(entry) if slot.totals().links > 0 => {
                            share.nodes.extend(map_of(&entry.kind))
                        }
                        Slot::Own(_) => {}
                    }
                }
            }
        }
        Ok(share)
    }

    fn table_share(&self, id: NodeId) -> Result<LinkShare, ObjectError> {
        let mut share = LinkShare::default();
        match &*NodeSource::<LinkedFile>::load(self.objects, id)? {
            MapNode::Inner { children, .. } => share.nodes.extend(children.iter().map(|child| child.id)),
            MapNode::Leaf(records) => {
                for (link, file) in records
                    .iter()
                    .filter_map(|(key, file)| Some((link_of(key)?, file)))
                {
                    let names = self.number(link).wrapping_mul(u128::from(file.names));
                    share.own = share.own.wrapping_add(names);
                }
            }
        }
        Ok(share)
    }

    /// The random number of a link.
    fn number(&self, link: LinkId) -> u128 {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&blake3::keyed_hash(&self.key, &link.key()).as_bytes()[..16]);
        u128::from_le_bytes(bytes)
    }
}

/// The link that a key of the link table names.
pub(super) fn link_of(key: &[u8]) -> Option<LinkId> {
    Some(LinkId(u64::from_be_bytes(key.try_into().ok()?)))
}

fn map_of(kind: &EntryKind) -> Option<NodeId> {
    match kind {
        EntryKind::Directory { entries, .. } => *entries,
        EntryKind::File { .. }
        | EntryKind::Symlink { .. }
        | EntryKind::Fifo
        | EntryKind::Socket
        | EntryKind::CharDevice { .. }
        | EntryKind::BlockDevice { .. } => None,
    }
}

/// The sum of all shares below `root`. A node waits on the stack until the sums of its parts are known.
fn sum_up(
    sums: &mut HashMap<NodeId, u128>,
    root: NodeId,
    share_of: impl Fn(NodeId) -> Result<LinkShare, ObjectError>,
) -> Result<u128, ObjectError> {
    let mut open: Vec<(NodeId, Option<LinkShare>)> = vec![(root, None)];
    while let Some((id, share)) = open.pop() {
        match share {
            Some(share) => {
                let parts = share.nodes.iter().filter_map(|part| sums.get(part));
                let sum = parts.fold(share.own, |sum, part| sum.wrapping_add(*part));
                sums.insert(id, sum);
            }
            None if sums.contains_key(&id) => {}
            None => {
                let share = share_of(id)?;
                let parts: Vec<NodeId> = share.nodes.clone();
                open.push((id, Some(share)));
                open.extend(parts.into_iter().map(|part| (part, None)));
            }
        }
    }
    Ok(sums.get(&root).copied().unwrap_or(0))
}
