//! Reads journals that an earlier owner left, intact or not.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use avfs_core::ByteReader;

use super::{
    FAMILY, FILE_HEADER, Journal, JournalError, JournalNote, JournalOrigin, LogFile, MAGIC, RECORD_HEADER,
    SALT_LEN, SEAL_TAG, SYNC_TAG, checksum, io_error, random_salt, sync_parent,
};
use crate::op::JournalOp;

impl Journal {
    /// Opens a journal that an earlier owner left: calls `replay` with each operation and the position of its
    /// bytes, drops the remains of a crash after the last one, and continues from there. Returns whether it
    /// was sealed.
    pub(crate) fn recover<E: From<JournalError>>(
        place: &Path,
        replay: impl FnMut(&Arc<LogFile>, JournalOp, u64) -> Result<(), E>,
    ) -> Result<(Journal, bool), E> {
        let Some(mut journal) = Journal::open_existing(place)? else {
            return Ok((Journal::begin_again(place)?, false));
        };
        let (position, sealed) = journal.replay(replay)?;
        let file = &journal.log.file;
        // The process that created it may have died before the name was synced.
        let cut = file
            .set_len(position)
            .and_then(|()| file.sync_all())
            .and_then(|()| sync_parent(place));
        cut.map_err(|source| io_error("cutting", place, source))?;
        journal.log.written.store(position, Ordering::Release);
        journal.log.note_durable(position);
        journal.reaches(position);
        Ok((journal, sealed))
    }

    /// The same without changing anything.
    pub(crate) fn rehearse<E: From<JournalError>>(
        place: &Path,
        replay: impl FnMut(&Arc<LogFile>, JournalOp, u64) -> Result<(), E>,
    ) -> Result<bool, E> {
        match Journal::open_existing(place)? {
            Some(journal) => journal.replay(replay).map(|(_, sealed)| sealed),
            None => Ok(false),
        }
    }

    /// Calls `replay` with each operation; returns the end of the last record, and whether it is the seal.
    fn replay<E: From<JournalError>>(
        &self,
        mut replay: impl FnMut(&Arc<LogFile>, JournalOp, u64) -> Result<(), E>,
    ) -> Result<(u64, bool), E> {
        let journal = self;
        let mut position = FILE_HEADER;
        let mut sealed = false;
        while let Some(payload) = journal.record_at(position)? {
            let end = position + (RECORD_HEADER + payload.len()) as u64;
            match payload.first() {
                Some(&SYNC_TAG) => {}
                Some(&SEAL_TAG) => sealed = true,
                _ => {
                    let mut reader = ByteReader::new(&payload);
                    let op = JournalOp::decode(&mut reader).map_err(|_| journal.damaged(position))?;
                    // What decoding left over are the bytes of a write, which stay in the file and are read
                    // from there.
                    let data = end - reader.len() as u64;
                    replay(&journal.log, op, data)?;
                }
            }
            position = end;
        }
        journal.check_tail(position)?;
        Ok((position, sealed))
    }

    /// Opens a journal; `None` if nothing was ever synced to it.
    fn open_existing(place: &Path) -> Result<Option<Journal>, JournalError> {
        let file = File::options().read(true).write(true).open(place);
        let file = file.map_err(|source| io_error("opening", place, source))?;
        let note = JournalNote::read(place);
        let written = file
            .metadata()
            .map_err(|source| io_error("reading", place, source))?
            .len();
        let mut header = [0u8; FILE_HEADER as usize];
        let mut salt = [0u8; SALT_LEN];
        if written >= FILE_HEADER {
            let read = file.read_exact_at(&mut header, 0);
            read.map_err(|source| io_error("reading", place, source))?;
            salt.copy_from_slice(&header[MAGIC.len()..]);
        }
        if written < FILE_HEADER || is_all_zeros(&file, written, place)? {
            // Nothing was ever synced: otherwise the header would exist.
            return match note {
                Some(_) => Err(JournalError::Damaged {
                    place: place.to_owned(),
                    position: 0,
                }),
                None => Ok(None),
            };
        }
        let origin = note.map(|note| note.origin).unwrap_or_default();
        let log = Arc::new(LogFile::new(file, place, written).noted(salt, origin));
        let journal = Journal {
            buffer: Vec::new(),
            ..Journal::beginning(log, salt)
        };
        let is_noted = note.map(|note| note.salt == salt);
        match (&header[..MAGIC.len()] == MAGIC, is_noted) {
            (true, None | Some(true)) => Ok(Some(journal)),
            // A flipped bit in the salt: the records still have the right one.
            (true, Some(false)) if note.is_some_and(|note| journal.has_salt(note.salt)) => {
                Err(journal.damaged(0))
            }
            (true, Some(false)) => Err(JournalError::Replaced {
                place: place.to_owned(),
            }),
            (false, None) if header.starts_with(FAMILY) => Err(JournalError::Version {
                place: place.to_owned(),
            }),
            (false, _) => Err(journal.damaged(0)),
        }
    }

