//! Garbage collection: what nothing refers to any more goes.

use std::collections::HashSet;
use std::time::Duration;

use avfs_core::ObjectId;
use avfs_store::{Exclusive, SweepReport};
use avfs_tree::walk_needed;

use crate::error::{Error, Result};
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
        self.forget_deleted_vaults()?;
        let mut live = HashSet::new();
        for _ in 0..ATTEMPTS {
            self.recover_all()?;
            if !self.mark(&mut live, go_on)? {
                return Ok(Collected::default());
            }
            let exclusive = embedded.exclusive(PATIENCE)?;
            // An owner that has stored objects for its journal holds a pin, so it is not there now; but
            // one may have died since the journals were looked at, and then its journal needs them.
            if self.abandoned_vaults()?.is_empty() {
                return self.finish_collection(&exclusive, &mut live, go_on);
            }
        }
        Err(Error::Contended { key: "the journals of vaults".into() })
    }

    fn finish_collection(
        &self,
        exclusive: &Exclusive<'_>,
        live: &mut HashSet<ObjectId>,
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Collected> {
        if !self.mark(live, go_on)? {
            return Ok(Collected::default());
        }
        let kept = self.objects().all_kept()?;
        let unneeded: Vec<ObjectId> = kept.ids().filter(|id| !live.contains(id)).collect();
        self.objects().forget_kept(&unneeded)?;
        let sweep = exclusive.sweep(live, &mut || go_on(live.len() as u64))?;
        self.prune_search_index()?;
        Ok(Collected { live: live.len() as u64, sweep })
    }

    /// Takes snapshots of what killed owners left in their journals, so that nothing is known only there. Those
    /// who live take one themselves, which ends the pins of what they had stored.
    fn recover_all(&self) -> Result<()> {
        self.objects().commit_kept()?;
        self.settle_owners(&self.vault_records()?);
        for vault in self.abandoned_vaults()? {
            match vault.head() {
                Ok(_) | Err(Error::UnknownVault { .. } | Error::Busy { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
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
    fn prune_search_index(&self) -> Result<()> {
        let Some(home) = self.home().filter(|home| home.join(SEARCH_INDEX).exists()) else { return Ok(()) };
        let mut live = Vec::new();
        for record in self.vault_records()? {
            live.push(Vault::new(self.clone(), record.id).reader_at(record.head.snapshot)?);
        }
        if let Ok(index) = SearchIndex::open(home) {
            let _ = index.prune(&live);
        }
        Ok(())
    }

    /// Adds everything that is needed; what is in the set already, is there with all its parts.
    fn mark(&self, live: &mut HashSet<ObjectId>, go_on: &mut dyn FnMut(u64) -> bool) -> Result<bool> {
        let kept = self.objects().all_kept()?;
        for roots in self.roots()? {
            // A root becomes live only with all its parts, so a walk that is cut off leaves no half of one.
            let mut fresh = HashSet::new();
            let mut cut_off = false;
            walk_needed(self.objects(), &kept, roots.all(), &mut |needed| {
                let id = needed.object();
                let new = !cut_off && !live.contains(&id) && fresh.insert(id);
                if new && fresh.len() % 10_000 == 0 {
                    cut_off = !go_on((live.len() + fresh.len()) as u64);
                }
                Ok(new)
            })?;
            if cut_off {
                return Ok(false);
            }
            live.extend(fresh);
        }
        Ok(true)
    }
}
