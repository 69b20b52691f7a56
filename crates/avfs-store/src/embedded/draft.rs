//! A pack being appended to.

use std::io;
use std::sync::Arc;

use bytes::Bytes;

use crate::embedded::disk::{DiskFile, write_all_at};
use crate::embedded::index::PackRow;
use crate::embedded::record::{HEADER_LEN, Header, Place};
use crate::embedded::shelf::LockedPack;

/// The buffer is written out before it grows beyond this and one record.
const BUFFER_LIMIT: usize = 1024 * 1024;

/// A buffer that a large object blew up is not kept.
const BUFFER_KEPT: usize = 4 * 1024 * 1024;

/// A pack being appended to: `buffer` follows the `pack.length` bytes that are written.
pub(crate) struct Draft {
    pub pack: LockedPack,
    buffer: Vec<u8>,
}

/// A record that is pending: in memory, or in a pack.
pub(crate) enum Pending {
    InMemory(Bytes),
    Written(Arc<dyn DiskFile>, Place),
}

impl Draft {
    pub(crate) fn new(pack: LockedPack) -> Draft {
        Draft { pack, buffer: Vec::new() }
    }

    pub(crate) fn is_worth_writing(&self) -> bool {
        self.buffer.len() >= BUFFER_LIMIT
    }

    pub(crate) fn end(&self) -> u64 {
        self.pack.length + self.buffer.len() as u64
    }

    pub(crate) fn push(&mut self, header: Header, bytes: &[u8]) -> Place {
        let place = Place { pack: self.pack.number, offset: self.end(), length: header.length };
        self.buffer.reserve(HEADER_LEN + bytes.len());
        self.buffer.extend_from_slice(&header.encode());
        self.buffer.extend_from_slice(bytes);
        place
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        write_all_at(&*self.pack.file, &self.buffer, self.pack.length)?;
        self.pack.length = self.end();
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER_KEPT);
        Ok(())
    }

    pub(crate) fn find(&self, place: Place) -> Pending {
        match place.offset.checked_sub(self.pack.length) {
            None => Pending::Written(self.pack.file.clone(), place),
            Some(start) => {
                let record = start as usize..(start + place.record_len()) as usize;
                Pending::InMemory(Bytes::copy_from_slice(&self.buffer[record]))
            }
        }
    }

    pub(crate) fn row(&self) -> (PackRow, Arc<dyn DiskFile>) {
        (PackRow { number: self.pack.number, length: self.pack.length }, self.pack.file.clone())
    }
}
