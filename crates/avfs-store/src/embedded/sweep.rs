//! The second half of garbage collection: removes objects that are not live.
//!
//! A sweep that is killed at any point leaves a sound store. Rows are removed before bytes; a rewritten pack
//! is synced before one transaction points its rows at it, and only then is the old file removed. The
//! leftovers of a killed sweep (bytes without rows, files without a row) are removed by the next one.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::time::Duration;

use avfs_core::ObjectId;

use crate::door::StoreError;
use crate::embedded::failure::io_failure;
use crate::embedded::index::{self, PackRow};
use crate::embedded::layout::pack_name;
use crate::embedded::pack_buffer::PackBuffer;
use crate::embedded::pack_directory::{LockedPack, PACK_LIMIT, read_record};
use crate::embedded::pins::lock_exclusively;
use crate::embedded::record::{PACK_HEADER_LEN, RecordHeader, RecordPlace, open_record};
use crate::embedded::ref_log::{self, CopyState};
use crate::embedded::{EmbeddedStore, reserve};
use crate::upkeep::{LiveSet, SweepReport};

/// Rows that are removed in one transaction, so that other processes can commit in between.
const ROWS_AT_ONCE: usize = 10_000;

/// The same on a full disk.
const ROWS_WITHOUT_ROOM: usize = 50;

/// Packs that are locked at a time: this bounds the open files, and the index is read once per group.
const PACKS_AT_ONCE: usize = 64;

/// The store while no process holds a pin or can take one. Created by [`EmbeddedStore::exclusive`].
pub struct ExclusiveStore<'a> {
    pub(crate) store: &'a EmbeddedStore,
    _lock: File,
}

impl EmbeddedStore {
    /// Waits until no process holds a pin, and prevents new pins while the value lives.
    pub fn exclusive(&self, timeout: Duration) -> Result<ExclusiveStore<'_>, StoreError> {
        let _lock = lock_exclusively(self.pack_directory.layout(), timeout)?;
        Ok(ExclusiveStore { store: self, _lock })
    }
}

