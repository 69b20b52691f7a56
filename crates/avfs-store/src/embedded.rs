//! The default store: packs of objects and one SQLite file in a directory. `docs/format.md` specifies the
//! bytes.
//!
//! Data flows one way: objects are appended to a pack of this process (`appender`), synced, and then become
//! known through one transaction that writes their index rows, the committed length of the pack and the edits
//! of refs. Bytes beyond the committed length do not exist for other processes, whatever a crash left there.
//!
//! Lock order: `commit`, then `appender`, then a connection of the database. Syncs and transactions happen
//! under `commit` alone, so that puts and reads continue meanwhile.

mod appender;
mod carve;
mod database;
mod disk;
mod failure;
mod index;
mod layout;
mod pack_buffer;
mod pack_directory;
mod pins;
mod record;
mod ref_log;
mod refs;
mod repair;
mod reserve;
mod salvage;
mod scrub;
mod shared_memory;
mod survey;
mod sweep;
mod upkeep;
mod usage;
mod wal;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use avfs_core::ObjectId;

use crate::cache::ObjectCache;
use crate::door::{
    CommitError, NewObject, ObjectStore, Pin, RefEdit, RefKey, RefRange, RefStore, StoreError, StoredObject,
};
use crate::upkeep::Upkeep;

use appender::{CommitBatch, PackAppender};
use database::StoreDatabase;
use failure::io_failure;
use layout::{StoreLayout, pack_name};
use pack_buffer::PendingObject;
use pack_directory::{PackDirectory, read_record};
use pins::ProcessPins;
use record::{RecordPlace, open_record};
use ref_log::LogTurn;

pub use database::FORMAT;
#[doc(hidden)]
pub use disk::{Disk, DiskFile, FileAccess, HostDisk};
pub use ref_log::CopyState;
pub use refs::LostRef;
pub use repair::{LogRepair, REBUILT, RepairReport};
pub use salvage::RefAge;
pub use sweep::ExclusiveStore;

/// When this many objects lack index rows, the rows are written without waiting for a commit.
const PENDING_LIMIT: usize = 100_000;

/// A read that fails consults the index up to this many times, because a sweep may have moved the object
/// meanwhile.
const READ_ATTEMPTS: usize = 3;

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Create the store if it does not exist.
    pub create: bool,
    /// How many bytes of verified objects are kept in memory.
    pub cache_bytes: u64,
    /// How long a call waits for another process before it fails as busy.
    pub busy_timeout: Duration,
    /// The age of a ref, by which the database and the second copy of its refs are compared.
    pub ref_age: RefAge,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions {
            create: true,
            cache_bytes: 32 * 1024 * 1024,
            busy_timeout: Duration::from_secs(10),
            ref_age: |_, _| None,
        }
    }
}

/// A store in a directory of this machine. Any number of processes and threads may use it at once.
///
/// Objects that were put and neither synced nor committed are gone when the store is dropped.
pub struct EmbeddedStore {
    pack_directory: PackDirectory,
    database: StoreDatabase,
    appender: Mutex<PackAppender>,
    /// Held by the one thread of this process that syncs and commits.
    commit: Mutex<()>,
    pins: ProcessPins,
    cache: OnceLock<ObjectCache>,
    options: OpenOptions,
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        // If the disk is full, other processes need this space to continue.
        if let Ok(appender) = self.appender.get_mut() {
            appender.give_up(&self.pack_directory, &self.database);
        }
        if ref_log::is_overgrown(self.pack_directory.layout()) {
            self.database.renew_copy();
        }
    }
}

impl EmbeddedStore {
    /// Opens the store in `dir`. The cost does not depend on the size of the store: packs are opened when
    /// they are needed.
    pub fn open(dir: &Path, options: OpenOptions) -> Result<EmbeddedStore, StoreError> {
        EmbeddedStore::open_on(Arc::new(disk::HostDisk), dir, options)
    }

    /// As [`EmbeddedStore::open`], with packs on another disk: where tests inject faults.
    #[doc(hidden)]
    pub fn open_on(
        disk: Arc<dyn Disk>,
        dir: &Path,
        options: OpenOptions,
    ) -> Result<EmbeddedStore, StoreError> {
        let layout = StoreLayout::open(dir, options.create)?;
        let database = StoreDatabase::open(&layout, options.busy_timeout, options.ref_age)?;
        Ok(EmbeddedStore {
            pack_directory: PackDirectory::new(layout, disk),
            database,
            appender: Mutex::default(),
            commit: Mutex::default(),
            pins: ProcessPins::default(),
            cache: OnceLock::new(),
            options,
        })
    }

