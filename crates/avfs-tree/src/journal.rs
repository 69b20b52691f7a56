//! The journal of a working tree: operations in the order in which they were made.
//!
//! One append-only file per span between two snapshots. A record is found again after damage by the salt
//! of its journal, and is valid only where it was written: its checksum covers its position. Bytes behind
//! the last valid record are what a crash left and are dropped; but a bad record before a point that is
//! known to have been synced is damage, and is reported.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use avfs_core::Reader;
use avfs_core::codec::put_number;

use crate::op::Op;

#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("{action} the journal {}", place.display())]
    Io {
        action: &'static str,
        place: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("no space left for the journal {}", place.display())]
    Full { place: PathBuf },
    #[error("the journal {} is damaged at byte {position}", place.display())]
    Damaged { place: PathBuf, position: u64 },
    /// A sync failed before: nothing more is promised until the tree is opened anew.
    #[error("the journal {} failed earlier", place.display())]
    Failed { place: PathBuf },
}

const MAGIC: &[u8; 8] = b"avfsjrn1";
const SALT_LEN: usize = 8;
const FILE_HEADER: u64 = (MAGIC.len() + SALT_LEN) as u64;
/// Salt, payload length, checksum.
const RECORD_HEADER: usize = SALT_LEN + 4 + 8;
/// What is gathered in memory before it is written.
const BUFFER_BYTES: usize = 256 << 10;
/// How much is held back in memory for objects that are not durable.
const HELD_BYTES: usize = 8 << 20;
/// A record that says up to where an earlier sync had succeeded.
const SYNC_TAG: u8 = 0;

/// An open journal that takes operations.
pub struct Journal {
    file: File,
    place: PathBuf,
    salt: [u8; SALT_LEN],
    /// What is in the file already ends here.
    written: u64,
    buffer: Vec<u8>,
    /// The buffer names objects that may not be durable yet: it must not be written before they are.
    held: bool,
    /// Up to here a sync has succeeded.
    durable: u64,
    failed: bool,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Journal({})", self.place.display())
    }
}

