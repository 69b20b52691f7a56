//! Which pages of a changed file hold data.

use avfs_core::Content;
use avfs_core::chunks::{self, CHUNK_SIZE, PAGE_SIZE, PageMap, chunk_len};

use super::{EditedFile, FileBase};
use crate::content;
use crate::error::FsError;
use crate::objects::Objects;

impl EditedFile {
    /// Which pages of chunk `index` hold data.
    pub(super) fn pages(&self, objects: &Objects, index: u64) -> Result<PageMap, FsError> {
        let below = self.base_pages(objects, index)?;
        let mut pages = PageMap::default();
        for page in PageMap::covering(chunk_len(self.size, index)).iter() {
            let start = index * CHUNK_SIZE + u64::from(page) * PAGE_SIZE;
            let end = (start + PAGE_SIZE).min(self.size);
            let mut written = false;
            let mut punched = 0;
            for (range, data) in self.overlay.pieces(start..end) {
                if data.is_hole() {
                    punched += range.end - range.start
                } else {
                    written = true
                }
            }
            // A page that is punched in part still shows the rest of the base.
            let shows_base = below.contains(page) && start < self.base_valid && punched < end - start;
            if written || shows_base {
                pages.insert(page);
            }
        }
        Ok(pages)
    }

    fn base_pages(&self, objects: &Objects, index: u64) -> Result<PageMap, FsError> {
        match &self.base {
            FileBase::Captured(body) => body.pages(objects, index),
            FileBase::Stored(Content::Empty) => Ok(PageMap::default()),
            FileBase::Stored(Content::Blob(_)) => Ok(PageMap::covering(chunk_len(self.base_valid, index))),
            FileBase::Stored(Content::Chunks(root)) => {
                let chunk = chunks::get(objects, *root, self.base_size, index)?;
                Ok(chunk.map_or(PageMap::default(), |chunk| chunk.pages))
            }
        }
    }

    /// An estimate of the bytes that are not holes, never too low: overwritten bytes count twice.
    pub(crate) fn occupied(&self, objects: &Objects) -> Result<u64, FsError> {
        let below = match &self.base {
            FileBase::Captured(body) => body.occupied(objects)?,
            FileBase::Stored(Content::Empty) => 0,
            FileBase::Stored(Content::Blob(_)) => self.base_size,
            FileBase::Stored(Content::Chunks(root)) => chunks::occupied(objects, *root, self.base_size)?,
        };
        Ok(below
            .min(self.base_valid)
            .saturating_add(self.overlay.data_bytes())
            .min(self.size))
    }

    /// The first byte at or after `offset` that is data (`None`: none), by pages.
    pub(crate) fn seek_data(&self, objects: &Objects, offset: u64) -> Result<Option<u64>, FsError> {
        if let Some(content) = self.unchanged() {
            return Ok(content::seek_data(objects, content, self.size, offset)?);
        }
        self.seek(objects, offset, true)
    }

    /// The first byte at or after `offset` that is a hole, or the end.
    pub(crate) fn seek_hole(&self, objects: &Objects, offset: u64) -> Result<u64, FsError> {
        if let Some(content) = self.unchanged() {
            return Ok(content::seek_hole(objects, content, self.size, offset)?);
        }
        Ok(self.seek(objects, offset, false)?.unwrap_or(self.size))
    }

    fn seek(&self, objects: &Objects, offset: u64, wanted: bool) -> Result<Option<u64>, FsError> {
        let mut position = offset;
        while position < self.size {
            let index = position / CHUNK_SIZE;
            let pages = self.pages(objects, index)?;
            let first = (position % CHUNK_SIZE / PAGE_SIZE) as u32;
            let here = PageMap::covering(chunk_len(self.size, index));
            let found = here
                .iter()
                .find(|page| *page >= first && pages.contains(*page) == wanted);
            if let Some(page) = found {
                return Ok(Some(
                    position.max(index * CHUNK_SIZE + u64::from(page) * PAGE_SIZE),
                ));
            }
            // Chunks that have no data at all are skipped: a sparse file may have millions of them.
            let next = if wanted {
                self.next_data_chunk(objects, index + 1)?
            } else {
                Some(index + 1)
            };
            let Some(next) = next else { return Ok(None) };
            position = next * CHUNK_SIZE;
        }
        Ok(None)
    }

    /// The first chunk from `index` on that may hold data.
    fn next_data_chunk(&self, objects: &Objects, index: u64) -> Result<Option<u64>, FsError> {
        let written = self
            .overlay
            .next_data(index * CHUNK_SIZE)
            .map(|start| (start / CHUNK_SIZE).max(index));
        let mut stored = None;
        match &self.base {
            FileBase::Captured(body) => {
                stored = body.next_data_chunk(objects, index)?;
                stored = stored.filter(|found| found * CHUNK_SIZE < self.base_valid);
            }
            FileBase::Stored(Content::Empty) => {}
            FileBase::Stored(Content::Blob(_)) => {
                stored = (index * CHUNK_SIZE < self.base_valid).then_some(index);
            }
            FileBase::Stored(Content::Chunks(root)) => {
                chunks::for_each_from(objects, *root, self.base_size, index, &mut |found, _| {
                    stored = (found * CHUNK_SIZE < self.base_valid).then_some(found);
                    Ok(false)
                })?;
            }
        }
        Ok(written.into_iter().chain(stored).min())
    }
}
