//! Splits a stream of bytes and holes into objects, with one chunk in memory.

use avfs_core::Content;
use avfs_core::chunks::{self, BLOB_MAX, CHUNK_SIZE, Chunk, ChunkEdits, PAGE_SIZE, PageMap, pack_pages};

use crate::objects::{ObjectError, ObjectWriter, Objects};

/// Accepts the contents of a file from front to end.
pub struct ContentBuilder<'a> {
    objects: &'a Objects,
    writer: &'a ObjectWriter,
    size: u64,
    form: ContentForm,
}

enum ContentForm {
    /// Small so far, and without holes.
    Whole(Vec<u8>),
    Chunked(OpenChunk),
}

/// The chunk that is being filled; earlier chunks are stored.
#[derive(Default)]
struct OpenChunk {
    index: u64,
    bytes: Vec<u8>,
    pages: PageMap,
    stored: ChunkEdits,
}

impl<'a> ContentBuilder<'a> {
    /// A builder whose chunks go to `writer`.
    pub fn new(objects: &'a Objects, writer: &'a ObjectWriter) -> ContentBuilder<'a> {
        ContentBuilder {
            objects,
            writer,
            size: 0,
            form: ContentForm::Whole(Vec::new()),
        }
    }

    /// How many bytes it has, with its holes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Appends bytes. Pages of zeros become holes.
    pub fn push(&mut self, data: &[u8]) -> Result<(), ObjectError> {
        self.size += data.len() as u64;
        match &mut self.form {
            ContentForm::Whole(bytes) if self.size <= BLOB_MAX => {
                bytes.extend_from_slice(data);
                Ok(())
            }
            form => form.chunked(self.writer)?.push(self.writer, data),
        }
    }

    /// Appends a hole.
    pub fn push_hole(&mut self, len: u64) -> Result<(), ObjectError> {
        self.size += len;
        if len == 0 {
            Ok(())
        } else {
            self.form.chunked(self.writer)?.skip(self.writer, len)
        }
    }

    /// Stores the rest and returns the size and the contents.
    pub fn finish(mut self) -> Result<(u64, Content), ObjectError> {
        let has_holes = match &self.form {
            ContentForm::Whole(_) => false,
            ContentForm::Chunked(open) => open.has_holes(self.size),
        };
        let size = self.size;
        match std::mem::replace(&mut self.form, ContentForm::Whole(Vec::new())) {
            ContentForm::Whole(bytes) => Ok((size, self.whole(bytes)?)),
            // A hole shorter than a page does not count as one: the form depends on the pages alone.
            ContentForm::Chunked(open) if size <= BLOB_MAX && !has_holes => self.rejoin(open),
            ContentForm::Chunked(mut open) => {
                open.store(self.writer)?;
                let mut sink = self.writer;
                let root = chunks::apply(self.objects, &mut sink, None, size, &open.stored)?;
                Ok((size, Content::Chunks(root)))
            }
        }
    }

    fn whole(&self, bytes: Vec<u8>) -> Result<Content, ObjectError> {
        if bytes.is_empty() {
            Ok(Content::Empty)
        } else {
            self.writer.put_blob(bytes).map(Content::Blob)
        }
    }

    /// Joins the stored chunks of a small file.
    fn rejoin(&self, mut open: OpenChunk) -> Result<(u64, Content), ObjectError> {
        open.store(self.writer)?;
        self.writer.flush()?;
        let mut bytes = Vec::with_capacity(self.size as usize);
        for chunk in open.stored.into_values().flatten() {
            bytes.extend_from_slice(&self.objects.blob(chunk.id)?);
        }
        Ok((self.size, self.whole(bytes)?))
    }
}

impl ContentForm {
    /// Switches to chunks.
    fn chunked(&mut self, writer: &ObjectWriter) -> Result<&mut OpenChunk, ObjectError> {
        if let ContentForm::Whole(bytes) = self {
            let bytes = std::mem::take(bytes);
            let mut open = OpenChunk::default();
            open.push(writer, &bytes)?;
            *self = ContentForm::Chunked(open);
        }
        match self {
            ContentForm::Chunked(open) => Ok(open),
            ContentForm::Whole(_) => unreachable!("it was made chunked just now"),
        }
    }
}

impl OpenChunk {
    fn push(&mut self, writer: &ObjectWriter, mut data: &[u8]) -> Result<(), ObjectError> {
        while !data.is_empty() {
            let room = CHUNK_SIZE as usize - self.bytes.len();
            let (part, rest) = data.split_at(data.len().min(room));
            let first = self.bytes.len() as u64 / PAGE_SIZE;
            self.bytes.extend_from_slice(part);
            let last = (self.bytes.len() as u64 - 1) / PAGE_SIZE;
            (first..=last).for_each(|page| self.pages.insert(page as u32));
            self.roll(writer)?;
            data = rest;
        }
        Ok(())
    }

    fn skip(&mut self, writer: &ObjectWriter, len: u64) -> Result<(), ObjectError> {
        let end = self.index * CHUNK_SIZE + self.bytes.len() as u64 + len;
        if end / CHUNK_SIZE > self.index {
            self.bytes.resize(CHUNK_SIZE as usize, 0);
            self.roll(writer)?;
            self.index = end / CHUNK_SIZE;
        }
        self.bytes.resize((end % CHUNK_SIZE) as usize, 0);
        Ok(())
    }

    /// Stores a full chunk and starts the next one.
    fn roll(&mut self, writer: &ObjectWriter) -> Result<(), ObjectError> {
        if self.bytes.len() as u64 == CHUNK_SIZE {
            self.store(writer)?;
            self.index += 1;
        }
        Ok(())
    }

    fn store(&mut self, writer: &ObjectWriter) -> Result<(), ObjectError> {
        if let Some(chunk) = put_chunk(writer, &self.bytes, self.pages)? {
            self.stored.insert(self.index, Some(chunk));
        }
        self.bytes.clear();
        self.pages = PageMap::default();
        Ok(())
    }

    fn has_holes(&self, size: u64) -> bool {
        let stored: u64 = self
            .stored
            .values()
            .flatten()
            .map(|chunk| u64::from(chunk.pages.0.count_ones()))
            .sum();
        stored + u64::from(self.pages.0.count_ones()) < size.div_ceil(PAGE_SIZE)
    }
}

/// Stores one chunk; `None` if all of it is a hole.
pub(crate) fn put_chunk(
    writer: &ObjectWriter,
    bytes: &[u8],
    pages: PageMap,
) -> Result<Option<Chunk>, ObjectError> {
    if pages.is_empty() {
        return Ok(None);
    }
    Ok(Some(Chunk {
        id: writer.put_blob(pack_pages(bytes, pages))?,
        pages,
    }))
}
