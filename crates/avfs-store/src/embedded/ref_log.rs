//! The second copy of refs: `refs.log`. If the database is damaged, refs are recovered from here.
//!
//! Each commit that changes refs appends one record after the transaction is durable, so the copy is never
//! newer than the database. A process that is killed in between leaves the copy one commit behind; the sums
//! of the values that each edit replaced reveal that gap. Commits do not sync the copy: after a power loss it
//! may be shorter, and the next commit rewrites it from the database if its end is torn.
//!
//! Lock order: the transaction of SQLite, then the lock of this file. So the records are in the order of the
//! commits.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::door::{RefEdit, RefKey};
use crate::embedded::database::FORMAT;
use crate::embedded::index::check_sum;
use crate::embedded::layout::{StoreLayout, sync_dir};
use crate::embedded::pins::POLL;
use crate::embedded::refs;

/// The name of the copy in messages.
pub(crate) const COPY: &str = "refs.log";

const MAGIC: &[u8; 8] = b"avfsrefs";
const SALT_LEN: usize = 8;
/// Magic, format, salt, length when the copy was last written as a whole, check sum of these.
const HEADER_LEN: usize = 36;
/// The length of the payload and the check sum precede it, the salt follows it.
const RECORD_HEADER: usize = 12;
const FRAME: usize = RECORD_HEADER + SALT_LEN;
/// When the copy is written as a whole, the refs are split into records of about this size.
const RECORD_BYTES: usize = 64 << 10;
/// The copy is rewritten when it has grown by this much, and to four times its size.
const GROWTH: u64 = 1 << 20;
/// How long a commit waits for another process to finish its record.
const PATIENCE: Duration = Duration::from_millis(200);

/// Refs with their values.
pub(crate) type RefMap = BTreeMap<RefKey, Vec<u8>>;

/// The contents of the copy.
pub(crate) struct RefLog {
    pub refs: RefMap,
    pub state: CopyState,
}

/// How far the copy can be trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyState {
    /// It has every commit.
    Whole,
    /// There is none.
    #[default]
    Missing,
    /// At least one commit is not in it.
    Lagging,
    /// Some of its records cannot be read.
    Damaged,
}

/// Exclusive access to the copy while one commit is written to it. No other process appends meanwhile.
pub(crate) struct LogTurn {
    file: File,
    salt: [u8; SALT_LEN],
    end: u64,
    /// All refs, if the copy must be written as a whole.
    whole: Option<RefMap>,
}

impl LogTurn {
    /// Takes the turn, inside the transaction that is about to be committed. `None`: the copy falls behind.
    pub(crate) fn take(layout: &StoreLayout, connection: &Connection) -> Option<LogTurn> {
        let file = lock(layout).ok()?;
        let end = file.metadata().ok()?.len();
        match read_header(&file).filter(|header| ends_well(&file, header.salt, end)) {
            Some(header) => Some(LogTurn {
                file,
                salt: header.salt,
                end,
                whole: None,
            }),
            None => {
                let whole = Some(all_refs(connection)?);
                Some(LogTurn {
                    file,
                    salt: [0; SALT_LEN],
                    end,
                    whole,
                })
            }
        }
    }

    /// Appends the changes of the transaction. They are durable in the database, so a failure only leaves the
    /// copy behind.
    pub(crate) fn append(self, layout: &StoreLayout, edits: &[RefEdit]) {
        if let Some(refs) = &self.whole {
            _ = write_whole(layout, refs);
            return;
        }
        let mut payload = Vec::new();
        for edit in edits.iter().filter(|edit| edit.value != edit.expect) {
            encode(
                &mut payload,
                &edit.key,
                edit.expect.as_deref(),
                edit.value.as_deref(),
            );
        }
        let record = record(self.salt, self.end, &payload);
        if self.file.write_all_at(&record, self.end).is_err() {
            // Half a record at the end would hide all that follow it.
            _ = self.file.set_len(self.end);
        }
    }
}

/// Replaces the copy with one that holds these refs.
pub(crate) fn replace(layout: &StoreLayout, refs: &RefMap) -> io::Result<()> {
    let _lock = lock(layout)?;
    write_whole(layout, refs)
}

/// Whether most of the copy describes values that were replaced since it was written as a whole.
pub(crate) fn is_overgrown(layout: &StoreLayout) -> bool {
    let Ok(file) = File::open(layout.ref_log()) else {
        return false;
    };
    let (Some(header), Ok(info)) = (read_header(&file), file.metadata()) else {
        return false;
    };
    info.len() >= header.base.saturating_mul(4).saturating_add(GROWTH)
}

