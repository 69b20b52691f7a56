//! Repairs a damaged store from what the packs still hold.

use std::collections::{BTreeMap, HashMap};
use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use avfs_core::ObjectId;
use rusqlite::Connection;
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::door::{RefKey, StoreError};
use crate::embedded::database::{make_replacement, move_in_place};
use crate::embedded::disk::{Disk, HostDisk, write_all_at};
use crate::embedded::failure::{DATABASE, database, io_failure};
use crate::embedded::index::{self, PackRow};
use crate::embedded::layout::{StoreLayout, pack_name};
use crate::embedded::pack_directory::{PackDirectory, place_name};
use crate::embedded::pins::lock_exclusively;
use crate::embedded::record::{PACK_HEADER, RecordPlace};
use crate::embedded::ref_log;
use crate::embedded::refs::{self, LostRef};
use crate::embedded::salvage::{self, RefAge, SalvageReport, SalvagedRefs};
use crate::embedded::survey::{PackSurvey, survey};
use crate::embedded::sweep::ExclusiveStore;
use crate::embedded::wal;

/// The name under which a rebuild keeps the old database.
const ASIDE: &str = "store.db.damaged";

/// A ref that exists after a repair that may have lost refs. Collecting garbage would make that loss final.
pub const REBUILT: &str = "setting/rebuilt";

/// What became of a damaged log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogRepair {
    /// It was sound.
    #[default]
    Sound,
    /// It was damaged while a process had the database open, which knew all of it and has put it into the
    /// database: nothing is lost.
    Folded,
    /// The log was cut off at the damage, and the second copy of refs had the later commits: nothing is lost.
    Restored,
    /// The log was cut off at the damage: the later commits are lost.
    Cut,
}

/// What a repair did, and what it could not restore.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// Objects that the index has now.
    pub objects: u64,
    /// Objects that the index did not have.
    pub indexed: u64,
    /// Objects whose copy was damaged and that have an intact one elsewhere.
    pub redirected: u64,
    /// Packs whose header was rewritten.
    pub headers: u64,
    /// Objects that are gone, and where they were stored. Putting an object again restores it.
    pub lost: Vec<(ObjectId, String)>,
    /// Refs that did not match their check sum, and of which no other copy exists.
    pub lost_refs: Vec<LostRef>,
    /// The number of refs that exist now.
    pub refs: u64,
    /// The number of those refs that were recovered from damaged pages or from the second copy.
    pub restored_refs: u64,
    /// The database could not be read, and more refs may be lost than the listed ones.
    pub may_lack_refs: bool,
    /// Every intact snapshot, whether a ref needs it or not.
    pub snapshots: Vec<ObjectId>,
    /// What became of the log of the database.
    pub log: LogRepair,
}

/// The future contents of the tables.
#[derive(Default)]
struct RepairPlan {
    rows: Vec<(ObjectId, RecordPlace)>,
    packs: Vec<PackRow>,
}

impl ExclusiveStore<'_> {
    /// Rewrites the tables from the packs: lost rows are restored, objects with an intact copy anywhere are
    /// pointed at it, and rows that point at nothing are removed, so that putting the object again stores it.
    /// Objects that were swept but still lie in a pack also reappear, until the next sweep.
    ///
    /// Fails as damaged if the database cannot be read at all: in that case use
    /// [`crate::EmbeddedStore::rebuild`].
    pub fn repair(&self) -> Result<RepairReport, StoreError> {
        let store = self.store;
        store.pack_directory.layout().restore_packs()?;
        let mut report = RepairReport::default();
        let (rows, committed) = store.database.read("reading the index", |connection| {
            let mut rows = HashMap::new();
            index::for_each(connection, &mut |id, place| _ = rows.insert(id, place))?;
            Ok((rows, index::packs_lenient(connection)?.0))
        })?;
        // Bytes beyond the committed lengths belong to commits that the database has lost.
        let is_behind = !store.database.lost_commits()?.is_empty();
        let committed = if is_behind { &[] } else { &committed[..] };
        let plan = plan(&store.pack_directory, rows, committed, &mut report)?;
        let layout = store.pack_directory.layout();
        let copy = ref_log::read(layout);
        let refs = store.database.write("repairing", |connection| {
            let mut found = SalvagedRefs {
                to_the_end: true,
                ..SalvagedRefs::default()
            };
            found.take_rows(connection).map_err(database("reading refs"))?;
            let refs = report.take_refs(salvage::merge(found, copy, false, store.options.ref_age));
            clear_tables(connection)?;
            fill_tables(connection, &plan, &refs)?;
            Ok::<_, StoreError>(refs)
        })?;
        ref_log::replace(layout, &refs).map_err(|e| io_failure("writing", ref_log::COPY, e))?;
        // A process that has the database open reads the log through an index in memory, so damage to the log
        // has not undone any commit yet. Once the whole log is in the database, nothing can be lost.
        if let Err(StoreError::Damaged { .. }) = wal::check(layout) {
            store.database.empty_log()?;
            report.log = LogRepair::Folded;
        }
        Ok(report)
    }
}

