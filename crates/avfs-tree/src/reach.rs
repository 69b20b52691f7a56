//! Everything that a snapshot needs: the walk behind garbage collection, checks and exports.

use avfs_core::chunks::{ChunkNode, ChunkNodes};
use avfs_core::map::{Node, Nodes, Record};
use avfs_core::{
    BlobId, ChunksId, Content, Entry, EntryKind, LinkedFile, NodeId, ObjectId, ObjectKind, Slot, SnapshotId,
};

use crate::inodes::InodeRecord;
use crate::objects::{ObjectError, Objects};
use crate::promises::{AllKept, Kept};

/// Something that is needed with all that it refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Needed {
    Snapshot(SnapshotId),
    Directory(NodeId),
    Links(NodeId),
    Inodes(NodeId),
    Chunks(ChunksId),
    Blob(BlobId),
}

impl Needed {
    pub fn object(self) -> ObjectId {
        match self {
            Needed::Snapshot(id) => id.object(),
            Needed::Directory(id) | Needed::Links(id) | Needed::Inodes(id) => id.object(),
            Needed::Chunks(id) => id.object(),
            Needed::Blob(id) => id.object(),
        }
    }

    pub fn kind(self) -> ObjectKind {
        match self {
            Needed::Snapshot(_) => ObjectKind::Snapshot,
            Needed::Directory(_) | Needed::Links(_) | Needed::Inodes(_) => ObjectKind::Node,
            Needed::Chunks(_) => ObjectKind::Chunks,
            Needed::Blob(_) => ObjectKind::Blob,
        }
    }

    /// What the contents of a file need.
    pub fn of_content(content: Content) -> Option<Needed> {
        match content {
            Content::Empty => None,
            Content::Blob(id) => Some(Needed::Blob(id)),
            Content::Chunks(id) => Some(Needed::Chunks(id)),
        }
    }

    pub(crate) fn of_entry(entry: &Entry) -> Option<Needed> {
        match &entry.kind {
            EntryKind::File { content, .. } => Needed::of_content(*content),
            EntryKind::Directory { entries, .. } => entries.map(Needed::Directory),
            EntryKind::Symlink { .. }
            | EntryKind::Fifo
            | EntryKind::Socket
            | EntryKind::CharDevice { .. }
            | EntryKind::BlockDevice { .. } => None,
        }
    }
}

/// Calls `visit` with everything that `roots` need, themselves included. What `visit` answers with `false`
/// (because it was seen before) is not looked into. Parents of a snapshot are not needed by it. A promise needs
/// what it was kept as.
pub fn walk_needed(
    objects: &Objects,
    kept: &AllKept,
    roots: impl IntoIterator<Item = Needed>,
    visit: &mut dyn FnMut(Needed) -> Result<bool, ObjectError>,
) -> Result<(), ObjectError> {
    let mut open: Vec<Needed> = roots.into_iter().collect();
    while let Some(needed) = open.pop() {
        if visit(needed)? {
            match kept.get(needed.object()) {
                Some(kept) => open.extend(kept_parts(kept)),
                None if matches!(needed, Needed::Blob(_)) => {}
                // Nobody has looked at it yet.
                None if objects.promise(needed.object())?.is_some() => {}
                None => parts(objects, needed, &mut open)?,
            }
        }
    }
    Ok(())
}

/// What a promise was kept as.
pub(crate) fn kept_parts(kept: &Kept) -> Vec<Needed> {
    let parts = match kept {
        Kept::Directory(kept) => [kept.entries.map(Needed::Directory), kept.numbers.map(Needed::Inodes)],
        Kept::File(content) => [Needed::of_content(*content), None],
        Kept::Moved { entry, .. } => [Needed::of_entry(entry), None],
        Kept::Gone => [None, None],
    };
    parts.into_iter().flatten().collect()
}

/// What one object refers to.
fn parts(objects: &Objects, needed: Needed, out: &mut Vec<Needed>) -> Result<(), ObjectError> {
    match needed {
        Needed::Blob(_) => {}
        Needed::Snapshot(id) => {
            let root = objects.snapshot(id)?.root;
            out.extend(Needed::of_entry(&root.directory));
            out.extend(root.links.map(Needed::Links));
        }
        Needed::Directory(id) => map_parts(objects, id, Needed::Directory, out, |slot: &Slot| match slot {
            Slot::Own(entry) => Needed::of_entry(entry),
            Slot::Link(_) => None,
        })?,
        Needed::Links(id) => {
            map_parts(objects, id, Needed::Links, out, |file: &LinkedFile| Needed::of_entry(&file.entry))?;
        }
        Needed::Inodes(id) => map_parts(objects, id, Needed::Inodes, out, |_: &InodeRecord| None)?,
        Needed::Chunks(id) => match &*ChunkNodes::load(objects, id)? {
            ChunkNode::Leaf(chunks) => out.extend(chunks.iter().map(|(_, chunk)| Needed::Blob(chunk.id))),
            ChunkNode::Inner { children, .. } => {
                out.extend(children.iter().map(|(_, child)| Needed::Chunks(*child)));
            }
        },
    }
    Ok(())
}

fn map_parts<V: Record>(
    objects: &Objects,
    id: NodeId,
    node: impl Fn(NodeId) -> Needed,
    out: &mut Vec<Needed>,
    part: impl Fn(&V) -> Option<Needed>,
) -> Result<(), ObjectError>
where
    Objects: Nodes<V, Error = ObjectError>,
{
    match &*Nodes::<V>::load(objects, id)? {
        Node::Leaf(records) => out.extend(records.iter().filter_map(|(_, record)| part(record))),
        Node::Inner { children, .. } => out.extend(children.iter().map(|child| node(child.id))),
    }
    Ok(())
}

/// The slots of a stored directory that are links, or directories with links below. Parts of the map without
/// any are not looked at.
pub fn link_bearing_slots(
    objects: &Objects,
    entries: Option<NodeId>,
) -> Result<Vec<(Box<[u8]>, Slot)>, ObjectError> {
    let mut found = Vec::new();
    let mut open: Vec<NodeId> = entries.into_iter().collect();
    while let Some(id) = open.pop() {
        match &*Nodes::<Slot>::load(objects, id)? {
            Node::Inner { children, .. } => {
                open.extend(children.iter().filter(|child| child.totals.links > 0).map(|child| child.id));
            }
            Node::Leaf(records) => {
                found.extend(records.iter().filter(|(_, slot)| slot.totals().links > 0).cloned());
            }
        }
    }
    Ok(found)
}
