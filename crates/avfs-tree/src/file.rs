//! A file of the working tree: stored contents below, what was written since above.

use std::collections::BTreeSet;
use std::ops::Range;

use avfs_core::chunks::{self, BLOB_MAX, CHUNK_SIZE, ChunkEdits, PAGE_SIZE, PageMap, chunk_len};
use avfs_core::{ChunksId, Content};
use bytes::Bytes;

use crate::content::{self, put_chunk};
use crate::error::FsError;
use crate::journal::Journal;
use crate::objects::{ObjectError, ObjectWriter, Objects};
use crate::overlay::{Data, Overlay};

/// The doors that reading a file needs.
#[derive(Clone, Copy)]
pub(crate) struct Sources<'a> {
    pub objects: &'a Objects,
    pub journal: Option<&'a Journal>,
}

#[derive(Clone, Debug)]
pub(crate) struct FileBody {
    pub size: u64,
    base: Content,
    base_size: u64,
    /// How much of the stored contents still shows through: truncation lowers it for good.
    base_valid: u64,
    overlay: Overlay,
}

impl FileBody {
    pub fn stored(size: u64, content: Content) -> FileBody {
        FileBody { size, base: content, base_size: size, base_valid: size, overlay: Overlay::default() }
    }

    /// The stored contents, if nothing was changed since.
    pub fn unchanged(&self) -> Option<Content> {
        let clean =
            self.overlay.is_empty() && self.size == self.base_size && self.base_valid == self.base_size;
        clean.then_some(self.base)
    }

    pub fn put(&mut self, offset: u64, len: u64, data: Data) {
        self.overlay.put(offset, len, data);
        self.size = self.size.max(offset + len);
    }

    /// Takes other stored contents. The old ones count as changed until the next snapshot.
    pub fn replace(&mut self, size: u64, content: Content) {
        *self = FileBody::stored(size, content);
    }

    /// Sets the size: what is cut off is gone, what is added is a hole.
    pub fn resize(&mut self, size: u64) {
        if size < self.size {
            self.overlay.clear(size..u64::MAX);
            self.base_valid = self.base_valid.min(size);
        }
        self.size = size;
    }

    pub fn read(&self, sources: Sources<'_>, offset: u64, out: &mut [u8]) -> Result<usize, FsError> {
        let len = self.size.saturating_sub(offset).min(out.len() as u64);
        let out = &mut out[..len as usize];
        let stored = self.base_valid.saturating_sub(offset).min(len) as usize;
        let (below, beyond) = out.split_at_mut(stored);
        beyond.fill(0);
        if !self.covers(offset, stored as u64) {
            content::read_at(sources.objects, self.base, self.base_size, offset, below)?;
        }
        for (range, data) in self.overlay.pieces(offset..offset + len) {
            let part = &mut out[(range.start - offset) as usize..(range.end - offset) as usize];
            match data {
                Data::Memory(bytes) => part.copy_from_slice(&bytes),
                Data::Hole => part.fill(0),
                Data::Logged(position) => journal(sources)?.read(position, part)?,
            }
        }
        Ok(len as usize)
    }

    /// Everything at once; stored contents of one blob are not copied.
    pub fn read_all(&self, sources: Sources<'_>) -> Result<Bytes, FsError> {
        if let Some(content) = self.unchanged() {
            return Ok(content::read_all(sources.objects, content, self.size)?);
        }
        let mut bytes = content::zeros(self.size).ok_or(ObjectError::TooLarge { size: self.size })?;
        self.read(sources, 0, &mut bytes)?;
        Ok(bytes.into())
    }

    fn covers(&self, offset: u64, len: u64) -> bool {
        let covered: u64 =
            self.overlay.pieces(offset..offset + len).map(|(range, _)| range.end - range.start).sum();
        covered == len
    }

