//! The journal of a working tree: operations in the order of their execution.
//!
//! One append-only file per span between two snapshots; while a snapshot is being stored, the next file is
//! already in use. After damage, records are found again by the salt of their journal. A record is valid only
//! at its own position, because its checksum covers the position. Bytes after the last valid record are the
//! remains of a crash and are dropped; but a bad record before a point that is known to have been synced is
//! damage, and is reported.

mod log;
mod note;
mod recovery;
mod room;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use avfs_core::codec::put_number;
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

use crate::op::JournalOp;
pub(crate) use log::LogFile;
pub(crate) use note::{JournalNote, JournalOrigin, remove_note};
pub(crate) use recovery::mend_header;
use room::AllocatedRoom;
pub(crate) use room::AppendPurpose;

/// Why a journal failed.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The system reported an error.
    #[error("{action} the journal {}", place.display())]
    Io {
        /// What was attempted.
        action: &'static str,
        /// The file of the journal.
        place: PathBuf,
        /// The error.
        #[source]
        source: io::Error,
    },
    /// There is no space for it.
    #[error("no space left for the journal {}", place.display())]
    Full {
        /// The file of the journal.
        place: PathBuf,
    },
    /// A record does not match its check sum.
    #[error("the journal {} is damaged at byte {position}", place.display())]
    Damaged {
        /// The file of the journal.
        place: PathBuf,
        /// Where the record begins.
        position: u64,
    },
    /// It was synced, and is not there.
    #[error("the journal {} is missing, with the work that was synced to it", place.display())]
    Missing {
        /// The file of the journal.
        place: PathBuf,
    },
    /// Another one is in its place.
    #[error("the journal {} is not the one that was synced there", place.display())]
    Replaced {
        /// The file of the journal.
        place: PathBuf,
    },
    /// This build cannot read it.
    #[error("the journal {} was written by another version of agentvfs", place.display())]
    Version {
        /// The file of the journal.
        place: PathBuf,
    },
    /// The head is older than the journal, for example after a repair that lost commits.
    #[error("the journal {} goes on from a state that the vault does not have", place.display())]
    Misfit {
        /// The file of the journal.
        place: PathBuf,
    },
    /// An earlier write or sync failed: nothing more is guaranteed until the tree is opened again.
    #[error("the journal {} failed earlier", place.display())]
    Failed {
        /// The file of the journal.
        place: PathBuf,
    },
}

const MAGIC: &[u8; 8] = b"avfsjrn2";
/// The first bytes of the journals of all versions.
const FAMILY: &[u8] = b"avfsjrn";
const SALT_LEN: usize = 8;
const FILE_HEADER: u64 = (MAGIC.len() + SALT_LEN) as u64;
/// Salt, payload length, checksum.
const RECORD_HEADER: usize = SALT_LEN + 4 + 8;
/// How much is buffered in memory before it is written.
const BUFFER_BYTES: usize = 256 << 10;
/// How much is held back in memory while objects are not durable.
const HELD_BYTES: usize = 8 << 20;
/// A write of this many bytes bypasses the buffer.
const DIRECT_BYTES: usize = 64 << 10;
/// A record that states up to where an earlier sync had succeeded.
const SYNC_TAG: u8 = 0;
/// The last record of a journal that is followed by another one.
const SEAL_TAG: u8 = 255;

/// An open journal that accepts operations.
pub struct Journal {
    log: Arc<LogFile>,
    salt: [u8; SALT_LEN],
    buffer: Vec<u8>,
    /// The buffer refers to objects that may not be durable yet: it must not be written before they are.
    held: bool,
    room: AllocatedRoom,
    need: AppendPurpose,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Journal({})", self.log.place.display())
    }
}

