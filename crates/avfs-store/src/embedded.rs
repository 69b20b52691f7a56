//! The default store: packs of objects and one SQLite file in a directory. `docs/format.md` has the bytes.
//!
//! Data flows one way: objects are appended to a pack of this process (`appender`), synced, and then become
//! known by one transaction that holds their index rows, the committed length of the pack and the edits of
//! refs. Bytes that no committed length covers do not exist for anyone else, whatever a crash left there.
//!
//! Lock order: `commit`, then `appender`, then a connection of the database. Syncs and transactions happen
//! under `commit` alone, so that puts and reads go on meanwhile.

mod appender;
mod carve;
mod database;
mod disk;
mod draft;
mod failure;
mod index;
mod layout;
mod pins;
mod record;
mod ref_log;
mod refs;
mod repair;
mod reserve;
mod salvage;
mod scrub;
mod shelf;
mod survey;
mod sweep;
mod usage;
mod wal;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use avfs_core::ObjectId;

use crate::cache::ObjectCache;
use crate::door::{
    CommitError, NewObject, Object, ObjectStore, Pin, RefEdit, RefKey, RefRange, RefStore, StoreError,
};

use appender::{Appender, Batch};
use database::Database;
use draft::Pending;
use failure::io_failure;
use layout::{Layout, pack_name};
use pins::Pins;
use record::{Place, open_record};
use ref_log::Turn;
use shelf::{Shelf, read_record};

pub use database::FORMAT;
#[doc(hidden)]
pub use disk::{Access, Disk, DiskFile, HostDisk};
pub use ref_log::CopyState;
pub use refs::LostRef;
pub use repair::{REBUILT, RepairReport};
pub use salvage::RefAge;
pub use scrub::{Finding, ScrubReport};
pub use sweep::{Exclusive, LiveSet, SweepReport};
pub use usage::Usage;
pub use wal::LogRepair;

/// Once this many objects await their index rows, they get them without being asked for.
const PENDING_LIMIT: usize = 100_000;

/// A read that fails asks the index again this often: a sweep may have moved the object meanwhile.
const READ_ATTEMPTS: usize = 3;

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Make the store if there is none.
    pub create: bool,
    /// How many bytes of verified objects are kept in memory.
    pub cache_bytes: u64,
    /// How long a call waits for another process before it fails as busy.
    pub busy_timeout: Duration,
    /// How new a ref is: by this the database and the second copy of its refs are compared.
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
/// What was put and neither synced nor committed is gone when the store is dropped.
pub struct EmbeddedStore {
    shelf: Shelf,
    database: Database,
    appender: Mutex<Appender>,
    /// Held by the one thread of this process that syncs and commits.
    commit: Mutex<()>,
    pins: Pins,
    cache: OnceLock<ObjectCache>,
    options: OpenOptions,
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        // On a disk that is full, it is what others need to go on.
        if let Ok(appender) = self.appender.get_mut() {
            appender.give_up(&self.shelf, &self.database);
        }
        if ref_log::is_overgrown(self.shelf.layout()) {
            self.database.renew_copy();
        }
    }
}

impl EmbeddedStore {
    /// Opens the store in `dir`. Costs no more for a large store than for a small one: packs are opened
    /// when they are needed.
    pub fn open(dir: &Path, options: OpenOptions) -> Result<EmbeddedStore, StoreError> {
        EmbeddedStore::open_on(Arc::new(disk::HostDisk), dir, options)
    }

    /// As [`EmbeddedStore::open`], with packs on another disk: the place where tests put faults.
    #[doc(hidden)]
    pub fn open_on(
        disk: Arc<dyn Disk>,
        dir: &Path,
        options: OpenOptions,
    ) -> Result<EmbeddedStore, StoreError> {
        let layout = Layout::open(dir, options.create)?;
        let database = Database::open(&layout, options.busy_timeout, options.ref_age)?;
        Ok(EmbeddedStore {
            shelf: Shelf::new(layout, disk),
            database,
            appender: Mutex::default(),
            commit: Mutex::default(),
            pins: Pins::default(),
            cache: OnceLock::new(),
            options,
        })
    }

