//! Whether files are as long as they say, and their chunk lists as deep as that needs.

use std::collections::HashSet;

use avfs_core::chunks::{CHUNK_SIZE, Chunk, ChunkNode, ChunkNodes, PAGE_SIZE, PageMap};
use avfs_core::{BlobId, ChunksId, Content, ObjectId};

use super::Flaw;
use crate::objects::Objects;

const FANOUT_BITS: u32 = 8;

pub(super) struct Contents<'a> {
    objects: &'a Objects,
    blobs: HashSet<(BlobId, u64)>,
    lists: HashSet<List>,
}

/// A node of a chunk list, and how many bytes of its file lie below it. Where in a file that is does not
/// matter, so that versions of a file share what was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct List {
    id: ChunksId,
    level: u8,
    room: u64,
    is_root: bool,
}

impl<'a> Contents<'a> {
    pub fn new(objects: &'a Objects) -> Contents<'a> {
        Contents { objects, blobs: HashSet::new(), lists: HashSet::new() }
    }

    pub fn check(&mut self, content: Content, size: u64) -> Result<(), Flaw> {
        match content {
            Content::Empty => Ok(()),
            Content::Blob(id) => self.blob(id, size),
            Content::Chunks(id) => self.list(List { id, level: root_level(size), room: size, is_root: true }),
        }
    }

    fn blob(&mut self, id: BlobId, len: u64) -> Result<(), Flaw> {
        if !self.blobs.contains(&(id, len)) {
            if self.objects.blob(id)?.len() as u64 != len {
                return Err(flaw(id.object(), "contents are not as long as their file says"));
            }
            self.blobs.insert((id, len));
        }
        Ok(())
    }

    /// A list that is not in order is looked at again wherever it is met: that costs time only in a store
    /// that is damaged.
    fn list(&mut self, root: List) -> Result<(), Flaw> {
        let mut open = vec![root];
        let mut sound = Vec::new();
        while let Some(list) = open.pop() {
            if !self.lists.contains(&list) {
                self.list_node(list, &mut open)?;
                sound.push(list);
            }
        }
        self.lists.extend(sound);
        Ok(())
    }

    fn list_node(&mut self, list: List, open: &mut Vec<List>) -> Result<(), Flaw> {
        let id = list.id.object();
        match &*ChunkNodes::load(self.objects, list.id)? {
            ChunkNode::Leaf(_) if list.level != 0 => Err(flaw(id, "a chunk list has the wrong depth")),
            ChunkNode::Inner { level, .. } if *level != list.level => {
                Err(flaw(id, "a chunk list has the wrong depth"))
            }
            ChunkNode::Leaf(chunks) if chunks.is_empty() && !list.is_root => Err(flaw(id, EMPTY_PART)),
            ChunkNode::Inner { children, .. } if children.is_empty() && !list.is_root => {
                Err(flaw(id, EMPTY_PART))
            }
            ChunkNode::Leaf(chunks) => {
                chunks.iter().try_for_each(|(slot, chunk)| self.chunk(chunk, room_at(list, *slot)))
            }
            ChunkNode::Inner { children, .. } => children.iter().try_for_each(|(slot, child)| {
                let room = room_at(list, *slot);
                open.push(List { id: *child, level: list.level - 1, room, is_root: false });
                if room > 0 { Ok(()) } else { Err(flaw(id, "a chunk list goes on behind its file")) }
            }),
        }
    }

    fn chunk(&mut self, chunk: &Chunk, len: u64) -> Result<(), Flaw> {
        if chunk.pages.0 & !PageMap::covering(len).0 != 0 {
            return Err(flaw(chunk.id.object(), "a chunk has pages behind the end of its file"));
        }
        let pages = chunk.pages.iter();
        let stored = pages.map(|page| len.saturating_sub(u64::from(page) * PAGE_SIZE).min(PAGE_SIZE)).sum();
        self.blob(chunk.id, stored)
    }
}

const EMPTY_PART: &str = "a part of a chunk list is empty";

fn flaw(id: ObjectId, reason: &'static str) -> Flaw {
    Flaw::Structure { id, reason }
}

/// How many bytes a slot of a node of this level stands for.
fn slot_bytes(level: u8) -> u64 {
    CHUNK_SIZE << (FANOUT_BITS * u32::from(level))
}

/// How many bytes of the file lie in this slot.
fn room_at(list: List, slot: u8) -> u64 {
    let bytes = slot_bytes(list.level);
    list.room.saturating_sub(u64::from(slot) * bytes).min(bytes)
}

/// The level of the root for a file of this size.
fn root_level(size: u64) -> u8 {
    (0..=3).find(|level| size <= slot_bytes(*level) << FANOUT_BITS).unwrap_or(3)
}