impl Journal {
    /// Creates a journal. The first sync makes it durable, with its directory.
    pub(crate) fn create(place: &Path, origin: JournalOrigin) -> Result<Journal, JournalError> {
        let mut options = File::options();
        // A journal of that number would hold operations that were acknowledged.
        options.read(true).write(true).create_new(true);
        let file = std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600).open(place);
        let file = file.map_err(|source| io_error("creating", place, source))?;
        let salt = random_salt(place)?;
        let log = Arc::new(LogFile::new(file, place, 0).noted(salt, origin));
        Ok(Journal::beginning(log, salt))
    }

    /// A journal that is still empty.
    fn beginning(log: Arc<LogFile>, salt: [u8; SALT_LEN]) -> Journal {
        let buffer = [&MAGIC[..], &salt].concat();
        Journal {
            log,
            salt,
            buffer,
            held: false,
            room: AllocatedRoom::UpTo(0),
            need: AppendPurpose::Ordinary,
        }
    }

    /// The file.
    pub fn place(&self) -> &Path {
        &self.log.place
    }

    pub(crate) fn log(&self) -> &Arc<LogFile> {
        &self.log
    }

    /// The length of the file in bytes.
    pub fn len(&self) -> u64 {
        self.log.written() + self.buffer.len() as u64
    }

    /// Whether it has no operations.
    pub fn is_empty(&self) -> bool {
        self.len() <= FILE_HEADER
    }

    /// Whether everything appended is durable.
    pub(crate) fn is_durable(&self) -> bool {
        self.log.durable() == self.len()
    }

    /// Appends an operation and the bytes that belong to it; returns the position of the bytes.
    pub(crate) fn append(&mut self, op: &JournalOp, data: &[u8]) -> Result<u64, JournalError> {
        self.log.check()?;
        // Held records must stay in the buffer: they refer to objects that may not survive a crash.
        if data.len() >= DIRECT_BYTES && !self.held {
            return self.append_directly(op, data);
        }
        let start = self.start_record();
        op.encode(&mut self.buffer);
        let data_start = self.len();
        self.buffer.extend_from_slice(data);
        self.finish_record(start)?;
        Ok(data_start)
    }

    fn append_mark(&mut self, payload: &[u8]) -> Result<(), JournalError> {
        let start = self.start_record();
        self.buffer.extend_from_slice(payload);
        // A mark may use the last of the allocated space, so that a full disk can still be synced.
        let need = std::mem::replace(&mut self.need, AppendPurpose::Mark);
        let finished = self.finish_record(start);
        self.need = need;
        finished
    }

    /// Reserves space for the header of a record; returns its position in the buffer.
    fn start_record(&mut self) -> usize {
        let start = self.buffer.len();
        self.buffer.resize(start + RECORD_HEADER, 0);
        start
    }

    fn finish_record(&mut self, start: usize) -> Result<(), JournalError> {
        let position = self.log.written() + start as u64;
        let (header, payload) = self.buffer[start..].split_at_mut(RECORD_HEADER);
        // The checksum covers the position, so a record that reappears elsewhere in the file is not valid
        // there.
        header.copy_from_slice(&record_header(
            self.salt,
            payload.len(),
            checksum(position, &[payload]),
        ));
        // An operation that could not be written has not happened: its caller gets the error.
        let written = self.take_room().and_then(|()| {
            if self.is_to_be_written() {
                self.flush()
            } else {
                Ok(())
            }
        });
        written.inspect_err(|_| self.buffer.truncate(start))
    }

    fn is_to_be_written(&self) -> bool {
        !self.held && (self.buffer.len() >= BUFFER_BYTES || self.room == AllocatedRoom::NotAhead)
    }

    /// Appends a large write without copying its bytes into the buffer.
    fn append_directly(&mut self, op: &JournalOp, data: &[u8]) -> Result<u64, JournalError> {
        self.flush()?;
        let position = self.log.written();
        let mut encoded = Vec::with_capacity(64);
        op.encode(&mut encoded);
        let sum = checksum(position, &[&encoded, data]);
        let header = record_header(self.salt, encoded.len() + data.len(), sum);
        let head = [&header[..], &encoded].concat();
        // The bytes first and the header last: without its header, a torn record is not a record.
        let io = |source| self.log.broken("writing", source);
        self.log
            .file
            .write_all_at(data, position + head.len() as u64)
            .map_err(io)?;
        self.log.file.write_all_at(&head, position).map_err(io)?;
        let data_start = position + head.len() as u64;
        let end = data_start + data.len() as u64;
        // After the bytes: a reader that sees the new end finds them there.
        self.log.written.store(end, Ordering::Release);
        self.reaches(end);
        Ok(data_start)
    }

    /// Bytes that were appended to this journal but are not in its file yet.
    pub(crate) fn buffered(&self, position: u64, len: usize) -> Option<&[u8]> {
        let start = position.checked_sub(self.log.written())? as usize;
        self.buffer.get(start..start + len)
    }

    /// From now on nothing is written until [`Journal::release`]: later records refer to objects.
    pub(crate) fn hold(&mut self) {
        self.held = true;
    }

    pub(crate) fn is_held(&self) -> bool {
        self.held
    }

    /// The objects that records refer to are durable.
    pub(crate) fn release(&mut self) {
        self.held = false;
    }

    /// Whether more is held back than should be in memory.
    pub(crate) fn is_overdue(&self) -> bool {
        self.held && self.buffer.len() >= HELD_BYTES
    }

    /// Writes everything to the operating system. A failed write can be retried: it goes to the same
    /// position.
    pub fn flush(&mut self) -> Result<(), JournalError> {
        self.log.check()?;
        let written = self.log.written();
        let done = self.log.file.write_all_at(&self.buffer, written);
        done.map_err(|source| self.log.broken("writing", source))?;
        // Readers compare positions with `written` to decide between the buffer and the file, so it moves
        // only after the bytes are there.
        let end = written + self.buffer.len() as u64;
        self.log.written.store(end, Ordering::Release);
        self.reaches(end);
        // A buffer that grew while it was held is not kept.
        if self.buffer.capacity() > 2 * BUFFER_BYTES {
            self.buffer = Vec::new()
        } else {
            self.buffer.clear()
        }
        Ok(())
    }

    /// Writes everything to the file, with a mark of how much is known to be durable. A sync of the file up
    /// to the returned position makes it durable.
    pub(crate) fn mark(&mut self) -> Result<u64, JournalError> {
        self.log.check()?;
        if !self.is_durable() {
            let mut mark = vec![SYNC_TAG];
            // The mark says what an earlier sync achieved. What this one will achieve is not known before
            // it returns.
            put_number(&mut mark, self.log.durable());
            self.append_mark(&mark)?;
            self.flush()?;
        }
        Ok(self.log.written())
    }

    /// Returns once everything that was appended before survives a power loss.
    pub fn sync(&mut self) -> Result<(), JournalError> {
        let end = self.mark()?;
        self.log.sync_to(end)
    }

    /// Ends the journal: the next one continues where this one stops.
    pub(crate) fn seal(&mut self) -> Result<(), JournalError> {
        self.append_mark(&[SEAL_TAG])?;
        self.flush()
    }

    fn damaged(&self, position: u64) -> JournalError {
        JournalError::Damaged {
            place: self.log.place.clone(),
            position,
        }
    }
}