    /// Builds a new database from the packs, the second copy of refs and the refs that the old database still
    /// yields, and puts it in place when it is complete. The old one is kept as `store.db.damaged`. No other
    /// process may have the store open.
    pub fn rebuild(dir: &Path, age: RefAge) -> Result<RepairReport, StoreError> {
        repair::rebuild(dir, age)
    }

    fn appender(&self) -> MutexGuard<'_, PackAppender> {
        self.appender
            .lock()
            .expect("no panic happens while the appender is locked")
    }

    /// Frees a little space on a full disk, for operations that delete. A sweep reserves it again.
    pub fn use_reserve(&self) {
        reserve::release(self.pack_directory.layout());
    }

    /// The file that reserves that space.
    pub fn reserve(&self) -> PathBuf {
        self.pack_directory.layout().reserve()
    }

    fn cache(&self) -> &ObjectCache {
        self.cache
            .get_or_init(|| ObjectCache::new(self.options.cache_bytes))
    }

    /// Makes everything put so far durable, and makes `edits` in the same transaction.
    fn commit_with(&self, edits: &[RefEdit]) -> Result<(), CommitError> {
        let _turn = self.commit.lock().expect("no panic happens during a commit");
        let batch = self.appender().batch(&self.pack_directory, &self.database)?;
        if batch.rows.is_empty() && edits.is_empty() {
            return Ok(());
        }
        // Packs before the index: a row must never refer to bytes that a power loss can remove.
        self.sync_packs(&batch)?;
        let layout = self.pack_directory.layout();
        let mut turn = None;
        self.database.write("committing", |connection| {
            index::insert(connection, &batch.rows)?;
            for (row, _) in &batch.packs {
                index::set_pack(connection, *row)?;
            }
            refs::apply(connection, edits)?;
            if edits.iter().any(|edit| edit.value != edit.expect) {
                // Inside the transaction: the copy of the refs receives its records in the order of the
                // commits.
                turn = LogTurn::take(layout, connection);
            }
            Ok::<(), CommitError>(())
        })?;
        if let Some(turn) = turn {
            turn.append(layout, edits);
        }
        // Last: until the index has them, reads find these records among the pending ones.
        self.appender().committed(&batch);
        Ok(())
    }

    fn sync_packs(&self, batch: &CommitBatch) -> Result<(), StoreError> {
        for (row, file) in &batch.packs {
            file.sync().map_err(|source| {
                self.appender().suspect(row.number);
                io_failure("syncing", pack_name(row.number), source)
            })?;
        }
        Ok(())
    }

    /// Returns the place of each id that the index knows, all as of one moment.
    fn find_in_index(&self, ids: &[ObjectId]) -> Result<Vec<Option<RecordPlace>>, StoreError> {
        match ids {
            [] => Ok(Vec::new()),
            [id] => self
                .database
                .with(|connection| Ok(vec![index::find(connection, id)?])),
            _ => self.database.read("reading the index", |connection| {
                ids.iter().map(|id| index::find(connection, id)).collect()
            }),
        }
    }

    /// Reads an object without consulting the index, if it is cached or pending.
    fn get_unindexed(&self, id: ObjectId) -> Result<Option<StoredObject>, StoreError> {
        if let Some(object) = self.cache().get(&id) {
            return Ok(Some(object));
        }
        let pending = self.appender().find(&id);
        let (record, place) = match pending {
            None => return Ok(None),
            Some(PendingObject::InMemory(record)) => (record, "memory".to_owned()),
            Some(PendingObject::Written(file, place)) => {
                let name = pack_directory::place_name(place);
                (
                    read_record(&*file, place).map_err(|e| io_failure("reading", &name, e))?,
                    name,
                )
            }
        };
        open_record(id, record)
            .map(Some)
            .map_err(|detail| StoreError::Corrupt { id, place, detail })
    }

    /// Reads an object that the index has at `place`, or had there a moment ago.
    fn get_from_pack(&self, id: ObjectId, mut place: RecordPlace) -> Result<StoredObject, StoreError> {
        let mut attempt = 1;
        loop {
            let error = match self.pack_directory.read(id, place) {
                Ok(object) => {
                    self.cache().insert(id, &object);
                    return Ok(object);
                }
                Err(error) if attempt == READ_ATTEMPTS => return Err(error),
                Err(error) => error,
            };
            self.pack_directory.forget(place.pack);
            place = match self.find_in_index(&[id])?.pop().flatten() {
                Some(place) => place,
                None if matches!(error, StoreError::Corrupt { .. }) => {
                    return Err(StoreError::Missing { id });
                }
                None => return Err(error),
            };
            attempt += 1;
        }
    }
}

