//! Estimates how much of a file is data, by loading few nodes: the number that `du` shows.

use std::collections::VecDeque;

use super::{CHUNK_SIZE, Chunk, ChunkNode, ChunkNodes, PAGE_SIZE, chunk_len, load_level, root_level, span};
use crate::id::ChunksId;

/// The most nodes that are loaded. In a file with more parts, those that were not loaded count as full: small
/// holes everywhere do not make it sparse.
const LOOKS: usize = 32;

/// The bytes below a full leaf.
const LEAF: u64 = CHUNK_SIZE << super::FANOUT_BITS;

/// An estimate of the bytes of a file that are not holes, never too low. It is exact if the data lies in few
/// parts; otherwise a part that was not loaded counts as full. The largest parts are loaded first.
pub fn occupied<N: ChunkNodes>(nodes: &N, root: ChunksId, size: u64) -> Result<u64, N::Error> {
    let mut parts = VecDeque::from([OccupiedPart {
        id: root,
        level: root_level(size),
        first: 0,
    }]);
    let mut bytes = 0;
    for _ in 0..LOOKS {
        let Some(part) = parts.pop_front() else { break };
        match &*load_level(nodes, part.id, part.level)? {
            ChunkNode::Leaf(chunks) => bytes += part.data(chunks, size),
            ChunkNode::Inner { children, .. } if part.seems_full(children.len(), size) => {
                bytes += part.len(size);
            }
            ChunkNode::Inner { children, .. } => parts.extend(children.iter().map(|item| part.below(item))),
        }
    }
    Ok(bytes + parts.iter().map(|part| part.len(size)).sum::<u64>())
}

/// A node, and the first chunk that it can hold.
struct OccupiedPart {
    id: ChunksId,
    level: u8,
    first: u64,
}

impl OccupiedPart {
    /// Its size in bytes if it is full.
    fn len(&self, size: u64) -> u64 {
        let start = self.first * CHUNK_SIZE;
        size.saturating_sub(start).min(span(self.level) * LEAF)
    }

    /// Whether each of its leaves holds data: most likely there are no holes.
    fn seems_full(&self, leaves: usize, size: u64) -> bool {
        self.level == 1 && leaves as u64 == self.len(size).div_ceil(LEAF)
    }

    fn below(&self, (slot, id): &(u8, ChunksId)) -> OccupiedPart {
        let first = self.first + u64::from(*slot) * span(self.level);
        OccupiedPart {
            id: *id,
            level: self.level - 1,
            first,
        }
    }

    fn data(&self, chunks: &[(u8, Chunk)], size: u64) -> u64 {
        let data = |(slot, chunk): &(u8, Chunk)| {
            let pages = u64::from(chunk.pages.0.count_ones()) * PAGE_SIZE;
            pages.min(chunk_len(size, self.first + u64::from(*slot)))
        };
        chunks.iter().map(data).sum()
    }
}
