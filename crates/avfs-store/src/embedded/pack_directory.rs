//! The pack files: creating one, locking one to append to, and reading from one.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex};

use avfs_core::ObjectId;
use bytes::{Bytes, BytesMut};

use crate::door::{StoreError, StoredObject};
use crate::embedded::database::StoreDatabase;
use crate::embedded::disk::{Disk, DiskFile, FileAccess, write_all_at};
use crate::embedded::failure::io_failure;
use crate::embedded::index::{self, PackRow};
use crate::embedded::layout::{StoreLayout, pack_name};
use crate::embedded::record::{PACK_HEADER, PACK_HEADER_LEN, RecordPlace, open_record};

/// A pack of this length accepts no more objects.
pub(crate) const PACK_LIMIT: u64 = 64 * 1024 * 1024;

/// The number of packs that are kept open for reading.
const OPEN_LIMIT: usize = 128;

/// All packs of a store.
pub(crate) struct PackDirectory {
    disk: Arc<dyn Disk>,
    layout: StoreLayout,
    open: Mutex<HashMap<u32, Arc<dyn DiskFile>>>,
}

/// A pack whose lock this process holds until the value is dropped: no other process writes to it or removes
/// it.
pub(crate) struct LockedPack {
    pub number: u32,
    pub file: Arc<dyn DiskFile>,
    /// The offset of the next record. Initially the committed length.
    pub length: u64,
}

impl PackDirectory {
    pub(crate) fn new(layout: StoreLayout, disk: Arc<dyn Disk>) -> PackDirectory {
        PackDirectory {
            disk,
            layout,
            open: Mutex::new(HashMap::new()),
        }
    }

    pub(crate) fn layout(&self) -> &StoreLayout {
        &self.layout
    }

