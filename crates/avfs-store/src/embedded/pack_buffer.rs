//! A pack being appended to.

use std::io;
use std::sync::Arc;

use bytes::Bytes;

use crate::embedded::disk::{DiskFile, write_all_at};
use crate::embedded::index::PackRow;
use crate::embedded::pack_directory::LockedPack;
use crate::embedded::record::{HEADER_LEN, RecordHeader, RecordPlace};

/// The buffer is written out before it exceeds this size plus one record.
const BUFFER_LIMIT: usize = 1024 * 1024;

/// A buffer that grew beyond this for a large object is not kept.
const BUFFER_KEPT: usize = 4 * 1024 * 1024;

/// A pack being appended to: `buffer` follows the `pack.length` bytes that are already written.
pub(crate) struct PackBuffer {
    pub pack: LockedPack,
    buffer: Vec<u8>,
}

/// A record that is pending: in memory, or in a pack.
pub(crate) enum PendingObject {
    InMemory(Bytes),
    Written(Arc<dyn DiskFile>, RecordPlace),
}

impl PackBuffer {
    pub(crate) fn new(pack: LockedPack) -> PackBuffer {
        PackBuffer {
            pack,
            buffer: Vec::new(),
        }
    }

    pub(crate) fn is_worth_writing(&self) -> bool {
        self.buffer.len() >= BUFFER_LIMIT
    }

    pub(crate) fn end(&self) -> u64 {
        self.pack.length + self.buffer.len() as u64
    }

    pub(crate) fn push(&mut self, header: RecordHeader, bytes: &[u8]) -> RecordPlace {
        let place = RecordPlace {
            pack: self.pack.number,
            offset: self.end(),
            length: header.length,
        };
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

    pub(crate) fn find(&self, place: RecordPlace) -> PendingObject {
        match place.offset.checked_sub(self.pack.length) {
            None => PendingObject::Written(self.pack.file.clone(), place),
            Some(start) => {
                let record = start as usize..(start + place.record_len()) as usize;
                PendingObject::InMemory(Bytes::copy_from_slice(&self.buffer[record]))
            }
        }
    }

    pub(crate) fn row(&self) -> (PackRow, Arc<dyn DiskFile>) {
        (
            PackRow {
                number: self.pack.number,
                length: self.pack.length,
            },
            self.pack.file.clone(),
        )
    }
}