impl ObjectStore for EmbeddedStore {
    fn get_many(&self, ids: &[ObjectId]) -> Result<Vec<StoredObject>, StoreError> {
        let mut found = ids
            .iter()
            .map(|id| self.get_unindexed(*id))
            .collect::<Result<Vec<_>, _>>()?;
        let absent: Vec<ObjectId> = ids
            .iter()
            .zip(&found)
            .filter(|(_, object)| object.is_none())
            .map(|(id, _)| *id)
            .collect();
        let mut places = self.find_in_index(&absent)?.into_iter();
        ids.iter()
            .zip(&mut found)
            .map(|(&id, object)| match object.take() {
                Some(object) => Ok(object),
                None => match places.next().flatten() {
                    Some(place) => self.get_from_pack(id, place),
                    None => Err(StoreError::Missing { id }),
                },
            })
            .collect()
    }

    fn put_many(&self, objects: &[NewObject<'_>]) -> Result<(), StoreError> {
        debug_assert!(
            objects.iter().all(|new| new.kind.hash(new.bytes) == new.id),
            "ids name their bytes"
        );
        let ids: Vec<ObjectId> = objects.iter().map(|new| new.id).collect();
        let known = self.contains_many(&ids)?;
        let mut appender = self.appender();
        for (object, _) in objects.iter().zip(known).filter(|(_, known)| !known) {
            appender.append(&self.pack_directory, &self.database, object)?;
        }
        let many = appender.pending_len() >= PENDING_LIMIT;
        drop(appender);
        if many { self.sync() } else { Ok(()) }
    }

    fn contains_many(&self, ids: &[ObjectId]) -> Result<Vec<bool>, StoreError> {
        // Pending first: an object that leaves the pending ones is in the index by then.
        let mut known: Vec<bool> = {
            let appender = self.appender();
            ids.iter().map(|id| appender.is_pending(id)).collect()
        };
        let asked: Vec<ObjectId> = ids
            .iter()
            .zip(&known)
            .filter(|(_, known)| !**known)
            .map(|(id, _)| *id)
            .collect();
        let places = self.find_in_index(&asked)?;
        for (known, place) in known.iter_mut().filter(|known| !**known).zip(places) {
            *known = place.is_some();
        }
        Ok(known)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.commit_with(&[]).map_err(|error| match error {
            CommitError::Store(error) => error,
            CommitError::Conflict { .. } => unreachable!("a commit without edits expects nothing"),
        })
    }

    fn pin(&self) -> Result<Pin, StoreError> {
        self.pins
            .pin(self.pack_directory.layout(), self.options.busy_timeout)
    }

    fn upkeep(&self) -> Option<&dyn Upkeep> {
        Some(self)
    }

    fn at_hand(&self, id: ObjectId) -> Option<StoredObject> {
        if let Some(object) = self.cache().get(&id) {
            return Some(object);
        }
        // The thread that holds the appender may be writing to a disk.
        match self.appender.try_lock().ok()?.find(&id)? {
            PendingObject::InMemory(record) => open_record(id, record).ok(),
            PendingObject::Written(..) => None,
        }
    }
}

impl RefStore for EmbeddedStore {
    fn read(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.database
            .read("reading refs", |connection| refs::read(connection, key))
    }

    fn scan_many(&self, ranges: &[RefRange]) -> Result<Vec<Vec<(RefKey, Vec<u8>)>>, StoreError> {
        self.database.read("reading refs", |connection| {
            ranges.iter().map(|range| refs::scan(connection, range)).collect()
        })
    }

    fn commit(&self, edits: &[RefEdit]) -> Result<(), CommitError> {
        self.commit_with(edits)
    }
}
