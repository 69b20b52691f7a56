//! The space that a store occupies, and the vaults that need it.

use std::collections::{HashMap, HashSet};

use avfs_core::ObjectId;
use avfs_tree::walk_needed;

use crate::error::Result;
use crate::gc::StoreMaintenance;
use crate::name::VaultName;

/// How much a store holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreStats {
    /// The same for each vault.
    pub vaults: Vec<VaultStats>,
    /// How many objects it has.
    pub objects: u64,
    /// The space of the objects on disk.
    pub object_bytes: u64,
    /// Unreferenced bytes: a garbage collection frees them.
    pub garbage_bytes: u64,
    /// How many applies can be undone, and the data kept for that.
    pub applies: u64,
    /// What it keeps to undo applies.
    pub apply_bytes: u64,
}

/// How much a vault holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VaultStats {
    /// Its name.
    pub name: VaultName,
    /// Files, directories and links.
    pub files: u64,
    /// Sum of the file sizes now.
    pub logical_bytes: u64,
    /// Stored bytes that only this vault and its history need: deleting it would free them.
    pub unique_bytes: u64,
    /// Stored bytes that it shares with other vaults.
    pub shared_bytes: u64,
    /// The number of open conflicts in it.
    pub conflicts: u64,
}

impl StoreMaintenance<'_> {
    /// Counts the objects that each vault needs, including its history. Walks everything that is stored.
    pub fn stats(&self) -> Result<StoreStats> {
        self.store.settle_owners(&self.store.vault_records()?);
        self.store.while_nothing_goes(|| self.count())
    }

    fn count(&self) -> Result<StoreStats> {
        // Before the roots: objects that other processes store meanwhile are not garbage.
        let sizes = self.object_sizes()?;
        let roots = self.store.roots()?;
        let kept = self.store.objects().all_kept()?;
        let mut needed_by: Vec<HashSet<ObjectId>> = Vec::new();
        let mut times_needed: HashMap<ObjectId, u32> = HashMap::new();
        for roots in &roots {
            let mut seen = HashSet::new();
            walk_needed(self.store.objects(), &kept, roots.all(), &mut |needed| {
                Ok(seen.insert(needed.object()))
            })?;
            seen.iter()
                .for_each(|id| *times_needed.entry(*id).or_default() += 1);
            needed_by.push(seen);
        }
        let since = if times_needed.keys().all(|id| sizes.contains_key(id)) {
            HashMap::new()
        } else {
            self.object_sizes()?
        };
        let size = |id: &ObjectId| sizes.get(id).or_else(|| since.get(id)).copied().unwrap_or(0);
        let mut vaults = Vec::new();
        for (roots, seen) in roots.iter().zip(&needed_by) {
            let (unique, shared): (Vec<_>, Vec<_>) = seen.iter().partition(|id| times_needed[id] == 1);
            let totals = self
                .store
                .objects()
                .snapshot(roots.record.head.snapshot)?
                .root
                .totals;
            vaults.push(VaultStats {
                name: roots.record.name.clone(),
                files: totals.inodes,
                logical_bytes: totals.bytes,
                unique_bytes: unique.into_iter().map(size).sum(),
                shared_bytes: shared.into_iter().map(size).sum(),
                conflicts: self.store.count_conflicts(roots.record.head.conflicts)?,
            });
        }
        vaults.sort_by(|a, b| a.name.cmp(&b.name));
        let garbage = sizes.iter().filter(|(id, _)| !times_needed.contains_key(id));
        let applies = self.store.applies().kept()?;
        Ok(StoreStats {
            applies: applies.len() as u64,
            apply_bytes: applies.iter().map(|apply| apply.bytes).sum(),
            vaults,
            objects: sizes.len() as u64,
            object_bytes: sizes.values().sum(),
            garbage_bytes: garbage.map(|(_, size)| size).sum(),
        })
    }

    fn object_sizes(&self) -> Result<HashMap<ObjectId, u64>> {
        let mut sizes = HashMap::new();
        if let Some(upkeep) = self.store.upkeep() {
            upkeep.for_each_object(&mut |id, size| {
                sizes.insert(id, size);
            })?;
        }
        Ok(sizes)
    }
}
