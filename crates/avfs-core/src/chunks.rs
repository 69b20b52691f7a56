//! The contents of very large and of sparse files: a tree of chunks with holes.
//!
//! A file is cut into chunks of 64 KiB at fixed places, and each chunk knows which of its 4 KiB pages hold
//! data; the rest are holes. The chunks hang in a radix tree with 256 branches whose depth depends on the
//! file's size alone, so equal files have equal trees, and changing a page of a 1 GiB file stores one chunk
//! and two small nodes. A chunk's blob holds its data pages one behind the other; the page at the end
//! of the file is as long as the file says.

mod differing;
mod occupied;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::codec::{ByteReader, DecodeError, put_id, put_number};
use crate::id::{BlobId, ChunksId};
pub use differing::differing;
pub use occupied::occupied;

/// Files up to this size without holes are stored as one blob; all others as chunks.
pub const BLOB_MAX: u64 = 1 << 20;
/// Bytes of a chunk; the last one of a file may be shorter.
pub const CHUNK_SIZE: u64 = 64 << 10;
/// Bytes of a page, the unit in which holes of a chunk are known.
pub const PAGE_SIZE: u64 = 4 << 10;
/// The largest file: the capacity of four levels of chunks.
pub const FILE_MAX: u64 = CHUNK_SIZE << (8 * 4);
const PAGES_PER_CHUNK: u32 = (CHUNK_SIZE / PAGE_SIZE) as u32;
const FANOUT_BITS: u32 = 8;
const MAX_LEVEL: u8 = 3;

/// Which pages of a chunk hold data: bit *n* is page *n*. Never zero in a stored chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PageMap(pub u16);

impl PageMap {
    /// All pages of a chunk.
    pub const ALL: PageMap = PageMap(u16::MAX);

    /// Whether no page holds data.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether a page holds data.
    pub fn contains(self, page: u32) -> bool {
        self.0 >> page & 1 == 1
    }

    /// Notes that a page holds data.
    pub fn insert(&mut self, page: u32) {
        self.0 |= 1 << page;
    }

    /// The pages that a chunk of `len` bytes has.
    pub fn covering(len: u64) -> PageMap {
        match len.div_ceil(PAGE_SIZE) {
            pages if pages >= u64::from(PAGES_PER_CHUNK) => PageMap::ALL,
            pages => PageMap((1u16 << pages) - 1),
        }
    }

    /// The pages with data, in order.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        (0..PAGES_PER_CHUNK).filter(move |page| self.contains(*page))
    }
}

/// One chunk with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Chunk {
    /// Its bytes. Holes within it are zeros there.
    pub id: BlobId,
    /// The pages of it that hold data.
    pub pages: PageMap,
}

/// How long chunk `index` of a file of `size` bytes is.
pub fn chunk_len(size: u64, index: u64) -> u64 {
    size.saturating_sub(index.saturating_mul(CHUNK_SIZE))
        .min(CHUNK_SIZE)
}

/// Extracts the data pages of a chunk: the bytes that its blob holds.
pub fn pack_pages(bytes: &[u8], pages: PageMap) -> Vec<u8> {
    let mut packed = Vec::with_capacity(bytes.len());
    for page in pages.iter() {
        packed.extend_from_slice(page_of(bytes, page));
    }
    packed
}

/// Spreads a chunk's blob over `out`, which is as long as the chunk; holes become zeros.
pub fn unpack_pages(packed: &[u8], pages: PageMap, out: &mut [u8]) -> Result<(), DecodeError> {
    let mut rest = packed;
    out.fill(0);
    for page in pages.iter() {
        let start = (u64::from(page) * PAGE_SIZE) as usize;
        let end = (start + PAGE_SIZE as usize).min(out.len());
        if start >= end || rest.len() < end - start {
            return Err(DecodeError::Invalid("a chunk is shorter than its pages"));
        }
        let (data, behind) = rest.split_at(end - start);
        out[start..end].copy_from_slice(data);
        rest = behind;
    }
    if rest.is_empty() {
        Ok(())
    } else {
        Err(DecodeError::Invalid("a chunk is longer than its pages"))
    }
}

