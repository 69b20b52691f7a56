//! The second half of garbage collection: removing what is not live.
//!
//! Killed at any point, a sweep leaves a sound store. Rows go before bytes; a rewritten pack is synced before
//! one transaction points its rows at it, and only then is the old file removed. What a killed sweep leaves
//! behind (bytes without rows, files without a row) the next one removes.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::time::Duration;

use avfs_core::ObjectId;

use crate::door::StoreError;
use crate::embedded::draft::Draft;
use crate::embedded::failure::io_failure;
use crate::embedded::index::{self, PackRow};
use crate::embedded::layout::pack_name;
use crate::embedded::pins::lock_exclusively;
use crate::embedded::record::{Header, PACK_HEADER_LEN, Place, open_record};
use crate::embedded::ref_log::{self, CopyState};
use crate::embedded::shelf::{LockedPack, PACK_LIMIT, read_record};
use crate::embedded::{EmbeddedStore, reserve};

/// Rows removed in one transaction: others can commit in between.
const ROWS_AT_ONCE: usize = 10_000;

/// The same on a disk that is full.
const ROWS_WITHOUT_ROOM: usize = 50;

/// Packs locked at once: bounds open files, and the index is read once for each group.
const PACKS_AT_ONCE: usize = 64;

/// Says which objects are needed.
pub trait LiveSet {
    fn contains(&self, id: &ObjectId) -> bool;
}

impl LiveSet for HashSet<ObjectId> {
    fn contains(&self, id: &ObjectId) -> bool {
        HashSet::contains(self, id)
    }
}

/// The store while nobody holds a pin, and nobody can take one. Made by [`EmbeddedStore::exclusive`].
pub struct Exclusive<'a> {
    pub(crate) store: &'a EmbeddedStore,
    _lock: File,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    pub removed_objects: u64,
    /// Bytes of pack files given back. A process that still reads a removed file delays that.
    pub freed_bytes: u64,
    pub removed_packs: u64,
    pub rewritten_packs: u64,
    /// Packs worth rewriting that a writer has in use: a later sweep gets them.
    pub busy_packs: u64,
    /// Packs worth rewriting that there is no room for to be copied: a later sweep gets them.
    pub cramped_packs: u64,
    /// Packs worth rewriting that hold a damaged live object: left to fsck.
    pub damaged_packs: Vec<String>,
    /// Whether all was done, or the caller stopped it.
    pub finished: bool,
}

impl EmbeddedStore {
    /// Waits until no process holds a pin, and keeps everyone from taking one while the value lives.
    pub fn exclusive(&self, timeout: Duration) -> Result<Exclusive<'_>, StoreError> {
        let _lock = lock_exclusively(self.shelf.layout(), timeout)?;
        Ok(Exclusive { store: self, _lock })
    }
}

