//! Garbage collection: removes objects to which nothing refers.

use std::collections::HashSet;
use std::time::Duration;

use avfs_core::ObjectId;
use avfs_store::{SweepReport, Sweeper, Upkeep};
use avfs_tree::{AllKept, NeededObject, walk_needed};

use crate::error::{ApplyError, Error, ErrorKind, OwnerError, Result, StorageError, VaultError};
use crate::run_leftovers;
use crate::store::Store;
use crate::vault::Vault;
use avfs_query::search::SearchIndex;

/// How often a collection starts over because an owner died meanwhile.
const ATTEMPTS: usize = 5;

/// How long a collection waits for writers to finish.
const PATIENCE: Duration = Duration::from_secs(30);

/// The file of the search index in a store's directory.
const SEARCH_INDEX: &str = "search.db";

/// The result of a garbage collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Objects that are needed.
    pub live: u64,
    /// What the store removed.
    pub sweep: SweepReport,
}

/// Removes what a store no longer needs, and reports its size.
#[derive(Clone, Copy)]
pub struct StoreMaintenance<'a> {
    pub(crate) store: &'a Store,
}

impl StoreMaintenance<'_> {
    /// Removes objects that no vault needs. `go_on` is called between steps with the number of objects seen
    /// so far; if it returns `false`, the collection ends early and the store is sound.
    ///
    /// Other processes may work meanwhile: needed objects are determined first without blocking them; then
    /// writers are blocked while later objects are added and the rest is removed.
    pub fn collect_garbage(&self, go_on: &mut dyn FnMut(u64) -> bool) -> Result<Collected> {
        let Some(upkeep) = self.store.upkeep() else {
            return Ok(Collected::default());
        };
        self.store.integrity().check_collectable()?;
        crate::fork::forget_deleted_vaults(self.store)?;
        match self.store.applies().drop_lost() {
            // Another process applies something: the next collection has its turn.
            Err(Error::Apply(ApplyError::Busy)) => {}
            dropped => dropped?,
        }
        let mut live = HashSet::new();
        for _ in 0..ATTEMPTS {
            let is_full = !self.recover_all()?;
            match self.mark(&mut live, go_on) {
                Ok(true) => {}
                Ok(false) => return Ok(Collected::default()),
                // Another collection may have removed deleted objects meanwhile: nothing is removed while
                // this one has the lock, and missing objects are damage from then on.
                Err(error) if error.kind() == ErrorKind::Corrupt => {}
                Err(error) => return Err(error),
            }
            let exclusive = upkeep.exclusive(PATIENCE)?;
            // An owner that has stored objects for its journal holds a pin, so it is not there now; but
            // one may have died since the journals were looked at, and then its journal needs them.
            let abandoned = self.abandoned_vaults()?;
            if abandoned.is_empty() || is_full {
                let Some(named) = self.named_in_journals(&abandoned)? else {
                    continue;
                };
                let collected = self.finish_collection(&*exclusive, &named, &mut live, go_on)?;
                drop(exclusive);
                // Looking into vaults may keep promises, and that waits for as long as writers are held back.
                self.prune_search_index();
                return Ok(collected);
            }
        }
        Err(Error::Storage(StorageError::Contended {
            key: "the journals of vaults".into(),
        }))
    }

    fn finish_collection(
        &self,
        exclusive: &dyn Sweeper,
        named: &[NeededObject],
        live: &mut HashSet<ObjectId>,
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Collected> {
        let kept = self.store.objects().all_kept()?;
        if !self.mark(live, go_on)? || !self.mark_from(&kept, named.iter().copied(), live, go_on)? {
            return Ok(Collected::default());
        }
        // A promise that was seen before writers were held back may have been kept since.
        let promised: Vec<ObjectId> = kept.ids().filter(|id| live.contains(id)).collect();
        let since = promised.into_iter().flat_map(|id| kept.needed_by(id));
        if !self.mark_from(&kept, since, live, go_on)? {
            return Ok(Collected::default());
        }
        let unneeded: Vec<ObjectId> = kept.ids().filter(|id| !live.contains(id)).collect();
        // Whatever is removed takes a little room first.
        self.store.upkeep().into_iter().for_each(Upkeep::use_reserve);
        self.store.objects().forget_kept(&unneeded)?;
        let sweep = exclusive.sweep(live, &mut || go_on(live.len() as u64))?;
        Ok(Collected {
            live: live.len() as u64,
            sweep,
        })
    }

    /// Runs an operation that deletes something. On a full disk it is retried with the reserved space.
    pub fn making_room<T>(&self, mut act: impl FnMut() -> Result<T>) -> Result<T> {
        match act() {
            Err(error) if error.kind() == ErrorKind::Full => {
                self.store.upkeep().into_iter().for_each(Upkeep::use_reserve);
                act()
            }
            done => done,
        }
    }

    /// Takes snapshots of the journals that killed owners left, so that nothing is known only there. Living
    /// owners take one themselves, which ends the pins of their objects. Returns whether there was space for
    /// all.
    fn recover_all(&self) -> Result<bool> {
        self.store.objects().commit_kept()?;
        self.store.settle_owners(&self.store.vault_records()?);
        let mut has_room = true;
        for vault in self.abandoned_vaults()? {
            // A partial recovery would delay everything that this process commits.
            if vault.unstored().may_not_fit() {
                has_room = false;
                continue;
            }
            match vault.head() {
                Ok(_)
                | Err(Error::Vault(VaultError::Unknown { .. }) | Error::Owner(OwnerError::Busy { .. })) => {}
                // A collection frees space.
                Err(error) if error.kind() == ErrorKind::Full => has_room = false,
                Err(error) => return Err(error),
            }
        }
        Ok(has_room)
    }

    /// Objects that only the journals of these vaults name; `None` if one of them has an owner by now.
    fn named_in_journals(&self, vaults: &[Vault]) -> Result<Option<Vec<NeededObject>>> {
        let mut named = Vec::new();
        for vault in vaults {
            let record = match vault.record() {
                Ok((record, _)) => record,
                Err(Error::Vault(VaultError::Unknown { .. })) => continue,
                Err(error) => return Err(error),
            };
            let Some(place) = vault.journal_place(&record.head) else {
                continue;
            };
            // Owned, so that no process replays a journal while it is read.
            match self.store.own_at_once(vault.id(), record.name.as_str()) {
                Ok(_ownership) => named.extend(place.named()?),
                Err(Error::Owner(OwnerError::Busy { .. })) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(named))
    }

    fn abandoned_vaults(&self) -> Result<Vec<Vault>> {
        let mut abandoned = Vec::new();
        for record in self.store.vault_records()? {
            let vault = Vault::new(self.store.clone(), record.id);
            match vault.is_abandoned() {
                Ok(true) => abandoned.push(vault),
                Ok(false) | Err(Error::Vault(VaultError::Unknown { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(abandoned)
    }

    /// Removes documents from the search index that no vault has any longer. It can be rebuilt, so a failure
    /// here is not one of the collection.
    fn prune_search_index(&self) {
        let Some(home) = self.store.home().filter(|home| home.join(SEARCH_INDEX).exists()) else {
            return;
        };
        let Ok(records) = self.store.vault_records() else {
            return;
        };
        let readers = records.iter().map(|record| {
            let vault = Vault::new(self.store.clone(), record.id);
            vault.reader_at(record.head.snapshot)
        });
        // A vault that cannot be read, perhaps because it was just deleted, would lose its documents.
        let Ok(live) = readers.collect::<Result<Vec<_>>>() else {
            return;
        };
        if let Ok(index) = SearchIndex::open(home) {
            // The index is a cache: an entry that stays costs space, and is pruned next time.
            let _ = index.prune(&live);
        }
    }

    /// Adds everything that is needed; an object that is already in the set is there with all its parts.
    fn mark(&self, live: &mut HashSet<ObjectId>, go_on: &mut dyn FnMut(u64) -> bool) -> Result<bool> {
        let kept = self.store.objects().all_kept()?;
        for roots in self.store.roots()? {
            if !self.mark_from(&kept, roots.all(), live, go_on)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The same for some roots. They become live only with all their parts, so a walk that is cut off leaves no half
    /// of one.
    fn mark_from(
        &self,
        kept: &AllKept,
        roots: impl Iterator<Item = NeededObject>,
        live: &mut HashSet<ObjectId>,
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<bool> {
        let mut fresh = HashSet::new();
        let mut cut_off = false;
        walk_needed(self.store.objects(), kept, roots, &mut |needed| {
            let id = needed.object();
            let new = !cut_off && !live.contains(&id) && fresh.insert(id);
            if new && fresh.len() % 10_000 == 0 {
                cut_off = !go_on((live.len() + fresh.len()) as u64);
            }
            Ok(new)
        })?;
        live.extend(fresh.into_iter().filter(|_| !cut_off));
        Ok(!cut_off)
    }

    /// Removes the leftovers of dead runs and sessions, with their mounts.
    pub fn clear_away_runs(&self) {
        if let Some(home) = self.store.work().existing() {
            run_leftovers::clear_away(home);
        }
    }
}
