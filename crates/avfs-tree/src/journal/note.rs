//! The note beside a journal: how much was synced, and what the journal continues. `journal.N.note`, 40
//! bytes.
//!
//! It is written after each sync and never synced itself: it is true for as long as the journal has this
//! salt, and an old note only claims less. It distinguishes a journal that was cut, emptied, replaced or
//! removed from one that a crash shortened. It is removed before its journal is.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use super::SALT_LEN;

const NOTE_LEN: usize = 40;

/// The state or journal that a journal continues. All zeros: unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct JournalOrigin {
    /// The mark of the stored state on which its first operation is based; 0 if it follows another journal.
    pub base: u64,
    /// The number of the journal that it follows; 0 if it is the first.
    pub follows: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JournalNote {
    pub salt: [u8; SALT_LEN],
    /// Up to here a sync had succeeded.
    pub durable: u64,
    pub origin: JournalOrigin,
}

impl JournalNote {
    fn encode(&self) -> [u8; NOTE_LEN] {
        let mut bytes = [0; NOTE_LEN];
        bytes[..8].copy_from_slice(&self.salt);
        bytes[8..16].copy_from_slice(&self.durable.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.origin.base.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.origin.follows.to_le_bytes());
        let sum = xxh3_64(&bytes[..32]);
        bytes[32..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<JournalNote> {
        let number = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let origin = JournalOrigin {
            base: number(16)?,
            follows: number(24)?,
        };
        let note = JournalNote {
            salt: *bytes.first_chunk()?,
            durable: number(8)?,
            origin,
        };
        (note.encode() == bytes).then_some(note)
    }

    /// The note of a journal, if a readable one exists.
    pub(crate) fn read(journal: &Path) -> Option<JournalNote> {
        JournalNote::decode(&std::fs::read(note_place(journal)).ok()?)
    }

    /// Writes the note. Without it, less damage is detected; nothing else changes.
    pub(crate) fn write(&self, journal: &Path) {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(note_place(journal));
        _ = file.and_then(|file| file.write_all_at(&self.encode(), 0));
    }
}

/// The path of the note of a journal.
fn note_place(journal: &Path) -> PathBuf {
    let mut place = journal.as_os_str().to_owned();
    place.push(".note");
    place.into()
}

/// Removes the note.
pub(crate) fn remove_note(journal: &Path) -> io::Result<()> {
    match std::fs::remove_file(note_place(journal)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