impl Exclusive<'_> {
    /// Removes every object that is not live, and the bytes of packs that are mostly dead. `go_on` is asked
    /// between steps; when it says no, the sweep ends early and the store is sound.
    ///
    /// The caller found `live` after it got this value: what was put before and is reachable is in it.
    pub fn sweep(
        &self,
        live: &dyn LiveSet,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<SweepReport, StoreError> {
        self.store.use_reserve();
        let report = self.sweep_all(live, go_on);
        if ref_log::read(self.store.shelf.layout()).state != CopyState::Whole {
            self.store.database.renew_copy();
        }
        reserve::keep(self.store.shelf.layout());
        report
    }

    fn sweep_all(
        &self,
        live: &dyn LiveSet,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<SweepReport, StoreError> {
        let mut report = SweepReport::default();
        let packs = self.store.database.with(index::packs)?;
        let tally = self.tally(live)?;
        if !self.remove_rows(&tally.dead, &mut report, go_on)? {
            return Ok(report);
        }
        let mut wasteful: Vec<PackRow> = packs.into_iter().filter(|pack| tally.is_wasteful(pack)).collect();
        // Those that take the least room to be copied make room for the others.
        wasteful.sort_by_key(|pack| tally.live_in(pack));
        let mut target = None;
        for group in wasteful.chunks(PACKS_AT_ONCE) {
            if !self.clear(group, &mut target, &mut report, go_on)? {
                return Ok(report);
            }
        }
        self.remove_leftovers(&tally, &mut report)?;
        report.finished = true;
        Ok(report)
    }

    fn tally(&self, live: &dyn LiveSet) -> Result<Tally, StoreError> {
        let mut tally = Tally::default();
        self.store.database.with(|connection| {
            index::for_each(connection, &mut |id, place| {
                let bytes = tally.live_bytes.entry(place.pack).or_default();
                if live.contains(&id) {
                    *bytes += place.record_len();
                } else {
                    tally.dead.push(id);
                }
            })
        })?;
        Ok(tally)
    }

    fn remove_rows(
        &self,
        dead: &[ObjectId],
        report: &mut SweepReport,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<bool, StoreError> {
        for ids in dead.chunks(ROWS_AT_ONCE) {
            if !go_on() {
                return Ok(false);
            }
            match self.remove_at_once(ids) {
                // Each page that a row is removed from goes through the log, which is then folded again.
                Err(StoreError::Full { .. }) => ids.chunks(ROWS_WITHOUT_ROOM).try_for_each(|ids| {
                    _ = self.store.database.empty_log();
                    self.remove_at_once(ids)
                })?,
                removed => removed?,
            }
            report.removed_objects += ids.len() as u64;
        }
        Ok(true)
    }

    fn remove_at_once(&self, ids: &[ObjectId]) -> Result<(), StoreError> {
        self.store.database.write("sweeping", |connection| index::remove(connection, ids))
    }

    /// Removes packs, after what is live in them was copied to `target`.
    fn clear(
        &self,
        group: &[PackRow],
        target: &mut Option<Draft>,
        report: &mut SweepReport,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<bool, StoreError> {
        let mut locked = Vec::new();
        for row in group {
            match self.store.shelf.lock(&self.store.database, row.number)? {
                Some(pack) => locked.push(pack),
                None => report.busy_packs += 1,
            }
        }
        // Read under the locks: no one else can add rows to these packs now.
        let mut rows = self.rows_of(&locked)?;
        for pack in locked {
            if !go_on() {
                return Ok(false);
            }
            let rows = rows.remove(&pack.number).unwrap_or_default();
            match self.clear_pack(&pack, rows, target, report) {
                // What cannot be copied stays where it is. Others may go without being copied.
                Err(StoreError::Full { .. }) => report.cramped_packs += 1,
                cleared => cleared?,
            }
        }
        Ok(true)
    }

    fn clear_pack(
        &self,
        pack: &LockedPack,
        mut rows: Vec<(ObjectId, Place)>,
        target: &mut Option<Draft>,
        report: &mut SweepReport,
    ) -> Result<(), StoreError> {
        let size = pack.file.length().map_err(|e| io_failure("reading", pack_name(pack.number), e))?;
        let kept: u64 = rows.iter().map(|(_, place)| place.record_len()).sum();
        rows.sort_unstable_by_key(|(_, place)| place.offset);
        if rows.is_empty() {
            self.store.database.write("sweeping", |c| index::remove_pack(c, i64::from(pack.number)))?;
            report.removed_packs += 1;
        } else if self.move_rows(pack, &rows, target)? {
            report.rewritten_packs += 1;
        } else {
            report.damaged_packs.push(pack_name(pack.number));
            return Ok(());
        }
        self.store.shelf.remove(pack.number)?;
        report.freed_bytes += size.saturating_sub(kept);
        Ok(())
    }

    /// Copies records to the target and points the index there; `false` if one of them is damaged.
    fn move_rows(
        &self,
        pack: &LockedPack,
        rows: &[(ObjectId, Place)],
        target: &mut Option<Draft>,
    ) -> Result<bool, StoreError> {
        let mut draft = match target.take() {
            Some(draft) => draft,
            None => Draft::new(self.store.shelf.make(self.store.database.with(index::packs)?.last())?),
        };
        let name = pack_name(draft.pack.number);
        let mut moved = Vec::with_capacity(rows.len());
        for (id, place) in rows {
            let record = read_record(&*pack.file, *place).map_err(|_| "its record cannot be read");
            let Ok(object) = record.and_then(|record| open_record(*id, record)) else { return Ok(false) };
            let header = Header { kind: object.kind, length: place.length, id: *id };
            moved.push((*id, draft.push(header, &object.bytes)));
            if draft.is_worth_writing() {
                draft.flush().map_err(|e| io_failure("writing", &name, e))?;
            }
        }
        draft.flush().map_err(|e| io_failure("writing", &name, e))?;
        draft.pack.file.sync().map_err(|e| io_failure("syncing", &name, e))?;
        self.store.database.write("sweeping", |connection| {
            moved.iter().try_for_each(|(id, place)| index::point(connection, id, *place))?;
            index::set_pack(connection, draft.row().0)?;
            index::remove_pack(connection, i64::from(pack.number))
        })?;
        *target = Some(draft).filter(|draft| draft.end() < PACK_LIMIT);
        Ok(true)
    }

    fn rows_of(&self, packs: &[LockedPack]) -> Result<HashMap<u32, Vec<(ObjectId, Place)>>, StoreError> {
        let mut rows: HashMap<u32, Vec<_>> = packs.iter().map(|pack| (pack.number, Vec::new())).collect();
        self.store.database.with(|connection| {
            index::for_each(connection, &mut |id, place| {
                if let Some(rows) = rows.get_mut(&place.pack) {
                    rows.push((id, place));
                }
            })
        })?;
        Ok(rows)
    }

    /// Removes pack files that a killed process left: the index does not know them and nobody has them
    /// locked. A file that rows point at is never one of them, whatever else is damaged.
    fn remove_leftovers(&self, tally: &Tally, report: &mut SweepReport) -> Result<(), StoreError> {
        let store = self.store;
        let known: HashSet<u32> = store.database.with(index::packs)?.iter().map(|row| row.number).collect();
        for number in store.shelf.layout().pack_numbers()? {
            if known.contains(&number) || tally.live_bytes.contains_key(&number) {
                continue;
            }
            let Some(file) = store.shelf.lock_file(number) else { continue };
            // Asked again under the lock: its writer may have committed it and gone meanwhile.
            if store.database.with(|connection| index::pack(connection, number))?.is_none() {
                report.freed_bytes += file.length().unwrap_or(0);
                store.shelf.remove(number)?;
                report.removed_packs += 1;
            }
        }
        Ok(())
    }
}

#[derive(Default)]
struct Tally {
    /// For every pack that rows point at: the bytes of records that stay.
    live_bytes: HashMap<u32, u64>,
    dead: Vec<ObjectId>,
}

impl Tally {
    fn live_in(&self, pack: &PackRow) -> u64 {
        self.live_bytes.get(&pack.number).copied().unwrap_or(0)
    }

    /// Whether more than 30 % of a pack is dead.
    fn is_wasteful(&self, pack: &PackRow) -> bool {
        let live = self.live_in(pack);
        let total = pack.length.saturating_sub(PACK_HEADER_LEN);
        live == 0 || live.saturating_mul(10) < total.saturating_mul(7)
    }
}
