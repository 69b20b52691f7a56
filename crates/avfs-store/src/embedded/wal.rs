//! Reads SQLite's log before SQLite does. SQLite silently treats the first frame that fails its check sum as
//! the end of the log: a flipped bit would revert every commit from there on.
//!
//! Two criteria distinguish damage from the result of a crash, which is a bad tail of one transaction:
//!
//! - *A valid continuation.* With `synchronous=FULL`, a transaction is synced before the next one is written.
//!   So if a frame is bad, its transaction has an end, and a frame after that end continues the log, then the
//!   bad frame was once on the disk and good. Likewise, the header is synced before any frame is written.
//! - *The note* (`note`): the contents of the log after a commit was acknowledged.
//!
//! Two cases are not detected: a flip in the last transaction while the note is out of date, which means
//! after a power cut that lost the note, or a kill in the microseconds between a commit and its note; and a
//! loss of the whole log including its header, because SQLite itself empties the log.
//!
//! No lock is taken; other processes may write meanwhile. Damage is reported only if two reads of one
//! generation of the log (the same header before and after each read) agree: everything that the first read
//! saw as complete is in the file during the second.

mod frames;
mod note;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::door::StoreError;
use crate::embedded::failure::io_failure;
use crate::embedded::layout::StoreLayout;

use frames::{HEADER_LEN, WalDamage, WalFrames};

pub(crate) use note::record;

/// The name of the log in messages.
pub(crate) const LOG: &str = "store.db-wal";

/// The name of the note in messages.
pub(crate) const NOTE: &str = "store.db-wal.sum";

/// The number of attempts to read a log that other processes keep changing. A process that changes the log
/// has recovered it.
const LOOKS: usize = 10;

/// Fails as damaged if the log lacks something that it once held.
pub(crate) fn check(layout: &StoreLayout) -> Result<(), StoreError> {
    let damage = confirmed_damage(layout).map_err(|e| io_failure("reading", LOG, e))?;
    damage.map_or(Ok(()), |damage| {
        Err(StoreError::Damaged {
            place: LOG.to_owned(),
            detail: damage.to_string(),
        })
    })
}

/// Whether the log is missing or empty, though the note says that it held commits. That alone proves nothing:
/// SQLite empties the log once all of it is in the database.
pub(crate) fn is_emptied(layout: &StoreLayout) -> bool {
    let length = std::fs::metadata(layout.write_ahead_log()).map_or(0, |info| info.len());
    length < HEADER_LEN as u64 && note::read(layout).is_ok_and(|note| note.is_some())
}

/// Whether the note exists and is damaged. Opening then works without it; a scrub reports it.
pub(crate) fn note_is_damaged(layout: &StoreLayout) -> bool {
    // A note that is being written may be read half: only one that stays so is damaged.
    (0..LOOKS).all(|_| note::read(layout).is_err())
}

/// Whether the log lacks something that it once held.
pub(crate) fn is_damaged(layout: &StoreLayout) -> io::Result<bool> {
    Ok(confirmed_damage(layout)?.is_some())
}

fn confirmed_damage(layout: &StoreLayout) -> io::Result<Option<WalDamage>> {
    let mut before = None;
    for _ in 0..LOOKS {
        // The note first: everything that it describes is in the file by the time the log is read.
        let note = note::read(layout).ok().flatten();
        let Some(log) = look(layout)? else { return Ok(None) };
        let Some(damage) = log.damage(note.as_ref()) else {
            return Ok(None);
        };
        let header = first_bytes(layout)?;
        if header.as_ref() != Some(log.header_bytes()) {
            before = None;
        } else if before == Some((header, damage)) {
            return Ok(Some(damage));
        } else {
            before = Some((header, damage));
        }
    }
    Ok(None)
}

/// The pages of a log up to its last commit, in order, with their numbers from 1.
pub(crate) fn committed_pages(log: Vec<u8>) -> Vec<(usize, Vec<u8>)> {
    WalFrames::new(log)
        .map(|log| log.committed_pages())
        .unwrap_or_default()
}

/// Reads the log; `None` if it is missing or has no header yet.
fn look(layout: &StoreLayout) -> io::Result<Option<WalFrames>> {
    match std::fs::read(layout.write_ahead_log()) {
        Ok(bytes) => Ok(WalFrames::new(bytes)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

fn first_bytes(layout: &StoreLayout) -> io::Result<Option<[u8; HEADER_LEN]>> {
    let mut header = [0; HEADER_LEN];
    let read = File::open(layout.write_ahead_log()).and_then(|file| file.read_exact_at(&mut header, 0));
    match read {
        Ok(()) => Ok(Some(header)),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof) => Ok(None),
        Err(e) => Err(e),
    }
}
