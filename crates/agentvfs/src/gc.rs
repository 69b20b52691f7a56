//! Garbage collection: what nothing refers to any more goes.

use std::collections::HashSet;
use std::time::Duration;

use avfs_core::ObjectId;
use avfs_store::{EmbeddedStore, Exclusive, SweepReport};
use avfs_tree::{AllKept, Needed, walk_needed};

use crate::error::{Error, ErrorKind, Result};
use crate::query::search::SearchIndex;
use crate::store::Store;
use crate::vault::Vault;

/// How often a collection starts over because an owner died meanwhile.
const ATTEMPTS: usize = 5;

/// How long a collection waits for writers to finish.
const PATIENCE: Duration = Duration::from_secs(30);

/// The file of the search index in a store's directory.
const SEARCH_INDEX: &str = "search.db";

/// What a garbage collection did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Objects that are needed.
    pub live: u64,
    pub sweep: SweepReport,
}

impl Store {
    /// Removes objects that no vault needs. `go_on` is asked between steps with the number of objects seen
    /// so far; when it answers `false`, the collection ends early and the store is sound.
    ///
    /// Others may work meanwhile: what is needed is found first without holding anyone up; then writers are
    /// held back while what came since is added and the rest is removed.
    pub fn collect_garbage(&self, go_on: &mut dyn FnMut(u64) -> bool) -> Result<Collected> {
        let Some(embedded) = self.embedded() else { return Ok(Collected::default()) };
        self.check_collectable()?;
        self.forget_deleted_vaults()?;
        let mut live = HashSet::new();
        for _ in 0..ATTEMPTS {
            let is_full = !self.recover_all()?;
            match self.mark(&mut live, go_on) {
                Ok(true) => {}
                Ok(false) => return Ok(Collected::default()),
                // Another collection may have taken what was deleted since: nothing goes while this one has the lock,
                // and what is missing then is damage.
                Err(error) if error.kind() == ErrorKind::Corrupt => {}
                Err(error) => return Err(error),
            }
            let exclusive = embedded.exclusive(PATIENCE)?;
            // An owner that has stored objects for its journal holds a pin, so it is not there now; but
            // one may have died since the journals were looked at, and then its journal needs them.
            let abandoned = self.abandoned_vaults()?;
            if abandoned.is_empty() || is_full {
                let Some(named) = self.named_in_journals(&abandoned)? else { continue };
                let collected = self.finish_collection(&exclusive, &named, &mut live, go_on)?;
                drop(exclusive);
                // Looking into vaults may keep promises, and that waits for as long as writers are held back.
                self.prune_search_index();
                return Ok(collected);
            }
        }
        Err(Error::Contended { key: "the journals of vaults".into() })
    }

    fn finish_collection(
        &self,
        exclusive: &Exclusive<'_>,
        named: &[Needed],
        live: &mut HashSet<ObjectId>,
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Collected> {
        let kept = self.objects().all_kept()?;
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
        self.embedded().into_iter().for_each(EmbeddedStore::use_reserve);
        self.objects().forget_kept(&unneeded)?;
        let sweep = exclusive.sweep(live, &mut || go_on(live.len() as u64))?;
        Ok(Collected { live: live.len() as u64, sweep })
    }

    /// Does something that takes something away. On a full disk it is done again with the room that is kept for that.
    pub fn making_room<T>(&self, mut act: impl FnMut() -> Result<T>) -> Result<T> {
        match act() {
            Err(error) if error.kind() == ErrorKind::Full => {
                self.embedded().into_iter().for_each(EmbeddedStore::use_reserve);
                act()
            }
            done => done,
        }
    }

    /// Takes snapshots of what killed owners left in their journals, so that nothing is known only there. Those
    /// who live take one themselves, which ends the pins of what they had stored. Says whether there was room for all.
    fn recover_all(&self) -> Result<bool> {
        self.objects().commit_kept()?;
        self.settle_owners(&self.vault_records()?);
        let mut has_room = true;
        for vault in self.abandoned_vaults()? {
            // What was begun and did not fit would stand before everything that this process commits.
            if vault.may_not_fit() {
                has_room = false;
                continue;
            }
            match vault.head() {
                Ok(_) | Err(Error::UnknownVault { .. } | Error::Busy { .. }) => {}
                // A collection is what makes room.
                Err(error) if error.kind() == ErrorKind::Full => has_room = false,
                Err(error) => return Err(error),
            }
        }
        Ok(has_room)
    }

    /// What only the journals of these vaults name; nothing, if one of them has an owner by now.
    fn named_in_journals(&self, vaults: &[Vault]) -> Result<Option<Vec<Needed>>> {
        let mut named = Vec::new();
        for vault in vaults {
            let record = match vault.record() {
                Ok((record, _)) => record,
                Err(Error::UnknownVault { .. }) => continue,
                Err(error) => return Err(error),
            };
            let Some(place) = vault.journal_place(&record.head) else { continue };
            // Nobody replays a journal while it is read.
            match self.own_at_once(vault.id(), record.name.as_str()) {
                Ok(_ownership) => named.extend(place.named()?),
                Err(Error::Busy { .. }) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(named))
    }

    fn abandoned_vaults(&self) -> Result<Vec<Vault>> {
        let mut abandoned = Vec::new();
        for record in self.vault_records()? {
            let vault = Vault::new(self.clone(), record.id);
            match vault.is_abandoned() {
                Ok(true) => abandoned.push(vault),
                Ok(false) | Err(Error::UnknownVault { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(abandoned)
    }

    /// Removes documents from the search index that no vault has any more. It can be built anew, so a
    /// failure here is not one of the collection.
    fn prune_search_index(&self) {
        let Some(home) = self.home().filter(|home| home.join(SEARCH_INDEX).exists()) else { return };
        let Ok(records) = self.vault_records() else { return };
        let readers = records.iter().map(|record| {
            let vault = Vault::new(self.clone(), record.id);
            vault.reader_at(record.head.snapshot)
        });
        // One that cannot be read, be it because it was deleted meanwhile, would lose its documents.
        let Ok(live) = readers.collect::<Result<Vec<_>>>() else { return };
        if let Ok(index) = SearchIndex::open(home) {
            let _ = index.prune(&live);
        }
    }

    /// Adds everything that is needed; what is in the set already, is there with all its parts.
    fn mark(&self, live: &mut HashSet<ObjectId>, go_on: &mut dyn FnMut(u64) -> bool) -> Result<bool> {
        let kept = self.objects().all_kept()?;
        for roots in self.roots()? {
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
        roots: impl Iterator<Item = Needed>,
        live: &mut HashSet<ObjectId>,
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<bool> {
        let mut fresh = HashSet::new();
        let mut cut_off = false;
        walk_needed(self.objects(), kept, roots, &mut |needed| {
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
}