    /// Stores what changed and returns the contents in their one canonical form.
    pub fn freeze(&self, sources: Sources<'_>, writer: &ObjectWriter) -> Result<Content, FsError> {
        if let Some(content) = self.unchanged() {
            return Ok(content);
        }
        if self.size == 0 {
            return Ok(Content::Empty);
        }
        if self.size <= BLOB_MAX && !self.has_holes(sources)? {
            return Ok(Content::Blob(writer.put_blob(self.read_all(sources)?.into())?));
        }
        let base = match self.base {
            Content::Chunks(root) => Some((root, self.base_size)),
            Content::Empty | Content::Blob(_) => None,
        };
        let mut edits = self.punched_chunks(sources, base)?;
        for index in self.touched_chunks(sources, base)? {
            let len = chunk_len(self.size, index);
            let mut bytes = vec![0; len as usize];
            self.read(sources, index * CHUNK_SIZE, &mut bytes)?;
            edits.insert(index, put_chunk(writer, &bytes, self.pages(sources, index)?)?);
        }
        writer.flush()?;
        let mut sink = writer;
        Ok(Content::Chunks(chunks::apply(sources.objects, &mut sink, base, self.size, &edits)?))
    }

    fn has_holes(&self, sources: Sources<'_>) -> Result<bool, FsError> {
        for index in 0..self.size.div_ceil(CHUNK_SIZE) {
            if self.pages(sources, index)? != PageMap::covering(chunk_len(self.size, index)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The stored chunks that are nothing but holes now. Those that were never stored need no edit.
    fn punched_chunks(
        &self,
        sources: Sources<'_>,
        base: Option<(ChunksId, u64)>,
    ) -> Result<ChunkEdits, FsError> {
        let mut edits = ChunkEdits::new();
        let Some((root, base_size)) = base else { return Ok(edits) };
        for (range, _) in self.overlay.ranges().filter(|(_, is_hole)| *is_hole) {
            let whole = whole_chunks(&range);
            chunks::for_each_from(sources.objects, root, base_size, whole.start, &mut |index, _| {
                if whole.contains(&index) {
                    edits.insert(index, None);
                }
                Ok(index < whole.end)
            })?;
        }
        Ok(edits)
    }

    /// The chunks of the new list that cannot be taken from the old one as they are.
    fn touched_chunks(
        &self,
        sources: Sources<'_>,
        base: Option<(ChunksId, u64)>,
    ) -> Result<BTreeSet<u64>, FsError> {
        let count = self.size.div_ceil(CHUNK_SIZE);
        let mut touched = BTreeSet::new();
        for (range, is_hole) in self.overlay.ranges() {
            match is_hole {
                false => touched.extend(range.start / CHUNK_SIZE..range.end.div_ceil(CHUNK_SIZE)),
                // Only its ends share a chunk with something else.
                true => touched.extend([range.start / CHUNK_SIZE, (range.end - 1) / CHUNK_SIZE]),
            }
        }
        let Some((root, base_size)) = base else {
            touched.extend(0..self.base_valid.div_ceil(CHUNK_SIZE));
            touched.retain(|index| *index < count);
            return Ok(touched);
        };
        if self.size != base_size || self.base_valid != base_size {
            let ends = [self.size, base_size, self.base_valid];
            touched.extend(ends.map(|end| end.saturating_sub(1) / CHUNK_SIZE));
            let from = self.base_valid / CHUNK_SIZE;
            chunks::for_each_from(sources.objects, root, base_size, from, &mut |index, _| {
                touched.insert(index);
                Ok(true)
            })?;
        }
        touched.retain(|index| *index < count);
        Ok(touched)
    }

    /// Which pages of chunk `index` hold data.
    fn pages(&self, sources: Sources<'_>, index: u64) -> Result<PageMap, FsError> {
        let below = self.base_pages(sources, index)?;
        let mut pages = PageMap::default();
        for page in PageMap::covering(chunk_len(self.size, index)).iter() {
            let start = index * CHUNK_SIZE + u64::from(page) * PAGE_SIZE;
            let end = (start + PAGE_SIZE).min(self.size);
            let (mut written, mut punched) = (false, 0);
            for (range, data) in self.overlay.pieces(start..end) {
                match data.is_hole() {
                    true => punched += range.end - range.start,
                    false => written = true,
                }
            }
            let shows_base = below.contains(page) && start < self.base_valid && punched < end - start;
            if written || shows_base {
                pages.insert(page);
            }
        }
        Ok(pages)
    }

    fn base_pages(&self, sources: Sources<'_>, index: u64) -> Result<PageMap, FsError> {
        match self.base {
            Content::Empty => Ok(PageMap::default()),
            Content::Blob(_) => Ok(PageMap::covering(chunk_len(self.base_valid, index))),
            Content::Chunks(root) => {
                let chunk = chunks::get(sources.objects, root, self.base_size, index)?;
                Ok(chunk.map_or(PageMap::default(), |chunk| chunk.pages))
            }
        }
    }

    /// The first byte at or behind `offset` that is data (`None`: none), page by page.
    pub fn seek_data(&self, sources: Sources<'_>, offset: u64) -> Result<Option<u64>, FsError> {
        if let Some(content) = self.unchanged() {
            return Ok(content::seek_data(sources.objects, content, self.size, offset)?);
        }
        self.seek(sources, offset, true)
    }

    /// The first byte at or behind `offset` that is a hole, or the end.
    pub fn seek_hole(&self, sources: Sources<'_>, offset: u64) -> Result<u64, FsError> {
        if let Some(content) = self.unchanged() {
            return Ok(content::seek_hole(sources.objects, content, self.size, offset)?);
        }
        Ok(self.seek(sources, offset, false)?.unwrap_or(self.size))
    }

    fn seek(&self, sources: Sources<'_>, offset: u64, wanted: bool) -> Result<Option<u64>, FsError> {
        let mut position = offset;
        while position < self.size {
            let index = position / CHUNK_SIZE;
            let pages = self.pages(sources, index)?;
            let first = (position % CHUNK_SIZE / PAGE_SIZE) as u32;
            let here = PageMap::covering(chunk_len(self.size, index));
            let found = here.iter().find(|page| *page >= first && pages.contains(*page) == wanted);
            if let Some(page) = found {
                return Ok(Some(position.max(index * CHUNK_SIZE + u64::from(page) * PAGE_SIZE)));
            }
            let next = match wanted {
                true => self.next_data_chunk(sources, index + 1)?,
                false => Some(index + 1),
            };
            let Some(next) = next else { return Ok(None) };
            position = next * CHUNK_SIZE;
        }
        Ok(None)
    }

    /// The first chunk from `index` on that may hold data.
    fn next_data_chunk(&self, sources: Sources<'_>, index: u64) -> Result<Option<u64>, FsError> {
        let written = self.overlay.next_data(index * CHUNK_SIZE).map(|start| (start / CHUNK_SIZE).max(index));
        let mut stored = None;
        match self.base {
            Content::Empty => {}
            Content::Blob(_) => stored = (index * CHUNK_SIZE < self.base_valid).then_some(index),
            Content::Chunks(root) => {
                chunks::for_each_from(sources.objects, root, self.base_size, index, &mut |found, _| {
                    stored = (found * CHUNK_SIZE < self.base_valid).then_some(found);
                    Ok(false)
                })?;
            }
        }
        Ok(written.into_iter().chain(stored).min())
    }
}

/// The chunks that lie in a range as a whole.
fn whole_chunks(range: &Range<u64>) -> Range<u64> {
    range.start.div_ceil(CHUNK_SIZE)..range.end / CHUNK_SIZE
}

fn journal(sources: Sources<'_>) -> Result<&Journal, FsError> {
    sources.journal.ok_or(FsError::Invalid("logged data without a journal"))
}