fn page_of(bytes: &[u8], page: u32) -> &[u8] {
    let start = ((u64::from(page) * PAGE_SIZE) as usize).min(bytes.len());
    let end = (start + PAGE_SIZE as usize).min(bytes.len());
    &bytes[start..end]
}

/// One node of the tree: items by index, ascending. Only the root may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChunkNode {
    /// Chunks, by their index in this node.
    Leaf(Vec<(u8, Chunk)>),
    /// Nodes of the level below, by their index in this node.
    Inner {
        /// How many levels lie below this one.
        level: u8,
        /// The nodes, by their index in this one.
        children: Vec<(u8, ChunksId)>,
    },
}

impl ChunkNode {
    /// The canonical encoding, by which the node is named.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            ChunkNode::Leaf(chunks) => {
                out.push(0);
                put_number(&mut out, chunks.len() as u64);
                for (index, chunk) in chunks {
                    out.push(*index);
                    out.extend_from_slice(&chunk.pages.0.to_le_bytes());
                    put_id(&mut out, chunk.id.object());
                }
            }
            ChunkNode::Inner { level, children } => {
                out.push(*level);
                put_number(&mut out, children.len() as u64);
                for (index, id) in children {
                    out.push(*index);
                    put_id(&mut out, id.object());
                }
            }
        }
        out
    }

    /// Reads an encoding; fails unless it is canonical.
    pub fn decode(bytes: &[u8]) -> Result<ChunkNode, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        let level = reader.byte()?;
        if level > MAX_LEVEL {
            return Err(DecodeError::Invalid("a chunk list is too deep"));
        }
        let count = reader.number()?;
        let node = if level == 0 {
            ChunkNode::Leaf(decode_items(&mut reader, count, decode_chunk)?)
        } else {
            let children = decode_items(&mut reader, count, |r| Ok(ChunksId::from_object(r.id()?)))?;
            ChunkNode::Inner { level, children }
        };
        reader.finish()?;
        Ok(node)
    }

    fn is_empty(&self) -> bool {
        match self {
            ChunkNode::Leaf(chunks) => chunks.is_empty(),
            ChunkNode::Inner { children, .. } => children.is_empty(),
        }
    }
}

fn decode_chunk(reader: &mut ByteReader<'_>) -> Result<Chunk, DecodeError> {
    let low = reader.byte()?;
    let pages = PageMap(u16::from_le_bytes([low, reader.byte()?]));
    if pages.is_empty() {
        return Err(DecodeError::Invalid("a stored chunk has no data"));
    }
    Ok(Chunk {
        id: BlobId::from_object(reader.id()?),
        pages,
    })
}

