//! Stores a changed file as objects.

use std::collections::BTreeSet;
use std::ops::Range;

use avfs_core::chunks::{self, BLOB_MAX, CHUNK_SIZE, ChunkEdits, PageMap, chunk_len};
use avfs_core::{ChunksId, Content};

use super::{EditedFile, FileBase};
use crate::content::put_chunk;
use crate::error::FsError;
use crate::objects::{ObjectWriter, Objects};

impl EditedFile {
    /// Stores the changes and returns the contents in their one canonical form. Logged bytes must be in their
    /// files: see [`EditedFile::resolved`].
    pub(crate) fn freeze(&self, objects: &Objects, writer: &ObjectWriter) -> Result<Content, FsError> {
        if let Some(content) = self.unchanged() {
            return Ok(content);
        }
        if self.size == 0 {
            return Ok(Content::Empty);
        }
        if let FileBase::Captured(_) = self.base {
            let mut whole = self.clone();
            whole.thaw();
            return whole.freeze(objects, writer);
        }
        if self.size <= BLOB_MAX && !self.has_holes(objects)? {
            return Ok(Content::Blob(
                writer.put_blob(self.read_all(objects, None)?.into())?,
            ));
        }
        let base = match self.base {
            FileBase::Stored(Content::Chunks(root)) => Some((root, self.base_size)),
            FileBase::Stored(Content::Empty | Content::Blob(_)) | FileBase::Captured(_) => None,
        };
        let mut edits = self.punched_chunks(objects, base)?;
        for index in self.touched_chunks(objects, base)? {
            let len = chunk_len(self.size, index);
            let mut bytes = vec![0; len as usize];
            self.plan(None, index * CHUNK_SIZE, len)
                .fill(objects, &mut bytes)?;
            edits.insert(index, put_chunk(writer, &bytes, self.pages(objects, index)?)?);
        }
        writer.flush()?;
        let mut sink = writer;
        Ok(Content::Chunks(chunks::apply(
            objects, &mut sink, base, self.size, &edits,
        )?))
    }

    fn has_holes(&self, objects: &Objects) -> Result<bool, FsError> {
        for index in 0..self.size.div_ceil(CHUNK_SIZE) {
            if self.pages(objects, index)? != PageMap::covering(chunk_len(self.size, index)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The stored chunks that consist only of holes now. Chunks that were never stored need no edit.
    fn punched_chunks(
        &self,
        objects: &Objects,
        base: Option<(ChunksId, u64)>,
    ) -> Result<ChunkEdits, FsError> {
        let mut edits = ChunkEdits::new();
        let Some((root, base_size)) = base else {
            return Ok(edits);
        };
        for (range, _) in self.overlay.ranges().filter(|(_, is_hole)| *is_hole) {
            let whole = whole_chunks(&range);
            chunks::for_each_from(objects, root, base_size, whole.start, &mut |index, _| {
                if whole.contains(&index) {
                    edits.insert(index, None);
                }
                Ok(index < whole.end)
            })?;
        }
        Ok(edits)
    }

    /// The chunks of the new list that cannot be reused from the old one.
    fn touched_chunks(
        &self,
        objects: &Objects,
        base: Option<(ChunksId, u64)>,
    ) -> Result<BTreeSet<u64>, FsError> {
        let count = self.size.div_ceil(CHUNK_SIZE);
        let mut touched = BTreeSet::new();
        for (range, is_hole) in self.overlay.ranges() {
            if is_hole {
                // Only the ends of a range share a chunk with other data.

                touched.extend([range.start / CHUNK_SIZE, (range.end - 1) / CHUNK_SIZE])
            } else {
                touched.extend(range.start / CHUNK_SIZE..range.end.div_ceil(CHUNK_SIZE))
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
            chunks::for_each_from(objects, root, base_size, from, &mut |index, _| {
                touched.insert(index);
                Ok(true)
            })?;
        }
        touched.retain(|index| *index < count);
        Ok(touched)
    }
}

/// The chunks that lie completely in a range.
fn whole_chunks(range: &Range<u64>) -> Range<u64> {
    range.start.div_ceil(CHUNK_SIZE)..range.end / CHUNK_SIZE
}