/// Distinguishes a torn or damaged record from an intact one; it does not protect against forgery.
fn checksum(position: u64, payload: &[&[u8]]) -> [u8; 8] {
    let sum = match payload {
        [whole] => xxh3_64_with_seed(whole, position),
        parts => {
            let mut hasher = Xxh3::with_seed(position);
            parts.iter().for_each(|part| hasher.update(part));
            hasher.digest()
        }
    };
    sum.to_le_bytes()
}

fn record_header(salt: [u8; SALT_LEN], len: usize, sum: [u8; 8]) -> [u8; RECORD_HEADER] {
    let mut header = [0; RECORD_HEADER];
    header[..SALT_LEN].copy_from_slice(&salt);
    header[SALT_LEN..SALT_LEN + 4].copy_from_slice(&(len as u32).to_le_bytes());
    header[SALT_LEN + 4..].copy_from_slice(&sum);
    header
}

fn random_salt(place: &Path) -> Result<[u8; SALT_LEN], JournalError> {
    let mut salt = [0u8; SALT_LEN];
    rustix::rand::getrandom(&mut salt, rustix::rand::GetRandomFlags::empty())
        .map_err(|errno| io_error("making a salt for", place, errno.into()))?;
    Ok(salt)
}

fn sync_parent(place: &Path) -> io::Result<()> {
    match place.parent() {
        // Without its name, a journal that was synced would be lost with a power cut.
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

fn io_error(action: &'static str, place: &Path, source: io::Error) -> JournalError {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => JournalError::Full {
            place: place.to_owned(),
        },
        _ => JournalError::Io {
            action,
            place: place.to_owned(),
            source,
        },
    }
}

#[cfg(test)]
mod tests {
    use avfs_core::{ByteReader, Content, Entry, EntryKind, EntryName, LinkId, Meta, Timestamp};
    use avfs_testkit::fuzz;

    use super::*;
    use crate::inodes::Ino;
    use crate::op::EntryPlace;

