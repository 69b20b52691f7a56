//! The note beside a journal: what was synced, and what the journal goes on from. `journal.N.note`, 40 bytes.
//!
//! It is written after each sync and never synced itself: what it says is true for as long as the journal has this
//! salt, and an old note only says less. It tells a journal that was cut, emptied, replaced or removed from one of
//! which a crash left no more. It is removed before its journal is.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use super::SALT_LEN;

const NOTE_LEN: usize = 40;

/// What a journal goes on from. All zeros: unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The mark of the stored state that its first operation is based on; 0 if it follows another journal.
    pub base: u64,
    /// The number of the journal that it follows; 0 if there was none.
    pub follows: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    pub salt: [u8; SALT_LEN],
    /// Up to here a sync had succeeded.
    pub durable: u64,
    pub origin: Origin,
}

impl Note {
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

    fn decode(bytes: &[u8]) -> Option<Note> {
        let number = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let origin = Origin { base: number(16)?, follows: number(24)? };
        let note = Note { salt: *bytes.first_chunk()?, durable: number(8)?, origin };
        (note.encode() == bytes).then_some(note)
    }

    /// The note of a journal, if there is one that can be read.
    pub(crate) fn read(journal: &Path) -> Option<Note> {
        Note::decode(&std::fs::read(note_place(journal)).ok()?)
    }

    /// Writes the note. Without it less damage is noticed, and nothing else.
    pub(crate) fn write(&self, journal: &Path) {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(note_place(journal));
        _ = file.and_then(|file| file.write_all_at(&self.encode(), 0));
    }
}

/// Where the note of a journal is.
fn note_place(journal: &Path) -> PathBuf {
    let mut place = journal.as_os_str().to_owned();
    place.push(".note");
    place.into()
}

/// Takes the note away.
pub(crate) fn remove_note(journal: &Path) -> io::Result<()> {
    match std::fs::remove_file(note_place(journal)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