    /// Reads one record and verifies it.
    pub(crate) fn read(&self, id: ObjectId, place: RecordPlace) -> Result<StoredObject, StoreError> {
        let corrupt = |detail| StoreError::Corrupt {
            id,
            place: place_name(place),
            detail,
        };
        let file = match self.open_to_read(place.pack) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(corrupt("its pack is gone")),
            opened => opened.map_err(|e| io_failure("opening", pack_name(place.pack), e))?,
        };
        match read_record(&*file, place) {
            Ok(record) => open_record(id, record).map_err(corrupt),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Err(corrupt("its pack is cut short")),
            Err(e) => Err(io_failure("reading", place_name(place), e)),
        }
    }

    /// Drops the open file of a pack, because a different file may have its name now.
    pub(crate) fn forget(&self, number: u32) {
        self.open().remove(&number);
    }

    pub(crate) fn forget_all(&self) {
        self.open().clear();
    }

    pub(crate) fn open_to_read(&self, number: u32) -> io::Result<Arc<dyn DiskFile>> {
        if let Some(file) = self.open().get(&number) {
            return Ok(file.clone());
        }
        let file = self.disk.open(&self.layout.pack(number), FileAccess::Read)?;
        let mut open = self.open();
        if open.len() >= OPEN_LIMIT {
            open.clear();
        }
        open.insert(number, file.clone());
        Ok(file)
    }

    fn open(&self) -> std::sync::MutexGuard<'_, HashMap<u32, Arc<dyn DiskFile>>> {
        self.open
            .lock()
            .expect("no panic happens while the table of packs is locked")
    }

    /// Locks a pack to append to: one with room that is not in use and not in `avoid`, or a new one.
    pub(crate) fn take(
        &self,
        database: &StoreDatabase,
        avoid: &HashSet<u32>,
    ) -> Result<LockedPack, StoreError> {
        let packs = database.with(index::packs)?;
        for pack in packs
            .iter()
            .filter(|pack| pack.length < PACK_LIMIT && !avoid.contains(&pack.number))
        {
            // A pack that cannot be opened or truncated is left to fsck: it must not stop new work.
            let Some(locked) = self.lock(database, pack.number)? else {
                continue;
            };
            let is_ready = match locked.file.length() {
                Ok(length) if length == locked.length => true,
                // If the database has lost commits, the bytes that it does not know are all that is left of
                // them.
                Ok(length) if length > locked.length => {
                    database.lost_commits()?.is_empty() && locked.file.truncate(locked.length).is_ok()
                }
                _ => false,
            };
            if is_ready {
                return Ok(locked);
            }
        }
        self.make(packs.last())
    }

    /// Locks a pack that the index knows; `None` if it is in use, gone or cannot be opened.
    pub(crate) fn lock(
        &self,
        database: &StoreDatabase,
        number: u32,
    ) -> Result<Option<LockedPack>, StoreError> {
        let Some(file) = self.lock_file(number) else {
            return Ok(None);
        };
        // Checked again under the lock: the length may have grown, or the pack may have been swept.
        let row = database.with(|connection| index::pack(connection, number))?;
        Ok(row.map(|row| LockedPack {
            number,
            file,
            length: row.length,
        }))
    }

    /// Locks a pack file whether or not the index knows it; `None` if it is in use or cannot be opened.
    pub(crate) fn lock_file(&self, number: u32) -> Option<Arc<dyn DiskFile>> {
        let file = self
            .disk
            .open(&self.layout.pack(number), FileAccess::Write)
            .ok()?;
        let locked = file.try_lock().ok()? && file.is_linked().ok()?;
        locked.then_some(file)
    }

    /// Creates a pack with a number that neither a file nor the index has. Only creating one costs a sync of
    /// the directory.
    pub(crate) fn make(&self, last: Option<&PackRow>) -> Result<LockedPack, StoreError> {
        let used = self
            .layout
            .pack_numbers()?
            .last()
            .copied()
            .max(last.map(|row| row.number));
        let mut number = used.map_or(1, |used| used.saturating_add(1));
        loop {
            match self.disk.open(&self.layout.pack(number), FileAccess::Create) {
                Ok(file) => {
                    if let Some(pack) = self.start(number, file)? {
                        return Ok(pack);
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(io_failure("creating", pack_name(number), e)),
            }
            let taken = || io::Error::other("no pack number is left");
            number = number
                .checked_add(1)
                .ok_or_else(|| io_failure("creating", "packs", taken()))?;
        }
    }

    /// Locks a new file and writes its header. `None` if a sweep mistook the file, which no row refers to
    /// yet, for a leftover before it was locked.
    fn start(&self, number: u32, file: Arc<dyn DiskFile>) -> Result<Option<LockedPack>, StoreError> {
        let fail = |e| io_failure("creating", pack_name(number), e);
        if !file.try_lock().map_err(fail)? || !file.is_linked().map_err(fail)? {
            return Ok(None);
        }
        let ready =
            write_all_at(&*file, &PACK_HEADER, 0).and_then(|()| self.disk.sync_dir(&self.layout.packs()));
        if let Err(source) = ready {
            // Nothing refers to it; if it cannot be removed now, a sweep removes it.
            _ = self.disk.remove(&self.layout.pack(number));
            return Err(fail(source));
        }
        Ok(Some(LockedPack {
            number,
            file,
            length: PACK_HEADER_LEN,
        }))
    }

    /// Removes the file of a pack that the caller has locked.
    pub(crate) fn remove(&self, number: u32) -> Result<(), StoreError> {
        self.forget(number);
        match self.disk.remove(&self.layout.pack(number)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                Err(io_failure("removing", pack_name(number), e))
            }
            _ => Ok(()),
        }
    }
}

/// Reads the bytes of a record, unverified.
pub(crate) fn read_record(file: &dyn DiskFile, place: RecordPlace) -> io::Result<Bytes> {
    // A damaged index may claim any length: compare with the file before allocating memory.
    if place.end() > file.length()? {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut record = BytesMut::zeroed(place.record_len() as usize);
    file.read_exact_at(&mut record, place.offset)?;
    Ok(record.freeze())
}

pub(crate) fn place_name(place: RecordPlace) -> String {
    format!("{} at {}", pack_name(place.pack), place.offset)
}
