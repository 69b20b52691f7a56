//! The bytes of a stored file, as a whole or as a stream.

use std::io::{self, BufReader, Read};

use avfs_core::Content;
use avfs_tree::{Objects, content};
use bytes::Bytes;

/// As much as one chunk of a large file holds, several times.
const BUFFER: usize = 256 << 10;

/// A file's contents, to be read when they are needed.
pub(super) struct FileSource {
    objects: Objects,
    content: Content,
    size: u64,
}

impl FileSource {
    pub(super) fn new(objects: Objects, content: Content, size: u64) -> FileSource {
        FileSource {
            objects,
            content,
            size,
        }
    }

    pub(super) fn bytes(&self) -> io::Result<Bytes> {
        content::read_all(&self.objects, self.content, self.size).map_err(io::Error::other)
    }

    pub(super) fn stream(&self) -> BufReader<FileStream<'_>> {
        BufReader::with_capacity(
            BUFFER,
            FileStream {
                source: self,
                position: 0,
            },
        )
    }
}

pub(super) struct FileStream<'a> {
    source: &'a FileSource,
    position: u64,
}

impl Read for FileStream<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let FileSource {
            objects,
            content,
            size,
        } = self.source;
        let read =
            content::read_at(objects, *content, *size, self.position, out).map_err(io::Error::other)?;
        self.position += read as u64;
        Ok(read)
    }
}