/// [`EmbeddedStore::rebuild`](crate::EmbeddedStore::rebuild).
pub(super) fn rebuild(dir: &Path, age: RefAge) -> Result<RepairReport, StoreError> {
    let layout = StoreLayout::open(dir, true)?;
    layout.restore_packs()?;
    let _lock = lock_exclusively(&layout, Duration::ZERO)?;
    refuse_in_use(&layout)?;
    let pack_directory = PackDirectory::new(layout.clone(), Arc::new(HostDisk) as Arc<dyn Disk>);
    for number in layout.pack_numbers()? {
        pack_directory.lock_file(number).ok_or_else(|| StoreError::Busy {
            what: pack_name(number),
        })?;
    }
    let is_damaged = wal::is_damaged(&layout).map_err(|e| io_failure("reading", wal::LOG, e))?;
    let log = if is_damaged {
        LogRepair::Cut
    } else {
        LogRepair::Sound
    };
    let found = SalvagedRefs::of_file(&salvage::old_database(&layout, ASIDE), age);
    let mut report = RepairReport {
        log,
        ..RepairReport::default()
    };
    let refs = salvage::merge(found, ref_log::read(&layout), log == LogRepair::Cut, age);
    let refs = report.take_refs(refs);
    let plan = plan(&pack_directory, HashMap::new(), &[], &mut report)?;
    let replacement = make_replacement(&layout, |connection| fill_tables(connection, &plan, &refs))?;
    set_aside(&layout)?;
    move_in_place(&layout, &replacement)?;
    ref_log::replace(&layout, &refs).map_err(|e| io_failure("writing", ref_log::COPY, e))?;
    Ok(report)
}

impl RepairReport {
    /// Whether a ref is or may be gone.
    pub fn has_lost_refs(&self) -> bool {
        self.may_lack_refs || !self.lost_refs.is_empty()
    }

    /// Records what happened to the refs, and returns those that must be written.
    fn take_refs(&mut self, salvaged: SalvageReport) -> BTreeMap<RefKey, Vec<u8>> {
        let mut refs = salvaged.refs;
        self.restored_refs = salvaged.restored;
        self.lost_refs = salvaged.lost;
        self.may_lack_refs = !salvaged.is_complete;
        self.refs = refs.len() as u64;
        if salvaged.is_complete && self.log == LogRepair::Cut {
            self.log = LogRepair::Restored;
        }
        if self.has_lost_refs() {
            refs.insert(REBUILT.to_owned(), b"true".to_vec());
        }
        refs
    }
}

