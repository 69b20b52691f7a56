//! How much of two large files differs, by their chunk lists alone: no byte of them is read.

use super::{Chunk, ChunkNode, ChunkNodes, load_level, root_level};
use crate::id::ChunksId;

/// How many chunks differ between two files, each with its size. Costs what differs, and ends at `limit`.
pub fn differing<N: ChunkNodes>(
    nodes: &N,
    one: (ChunksId, u64),
    other: (ChunksId, u64),
    limit: u64,
) -> Result<u64, N::Error> {
    let side = |(id, size): (ChunksId, u64)| Some(Part { id, level: root_level(size) });
    let (one, other) = (side(one), side(other));
    let level = one.iter().chain(&other).map(|part| part.level).max().unwrap_or(0);
    let mut counting = Counting { nodes, limit, count: 0 };
    counting.node(one, other, level)?;
    Ok(counting.count.min(limit))
}

/// A part of a list. Where it is lower than the node that it is compared with, it is the leftmost part of it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Part {
    id: ChunksId,
    level: u8,
}

struct Counting<'a, N> {
    nodes: &'a N,
    limit: u64,
    count: u64,
}

impl<N: ChunkNodes> Counting<'_, N> {
    fn node(&mut self, one: Option<Part>, other: Option<Part>, level: u8) -> Result<(), N::Error> {
        if one == other || self.count >= self.limit {
            return Ok(());
        }
        if level == 0 {
            let (one, other) = (self.chunks(one)?, self.chunks(other)?);
            self.count += pairs(&one, &other).filter(|(one, other)| one != other).count() as u64;
            return Ok(());
        }
        let (one, other) = (self.children(one, level)?, self.children(other, level)?);
        for (one, other) in pairs(&one, &other) {
            self.node(one, other, level - 1)?;
        }
        Ok(())
    }

    fn chunks(&self, part: Option<Part>) -> Result<Vec<(u8, Chunk)>, N::Error> {
        let Some(part) = part else { return Ok(Vec::new()) };
        match &*load_level(self.nodes, part.id, 0)? {
            ChunkNode::Leaf(chunks) => Ok(chunks.clone()),
            ChunkNode::Inner { .. } => Ok(Vec::new()),
        }
    }

    fn children(&self, part: Option<Part>, level: u8) -> Result<Vec<(u8, Part)>, N::Error> {
        match part {
            None => Ok(Vec::new()),
            Some(part) if part.level < level => Ok(vec![(0, part)]),
            Some(part) => match &*load_level(self.nodes, part.id, level)? {
                ChunkNode::Leaf(_) => Ok(Vec::new()),
                ChunkNode::Inner { children, .. } => Ok(children
                    .iter()
                    .map(|(slot, id)| (*slot, Part { id: *id, level: level - 1 }))
                    .collect()),
            },
        }
    }
}

/// What two sorted lists have at each place that one of them has.
fn pairs<T: Copy>(one: &[(u8, T)], other: &[(u8, T)]) -> impl Iterator<Item = (Option<T>, Option<T>)> {
    let mut places: [(Option<T>, Option<T>); 256] = [(None, None); 256];
    one.iter().for_each(|(slot, item)| places[usize::from(*slot)].0 = Some(*item));
    other.iter().for_each(|(slot, item)| places[usize::from(*slot)].1 = Some(*item));
    places.into_iter().filter(|(one, other)| one.is_some() || other.is_some())
}
