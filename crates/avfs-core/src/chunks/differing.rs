//! How much of two large files differs, computed from their chunk lists alone: no contents are read.

use super::{Chunk, ChunkNode, ChunkNodes, load_level, root_level};
use crate::id::ChunksId;

/// Counts the chunks that differ between two files, each with its size. The cost is proportional to the
/// difference; counting stops at `limit`.
pub fn differing<N: ChunkNodes>(
    nodes: &N,
    one: (ChunksId, u64),
    other: (ChunksId, u64),
    limit: u64,
) -> Result<u64, N::Error> {
    let side = |(id, size): (ChunksId, u64)| {
        Some(DifferingPart {
            id,
            level: root_level(size),
        })
    };
    let one = side(one);
    let other = side(other);
    let level = one.iter().chain(&other).map(|part| part.level).max().unwrap_or(0);
    let mut counting = CountedNodes {
        nodes,
        limit,
        count: 0,
    };
    counting.node(one, other, level)?;
    Ok(counting.count.min(limit))
}

/// A part of a list. Where it is lower than the node that it is compared with, it is the leftmost part of it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct DifferingPart {
    id: ChunksId,
    level: u8,
}

struct CountedNodes<'a, N> {
    nodes: &'a N,
    limit: u64,
    count: u64,
}

impl<N: ChunkNodes> CountedNodes<'_, N> {
    fn node(
        &mut self,
        one: Option<DifferingPart>,
        other: Option<DifferingPart>,
        level: u8,
    ) -> Result<(), N::Error> {
        if one == other || self.count >= self.limit {
            return Ok(());
        }
        if level == 0 {
            let one = self.chunks(one)?;
            let other = self.chunks(other)?;
            self.count += pairs(&one, &other).filter(|(one, other)| one != other).count() as u64;
            return Ok(());
        }
        let one = self.children(one, level)?;
        let other = self.children(other, level)?;
        for (one, other) in pairs(&one, &other) {
            self.node(one, other, level - 1)?;
        }
        Ok(())
    }

    fn chunks(&self, part: Option<DifferingPart>) -> Result<Vec<(u8, Chunk)>, N::Error> {
        let Some(part) = part else { return Ok(Vec::new()) };
        match &*load_level(self.nodes, part.id, 0)? {
            ChunkNode::Leaf(chunks) => Ok(chunks.clone()),
            ChunkNode::Inner { .. } => Ok(Vec::new()),
        }
    }

    fn children(&self, part: Option<DifferingPart>, level: u8) -> Result<Vec<(u8, DifferingPart)>, N::Error> {
        match part {
            None => Ok(Vec::new()),
            Some(part) if part.level < level => Ok(vec![(0, part)]),
            Some(part) => match &*load_level(self.nodes, part.id, level)? {
                ChunkNode::Leaf(_) => Ok(Vec::new()),
                ChunkNode::Inner { children, .. } => Ok(children
                    .iter()
                    .map(|(slot, id)| {
                        (
                            *slot,
                            DifferingPart {
                                id: *id,
                                level: level - 1,
                            },
                        )
                    })
                    .collect()),
            },
        }
    }
}

/// Merges two sorted lists: for each index that is in either list, the items of both.
fn pairs<T: Copy>(one: &[(u8, T)], other: &[(u8, T)]) -> impl Iterator<Item = (Option<T>, Option<T>)> {
    let mut places: [(Option<T>, Option<T>); 256] = [(None, None); 256];
    one.iter()
        .for_each(|(slot, item)| places[usize::from(*slot)].0 = Some(*item));
    other
        .iter()
        .for_each(|(slot, item)| places[usize::from(*slot)].1 = Some(*item));
    places
        .into_iter()
        .filter(|(one, other)| one.is_some() || other.is_some())
}
