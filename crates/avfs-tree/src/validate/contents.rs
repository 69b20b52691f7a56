//! Checks that files have the size that they claim, and their chunk lists the depth for that size.

use std::collections::HashSet;

use avfs_core::chunks::{CHUNK_SIZE, Chunk, ChunkNode, ChunkNodes, PAGE_SIZE, PageMap};
use avfs_core::{BlobId, ChunksId, Content, ObjectId};

use super::TreeFlaw;
use crate::objects::Objects;

const FANOUT_BITS: u32 = 8;

pub(super) struct ContentCheck<'a> {
    objects: &'a Objects,
    blobs: HashSet<(BlobId, u64)>,
    lists: HashSet<CheckedList>,
}

/// A node of a chunk list, and how many bytes of its file lie below it. The position in the file is
/// irrelevant, so versions of a file share the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct CheckedList {
    id: ChunksId,
    level: u8,
    room: u64,
    is_root: bool,
}

impl<'a> ContentCheck<'a> {
    pub(super) fn new(objects: &'a Objects) -> ContentCheck<'a> {
        ContentCheck {
            objects,
            blobs: HashSet::new(),
            lists: HashSet::new(),
        }
    }

    pub(super) fn check(&mut self, content: Content, size: u64) -> Result<(), TreeFlaw> {
        match content {
            Content::Empty => Ok(()),
            Content::Blob(id) => self.blob(id, size),
            Content::Chunks(id) => self.list(CheckedList {
                id,
                level: root_level(size),
                room: size,
                is_root: true,
            }),
        }
    }

    fn blob(&mut self, id: BlobId, len: u64) -> Result<(), TreeFlaw> {
        if !self.blobs.contains(&(id, len)) {
            if self.objects.blob(id)?.len() as u64 != len {
                return Err(flaw(id.object(), "contents are not as long as their file says"));
            }
            self.blobs.insert((id, len));
        }
        Ok(())
    }

    /// An inconsistent list is checked again at every reference: that costs time only in a damaged store.
    fn list(&mut self, root: CheckedList) -> Result<(), TreeFlaw> {
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

    fn list_node(&mut self, list: CheckedList, open: &mut Vec<CheckedList>) -> Result<(), TreeFlaw> {
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
            ChunkNode::Leaf(chunks) => chunks
                .iter()
                .try_for_each(|(slot, chunk)| self.chunk(chunk, room_at(list, *slot))),
            ChunkNode::Inner { children, .. } => children.iter().try_for_each(|(slot, child)| {
                let room = room_at(list, *slot);
                open.push(CheckedList {
                    id: *child,
                    level: list.level - 1,
                    room,
                    is_root: false,
                });
                if room > 0 {
                    Ok(())
                } else {
                    Err(flaw(id, "a chunk list goes on behind its file"))
                }
            }),
        }
    }

    fn chunk(&mut self, chunk: &Chunk, len: u64) -> Result<(), TreeFlaw> {
        if chunk.pages.0 & !PageMap::covering(len).0 != 0 {
            return Err(flaw(
                chunk.id.object(),
                "a chunk has pages behind the end of its file",
            ));
        }
        let pages = chunk.pages.iter();
        let stored = pages
            .map(|page| len.saturating_sub(u64::from(page) * PAGE_SIZE).min(PAGE_SIZE))
            .sum();
        self.blob(chunk.id, stored)
    }
}

const EMPTY_PART: &str = "a part of a chunk list is empty";

fn flaw(id: ObjectId, reason: &'static str) -> TreeFlaw {
    TreeFlaw::Structure { id, reason }
}

/// The number of bytes that a slot of a node of this level represents.
fn slot_bytes(level: u8) -> u64 {
    CHUNK_SIZE << (FANOUT_BITS * u32::from(level))
}

/// The number of bytes of the file in this slot.
fn room_at(list: CheckedList, slot: u8) -> u64 {
    let bytes = slot_bytes(list.level);
    list.room.saturating_sub(u64::from(slot) * bytes).min(bytes)
}

/// The level of the root for a file of this size.
fn root_level(size: u64) -> u8 {
    (0..=3)
        .find(|level| size <= slot_bytes(*level) << FANOUT_BITS)
        .unwrap_or(3)
}
