//! How much room a store takes, and who needs it.

use std::collections::{HashMap, HashSet};

use avfs_core::ObjectId;
use avfs_tree::walk_needed;

use crate::conflicts::OpenConflicts;
use crate::error::Result;
use crate::name::VaultName;
use crate::store::Store;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreStats {
    pub vaults: Vec<VaultStats>,
    pub objects: u64,
    /// What the objects take on disk.
    pub object_bytes: u64,
    /// What nothing refers to: a garbage collection gives it back.
    pub garbage_bytes: u64,
    /// How many applies can be taken back, and what is kept for it.
    pub applies: u64,
    pub apply_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VaultStats {
    pub name: VaultName,
    pub files: u64,
    /// Sum of the file sizes now.
    pub logical_bytes: u64,
    /// Stored bytes that only this vault and its history need: what deleting it would free.
    pub unique_bytes: u64,
    /// Stored bytes that it shares with other vaults.
    pub shared_bytes: u64,
    /// How many conflicts are open in it.
    pub conflicts: u64,
}

impl Store {
    /// Counts what each vault needs, its history included. Walks all that is stored.
    pub fn stats(&self) -> Result<StoreStats> {
        self.settle_owners(&self.vault_records()?);
        self.while_nothing_goes(|| self.count())
    }

    fn count(&self) -> Result<StoreStats> {
        // Before the roots: what others store meanwhile is not garbage.
        let sizes = self.object_sizes()?;
        let roots = self.roots()?;
        let kept = self.objects().all_kept()?;
        let mut needed_by: Vec<HashSet<ObjectId>> = Vec::new();
        let mut times_needed: HashMap<ObjectId, u32> = HashMap::new();
        for roots in &roots {
            let mut seen = HashSet::new();
            walk_needed(self.objects(), &kept, roots.all(), &mut |needed| Ok(seen.insert(needed.object())))?;
            seen.iter().for_each(|id| *times_needed.entry(*id).or_default() += 1);
            needed_by.push(seen);
        }
        let since = match times_needed.keys().all(|id| sizes.contains_key(id)) {
            true => HashMap::new(),
            false => self.object_sizes()?,
        };
        let size = |id: &ObjectId| sizes.get(id).or_else(|| since.get(id)).copied().unwrap_or(0);
        let mut vaults = Vec::new();
        for (roots, seen) in roots.iter().zip(&needed_by) {
            let (unique, shared): (Vec<_>, Vec<_>) = seen.iter().partition(|id| times_needed[id] == 1);
            let totals = self.objects().snapshot(roots.record.head.snapshot)?.root.totals;
            vaults.push(VaultStats {
                name: roots.record.name.clone(),
                files: totals.inodes,
                logical_bytes: totals.bytes,
                unique_bytes: unique.into_iter().map(size).sum(),
                shared_bytes: shared.into_iter().map(size).sum(),
                conflicts: OpenConflicts::count(self, roots.record.head.conflicts)?,
            });
        }
        vaults.sort_by(|a, b| a.name.cmp(&b.name));
        let garbage = sizes.iter().filter(|(id, _)| !times_needed.contains_key(id));
        let applies = self.kept_applies()?;
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
        if let Some(embedded) = self.embedded() {
            embedded.for_each_object(&mut |id, size| {
                sizes.insert(id, size);
            })?;
        }
        Ok(sizes)
    }
}
