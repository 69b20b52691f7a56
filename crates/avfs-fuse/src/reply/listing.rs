//! The entries of a directory, packed as the kernel reads them.

use zerocopy::IntoBytes;

use crate::abi::{Dirent, EntryOut};

/// A buffer that is filled with entries until one does not fit.
pub struct ListingReply<'a> {
    buffer: &'a mut [u8],
    len: usize,
}

impl<'a> ListingReply<'a> {
    /// An empty listing, as long as the buffer.
    pub fn new(buffer: &'a mut [u8]) -> ListingReply<'a> {
        ListingReply { buffer, len: 0 }
    }

    /// How many bytes are filled.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no entries yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an entry; `false` if it does not fit. `cookie` is the position after it, `kind` the upper four
    /// bits of its mode (`DT_…`).
    pub fn add(&mut self, ino: u64, cookie: u64, kind: u32, name: &[u8]) -> bool {
        let Some(room) = self.take(0, name) else {
            return false;
        };
        put_entry(room, ino, cookie, kind, name);
        true
    }

    /// Adds an entry with its attributes. Check for room before the entry is looked up: the kernel counts a
    /// lookup for each entry that it receives.
    pub fn add_plus(&mut self, ino: u64, cookie: u64, kind: u32, name: &[u8], entry: &EntryOut) -> bool {
        let Some(room) = self.take(size_of::<EntryOut>(), name) else {
            return false;
        };
        let (first, second) = room.split_at_mut(size_of::<EntryOut>());
        first.copy_from_slice(entry.as_bytes());
        put_entry(second, ino, cookie, kind, name);
        true
    }

    /// Whether an entry with its attributes would fit.
    pub fn has_room_plus(&self, name: &[u8]) -> bool {
        self.end(size_of::<EntryOut>(), name).is_some()
    }

    fn take(&mut self, before: usize, name: &[u8]) -> Option<&mut [u8]> {
        let end = self.end(before, name)?;
        let start = std::mem::replace(&mut self.len, end);
        Some(&mut self.buffer[start..end])
    }

    /// The end of an entry.
    fn end(&self, before: usize, name: &[u8]) -> Option<usize> {
        let size = (before + size_of::<Dirent>() + name.len()).next_multiple_of(8);
        self.len.checked_add(size).filter(|end| *end <= self.buffer.len())
    }
}

fn put_entry(room: &mut [u8], ino: u64, cookie: u64, kind: u32, name: &[u8]) {
    let entry = Dirent {
        ino,
        off: cookie,
        namelen: name.len() as u32,
        kind,
    };
    let (head, rest) = room.split_at_mut(size_of::<Dirent>());
    head.copy_from_slice(entry.as_bytes());
    let (text, padding) = rest.split_at_mut(name.len());
    text.copy_from_slice(name);
    padding.fill(0);
}