/// Makes everything durable that was appended since the last sync.
pub(crate) fn sync(layout: &StoreLayout) {
    _ = File::open(layout.ref_log()).and_then(|file| file.sync_data());
}

/// Whether a copy of this format exists: then the database beside it was ours.
pub(crate) fn is_there(layout: &StoreLayout) -> bool {
    File::open(layout.ref_log()).is_ok_and(|file| read_header(&file).is_some())
}

/// Reads as much of the copy as is intact.
pub(crate) fn read(layout: &StoreLayout) -> RefLog {
    let mut log = RefLog {
        refs: RefMap::new(),
        state: CopyState::Missing,
    };
    let Ok(bytes) = std::fs::read(layout.ref_log()) else {
        return log;
    };
    if bytes.is_empty() {
        return log;
    }
    log.state = CopyState::Whole;
    let Some(header) = bytes.first_chunk().and_then(decode_header) else {
        log.state = CopyState::Damaged;
        return log;
    };
    let mut at = HEADER_LEN;
    while at < bytes.len() {
        if let Some(payload) = record_at(&bytes, header.salt, at) {
            if !log.replay(payload) && log.state == CopyState::Whole {
                log.state = CopyState::Lagging;
            }
            at += FRAME + payload.len();
            continue;
        }
        // A crash leaves a torn end. If a record follows it, something was damaged.
        let Some(next) = next_record(&bytes, header.salt, at) else {
            break;
        };
        log.state = CopyState::Damaged;
        at = next;
    }
    // A copy that was written as a whole was synced then.
    if (bytes.len() as u64) < header.base {
        log.state = CopyState::Damaged;
    }
    log
}

impl RefLog {
    /// Applies the edits of a record; returns whether each found the value that it replaces.
    fn replay(&mut self, mut payload: &[u8]) -> bool {
        let mut fits = true;
        while let Some(edit) = decode(&mut payload) {
            fits &= value_sum(self.refs.get(&edit.key).map(Vec::as_slice)) == edit.expect;
            match edit.value {
                Some(value) => _ = self.refs.insert(edit.key, value),
                None => _ = self.refs.remove(&edit.key),
            }
        }
        fits && payload.is_empty()
    }
}

struct RefLogHeader {
    salt: [u8; SALT_LEN],
    base: u64,
}

impl RefLogHeader {
    fn encode(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.salt);
        bytes[20..28].copy_from_slice(&self.base.to_le_bytes());
        let sum = check_sum(&[&bytes[..28]]);
        bytes[28..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }
}

fn decode_header(bytes: &[u8; HEADER_LEN]) -> Option<RefLogHeader> {
    let header = RefLogHeader {
        salt: *bytes[12..].first_chunk()?,
        base: u64::from_le_bytes(*bytes[20..].first_chunk()?),
    };
    (header.encode() == *bytes).then_some(header)
}

fn read_header(file: &File) -> Option<RefLogHeader> {
    let mut bytes = [0; HEADER_LEN];
    file.read_exact_at(&mut bytes, 0).ok()?;
    decode_header(&bytes)
}

/// Whether the last record was written completely.
fn ends_well(file: &File, salt: [u8; SALT_LEN], end: u64) -> bool {
    let mut last = [0; SALT_LEN];
    let at = end.saturating_sub(SALT_LEN as u64).max(HEADER_LEN as u64);
    end == HEADER_LEN as u64 || file.read_exact_at(&mut last, at).is_ok() && last == salt
}

/// Opens and locks the copy, and creates it if it is missing. A copy that was replaced meanwhile is opened
/// again.
fn lock(layout: &StoreLayout) -> io::Result<File> {
    let end = Instant::now() + PATIENCE;
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        // It holds the copy; it is read before anything in it is replaced.
        .truncate(false)
        .mode(0o600);
    loop {
        let file = options.open(layout.ref_log())?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) if Instant::now() < end => {
                std::thread::sleep(POLL);
                continue;
            }
            Err(error) => return Err(error.into()),
        }
        let named = std::fs::metadata(layout.ref_log())?;
        if named.ino() == file.metadata()?.ino() {
            return Ok(file);
        }
    }
}

/// The refs as the transaction leaves them; `None` if one of them is damaged, because then the copy is the
/// better source.
fn all_refs(connection: &Connection) -> Option<RefMap> {
    let mut all = RefMap::new();
    let mut sound = true;
    refs::for_each(connection, &mut |entry| match entry {
        Ok((key, value)) => _ = all.insert(key, value),
        Err(_) => sound = false,
    })
    .ok()?;
    sound.then_some(all)
}

