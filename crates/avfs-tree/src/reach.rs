//! Everything that a snapshot needs: the walk behind garbage collection, checks and exports.

use avfs_core::chunks::{ChunkNode, ChunkNodes};
use avfs_core::map::{MapNode, MapRecord, NodeSource};
use avfs_core::{
    BlobId, ChunksId, Content, Entry, EntryKind, LinkedFile, NodeId, ObjectId, ObjectKind, Slot, SnapshotId,
};

use crate::inodes::InodeRecord;
use crate::objects::{ObjectError, Objects};
use crate::promises::{AllKept, KeptPromise};

/// An object that is needed, with all that it refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NeededObject {
    /// A snapshot, without its parents.
    Snapshot(SnapshotId),
    /// A node of the entries of a directory.
    Directory(NodeId),
    /// A node of the table of files with several names.
    Links(NodeId),
    /// A node of the table of inode numbers.
    Inodes(NodeId),
    /// A node of a chunk list.
    Chunks(ChunksId),
    /// The bytes of a file or a chunk.
    Blob(BlobId),
}

impl NeededObject {
    /// Its id.
    pub fn object(self) -> ObjectId {
        match self {
            NeededObject::Snapshot(id) => id.object(),
            NeededObject::Directory(id) | NeededObject::Links(id) | NeededObject::Inodes(id) => id.object(),
            NeededObject::Chunks(id) => id.object(),
            NeededObject::Blob(id) => id.object(),
        }
    }

    /// Its kind.
    pub fn kind(self) -> ObjectKind {
        match self {
            NeededObject::Snapshot(_) => ObjectKind::Snapshot,
            NeededObject::Directory(_) | NeededObject::Links(_) | NeededObject::Inodes(_) => ObjectKind::Node,
            NeededObject::Chunks(_) => ObjectKind::Chunks,
            NeededObject::Blob(_) => ObjectKind::Blob,
        }
    }

    /// The object that the contents of a file need.
    pub fn of_content(content: Content) -> Option<NeededObject> {
        match content {
            Content::Empty => None,
            Content::Blob(id) => Some(NeededObject::Blob(id)),
            Content::Chunks(id) => Some(NeededObject::Chunks(id)),
        }
    }

    pub(crate) fn of_entry(entry: &Entry) -> Option<NeededObject> {
        match &entry.kind {
            EntryKind::File { content, .. } => NeededObject::of_content(*content),
            EntryKind::Directory { entries, .. } => entries.map(NeededObject::Directory),
            EntryKind::Symlink { .. }
            | EntryKind::Fifo
            | EntryKind::Socket
            | EntryKind::CharDevice { .. }
            | EntryKind::BlockDevice { .. } => None,
        }
    }
}

/// Calls `visit` with everything that `roots` need, including themselves. If `visit` returns `false` (because
/// it has seen the object), its references are skipped. A snapshot does not need its parents. A promise needs
/// its result.
pub fn walk_needed(
    objects: &Objects,
    kept: &AllKept,
    roots: impl IntoIterator<Item = NeededObject>,
    visit: &mut dyn FnMut(NeededObject) -> Result<bool, ObjectError>,
) -> Result<(), ObjectError> {
    let mut open: Vec<NeededObject> = roots.into_iter().collect();
    while let Some(needed) = open.pop() {
        if visit(needed)? {
            match kept.get(needed.object()) {
                Some(kept) => open.extend(kept_parts(kept)),
                None if matches!(needed, NeededObject::Blob(_)) => {}
                // Not resolved yet.
                None if objects.promise(needed.object())?.is_some() => {}
                None => match parts(objects, needed, &mut open) {
                    // A repair has lost its source: it was never resolved, and never can be.
                    Err(ObjectError::Promised { .. }) => {}
                    walked => walked?,
                },
            }
        }
    }
    Ok(())
}

/// The objects of the result of a promise.
pub(crate) fn kept_parts(kept: &KeptPromise) -> Vec<NeededObject> {
    let parts = match kept {
        KeptPromise::Directory(kept) => [
            kept.entries.map(NeededObject::Directory),
            kept.numbers.map(NeededObject::Inodes),
        ],
        KeptPromise::File(content) => [NeededObject::of_content(*content), None],
        KeptPromise::Moved { entry, .. } => [NeededObject::of_entry(entry), None],
        KeptPromise::Gone => [None, None],
    };
    parts.into_iter().flatten().collect()
}

/// The references of one object.
fn parts(objects: &Objects, needed: NeededObject, out: &mut Vec<NeededObject>) -> Result<(), ObjectError> {
    match needed {
        NeededObject::Blob(_) => {}
        NeededObject::Snapshot(id) => {
            let root = objects.snapshot(id)?.root;
            out.extend(NeededObject::of_entry(&root.directory));
            out.extend(root.links.map(NeededObject::Links));
        }
        NeededObject::Directory(id) => map_parts(
            objects,
            id,
            NeededObject::Directory,
            out,
            |slot: &Slot| match slot {
                Slot::Own(entry) => NeededObject::of_entry(entry),
                Slot::Link(_) => None,
            },
        )?,
        NeededObject::Links(id) => {
            map_parts(objects, id, NeededObject::Links, out, |file: &LinkedFile| {
                NeededObject::of_entry(&file.entry)
            })?;
        }
        NeededObject::Inodes(id) => {
            map_parts(objects, id, NeededObject::Inodes, out, |_: &InodeRecord| None)?
        }
        NeededObject::Chunks(id) => match &*ChunkNodes::load(objects, id)? {
            ChunkNode::Leaf(chunks) => {
                out.extend(chunks.iter().map(|(_, chunk)| NeededObject::Blob(chunk.id)))
            }
            ChunkNode::Inner { children, .. } => {
                out.extend(children.iter().map(|(_, child)| NeededObject::Chunks(*child)));
            }
        },
    }
    Ok(())
}

fn map_parts<V: MapRecord>(
    objects: &Objects,
    id: NodeId,
    node: impl Fn(NodeId) -> NeededObject,
    out: &mut Vec<NeededObject>,
    part: impl Fn(&V) -> Option<NeededObject>,
) -> Result<(), ObjectError>
where
    Objects: NodeSource<V, Error = ObjectError>,
{
    match &*NodeSource::<V>::load(objects, id)? {
        MapNode::Leaf(records) => out.extend(records.iter().filter_map(|(_, record)| part(record))),
        MapNode::Inner { children, .. } => out.extend(children.iter().map(|child| node(child.id))),
    }
    Ok(())
}

/// The slots of a stored directory that are links, or directories with links below. Parts of the map without
/// any are not loaded.
pub fn link_bearing_slots(
    objects: &Objects,
    entries: Option<NodeId>,
) -> Result<Vec<(Box<[u8]>, Slot)>, ObjectError> {
    let mut found = Vec::new();
    let mut open: Vec<NodeId> = entries.into_iter().collect();
    while let Some(id) = open.pop() {
        match &*NodeSource::<Slot>::load(objects, id)? {
            MapNode::Inner { children, .. } => {
                open.extend(
                    children
                        .iter()
                        .filter(|child| child.totals.links > 0)
                        .map(|child| child.id),
                );
            }
            MapNode::Leaf(records) => {
                found.extend(
                    records
                        .iter()
                        .filter(|(_, slot)| slot.totals().links > 0)
                        .cloned(),
                );
            }
        }
    }
    Ok(found)
}
