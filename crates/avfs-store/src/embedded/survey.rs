//! Reads a whole pack, damaged or not, and finds every intact record in it.

use std::io;

use avfs_core::{ObjectId, ObjectKind};
use bytes::Bytes;

use crate::embedded::disk::DiskFile;
use crate::embedded::record::{
    HEADER_LEN, PACK_HEADER, PACK_HEADER_LEN, RecordHeader, RecordPlace, open_record,
};

/// A bad spot of the disk makes at most this many bytes around it unreadable.
const PIECE: usize = 64 * 1024;

/// The contents of a pack.
#[derive(Debug, Default)]
pub(crate) struct PackSurvey {
    /// Whether the header of the pack is valid.
    pub header_is_sound: bool,
    /// Every intact record, in the order of offsets.
    pub records: Vec<(ObjectId, RecordPlace)>,
    /// The intact snapshots among them.
    pub snapshots: Vec<ObjectId>,
    /// Stretches that hold no intact record: where, and how long.
    pub damage: Vec<(u64, u64)>,
    /// The length of the file, at most `end`.
    pub length: u64,
}

impl PackSurvey {
    /// The end of the last intact record.
    pub(crate) fn end_of_records(&self) -> u64 {
        self.records
            .last()
            .map_or(PACK_HEADER_LEN, |(_, place)| place.end())
    }
}

/// Reads the pack up to `end`. After a damaged record it continues at the next intact one, wherever that is:
/// every offset is tried, and a record is accepted only if its bytes match its id.
pub(crate) fn survey(file: &dyn DiskFile, pack: u32, end: u64) -> io::Result<PackSurvey> {
    let bytes = read_leniently(file, end.min(file.length()?))?;
    let header_is_sound = bytes.starts_with(&PACK_HEADER);
    let mut survey = PackSurvey {
        header_is_sound,
        length: bytes.len() as u64,
        ..PackSurvey::default()
    };
    let mut at = PACK_HEADER.len();
    let mut damaged_from = None;
    while at < bytes.len() {
        match intact_record(&bytes, pack, at) {
            Some((id, kind, place)) => {
                if kind == ObjectKind::Snapshot {
                    survey.snapshots.push(id);
                }
                if let Some(from) = damaged_from.take() {
                    survey.damage.push((from as u64, (at - from) as u64));
                }
                survey.records.push((id, place));
                at = place.end() as usize;
            }
            None => {
                damaged_from.get_or_insert(at);
                at += 1;
            }
        }
    }
    survey
        .damage
        .extend(damaged_from.map(|from| (from as u64, (bytes.len() - from) as u64)));
    Ok(survey)
}

fn intact_record(bytes: &Bytes, pack: u32, at: usize) -> Option<(ObjectId, ObjectKind, RecordPlace)> {
    let raw = bytes[at..].first_chunk::<HEADER_LEN>()?;
    let header = RecordHeader::decode(raw).ok()?;
    let end = at.checked_add(HEADER_LEN)?.checked_add(header.length as usize)?;
    if end > bytes.len() {
        return None;
    }
    open_record(header.id, bytes.slice(at..end)).ok()?;
    Some((
        header.id,
        header.kind,
        RecordPlace {
            pack,
            offset: at as u64,
            length: header.length,
        },
    ))
}

/// Reads as much as the disk returns; unreadable parts are read as zeros, which never form a record.
fn read_leniently(file: &dyn DiskFile, length: u64) -> io::Result<Bytes> {
    let length = usize::try_from(length).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    for (number, piece) in bytes.chunks_mut(PIECE).enumerate() {
        if file.read_exact_at(piece, (number * PIECE) as u64).is_err() {
            piece.fill(0);
        }
    }
    Ok(bytes.into())
}
