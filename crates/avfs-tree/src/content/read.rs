//! Reads stored contents: any range, or everything.

use avfs_core::chunks::{self, CHUNK_SIZE, Chunk, PAGE_SIZE, PageMap, chunk_len};
use avfs_core::{Content, DecodeError};
use bytes::Bytes;

use crate::objects::{ObjectError, Objects};

/// All the bytes of a file. A file of one blob is not copied.
pub fn read_all(objects: &Objects, content: Content, size: u64) -> Result<Bytes, ObjectError> {
    match content {
        Content::Empty => Ok(Bytes::new()),
        Content::Blob(id) => checked_blob(objects.blob(id)?, size),
        Content::Chunks(_) => {
            let mut bytes = zeros(size).ok_or(ObjectError::TooLarge { size })?;
            read_at(objects, content, size, 0, &mut bytes)?;
            Ok(bytes.into())
        }
    }
}

/// A buffer of this many zeros, if there is memory for it.
pub(crate) fn zeros(len: u64) -> Option<Vec<u8>> {
    let len = usize::try_from(len).ok()?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).ok()?;
    bytes.resize(len, 0);
    Some(bytes)
}

fn checked_blob(bytes: Bytes, size: u64) -> Result<Bytes, ObjectError> {
    if bytes.len() as u64 == size {
        Ok(bytes)
    } else {
        Err(DecodeError::Invalid("a file's size is not that of its bytes").into())
    }
}

/// Reads into `out` from `offset` on; returns the number of bytes read, which is less than the buffer at the
/// end of the file.
pub fn read_at(
    objects: &Objects,
    content: Content,
    size: u64,
    offset: u64,
    out: &mut [u8],
) -> Result<usize, ObjectError> {
    let len = size.saturating_sub(offset).min(out.len() as u64) as usize;
    let out = &mut out[..len];
    match content {
        Content::Empty => out.fill(0),
        Content::Blob(id) => {
            let bytes = checked_blob(objects.blob(id)?, size)?;
            let start = offset.min(size) as usize;
            out.copy_from_slice(&bytes[start..start + len]);
        }
        Content::Chunks(root) => read_chunks(objects, root, size, offset, out)?,
    }
    Ok(len)
}

fn read_chunks(
    objects: &Objects,
    root: avfs_core::ChunksId,
    size: u64,
    offset: u64,
    out: &mut [u8],
) -> Result<(), ObjectError> {
    let mut done = 0;
    while done < out.len() {
        let position = offset + done as u64;
        let index = position / CHUNK_SIZE;
        let within = (position % CHUNK_SIZE) as usize;
        let len = (chunk_len(size, index) as usize - within).min(out.len() - done);
        let part = &mut out[done..done + len];
        match chunks::get(objects, root, size, index)? {
            None => part.fill(0),
            Some(chunk) => read_chunk(objects, chunk, chunk_len(size, index), within, part)?,
        }
        done += len;
    }
    Ok(())
}

fn read_chunk(
    objects: &Objects,
    chunk: Chunk,
    chunk_len: u64,
    within: usize,
    out: &mut [u8],
) -> Result<(), ObjectError> {
    let packed = objects.blob(chunk.id)?;
    if chunk.pages == PageMap::covering(chunk_len) && packed.len() as u64 == chunk_len {
        out.copy_from_slice(&packed[within..within + out.len()]);
        return Ok(());
    }
    let mut whole = vec![0; chunk_len as usize];
    chunks::unpack_pages(&packed, chunk.pages, &mut whole)?;
    out.copy_from_slice(&whole[within..within + out.len()]);
    Ok(())
}

/// The first position at or after `offset` that holds data; `None` if no data follows before the end.
pub fn seek_data(
    objects: &Objects,
    content: Content,
    size: u64,
    offset: u64,
) -> Result<Option<u64>, ObjectError> {
    if offset >= size {
        return Ok(None);
    }
    let Content::Chunks(root) = content else {
        return Ok(Some(offset));
    };
    let mut position = None;
    chunks::for_each_from(objects, root, size, offset / CHUNK_SIZE, &mut |index, chunk| {
        position = chunk
            .pages
            .iter()
            .map(|page| page_start(index, page))
            .find(|start| start + PAGE_SIZE > offset);
        Ok(position.is_none())
    })?;
    Ok(position.map(|start| start.max(offset)))
}

/// The first position at or after `offset` that is a hole, or the end of the file.
pub fn seek_hole(objects: &Objects, content: Content, size: u64, offset: u64) -> Result<u64, ObjectError> {
    let Content::Chunks(root) = content else {
        return Ok(size);
    };
    let mut position = offset;
    chunks::for_each_from(objects, root, size, offset / CHUNK_SIZE, &mut |index, chunk| {
        for page in chunk.pages.iter() {
            let start = page_start(index, page);
            if start > position {
                return Ok(false);
            }
            position = position.max(start + PAGE_SIZE);
        }
        Ok(true)
    })?;
    Ok(position.min(size))
}

fn page_start(chunk: u64, page: u32) -> u64 {
    chunk * CHUNK_SIZE + u64::from(page) * PAGE_SIZE
}