fn decode_items<T>(
    reader: &mut ByteReader<'_>,
    count: u64,
    decode: impl Fn(&mut ByteReader<'_>) -> Result<T, DecodeError>,
) -> Result<Vec<(u8, T)>, DecodeError> {
    let mut items: Vec<(u8, T)> = Vec::new();
    for _ in 0..count {
        let index = reader.byte()?;
        // One encoding per node: equal contents must have equal ids.
        if items.last().is_some_and(|last| last.0 >= index) {
            return Err(DecodeError::Invalid("chunks are not in order"));
        }
        items.push((index, decode(reader)?));
    }
    Ok(items)
}

/// The interface through which nodes of chunk lists are fetched.
pub trait ChunkNodes {
    /// Why a node could not be loaded.
    type Error: From<DecodeError>;
    /// Loads the node with this id.
    fn load(&self, id: ChunksId) -> Result<Arc<ChunkNode>, Self::Error>;
}

/// The interface through which new nodes are stored.
pub trait ChunkSink {
    /// Why a node could not be stored.
    type Error;
    /// Stores the encoding of a node; returns its id.
    fn store(&mut self, bytes: Vec<u8>) -> Result<ChunksId, Self::Error>;
}

/// New chunks by index; `None` makes a hole.
pub type ChunkEdits = BTreeMap<u64, Option<Chunk>>;

/// The level of the root for a file of this size.
fn root_level(size: u64) -> u8 {
    let last = size.div_ceil(CHUNK_SIZE).saturating_sub(1);
    let bits = u64::BITS - last.leading_zeros();
    bits.div_ceil(FANOUT_BITS).saturating_sub(1) as u8
}

fn slot(index: u64, level: u8) -> u8 {
    (index >> (FANOUT_BITS * u32::from(level))) as u8
}

fn span(level: u8) -> u64 {
    1 << (FANOUT_BITS * u32::from(level))
}

/// Chunk `index` of the file, or `None` for a hole.
pub fn get<N: ChunkNodes>(
    nodes: &N,
    root: ChunksId,
    size: u64,
    index: u64,
) -> Result<Option<Chunk>, N::Error> {
    if index >= size.div_ceil(CHUNK_SIZE) {
        return Ok(None);
    }
    let mut id = root;
    for level in (0..=root_level(size)).rev() {
        let wanted = slot(index, level);
        match &*load_level(nodes, id, level)? {
            ChunkNode::Leaf(chunks) => return Ok(find(chunks, wanted).copied()),
            ChunkNode::Inner { children, .. } => match find(children, wanted) {
                Some(child) => id = *child,
                None => return Ok(None),
            },
        }
    }
    Ok(None)
}

fn find<T>(items: &[(u8, T)], wanted: u8) -> Option<&T> {
    let index = items.binary_search_by_key(&wanted, |item| item.0).ok()?;
    Some(&items[index].1)
}

fn load_level<N: ChunkNodes>(nodes: &N, id: ChunksId, level: u8) -> Result<Arc<ChunkNode>, N::Error> {
    let node = nodes.load(id)?;
    let found = match &*node {
        ChunkNode::Leaf(_) => 0,
        ChunkNode::Inner { level, .. } => *level,
    };
    if found == level {
        Ok(node)
    } else {
        Err(DecodeError::Invalid("a chunk list has the wrong depth").into())
    }
}

/// Calls `found` for each chunk with data from index `from` on, in order, until it returns `false`.
pub fn for_each_from<N: ChunkNodes>(
    nodes: &N,
    root: ChunksId,
    size: u64,
    from: u64,
    found: &mut impl FnMut(u64, Chunk) -> Result<bool, N::Error>,
) -> Result<(), N::Error> {
    visit(nodes, root, root_level(size), 0, from, found).map(|_| ())
}

fn visit<N: ChunkNodes>(
    nodes: &N,
    id: ChunksId,
    level: u8,
    base: u64,
    from: u64,
    found: &mut impl FnMut(u64, Chunk) -> Result<bool, N::Error>,
) -> Result<bool, N::Error> {
    match &*load_level(nodes, id, level)? {
        ChunkNode::Leaf(chunks) => {
            for (slot, chunk) in chunks {
                let index = base + u64::from(*slot);
                if index >= from && !found(index, *chunk)? {
                    return Ok(false);
                }
            }
        }
        ChunkNode::Inner { children, .. } => {
            for (slot, child) in children {
                let start = base + u64::from(*slot) * span(level);
                // Children before `from` are not loaded.
                if start + span(level) > from && !visit(nodes, *child, level - 1, start, from, found)? {
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}

/// Returns the chunk list that results from `edits` to the list `root` of a file of `old_size` bytes, for a
/// file of `new_size` bytes. Chunks beyond the new size are dropped. Loads and stores only nodes on the way
/// to an edit or to the end.
pub fn apply<N, S>(
    nodes: &N,
    sink: &mut S,
    root: Option<(ChunksId, u64)>,
    new_size: u64,
    edits: &ChunkEdits,
) -> Result<ChunksId, N::Error>
where
    N: ChunkNodes,
    S: ChunkSink<Error = N::Error>,
{
    let level = root_level(new_size);
    let old_level = root.map_or(0, |(_, old_size)| root_level(old_size));
    let mut old = root.map(|(id, _)| id);
    // A file that became smaller has a lower root: everything that is kept is in the leftmost branch.
    for above in (level + 1..=old_level).rev() {
        old = match old {
            Some(id) => first_child(&*load_level(nodes, id, above)?),
            None => None,
        };
    }
    if let Some(id) = old
        && load_level(nodes, id, old_level.min(level))?.is_empty()
    {
        old = None;
    }
    let mut rebuild = ChunkListRebuild {
        nodes,
        sink,
        count: new_size.div_ceil(CHUNK_SIZE),
        edits,
    };
    let new = rebuild.node(old.map(|id| (id, old_level.min(level))), level, 0)?;
    match new {
        Some(id) => Ok(id),
        // A file of holes alone still has a root, which also shows how deep its tree is.
        None if level == 0 => rebuild.sink.store(ChunkNode::Leaf(Vec::new()).encode()),
        None => rebuild.sink.store(
            ChunkNode::Inner {
                level,
                children: Vec::new(),
            }
            .encode(),
        ),
    }
}

fn first_child(node: &ChunkNode) -> Option<ChunksId> {
    match node {
        ChunkNode::Leaf(_) => None,
        ChunkNode::Inner { children, .. } => find(children, 0).copied(),
    }
}

struct ChunkListRebuild<'a, N, S> {
    nodes: &'a N,
    sink: &'a mut S,
    /// The number of chunks in the file after the edits.
    count: u64,
    edits: &'a ChunkEdits,
}

impl<N: ChunkNodes, S: ChunkSink<Error = N::Error>> ChunkListRebuild<'_, N, S> {
    /// Rebuilds the node of `level` that starts at chunk `base`. `old` may be lower: then it is the
    /// leftmost part of this node.
    fn node(
        &mut self,
        old: Option<(ChunksId, u8)>,
        level: u8,
        base: u64,
    ) -> Result<Option<ChunksId>, N::Error> {
        let end = base.saturating_add(span(level + 1));
        // A node that reaches past the end may hold chunks that are to be dropped.
        let touched = self.edits.range(base..end).next().is_some() || end > self.count;
        match old {
            Some((id, old_level)) if old_level == level && !touched => return Ok(Some(id)),
            None if self
                .edits
                .range(base..end.min(self.count).max(base))
                .next()
                .is_none() =>
            {
                return Ok(None);
            }
            _ => {}
        }
        let node = if level == 0 {
            self.leaf(old, base)?
        } else {
            self.inner(old, level, base)?
        };
        if node.is_empty() {
            Ok(None)
        } else {
            self.sink.store(node.encode()).map(Some)
        }
    }

    fn leaf(&mut self, old: Option<(ChunksId, u8)>, base: u64) -> Result<ChunkNode, N::Error> {
        let mut chunks: BTreeMap<u64, Chunk> = BTreeMap::new();
        if let Some((id, _)) = old
            && let ChunkNode::Leaf(old_chunks) = &*load_level(self.nodes, id, 0)?
        {
            chunks.extend(
                old_chunks
                    .iter()
                    .map(|(slot, chunk)| (base + u64::from(*slot), *chunk)),
            );
        }
        for (index, edit) in self.edits.range(base..base + span(1)) {
            match edit {
                Some(chunk) => chunks.insert(*index, *chunk),
                None => chunks.remove(index),
            };
        }
        let kept = chunks.into_iter().filter(|(index, _)| *index < self.count);
        Ok(ChunkNode::Leaf(
            kept.map(|(index, chunk)| (slot(index, 0), chunk)).collect(),
        ))
    }

    fn inner(&mut self, old: Option<(ChunksId, u8)>, level: u8, base: u64) -> Result<ChunkNode, N::Error> {
        let mut below: BTreeMap<u8, (ChunksId, u8)> = BTreeMap::new();
        match old {
            Some((id, old_level)) if old_level == level => {
                if let ChunkNode::Inner { children, .. } = &*load_level(self.nodes, id, level)? {
                    below.extend(children.iter().map(|(slot, child)| (*slot, (*child, level - 1))));
                }
            }
            // The file has grown by a level: the old root becomes the first child.
            Some(lower) => {
                below.insert(0, lower);
            }
            None => {}
        }
        let mut slots: Vec<u8> = below.keys().copied().collect();
        let edited = self.edits.range(base..base.saturating_add(span(level + 1)));
        slots.extend(edited.map(|(index, _)| slot(*index, level)));
        slots.sort_unstable();
        slots.dedup();
        let mut children = Vec::new();
        for slot in slots {
            let start = base + u64::from(slot) * span(level);
            if start >= self.count {
                break;
            }
            if let Some(id) = self.node(below.get(&slot).copied(), level - 1, start)? {
                children.push((slot, id));
            }
        }
        Ok(ChunkNode::Inner { level, children })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Default, Clone)]
    struct ChunkTable(HashMap<ChunksId, Vec<u8>>);

    impl ChunkNodes for ChunkTable {
        type Error = DecodeError;
        fn load(&self, id: ChunksId) -> Result<Arc<ChunkNode>, DecodeError> {
            let bytes = self.0.get(&id).ok_or(DecodeError::Invalid("missing"))?;
            ChunkNode::decode(bytes).map(Arc::new)
        }
    }

    impl ChunkSink for ChunkTable {
        type Error = DecodeError;
        fn store(&mut self, bytes: Vec<u8>) -> Result<ChunksId, DecodeError> {
            let id = ChunksId::of(&bytes);
            self.0.insert(id, bytes);
            Ok(id)
        }
    }

    fn chunk(number: u64) -> Chunk {
        Chunk {
            id: BlobId::of(&number.to_le_bytes()),
            pages: PageMap(1 + (number % 60_000) as u16),
        }
    }

    fn edit(
        table: &mut ChunkTable,
        root: Option<(ChunksId, u64)>,
        size: u64,
        edits: &ChunkEdits,
    ) -> ChunksId {
        let before = table.clone();
        apply(&before, table, root, size, edits).unwrap()
    }

    fn all(table: &ChunkTable, root: ChunksId, size: u64, from: u64) -> Vec<(u64, Chunk)> {
        let mut found = Vec::new();
        for_each_from(table, root, size, from, &mut |index, chunk| {
            found.push((index, chunk));
            Ok(true)
        })
        .unwrap();
        found
    }

    #[test]
    fn one_changed_chunk_of_a_gigabyte_stores_two_small_nodes() {
        let size = 1 << 30;
        let mut table = ChunkTable::default();
        let full = (0..size / CHUNK_SIZE)
            .map(|index| (index, Some(chunk(index))))
            .collect();
        let root = edit(&mut table, None, size, &full);
        let known = table.0.len();
        edit(
            &mut table,
            Some((root, size)),
            size,
            &ChunkEdits::from([(9_999, Some(chunk(0)))]),
        );
        assert_eq!(table.0.len() - known, 2);
    }

    #[test]
    fn a_page_map_packs_and_unpacks_with_a_short_last_page() {
        let mut bytes = vec![7u8; 3 * PAGE_SIZE as usize + 10];
        bytes[PAGE_SIZE as usize..2 * PAGE_SIZE as usize].fill(0);
        let pages = PageMap(0b1101);
        let packed = pack_pages(&bytes, pages);
        assert_eq!(packed.len() as u64, 2 * PAGE_SIZE + 10);
        let mut again = vec![1u8; bytes.len()];
        unpack_pages(&packed, pages, &mut again).unwrap();
        assert_eq!(again, bytes);
        assert!(unpack_pages(&packed[1..], pages, &mut again).is_err());
        assert!(unpack_pages(&[&packed[..], &[0]].concat(), pages, &mut again).is_err());
    }

    #[test]
    fn a_file_of_holes_has_an_empty_root() {
        let mut table = ChunkTable::default();
        let root = edit(&mut table, None, 20 << 30, &ChunkEdits::new());
        assert_eq!(all(&table, root, 20 << 30, 0), []);
        assert_eq!(get(&table, root, 20 << 30, 77), Ok(None));
    }

    fn rounds() -> impl Strategy<Value = Vec<(u64, Vec<(u64, bool)>)>> {
        let size = prop_oneof![1u64..10, 200u64..600, 60_000u64..70_000, 1u64..20_000_000];
        let edits = proptest::collection::vec((0u64..70_000, any::<bool>()), 0..40);
        proptest::collection::vec((size, edits), 1..6)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_chunk_list_depends_on_its_chunks_and_not_on_its_history(rounds in rounds()) {
            let mut table = ChunkTable::default();
            let mut model: BTreeMap<u64, Chunk> = BTreeMap::new();
            let mut root = None;
            for (chunks, round) in rounds {
                let size = chunks * CHUNK_SIZE - 5;
                let mut edits = ChunkEdits::new();
                for (index, present) in round {
                    edits.insert(index % chunks, present.then(|| chunk(index)));
                }
                for (index, edit) in &edits {
                    match edit {
                        Some(chunk) => model.insert(*index, *chunk),
                        None => model.remove(index),
                    };
                }
                model.retain(|index, _| *index < chunks);
                let id = edit(&mut table, root, size, &edits);
                root = Some((id, size));
                let at_once = model.iter().map(|(index, chunk)| (*index, Some(*chunk))).collect();
                prop_assert_eq!(id, edit(&mut table, None, size, &at_once));
                let expected: Vec<_> = model.clone().into_iter().collect();
                prop_assert_eq!(all(&table, id, size, 0), expected);
                let expected: Vec<_> = model.range(300..).map(|(index, chunk)| (*index, *chunk)).collect();
                prop_assert_eq!(all(&table, id, size, 300), expected);
                for index in [0, 255, 256, 65_535, 65_536] {
                    prop_assert_eq!(get(&table, id, size, index).unwrap(), model.get(&index).copied());
                }
            }
        }

        #[test]
        fn a_decoder_never_panics_and_accepts_only_the_canonical_form(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(node) = ChunkNode::decode(&bytes) {
                prop_assert_eq!(node.encode(), bytes);
            }
        }
    }

    #[test]
    fn data_in_few_parts_is_counted_exactly() {
        let size = 20 << 30;
        let mut table = ChunkTable::default();
        let one_page = |number: u64| Chunk {
            pages: PageMap(1),
            ..chunk(number)
        };
        let edits = (0..5)
            .map(|number| (number * 60_000, Some(one_page(number))))
            .collect();
        let root = edit(&mut table, None, size, &edits);
        assert_eq!(occupied(&table, root, size), Ok(5 * PAGE_SIZE));
        let empty = edit(&mut table, None, size, &ChunkEdits::new());
        assert_eq!(occupied(&table, empty, size), Ok(0));
    }

    #[test]
    fn chunks_that_differ_are_counted_whatever_the_sizes() {
        let size = 1 << 30;
        let mut table = ChunkTable::default();
        let full: ChunkEdits = (0..size / CHUNK_SIZE)
            .map(|index| (index, Some(chunk(index))))
            .collect();
        let root = edit(&mut table, None, size, &full);
        let edits = ChunkEdits::from([(0, None), (9_999, Some(chunk(0))), (10_000, Some(chunk(1)))]);
        let changed = edit(&mut table, Some((root, size)), size, &edits);
        let count = |one, other, limit| differing(&table, one, other, limit).unwrap();
        assert_eq!(count((root, size), (root, size), 100), 0);
        assert_eq!(count((root, size), (changed, size), 100), 3);
        assert_eq!(count((root, size), (changed, size), 2), 2);
        let grown_size = size << 6;
        let mut grown_table = table.clone();
        let last = grown_size / CHUNK_SIZE - 1;
        let grown = edit(
            &mut grown_table,
            Some((root, size)),
            grown_size,
            &ChunkEdits::from([(last, Some(chunk(7)))]),
        );
        assert_eq!(
            differing(&grown_table, (grown, grown_size), (root, size), 100),
            Ok(1)
        );
    }

    #[test]
    fn a_file_without_holes_occupies_its_size() {
        for size in [
            3 * CHUNK_SIZE + 1,
            256 * CHUNK_SIZE,
            (256 * 3 + 7) * CHUNK_SIZE - 5,
        ] {
            let mut table = ChunkTable::default();
            let full = |index| Chunk {
                pages: PageMap::covering(chunk_len(size, index)),
                ..chunk(index)
            };
            let edits = (0..size.div_ceil(CHUNK_SIZE))
                .map(|index| (index, Some(full(index))))
                .collect();
            let root = edit(&mut table, None, size, &edits);
            assert_eq!(occupied(&table, root, size), Ok(size));
        }
    }

    #[test]
    fn data_in_many_parts_is_never_counted_too_low() {
        let size = 20 << 30;
        let mut table = ChunkTable::default();
        let parts: Vec<u64> = (0..200).map(|number| number * 512).collect();
        let edits = parts.iter().map(|index| (*index, Some(chunk(*index)))).collect();
        let root = edit(&mut table, None, size, &edits);
        let exact: u64 = parts
            .iter()
            .map(|index| u64::from(chunk(*index).pages.0.count_ones()) * PAGE_SIZE)
            .sum();
        let counted = occupied(&table, root, size).unwrap();
        assert!(
            (exact..=200 * 256 * CHUNK_SIZE).contains(&counted),
            "{counted} for {exact}"
        );
    }
}
