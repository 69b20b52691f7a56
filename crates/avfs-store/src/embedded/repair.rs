//! Making a damaged store sound again, from what the packs still hold.

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
use crate::embedded::database::{make_draft, move_in_place};
use crate::embedded::disk::{Disk, HostDisk, write_all_at};
use crate::embedded::failure::{DATABASE, database, io_failure};
use crate::embedded::index::{self, PackRow};
use crate::embedded::layout::{Layout, pack_name};
use crate::embedded::pins::lock_exclusively;
use crate::embedded::record::{PACK_HEADER, Place};
use crate::embedded::ref_log;
use crate::embedded::refs::{self, LostRef};
use crate::embedded::salvage::{self, Reading, RefAge, Salvaged};
use crate::embedded::shelf::{Shelf, place_name};
use crate::embedded::survey::{Survey, survey};
use crate::embedded::sweep::Exclusive;
use crate::embedded::wal::{self, LogRepair};

/// The name under which a rebuild keeps the old database.
const ASIDE: &str = "store.db.damaged";

/// A ref that is there after a repair that may have lost refs. Collecting garbage would make that final.
pub const REBUILT: &str = "setting/rebuilt";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// Objects that the index knows now.
    pub objects: u64,
    /// Objects that the index did not know.
    pub indexed: u64,
    /// Objects whose copy was damaged and that have an intact one elsewhere.
    pub redirected: u64,
    /// Packs whose first bytes were written anew.
    pub headers: u64,
    /// Objects that are gone, and where they were. Putting one again brings it back.
    pub lost: Vec<(ObjectId, String)>,
    /// Refs that did not match their check sum, and of which there is no other copy.
    pub lost_refs: Vec<LostRef>,
    /// Refs that are there now.
    pub refs: u64,
    /// Those of them that were taken from damaged pages or from the second copy.
    pub restored_refs: u64,
    /// The database could not be read, and other refs may be lost than those that are named.
    pub may_lack_refs: bool,
    /// Every intact snapshot, whether a ref needs it or not.
    pub snapshots: Vec<ObjectId>,
    pub log: LogRepair,
}

/// What the tables are to hold.
#[derive(Default)]
struct Plan {
    rows: Vec<(ObjectId, Place)>,
    packs: Vec<PackRow>,
}

impl Exclusive<'_> {
    /// Writes the tables anew from the packs: lost rows come back, objects with an intact copy anywhere are
    /// pointed at it, and rows that point at nothing go, so that putting the object again stores it.
    /// Objects that were swept but still lie in a pack come back too, until the next sweep.
    ///
    /// Fails as damaged if the database cannot be read at all: [`crate::EmbeddedStore::rebuild`] is for that.
    pub fn repair(&self) -> Result<RepairReport, StoreError> {
        let store = self.store;
        let mut report = RepairReport::default();
        let (rows, committed) = store.database.read("reading the index", |connection| {
            let mut rows = HashMap::new();
            index::for_each(connection, &mut |id, place| _ = rows.insert(id, place))?;
            Ok((rows, index::packs_lenient(connection)?.0))
        })?;
        // What lies behind the committed lengths belongs to commits that the database has lost.
        let is_behind = !store.database.lost_commits()?.is_empty();
        let committed = if is_behind { &[] } else { &committed[..] };
        let plan = plan(&store.shelf, rows, committed, &mut report)?;
        let layout = store.shelf.layout();
        let copy = ref_log::read(layout);
        let refs = store.database.write("repairing", |connection| {
            let mut found = Reading { to_the_end: true, ..Reading::default() };
            found.take_rows(connection).map_err(database("reading refs"))?;
            let refs = report.take_refs(salvage::merge(found, copy, false, store.options.ref_age));
            clear_tables(connection)?;
            fill_tables(connection, &plan, &refs)?;
            Ok::<_, StoreError>(refs)
        })?;
        ref_log::replace(layout, &refs).map_err(|e| io_failure("writing", ref_log::COPY, e))?;
        // Whoever has the database open reads the log by an index in memory, so damage to it took nothing
        // back yet. Once all of it is in the database, there is nothing to lose.
        if let Err(StoreError::Damaged { .. }) = wal::check(layout) {
            store.database.empty_log()?;
            report.log = LogRepair::Mended;
        }
        Ok(report)
    }
}

impl crate::embedded::EmbeddedStore {
    /// Builds a new database from the packs, the second copy of refs and whatever refs the old database still
    /// gives, and puts it in place when it is whole. The old one is kept as `store.db.damaged`. No other process
    /// may have the store open.
    pub fn rebuild(dir: &Path, age: RefAge) -> Result<RepairReport, StoreError> {
        let layout = Layout::open(dir, true)?;
        let _lock = lock_exclusively(&layout, Duration::ZERO)?;
        refuse_in_use(&layout)?;
        let shelf = Shelf::new(layout.clone(), Arc::new(HostDisk) as Arc<dyn Disk>);
        for number in layout.pack_numbers()? {
            shelf.lock_file(number).ok_or_else(|| StoreError::Busy { what: pack_name(number) })?;
        }
        let log = wal::mend(&layout).map_err(|e| io_failure("mending", wal::LOG, e))?;
        let found = Reading::of_file(&salvage::old_database(&layout, ASIDE), age);
        let mut report = RepairReport { log, ..RepairReport::default() };
        let refs = salvage::merge(found, ref_log::read(&layout), log == LogRepair::Cut, age);
        let refs = report.take_refs(refs);
        let plan = plan(&shelf, HashMap::new(), &[], &mut report)?;
        let draft = make_draft(&layout, |connection| fill_tables(connection, &plan, &refs))?;
        set_aside(&layout)?;
        move_in_place(&layout, &draft)?;
        ref_log::replace(&layout, &refs).map_err(|e| io_failure("writing", ref_log::COPY, e))?;
        Ok(report)
    }
}