impl ExclusiveStore<'_> {
    /// Removes every object that is not live, and the bytes of packs that are mostly dead. `go_on` is called
    /// between steps; if it returns `false`, the sweep ends early and the store is sound.
    ///
    /// The caller must compute `live` after it received this value, so that it includes every reachable
    /// object that was put before.
    pub fn sweep(
        &self,
        live: &dyn LiveSet,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<SweepReport, StoreError> {
        // A sweep writes before it frees anything, and may run because the disk is full.
        self.store.use_reserve();
        let report = self.sweep_all(live, go_on);
        if ref_log::read(self.store.pack_directory.layout()).state != CopyState::Whole {
            self.store.database.renew_copy();
        }
        reserve::keep(self.store.pack_directory.layout());
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
        // Rows go before bytes: a sweep that ends early leaves packs with waste, never rows without records.
        if !self.remove_rows(&tally.dead, &mut report, go_on)? {
            return Ok(report);
        }
        let mut wasteful: Vec<PackRow> = packs.into_iter().filter(|pack| tally.is_wasteful(pack)).collect();
        // Packs that need the least space for their copies make space for the others.
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

    fn tally(&self, live: &dyn LiveSet) -> Result<SweepTally, StoreError> {
        let mut tally = SweepTally::default();
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
                // Each page from which a row is removed goes through the log, which is then folded again.
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
        self.store
            .database
            .write("sweeping", |connection| index::remove(connection, ids))
    }

    /// Removes packs after their live records were copied to `target`.
    fn clear(
        &self,
        group: &[PackRow],
        target: &mut Option<PackBuffer>,
        report: &mut SweepReport,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<bool, StoreError> {
        let mut locked = Vec::new();
        for row in group {
            match self.store.pack_directory.lock(&self.store.database, row.number)? {
                Some(pack) => locked.push(pack),
                None => report.busy_packs += 1,
            }
        }
        // Read under the locks: no other process can add rows to these packs now.
        let mut rows = self.rows_of(&locked)?;
        for pack in locked {
            if !go_on() {
                return Ok(false);
            }
            let rows = rows.remove(&pack.number).unwrap_or_default();
            match self.clear_pack(&pack, rows, target, report) {
                // Packs that cannot be copied stay. Others may need no copy.
                Err(StoreError::Full { .. }) => report.cramped_packs += 1,
                cleared => cleared?,
            }
        }
        Ok(true)
    }

    fn clear_pack(
        &self,
        pack: &LockedPack,
        mut rows: Vec<(ObjectId, RecordPlace)>,
        target: &mut Option<PackBuffer>,
        report: &mut SweepReport,
    ) -> Result<(), StoreError> {
        let size = pack
            .file
            .length()
            .map_err(|e| io_failure("reading", pack_name(pack.number), e))?;
        let kept: u64 = rows.iter().map(|(_, place)| place.record_len()).sum();
        rows.sort_unstable_by_key(|(_, place)| place.offset);
        if rows.is_empty() {
            self.store
                .database
                .write("sweeping", |c| index::remove_pack(c, i64::from(pack.number)))?;
            report.removed_packs += 1;
        } else if self.move_rows(pack, &rows, target)? {
            report.rewritten_packs += 1;
        } else {
            report.damaged_packs.push(pack_name(pack.number));
            return Ok(());
        }
        self.store.pack_directory.remove(pack.number)?;
        report.freed_bytes += size.saturating_sub(kept);
        Ok(())
    }

    /// Copies records to the target and points the index there; `false` if one of them is damaged.
    fn move_rows(
        &self,
        pack: &LockedPack,
        rows: &[(ObjectId, RecordPlace)],
        target: &mut Option<PackBuffer>,
    ) -> Result<bool, StoreError> {
        let mut buffered = match target.take() {
            Some(buffered) => buffered,
            None => PackBuffer::new(
                self.store
                    .pack_directory
                    .make(self.store.database.with(index::packs)?.last())?,
            ),
        };
        let name = pack_name(buffered.pack.number);
        let mut moved = Vec::with_capacity(rows.len());
        for (id, place) in rows {
            let record = read_record(&*pack.file, *place).map_err(|_| "its record cannot be read");
            let Ok(object) = record.and_then(|record| open_record(*id, record)) else {
                return Ok(false);
            };
            let header = RecordHeader {
                kind: object.kind,
                length: place.length,
                id: *id,
            };
            moved.push((*id, buffered.push(header, &object.bytes)));
            if buffered.is_worth_writing() {
                buffered.flush().map_err(|e| io_failure("writing", &name, e))?;
            }
        }
        buffered.flush().map_err(|e| io_failure("writing", &name, e))?;
        buffered
            .pack
            .file
            .sync()
            .map_err(|e| io_failure("syncing", &name, e))?;
        self.store.database.write("sweeping", |connection| {
            moved
                .iter()
                .try_for_each(|(id, place)| index::point(connection, id, *place))?;
            index::set_pack(connection, buffered.row().0)?;
            index::remove_pack(connection, i64::from(pack.number))
        })?;
        *target = Some(buffered).filter(|buffered| buffered.end() < PACK_LIMIT);
        Ok(true)
    }

    fn rows_of(
        &self,
        packs: &[LockedPack],
    ) -> Result<HashMap<u32, Vec<(ObjectId, RecordPlace)>>, StoreError> {
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

    /// Removes pack files that a killed process left: the index does not know them and no process has them
    /// locked. A file that rows point at is never removed, whatever else is damaged.
    fn remove_leftovers(&self, tally: &SweepTally, report: &mut SweepReport) -> Result<(), StoreError> {
        let store = self.store;
        let known: HashSet<u32> = store
            .database
            .with(index::packs)?
            .iter()
            .map(|row| row.number)
            .collect();
        for number in store.pack_directory.layout().pack_numbers()? {
            if known.contains(&number) || tally.live_bytes.contains_key(&number) {
                continue;
            }
            let Some(file) = store.pack_directory.lock_file(number) else {
                continue;
            };
            // Checked again under the lock: its writer may have committed it and exited meanwhile.
            if store
                .database
                .with(|connection| index::pack(connection, number))?
                .is_none()
            {
                report.freed_bytes += file.length().unwrap_or(0);
                store.pack_directory.remove(number)?;
                report.removed_packs += 1;
            }
        }
        Ok(())
    }
}

#[derive(Default)]
struct SweepTally {
    /// For every pack that rows point at: the bytes of records that remain.
    live_bytes: HashMap<u32, u64>,
    dead: Vec<ObjectId>,
}

impl SweepTally {
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