fn write_whole(layout: &StoreLayout, refs: &RefMap) -> io::Result<()> {
    let mut salt = [0; SALT_LEN];
    rustix::rand::getrandom(&mut salt, rustix::rand::GetRandomFlags::empty())?;
    let mut bytes = vec![0; HEADER_LEN];
    let mut payload = Vec::new();
    let mut left = refs.iter().peekable();
    while let Some((key, value)) = left.next() {
        encode(&mut payload, key, None, Some(value));
        if payload.len() >= RECORD_BYTES || left.peek().is_none() {
            bytes.extend(record(salt, bytes.len() as u64, &payload));
            payload.clear();
        }
    }
    let header = RefLogHeader {
        salt,
        base: bytes.len() as u64,
    };
    bytes[..HEADER_LEN].copy_from_slice(&header.encode());
    let replacement = layout.dir().join("refs.log.new");
    let mut options = OpenOptions::new();
    let file = options
        .write(true)
        .create(true)
        // A draft that a killed process left.
        .truncate(true)
        .mode(0o600)
        .open(&replacement)?;
    // The bytes before the name: a crash between the two leaves the old copy.
    let written = file.write_all_at(&bytes, 0).and_then(|()| file.sync_all());
    if let Err(error) = written.and_then(|()| std::fs::rename(&replacement, layout.ref_log())) {
        // If the disk is full, the incomplete file would only waste space.
        _ = std::fs::remove_file(&replacement);
        return Err(error);
    }
    sync_dir(layout.dir())
}

fn record(salt: [u8; SALT_LEN], at: u64, payload: &[u8]) -> Vec<u8> {
    let mut record = Vec::with_capacity(FRAME + payload.len());
    record.extend((payload.len() as u32).to_le_bytes());
    record.extend(record_sum(salt, at, payload));
    record.extend(payload);
    record.extend(salt);
    record
}

/// The sum is valid only in its file and at its offset.
fn record_sum(salt: [u8; SALT_LEN], at: u64, payload: &[u8]) -> [u8; 8] {
    check_sum(&[&salt, &at.to_le_bytes(), payload]).to_le_bytes()
}

/// The payload of the intact record at an offset.
fn record_at(bytes: &[u8], salt: [u8; SALT_LEN], at: usize) -> Option<&[u8]> {
    let rest = bytes.get(at..)?;
    let length = u32::from_le_bytes(*rest.first_chunk()?) as usize;
    let end = RECORD_HEADER.checked_add(length)?;
    let payload = rest.get(RECORD_HEADER..end)?;
    let is_intact = rest.get(end..end + SALT_LEN)? == salt
        && rest[4..RECORD_HEADER] == record_sum(salt, at as u64, payload);
    is_intact.then_some(payload)
}

/// The start of the next intact record: each record begins where another one ends.
fn next_record(bytes: &[u8], salt: [u8; SALT_LEN], from: usize) -> Option<usize> {
    let ends = bytes
        .get(from..)?
        .windows(SALT_LEN)
        .enumerate()
        .filter(|(_, window)| *window == salt);
    ends.map(|(offset, _)| from + offset + SALT_LEN)
        .find(|start| record_at(bytes, salt, *start).is_some())
}

struct RefLogEdit {
    key: RefKey,
    expect: i64,
    value: Option<Vec<u8>>,
}

/// Sum of the replaced value, length and bytes of the key, 0 or 1, and length and bytes of the value.
fn encode(out: &mut Vec<u8>, key: &str, expect: Option<&[u8]>, value: Option<&[u8]>) {
    out.extend(value_sum(expect).to_le_bytes());
    out.extend((key.len() as u32).to_le_bytes());
    out.extend(key.as_bytes());
    match value {
        None => out.push(0),
        Some(value) => {
            out.push(1);
            out.extend((value.len() as u32).to_le_bytes());
            out.extend(value);
        }
    }
}

fn decode(bytes: &mut &[u8]) -> Option<RefLogEdit> {
    let (expect, rest) = bytes.split_first_chunk()?;
    let (key, rest) = split_counted(rest)?;
    let (value, rest) = match rest.split_first()? {
        (0, rest) => (None, rest),
        (_, rest) => {
            let (value, rest) = split_counted(rest)?;
            (Some(value.to_vec()), rest)
        }
    };
    *bytes = rest;
    let key = String::from_utf8(key.to_vec()).ok()?;
    Some(RefLogEdit {
        key,
        expect: i64::from_le_bytes(*expect),
        value,
    })
}

fn split_counted(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

fn value_sum(value: Option<&[u8]>) -> i64 {
    value.map_or(0, |value| check_sum(&[value]))
}