    fn operations() -> Vec<JournalOp> {
        let time = Timestamp { seconds: 3, nanos: 4 };
        let at = EntryPlace::new(Ino(1), EntryName::new(b"name").unwrap());
        let ino = Ino(99);
        let kind = EntryKind::File {
            size: 0,
            content: Content::Empty,
        };
        let entry = Entry {
            meta: Meta::default(),
            kind,
        };
        vec![
            JournalOp::Found { ino, at: at.clone() },
            JournalOp::FoundLink { link: LinkId(5) },
            JournalOp::Place {
                at: at.clone(),
                ino,
                entry,
                links: Vec::new(),
                ctime: time,
            },
            JournalOp::PlaceLink {
                at: at.clone(),
                link: LinkId(5),
                links: Vec::new(),
                time,
            },
            JournalOp::Remove { at: at.clone(), time },
            JournalOp::Rename {
                from: at.clone(),
                to: at.clone(),
                exchange: true,
                time,
            },
            JournalOp::Link { ino, at, time },
            JournalOp::SetMode {
                ino,
                mode: 0o644,
                time,
            },
            JournalOp::SetOwner {
                ino,
                uid: 1,
                gid: 2,
                time,
            },
            JournalOp::SetMtime {
                ino,
                mtime: time,
                time,
            },
            JournalOp::Resize {
                ino,
                size: 1 << 40,
                time,
            },
            JournalOp::SetXattr {
                ino,
                name: b"user.a".to_vec(),
                value: b"b".to_vec(),
                time,
            },
            JournalOp::RemoveXattr {
                ino,
                name: b"user.a".to_vec(),
                time,
            },
            JournalOp::Write {
                ino,
                offset: 7,
                len: 3,
                time,
            },
            JournalOp::SetContent {
                ino,
                size: 0,
                content: Content::Empty,
                time,
            },
            JournalOp::Punch {
                ino,
                offset: 1,
                len: 2,
                time,
            },
        ]
    }

    fn replayed(place: &Path) -> Result<Vec<JournalOp>, JournalError> {
        let mut found = Vec::new();
        Journal::recover(place, |_, op, _| -> Result<(), JournalError> {
            found.push(op);
            Ok(())
        })?;
        Ok(found)
    }

    fn written(dir: &Path, syncs: bool) -> PathBuf {
        let place = dir.join("journal.1");
        let mut journal = Journal::create(&place, JournalOrigin::default()).unwrap();
        for op in operations() {
            journal.append(&op, b"abc").unwrap();
            if syncs {
                journal.sync().unwrap();
            }
        }
        journal.flush().unwrap();
        place
    }

    #[test]
    fn operations_are_replayed_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let place = written(dir.path(), false);
        assert_eq!(replayed(&place).unwrap(), operations());
    }

    #[test]
    fn a_torn_end_is_dropped_and_the_rest_stays() {
        let dir = tempfile::tempdir().unwrap();
        let place = written(dir.path(), false);
        let whole = std::fs::read(&place).unwrap();
        for len in (0..whole.len()).rev() {
            std::fs::write(&place, &whole[..len]).unwrap();
            // Nothing was synced.
            remove_note(&place).unwrap();
            let found = replayed(&place).unwrap();
            assert_eq!(found, operations()[..found.len()], "cut at {len}");
        }
    }

    #[test]
    fn damage_before_a_synced_point_is_reported_and_not_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let place = written(dir.path(), true);
        let whole = std::fs::read(&place).unwrap();
        let all = operations().len();
        let mut reported = 0;
        for position in FILE_HEADER as usize..whole.len() {
            let mut bytes = whole.clone();
            bytes[position] ^= 4;
            std::fs::write(&place, bytes).unwrap();
            match replayed(&place) {
                Err(JournalError::Damaged { .. }) => reported += 1,
                // Only records that the last two syncs covered cannot be distinguished from a torn end.
                Ok(found) => assert!(
                    found.len() >= all - 2,
                    "{} left of {all} at {position}",
                    found.len()
                ),
                Err(other) => panic!("{other}"),
            }
        }
        assert!(reported > whole.len() / 2, "{reported} of {}", whole.len());
    }

    #[test]
    fn a_damaged_operation_never_panics() {
        let encode = |op: &JournalOp| {
            let mut bytes = Vec::new();
            op.encode(&mut bytes);
            bytes
        };
        let seeds: Vec<Vec<u8>> = operations().iter().map(encode).collect();
        let check = |bytes: &[u8]| {
            let mut reader = ByteReader::new(bytes);
            if let Ok(op) = JournalOp::decode(&mut reader) {
                let used = bytes.len() - reader.len();
                assert_eq!(encode(&op), bytes[..used], "only the canonical form is accepted");
            }
        };
        assert!(fuzz(&seeds, check) > 1000);
    }

    #[test]
    fn a_damaged_journal_never_panics() {
        let dir = tempfile::tempdir().unwrap();
        let seed = std::fs::read(written(dir.path(), true)).unwrap();
        let place = dir.path().join("journal.2");
        let check = |bytes: &[u8]| {
            std::fs::write(&place, bytes).unwrap();
            if let Ok(found) = replayed(&place) {
                let known = operations();
                assert!(
                    found.iter().all(|op| known.contains(op)),
                    "a damaged operation was replayed"
                );
            }
        };
        assert!(fuzz(&[seed], check) > 100);
    }
}