/// Fails as busy if another process has the database open: it would continue with the file that is set aside.
/// Every connection holds a lock on the shared memory.
fn refuse_in_use(layout: &StoreLayout) -> Result<(), StoreError> {
    let shared = OpenOptions::new()
        .read(true)
        .write(true)
        .open(layout.shared_memory());
    let Ok(shared) = shared else { return Ok(()) };
    match rustix::fs::fcntl_lock(&shared, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::AGAIN | Errno::ACCESS) => Err(StoreError::Busy {
            what: DATABASE.to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Surveys all packs and decides where each object is from now on.
fn plan(
    pack_directory: &PackDirectory,
    mut rows: HashMap<ObjectId, RecordPlace>,
    committed: &[PackRow],
    report: &mut RepairReport,
) -> Result<RepairPlan, StoreError> {
    let committed: HashMap<u32, u64> = committed.iter().map(|pack| (pack.number, pack.length)).collect();
    let known_before = rows.len();
    let mut good: HashMap<ObjectId, RecordPlace> = HashMap::new();
    let mut copies: HashMap<ObjectId, RecordPlace> = HashMap::new();
    let mut plan = RepairPlan::default();
    for number in pack_directory.layout().pack_numbers()? {
        let Some((pack, found)) = read_pack(pack_directory, number, committed.get(&number).copied(), report)?
        else {
            if rows.values().any(|place| place.pack == number) {
                return Err(StoreError::Busy {
                    what: pack_name(number),
                });
            }
            continue;
        };
        plan.packs.push(pack);
        report.snapshots.extend(&found.snapshots);
        for (id, place) in found.records {
            if rows.get(&id) == Some(&place) {
                // The row and the pack agree: this copy is the one to keep.
                _ = (rows.remove(&id), good.insert(id, place))
            } else {
                // Not where its row says: it may replace a copy that is damaged or missing.
                _ = copies.entry(id).or_insert(place)
            }
        }
    }
    // The remaining `rows` point at nothing.
    report.redirected = rows.keys().filter(|id| copies.contains_key(id)).count() as u64;
    let lost = rows.iter().filter(|(id, _)| !copies.contains_key(id));
    report.lost = lost.map(|(id, place)| (*id, place_name(*place))).collect();
    report.lost.sort_unstable();
    for (id, place) in copies {
        good.entry(id).or_insert(place);
    }
    report.objects = good.len() as u64;
    report.indexed = (good.len() + report.lost.len()).saturating_sub(known_before) as u64;
    plan.rows = good.into_iter().collect();
    plan.rows.sort_unstable();
    Ok(plan)
}

/// The recoverable part of a pack. A pack whose committed length is unknown counts up to its last intact
/// record, unless a writer is filling it: then it is skipped.
fn read_pack(
    pack_directory: &PackDirectory,
    number: u32,
    committed: Option<u64>,
    report: &mut RepairReport,
) -> Result<Option<(PackRow, PackSurvey)>, StoreError> {
    let fail = |e| io_failure("reading", pack_name(number), e);
    let locked = pack_directory.lock_file(number);
    let (file, end) = match (&locked, committed) {
        (_, Some(length)) => (pack_directory.open_to_read(number).map_err(fail)?, length),
        (Some(file), None) => (file.clone(), file.length().map_err(fail)?),
        (None, None) => return Ok(None),
    };
    let found = survey(&*file, number, end).map_err(fail)?;
    if let Some(file) = locked.filter(|_| !found.header_is_sound) {
        write_all_at(&*file, &PACK_HEADER, 0)
            .and_then(|()| file.sync())
            .map_err(fail)?;
        report.headers += 1;
    }
    let length = match committed {
        Some(length) => length.min(found.length),
        None => found.end_of_records(),
    };
    Ok(Some((PackRow { number, length }, found)))
}

fn clear_tables(connection: &Connection) -> Result<(), StoreError> {
    // Without conditions, so that rows are removed even if their position in the tree no longer matches their
    // key.
    connection
        .execute_batch("DELETE FROM objects; DELETE FROM packs; DELETE FROM refs;")
        .map_err(database("repairing"))
}

fn fill_tables(
    connection: &Connection,
    plan: &RepairPlan,
    refs: &BTreeMap<RefKey, Vec<u8>>,
) -> Result<(), StoreError> {
    index::insert(connection, &plan.rows)?;
    plan.packs
        .iter()
        .try_for_each(|pack| index::set_pack(connection, *pack))?;
    refs.iter()
        .try_for_each(|(key, value)| refs::write(connection, key, value))
}

/// Moves the old database and its log aside.
fn set_aside(layout: &StoreLayout) -> Result<(), StoreError> {
    for suffix in ["-wal", ""] {
        let from = layout.dir().join(format!("{DATABASE}{suffix}"));
        let to = layout.dir().join(format!("{ASIDE}{suffix}"));
        if from.exists() {
            std::fs::rename(&from, &to).map_err(|e| io_failure("setting aside", DATABASE, e))?;
        }
    }
    // The shared memory is only an index of the log, and is recreated; the note describes the old log.
    _ = std::fs::remove_file(layout.shared_memory());
    _ = std::fs::remove_file(layout.log_note());
    Ok(())
}