impl Journal {
    /// Makes a new journal. It is durable, with its directory, at the first [`Journal::sync`].
    pub fn create(place: &Path) -> Result<Journal, JournalError> {
        let mut options = File::options();
        options.read(true).write(true).create_new(true);
        let file = std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600).open(place);
        let file = file.map_err(|source| io_error("creating", place, source))?;
        let mut journal = Journal {
            file,
            place: place.to_owned(),
            salt: random_salt(place)?,
            written: 0,
            buffer: Vec::new(),
            held: false,
            durable: 0,
            failed: false,
        };
        journal.buffer.extend_from_slice(MAGIC);
        journal.buffer.extend_from_slice(&journal.salt);
        Ok(journal)
    }

    pub fn place(&self) -> &Path {
        &self.place
    }

    pub fn len(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    pub fn is_empty(&self) -> bool {
        self.len() <= FILE_HEADER
    }

    /// Appends an operation and the bytes that belong to it; returns where the bytes are.
    pub(crate) fn append(&mut self, op: &Op, data: &[u8]) -> Result<u64, JournalError> {
        self.check()?;
        let mut payload = Vec::with_capacity(64 + data.len());
        op.encode(&mut payload);
        let data_start = self.len() + (RECORD_HEADER + payload.len()) as u64;
        payload.extend_from_slice(data);
        self.append_payload(&payload)?;
        Ok(data_start)
    }

    fn append_payload(&mut self, payload: &[u8]) -> Result<(), JournalError> {
        let position = self.len();
        self.buffer.extend_from_slice(&self.salt);
        self.buffer.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        self.buffer.extend_from_slice(&checksum(position, payload));
        self.buffer.extend_from_slice(payload);
        if self.held || self.buffer.len() < BUFFER_BYTES {
            return Ok(());
        }
        // What could not be written has not happened: its caller is told so.
        self.flush().inspect_err(|_| self.buffer.truncate((position - self.written) as usize))
    }

    /// Reads bytes that were appended before.
    pub(crate) fn read(&self, position: u64, out: &mut [u8]) -> Result<(), JournalError> {
        if position >= self.written {
            let start = (position - self.written) as usize;
            let bytes = self.buffer.get(start..start + out.len());
            out.copy_from_slice(bytes.ok_or_else(|| self.damaged(position))?);
            return Ok(());
        }
        let read = self.file.read_exact_at(out, position);
        read.map_err(|source| io_error("reading", &self.place, source))
    }

    /// From now on nothing is written until [`Journal::release`]: what comes next names objects.
    pub(crate) fn hold(&mut self) {
        self.held = true;
    }

    pub(crate) fn is_held(&self) -> bool {
        self.held
    }

    /// The objects that were named are durable.
    pub(crate) fn release(&mut self) {
        self.held = false;
    }

    /// Whether more is held back than should be in memory.
    pub(crate) fn is_overdue(&self) -> bool {
        self.held && self.buffer.len() >= HELD_BYTES
    }

    /// Hands everything to the operating system. A failed write can be tried again: it goes to its place.
    pub fn flush(&mut self) -> Result<(), JournalError> {
        self.check()?;
        let written = self.file.write_all_at(&self.buffer, self.written);
        written.map_err(|source| io_error("writing", &self.place, source))?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Returns once everything appended before survives a power loss.
    pub fn sync(&mut self) -> Result<(), JournalError> {
        self.check()?;
        if self.durable == self.len() {
            return Ok(());
        }
        let mut mark = vec![SYNC_TAG];
        put_number(&mut mark, self.durable);
        self.append_payload(&mark)?;
        self.flush()?;
        let synced = match self.durable {
            0 => self.file.sync_all().and_then(|()| sync_parent(&self.place)),
            _ => self.file.sync_data(),
        };
        if let Err(source) = synced {
            self.failed = true;
            return Err(io_error("syncing", &self.place, source));
        }
        self.durable = self.written;
        Ok(())
    }

    fn check(&self) -> Result<(), JournalError> {
        if self.failed { Err(JournalError::Failed { place: self.place.clone() }) } else { Ok(()) }
    }

    fn damaged(&self, position: u64) -> JournalError {
        JournalError::Damaged { place: self.place.clone(), position }
    }

    /// Opens a journal that an earlier owner left: calls `replay` with each operation and the position
    /// of its bytes, drops what a crash left behind the last one, and goes on from there.
    pub(crate) fn recover<E: From<JournalError>>(
        place: &Path,
        mut replay: impl FnMut(&Journal, Op, u64) -> Result<(), E>,
    ) -> Result<Journal, E> {
        let mut journal = Journal::open_existing(place)?;
        let mut position = FILE_HEADER;
        while let Some(payload) = journal.record_at(position)? {
            let end = position + (RECORD_HEADER + payload.len()) as u64;
            if payload.first() != Some(&SYNC_TAG) {
                let mut reader = Reader::new(&payload);
                let op = Op::decode(&mut reader).map_err(|_| journal.damaged(position))?;
                let data = end - reader.len() as u64;
                replay(&journal, op, data)?;
            }
            position = end;
        }
        journal.check_tail(position)?;
        journal.written = position;
        journal.durable = position;
        // Its maker may have died before the name was synced.
        let cut = journal.file.set_len(position).and_then(|()| journal.file.sync_all());
        let cut = cut.and_then(|()| sync_parent(place));
        cut.map_err(|source| io_error("cutting", place, source))?;
        Ok(journal)
    }

    fn open_existing(place: &Path) -> Result<Journal, JournalError> {
        let file = File::options().read(true).write(true).open(place);
        let file = file.map_err(|source| io_error("opening", place, source))?;
        let written = file.metadata().map_err(|source| io_error("reading", place, source))?.len();
        let mut header = [0u8; FILE_HEADER as usize];
        let mut salt = [0u8; SALT_LEN];
        if written >= FILE_HEADER {
            let read = file.read_exact_at(&mut header, 0);
            read.map_err(|source| io_error("reading", place, source))?;
            salt.copy_from_slice(&header[MAGIC.len()..]);
        }
        if written < FILE_HEADER || is_all_zeros(&file, written, place)? {
            // Nothing was ever synced, or the header would be there: the journal starts anew.
            salt = random_salt(place)?;
            header[..MAGIC.len()].copy_from_slice(MAGIC);
            header[MAGIC.len()..].copy_from_slice(&salt);
            file.write_all_at(&header, 0).map_err(|source| io_error("writing", place, source))?;
        }
        let journal = Journal {
            file,
            place: place.to_owned(),
            salt,
            written: written.max(FILE_HEADER),
            buffer: Vec::new(),
            held: false,
            durable: 0,
            failed: false,
        };
        if header[..MAGIC.len()] == *MAGIC { Ok(journal) } else { Err(journal.damaged(0)) }
    }

    /// The payload of the valid record at `position`, if there is one.
    fn record_at(&self, position: u64) -> Result<Option<Vec<u8>>, JournalError> {
        let mut header = [0u8; RECORD_HEADER];
        if position + RECORD_HEADER as u64 > self.written {
            return Ok(None);
        }
        let io = |source| io_error("reading", &self.place, source);
        self.file.read_exact_at(&mut header, position).map_err(io)?;
        let (salt, rest) = header.split_at(SALT_LEN);
        let (len, sum) = rest.split_at(4);
        let len = u64::from(u32::from_le_bytes([len[0], len[1], len[2], len[3]]));
        let start = position + RECORD_HEADER as u64;
        if salt != self.salt || start + len > self.written {
            return Ok(None);
        }
        let mut payload = vec![0; len as usize];
        self.file.read_exact_at(&mut payload, start).map_err(io)?;
        Ok((checksum(position, &payload) == sum).then_some(payload))
    }

    /// Behind the last record in sequence there may be what a crash tore; but if a later record says
    /// that this place had been synced, the file is damaged.
    fn check_tail(&self, end: u64) -> Result<(), JournalError> {
        let mut tail = vec![0; (self.written - end.min(self.written)) as usize];
        let read = self.file.read_exact_at(&mut tail, end);
        read.map_err(|source| io_error("reading", &self.place, source))?;
        let candidates = tail.windows(SALT_LEN).enumerate().filter(|(_, window)| *window == self.salt);
        for (offset, _) in candidates {
            let Some(payload) = self.record_at(end + offset as u64)? else { continue };
            let mut reader = Reader::new(&payload);
            let is_sync = reader.byte() == Ok(SYNC_TAG);
            if is_sync && reader.number().is_ok_and(|durable| durable > end) {
                return Err(self.damaged(end));
            }
        }
        Ok(())
    }
}

/// Whether a file holds nothing: what a crash leaves of one that was never synced.
fn is_all_zeros(file: &File, len: u64, place: &Path) -> Result<bool, JournalError> {
    let mut piece = vec![0; 64 << 10];
    let mut position = 0;
    while position < len {
        let part = (len - position).min(piece.len() as u64) as usize;
        let read = file.read_exact_at(&mut piece[..part], position);
        read.map_err(|source| io_error("reading", place, source))?;
        if piece[..part].iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        position += part as u64;
    }
    Ok(true)
}

fn checksum(position: u64, payload: &[u8]) -> [u8; 8] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&position.to_le_bytes()).update(payload);
    let mut sum = [0u8; 8];
    sum.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    sum
}

