//! The note of acknowledged commits: `store.db-wal.sum`, 28 bytes.
//!
//! After each commit the writer records the log's salts, the number of the last frame and its check sum, and
//! a check sum over those. At that time all of it is synced, so a note is true for as long as the log has
//! these salts: an old note only claims less. That is why it is never synced and why failing to write it does
//! not matter. Of a note that a power cut tore, nothing or zeros are left, which claim nothing.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

use rusqlite::Connection;

use crate::embedded::index::check_sum;
use crate::embedded::layout::StoreLayout;
use crate::embedded::wal::frames::{FRAME_LEN, HEADER_LEN, SUM, WalFrames, ends_transaction};

const NOTE_LEN: usize = 28;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WalNote {
    pub salts: [u8; 8],
    pub frame: u32,
    pub sum: [u8; 8],
}

impl WalNote {
    fn encode(&self) -> [u8; NOTE_LEN] {
        let mut bytes = [0; NOTE_LEN];
        bytes[..8].copy_from_slice(&self.salts);
        bytes[8..12].copy_from_slice(&self.frame.to_be_bytes());
        bytes[12..20].copy_from_slice(&self.sum);
        let sum = check_sum(&[&bytes[..20]]);
        bytes[20..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<WalNote> {
        let (salts, rest) = bytes.split_first_chunk()?;
        let (frame, rest) = rest.split_first_chunk()?;
        let note = WalNote {
            salts: *salts,
            frame: u32::from_be_bytes(*frame),
            sum: *rest.first_chunk()?,
        };
        (note.frame > 0 && note.encode() == bytes).then_some(note)
    }
}

/// A note that was changed after it was written.
pub(crate) struct DamagedNote;

/// Reads the note; `None` if it does not exist.
pub(crate) fn read(layout: &StoreLayout) -> Result<Option<WalNote>, DamagedNote> {
    let Ok(bytes) = std::fs::read(layout.log_note()) else {
        return Ok(None);
    };
    if bytes.len() < NOTE_LEN || bytes.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    WalNote::decode(&bytes).map(Some).ok_or(DamagedNote)
}

/// Records the contents of the log. Called after a commit.
pub(crate) fn record(layout: &StoreLayout, connection: &Connection) {
    let Some(frames) = synced_frames(connection) else {
        return;
    };
    let Ok(Some(note)) = note_of(layout, frames) else {
        return;
    };
    // Checked again: the log may have been restarted before it was read.
    if synced_frames(connection) == Some(frames) {
        _ = write(layout, &note);
    }
}

/// The number of frames in the log according to SQLite's index of it, which counts a transaction once it is
/// synced.
fn synced_frames(connection: &Connection) -> Option<u32> {
    let mut statement = connection.prepare_cached("PRAGMA wal_checkpoint(NOOP)").ok()?;
    statement
        .query_row([], |row| row.get(1))
        .ok()
        .filter(|frames| *frames > 0)
}

fn note_of(layout: &StoreLayout, frames: u32) -> io::Result<Option<WalNote>> {
    let file = File::open(layout.write_ahead_log())?;
    let mut header = vec![0; HEADER_LEN];
    file.read_exact_at(&mut header, 0)?;
    let mut frame = [0; 24];
    let at = HEADER_LEN + (frames as usize - 1) * FRAME_LEN;
    file.read_exact_at(&mut frame, at as u64)?;
    let header = WalFrames::new(header).and_then(|log| log.header());
    let header = header.filter(|h| h.is_of_this_generation(&frame) && ends_transaction(&frame));
    let sum = frame[SUM].first_chunk().copied();
    Ok(header.zip(sum).map(|(header, sum)| WalNote {
        salts: header.salts,
        frame: frames,
        sum,
    }))
}

fn write(layout: &StoreLayout, note: &WalNote) -> io::Result<()> {
    let mut options = OpenOptions::new();
    // Overwritten in place: a note is 28 bytes, and one that is torn fails its sum and counts as none.
    options.write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(layout.log_note())?;
    file.write_all_at(&note.encode(), 0)?;
    // Not truncated first: while a file is truncated and rewritten, other processes could read an empty one.
    if file.metadata()?.len() > NOTE_LEN as u64 {
        file.set_len(NOTE_LEN as u64)?;
    }
    Ok(())
}
