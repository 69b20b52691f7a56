//! SQLite's log, read before SQLite reads it. SQLite takes the first frame that fails its check sum for the
//! end of the log, silently: a flipped bit would take back every commit from there on.
//!
//! Two things tell damage from what a crash leaves, which is a bad tail of one transaction:
//!
//! - *Something lies behind.* With `synchronous=FULL` a transaction is synced before the next one is written.
//!   So if a frame is bad, its transaction has an end, and a frame behind that end continues the log, the
//!   bad frame was once on the disk and good. Likewise the header is synced before any frame is written.
//! - *The note* (`note`): what the log held after a commit was acknowledged.
//!
//! Not told apart: a flip in the last transaction while the note is not up to date, that is after a power
//! cut that lost the note, or a kill in the microseconds between a commit and its note. And what was cut off
//! together with the header, since SQLite itself empties the log.
//!
//! No lock is taken; others may write meanwhile. Damage counts when two looks at one generation of the log
//! (one header, the same before and after each look) agree: what the first look saw as complete is on the
//! file in the second.

mod frames;
mod mend;
mod note;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::door::StoreError;
use crate::embedded::failure::io_failure;
use crate::embedded::layout::Layout;

use frames::{Damage, HEADER_LEN, Log};

pub use mend::LogRepair;
pub(crate) use mend::mend;
pub(crate) use note::record;

/// The name of the log in messages.
pub(crate) const LOG: &str = "store.db-wal";

/// The name of the note in messages.
pub(crate) const NOTE: &str = "store.db-wal.sum";

/// Looks at a log that others keep changing. Who changes it has recovered it.
const LOOKS: usize = 10;

/// Fails as damaged if the log does not hold everything that it once held.
pub(crate) fn check(layout: &Layout) -> Result<(), StoreError> {
    let damage = confirmed_damage(layout).map_err(|e| io_failure("reading", LOG, e))?;
    damage.map_or(Ok(()), |damage| {
        Err(StoreError::Damaged { place: LOG.to_owned(), detail: damage.to_string() })
    })
}

/// Whether the log is gone or empty, though the note says that it held commits. That alone proves nothing: SQLite
/// empties the log once all of it is in the database.
pub(crate) fn is_emptied(layout: &Layout) -> bool {
    let length = std::fs::metadata(layout.write_ahead_log()).map_or(0, |info| info.len());
    length < HEADER_LEN as u64 && note::read(layout).is_ok_and(|note| note.is_some())
}

/// Whether the note is there and damaged. Opening does without it then; a scrub says so.
pub(crate) fn note_is_damaged(layout: &Layout) -> bool {
    // A note that is being written may be read half: only one that stays so is damaged.
    (0..LOOKS).all(|_| note::read(layout).is_err())
}

fn confirmed_damage(layout: &Layout) -> io::Result<Option<Damage>> {
    let mut before = None;
    for _ in 0..LOOKS {
        // The note first: whatever it says is on the file by the time that the log is read.
        let note = note::read(layout).ok().flatten();
        let Some(log) = look(layout)? else { return Ok(None) };
        let Some(damage) = log.damage(note.as_ref()) else { return Ok(None) };
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

/// The pages of a log up to its last commit, in their order, with their numbers from 1.
pub(crate) fn committed_pages(log: Vec<u8>) -> Vec<(usize, Vec<u8>)> {
    Log::new(log).map(|log| log.committed_pages()).unwrap_or_default()
}

/// Reads the log; `None` if it is missing or has no header yet.
fn look(layout: &Layout) -> io::Result<Option<Log>> {
    match std::fs::read(layout.write_ahead_log()) {
        Ok(bytes) => Ok(Log::new(bytes)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

fn first_bytes(layout: &Layout) -> io::Result<Option<[u8; HEADER_LEN]>> {
    let mut header = [0; HEADER_LEN];
    let read = File::open(layout.write_ahead_log()).and_then(|file| file.read_exact_at(&mut header, 0));
    match read {
        Ok(()) => Ok(Some(header)),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof) => Ok(None),
        Err(e) => Err(e),
    }
}