fn random_salt(place: &Path) -> Result<[u8; SALT_LEN], JournalError> {
    let mut salt = [0u8; SALT_LEN];
    rustix::rand::getrandom(&mut salt, rustix::rand::GetRandomFlags::empty())
        .map_err(|errno| io_error("making a salt for", place, errno.into()))?;
    Ok(salt)
}

fn sync_parent(place: &Path) -> io::Result<()> {
    match place.parent() {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

fn io_error(action: &'static str, place: &Path, source: io::Error) -> JournalError {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            JournalError::Full { place: place.to_owned() }
        }
        _ => JournalError::Io { action, place: place.to_owned(), source },
    }
}

#[cfg(test)]
mod tests {
    use avfs_core::{Content, Entry, EntryKind, EntryName, LinkId, Meta, Timestamp};
    use avfs_testkit::fuzz;

    use super::*;
    use crate::inodes::Ino;
    use crate::op::Place;

    fn operations() -> Vec<Op> {
        let time = Timestamp { seconds: 3, nanos: 4 };
        let at = Place::new(Ino(1), EntryName::new(b"name").unwrap());
        let ino = Ino(99);
        let kind = EntryKind::File { size: 0, content: Content::Empty };
        let entry = Entry { meta: Meta::default(), kind };
        vec![
            Op::Found { ino, at: at.clone() },
            Op::FoundLink { link: LinkId(5) },
            Op::Place { at: at.clone(), ino, entry, links: Vec::new(), ctime: time },
            Op::PlaceLink { at: at.clone(), link: LinkId(5), links: Vec::new(), time },
            Op::Remove { at: at.clone(), time },
            Op::Rename { from: at.clone(), to: at.clone(), exchange: true, time },
            Op::Link { ino, at, time },
            Op::SetMode { ino, mode: 0o644, time },
            Op::SetOwner { ino, uid: 1, gid: 2, time },
            Op::SetMtime { ino, mtime: time, time },
            Op::Resize { ino, size: 1 << 40, time },
            Op::SetXattr { ino, name: b"user.a".to_vec(), value: b"b".to_vec(), time },
            Op::RemoveXattr { ino, name: b"user.a".to_vec(), time },
            Op::Write { ino, offset: 7, len: 3, time },
            Op::SetContent { ino, size: 0, content: Content::Empty, time },
            Op::Punch { ino, offset: 1, len: 2, time },
        ]
    }

    fn replayed(place: &Path) -> Result<Vec<Op>, JournalError> {
        let mut found = Vec::new();
        Journal::recover(place, |_, op, _| -> Result<(), JournalError> {
            found.push(op);
            Ok(())
        })?;
        Ok(found)
    }

    fn written(dir: &Path, syncs: bool) -> PathBuf {
        let place = dir.join("journal.1");
        let mut journal = Journal::create(&place).unwrap();
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
                // Only what the last two syncs covered cannot be told from a torn end.
                Ok(found) => assert!(found.len() >= all - 2, "{} left of {all} at {position}", found.len()),
                Err(other) => panic!("{other}"),
            }
        }
        assert!(reported > whole.len() / 2, "{reported} of {}", whole.len());
    }

    #[test]
    fn a_damaged_operation_never_panics() {
        let encode = |op: &Op| {
            let mut bytes = Vec::new();
            op.encode(&mut bytes);
            bytes
        };
        let seeds: Vec<Vec<u8>> = operations().iter().map(encode).collect();
        let check = |bytes: &[u8]| {
            let mut reader = Reader::new(bytes);
            if let Ok(op) = Op::decode(&mut reader) {
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
                assert!(found.iter().all(|op| known.contains(op)), "a damaged operation was replayed");
            }
        };
        assert!(fuzz(&[seed], check) > 100);
    }
}