    fn appender(&self) -> MutexGuard<'_, Appender> {
        self.appender.lock().expect("no panic happens while the appender is locked")
    }

    /// Makes a little room on a disk that is full, for what takes something away. It is kept again after a sweep.
    pub fn use_reserve(&self) {
        reserve::release(self.shelf.layout());
    }

    /// The file that keeps that room.
    pub fn reserve(&self) -> PathBuf {
        self.shelf.layout().reserve()
    }

    fn cache(&self) -> &ObjectCache {
        self.cache.get_or_init(|| ObjectCache::new(self.options.cache_bytes))
    }

    /// Makes everything put so far durable, and makes `edits` in the same transaction.
    fn commit_with(&self, edits: &[RefEdit]) -> Result<(), CommitError> {
        let _turn = self.commit.lock().expect("no panic happens during a commit");
        let batch = self.appender().batch(&self.shelf, &self.database)?;
        if batch.rows.is_empty() && edits.is_empty() {
            return Ok(());
        }
        self.sync_packs(&batch)?;
        let layout = self.shelf.layout();
        let mut turn = None;
        self.database.write("committing", |connection| {
            index::insert(connection, &batch.rows)?;
            for (row, _) in &batch.packs {
                index::set_pack(connection, *row)?;
            }
            refs::apply(connection, edits)?;
            if edits.iter().any(|edit| edit.value != edit.expect) {
                turn = Turn::take(layout, connection);
            }
            Ok::<(), CommitError>(())
        })?;
        if let Some(turn) = turn {
            turn.append(layout, edits);
        }
        self.appender().settle(&batch);
        Ok(())
    }

    fn sync_packs(&self, batch: &Batch) -> Result<(), StoreError> {
        for (row, file) in &batch.packs {
            file.sync().map_err(|source| {
                self.appender().suspect(row.number);
                io_failure("syncing", pack_name(row.number), source)
            })?;
        }
        Ok(())
    }

    /// Says for each id where it lies, if the index knows it, all as of one moment.
    fn find_in_index(&self, ids: &[ObjectId]) -> Result<Vec<Option<Place>>, StoreError> {
        match ids {
            [] => Ok(Vec::new()),
            [id] => self.database.with(|connection| Ok(vec![index::find(connection, id)?])),
            _ => self.database.read("reading the index", |connection| {
                ids.iter().map(|id| index::find(connection, id)).collect()
            }),
        }
    }

    /// Reads an object without asking the index, if it is cached or pending.
    fn get_unindexed(&self, id: ObjectId) -> Result<Option<Object>, StoreError> {
        if let Some(object) = self.cache().get(&id) {
            return Ok(Some(object));
        }
        let pending = self.appender().find(&id);
        let (record, place) = match pending {
            None => return Ok(None),
            Some(Pending::InMemory(record)) => (record, "memory".to_owned()),
            Some(Pending::Written(file, place)) => {
                let name = shelf::place_name(place);
                (read_record(&*file, place).map_err(|e| io_failure("reading", &name, e))?, name)
            }
        };
        open_record(id, record).map(Some).map_err(|detail| StoreError::Corrupt { id, place, detail })
    }

    /// Reads an object that the index knows at `place`, or knew there a moment ago.
    fn get_from_pack(&self, id: ObjectId, mut place: Place) -> Result<Object, StoreError> {
        let mut attempt = 1;
        loop {
            let error = match self.shelf.read(id, place) {
                Ok(object) => {
                    self.cache().insert(id, &object);
                    return Ok(object);
                }
                Err(error) if attempt == READ_ATTEMPTS => return Err(error),
                Err(error) => error,
            };
            self.shelf.forget(place.pack);
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
    fn get_many(&self, ids: &[ObjectId]) -> Result<Vec<Object>, StoreError> {
        let mut found = ids.iter().map(|id| self.get_unindexed(*id)).collect::<Result<Vec<_>, _>>()?;
        let absent: Vec<ObjectId> =
            ids.iter().zip(&found).filter(|(_, object)| object.is_none()).map(|(id, _)| *id).collect();
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
        debug_assert!(objects.iter().all(|new| new.kind.hash(new.bytes) == new.id), "ids name their bytes");
        let ids: Vec<ObjectId> = objects.iter().map(|new| new.id).collect();
        let known = self.contains_many(&ids)?;
        let mut appender = self.appender();
        for (object, _) in objects.iter().zip(known).filter(|(_, known)| !known) {
            appender.append(&self.shelf, &self.database, object)?;
        }
        let many = appender.pending_len() >= PENDING_LIMIT;
        drop(appender);
        if many { self.sync() } else { Ok(()) }
    }

    fn contains_many(&self, ids: &[ObjectId]) -> Result<Vec<bool>, StoreError> {
        // Pending first: what leaves the pending objects is in the index by then.
        let mut known: Vec<bool> = {
            let appender = self.appender();
            ids.iter().map(|id| appender.is_pending(id)).collect()
        };
        let asked: Vec<ObjectId> =
            ids.iter().zip(&known).filter(|(_, known)| !**known).map(|(id, _)| *id).collect();
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
        self.pins.pin(self.shelf.layout(), self.options.busy_timeout)
    }

    fn at_hand(&self, id: ObjectId) -> Option<Object> {
        if let Some(object) = self.cache().get(&id) {
            return Some(object);
        }
        // Whoever appends may be writing to a disk.
        match self.appender.try_lock().ok()?.find(&id)? {
            Pending::InMemory(record) => open_record(id, record).ok(),
            Pending::Written(..) => None,
        }
    }
}

impl RefStore for EmbeddedStore {
    fn read(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.database.read("reading refs", |connection| refs::read(connection, key))
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