    /// Whether the first record has this salt.
    fn has_salt(&self, salt: [u8; SALT_LEN]) -> bool {
        let mut first = [0; SALT_LEN];
        self.log.read(FILE_HEADER, &mut first).is_ok() && first == salt
    }

    /// Restarts a journal of which nothing was synced. Its header is written with the first operation,
    /// because the disk may be full.
    fn begin_again(place: &Path) -> Result<Journal, JournalError> {
        let file = File::options().read(true).write(true).open(place);
        let file = file.map_err(|source| io_error("opening", place, source))?;
        file.set_len(0)
            .map_err(|source| io_error("cutting", place, source))?;
        let salt = random_salt(place)?;
        let log = LogFile::new(file, place, 0).noted(salt, JournalOrigin::default());
        Ok(Journal::beginning(Arc::new(log), salt))
    }

    /// The payload of the valid record at `position`, if there is one.
    fn record_at(&self, position: u64) -> Result<Option<Vec<u8>>, JournalError> {
        let mut header = [0u8; RECORD_HEADER];
        let written = self.log.written();
        if position + RECORD_HEADER as u64 > written {
            return Ok(None);
        }
        self.log.read(position, &mut header)?;
        let (salt, rest) = header.split_at(SALT_LEN);
        let (len, sum) = rest.split_at(4);
        let len = u64::from(u32::from_le_bytes([len[0], len[1], len[2], len[3]]));
        let start = position + RECORD_HEADER as u64;
        // Not an error: a crash leaves unwritten or half-written bytes after the last record.
        if salt != self.salt || start + len > written {
            return Ok(None);
        }
        let mut payload = vec![0; len as usize];
        self.log.read(start, &mut payload)?;
        Ok((checksum(position, &[&payload]) == sum).then_some(payload))
    }

    /// After the last record in sequence, the remains of a crash may follow; but if the note or a later
    /// record shows that this position had been synced, the file is damaged.
    fn check_tail(&self, end: u64) -> Result<(), JournalError> {
        if JournalNote::read(&self.log.place).is_some_and(|note| note.salt == self.salt && note.durable > end)
        {
            return Err(self.damaged(end));
        }
        let written = self.log.written();
        // A record can begin anywhere after a torn one, so every position with the salt is tried.
        let mut tail = vec![0; (written - end.min(written)) as usize];
        self.log.read(end, &mut tail)?;
        let candidates = tail
            .windows(SALT_LEN)
            .enumerate()
            .filter(|(_, window)| *window == self.salt);
        for (offset, _) in candidates {
            let Some(payload) = self.record_at(end + offset as u64)? else {
                continue;
            };
            let mut reader = ByteReader::new(&payload);
            let is_sync = reader.byte() == Ok(SYNC_TAG);
            if is_sync && reader.number().is_ok_and(|durable| durable > end) {
                return Err(self.damaged(end));
            }
        }
        Ok(())
    }
}

/// Rewrites the header of a journal if its records are those of its note; returns whether they were.
pub(crate) fn mend_header(place: &Path) -> io::Result<bool> {
    let Some(note) = JournalNote::read(place) else {
        return Ok(false);
    };
    let file = match File::options().read(true).write(true).open(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        file => file?,
    };
    let header = [&MAGIC[..], &note.salt].concat();
    let mut found = vec![0; header.len()];
    let mut first = [0; SALT_LEN];
    let read = file
        .read_exact_at(&mut found, 0)
        .and_then(|()| file.read_exact_at(&mut first, FILE_HEADER));
    // The first record must carry the salt of the note: otherwise the note belongs to another journal.
    if read.is_err() || found == header || first != note.salt {
        return Ok(false);
    }
    file.write_all_at(&header, 0)?;
    file.sync_all()?;
    Ok(true)
}

/// Whether a file consists of zeros: the result of a crash before its first sync.
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