impl RepairReport {
    /// Whether a ref is or may be gone.
    pub fn has_lost_refs(&self) -> bool {
        self.may_lack_refs || !self.lost_refs.is_empty()
    }

    /// Notes what became of the refs, and returns those that are to be written.
    fn take_refs(&mut self, salvaged: Salvaged) -> BTreeMap<RefKey, Vec<u8>> {
        let mut refs = salvaged.refs;
        (self.restored_refs, self.lost_refs) = (salvaged.restored, salvaged.lost);
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

/// Fails as busy if another process has the database open: it would go on with the file that is set aside. Every
/// connection holds a lock on the shared memory.
fn refuse_in_use(layout: &Layout) -> Result<(), StoreError> {
    let shared = OpenOptions::new().read(true).write(true).open(layout.shared_memory());
    let Ok(shared) = shared else { return Ok(()) };
    match rustix::fs::fcntl_lock(&shared, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::AGAIN | Errno::ACCESS) => Err(StoreError::Busy { what: DATABASE.to_owned() }),
        _ => Ok(()),
    }
}

/// Surveys all packs and decides where each object is from now on.
fn plan(
    shelf: &Shelf,
    mut rows: HashMap<ObjectId, Place>,
    committed: &[PackRow],
    report: &mut RepairReport,
) -> Result<Plan, StoreError> {
    let committed: HashMap<u32, u64> = committed.iter().map(|pack| (pack.number, pack.length)).collect();
    let known_before = rows.len();
    let mut good: HashMap<ObjectId, Place> = HashMap::new();
    let mut copies: HashMap<ObjectId, Place> = HashMap::new();
    let mut plan = Plan::default();
    for number in shelf.layout().pack_numbers()? {
        let Some((pack, found)) = read_pack(shelf, number, committed.get(&number).copied(), report)? else {
            if rows.values().any(|place| place.pack == number) {
                return Err(StoreError::Busy { what: pack_name(number) });
            }
            continue;
        };
        plan.packs.push(pack);
        report.snapshots.extend(&found.snapshots);
        for (id, place) in found.records {
            match rows.get(&id) == Some(&place) {
                true => _ = (rows.remove(&id), good.insert(id, place)),
                false => _ = copies.entry(id).or_insert(place),
            }
        }
    }
    // What is left in `rows` points at nothing.
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

/// What can be kept of a pack. One whose committed length is unknown counts up to its last intact record,
/// unless a writer is filling it: then it is left alone.
fn read_pack(
    shelf: &Shelf,
    number: u32,
    committed: Option<u64>,
    report: &mut RepairReport,
) -> Result<Option<(PackRow, Survey)>, StoreError> {
    let fail = |e| io_failure("reading", pack_name(number), e);
    let locked = shelf.lock_file(number);
    let (file, end) = match (&locked, committed) {
        (_, Some(length)) => (shelf.open_to_read(number).map_err(fail)?, length),
        (Some(file), None) => (file.clone(), file.length().map_err(fail)?),
        (None, None) => return Ok(None),
    };
    let found = survey(&*file, number, end).map_err(fail)?;
    if let Some(file) = locked.filter(|_| !found.header_is_sound) {
        write_all_at(&*file, &PACK_HEADER, 0).and_then(|()| file.sync()).map_err(fail)?;
        report.headers += 1;
    }
    let length = match committed {
        Some(length) => length.min(found.length),
        None => found.end_of_records(),
    };
    Ok(Some((PackRow { number, length }, found)))
}

fn clear_tables(connection: &Connection) -> Result<(), StoreError> {
    // Without conditions, so that rows are removed whose place in the tree no longer fits their key.
    connection
        .execute_batch("DELETE FROM objects; DELETE FROM packs; DELETE FROM refs;")
        .map_err(database("repairing"))
}

fn fill_tables(
    connection: &Connection,
    plan: &Plan,
    refs: &BTreeMap<RefKey, Vec<u8>>,
) -> Result<(), StoreError> {
    index::insert(connection, &plan.rows)?;
    plan.packs.iter().try_for_each(|pack| index::set_pack(connection, *pack))?;
    refs.iter().try_for_each(|(key, value)| refs::write(connection, key, value))
}

/// Moves the old database and its log out of the way.
fn set_aside(layout: &Layout) -> Result<(), StoreError> {
    for suffix in ["-wal", ""] {
        let from = layout.dir().join(format!("{DATABASE}{suffix}"));
        let to = layout.dir().join(format!("{ASIDE}{suffix}"));
        if from.exists() {
            std::fs::rename(&from, &to).map_err(|e| io_failure("setting aside", DATABASE, e))?;
        }
    }
    // The shared memory is only an index of the log, and made anew; the note is about the old log.
    _ = std::fs::remove_file(layout.shared_memory());
    _ = std::fs::remove_file(layout.log_note());
    Ok(())
}
