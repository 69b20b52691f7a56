//! Thinning the history: automatic snapshots grow sparser with age and never hold more than their share.

use std::collections::HashSet;

use avfs_core::{ObjectId, Retention, Timestamp};
use avfs_store::RefEdit;
use avfs_tree::walk_needed;

use crate::error::Result;
use crate::history::HistoryEntry;
use crate::name::VaultName;
use crate::record::key;
use crate::roots::{VaultRoots, needed};
use crate::store::Store;
use crate::vault::Vault;

/// What automatic snapshots may cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetentionPolicy {
    pub times: Retention,
    /// The share of the store's disk that only automatic snapshots may hold: 0.0 to 1.0.
    pub disk_share: f64,
}

impl Default for RetentionPolicy {
    fn default() -> RetentionPolicy {
        RetentionPolicy { times: Retention::default(), disk_share: 0.1 }
    }
}

/// What pruning removed, or would remove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    pub vaults: Vec<PrunedVault>,
    /// What only the automatic snapshots hold that stay.
    pub held_bytes: u64,
    /// What they may hold.
    pub allowed_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrunedVault {
    pub name: VaultName,
    /// Entries of the history that go.
    pub removed: Vec<u64>,
    pub kept: u64,
}

impl Store {
    /// Removes automatic snapshots that the policy does not keep; with `dry_run` only says which. The
    /// present state, checkpoints and fork bases always stay. Their objects go with the next collection.
    pub fn prune(&self, policy: &RetentionPolicy, dry_run: bool) -> Result<Pruned> {
        let roots = self.roots()?;
        let mut kept: Vec<Vec<bool>> = roots.iter().map(|roots| thin(roots, policy, self.now())).collect();
        let allowed_bytes = self.allowed_bytes(policy)?;
        let held_bytes = self.cut_to_share(&roots, &mut kept, allowed_bytes)?;
        let mut pruned = Pruned { vaults: Vec::new(), held_bytes, allowed_bytes };
        for (roots, kept) in roots.iter().zip(&kept) {
            let gone = roots.history.iter().zip(kept).filter(|(_, kept)| !**kept);
            let removed: Vec<u64> = gone.map(|(entry, _)| entry.seq).collect();
            if !dry_run {
                Vault::new(self.clone(), roots.record.id).forget_entries(&removed)?;
            }
            let kept = (roots.history.len() - removed.len()) as u64;
            pruned.vaults.push(PrunedVault { name: roots.record.name.clone(), removed, kept });
        }
        Ok(pruned)
    }

    fn allowed_bytes(&self, policy: &RetentionPolicy) -> Result<u64> {
        let Some(home) = self.home() else { return Ok(u64::MAX) };
        let disk = rustix::fs::statvfs(home).map_err(|errno| crate::Error::Host {
            action: "looking at the disk of",
            place: home.display().to_string(),
            source: errno.into(),
        })?;
        let size = disk.f_blocks.saturating_mul(disk.f_frsize);
        Ok((size as f64 * policy.disk_share.clamp(0.0, 1.0)) as u64)
    }

    /// Drops the oldest automatic snapshots until the rest holds no more than allowed. Returns what it holds.
    fn cut_to_share(&self, roots: &[VaultRoots], kept: &mut [Vec<bool>], allowed: u64) -> Result<u64> {
        let Some(embedded) = self.embedded() else { return Ok(0) };
        let mut sizes = std::collections::HashMap::new();
        embedded.for_each_object(&mut |id, size| {
            sizes.insert(id, size);
        })?;
        let mut seen: HashSet<ObjectId> = HashSet::new();
        let lasting = roots.iter().flat_map(VaultRoots::lasting);
        let promises = self.objects().all_kept()?;
        walk_needed(self.objects(), &promises, lasting, &mut |needed| Ok(seen.insert(needed.object())))?;
        let (mut held, mut full) = (0, false);
        for (vault, index) in newest_first(roots, kept) {
            let entry: &HistoryEntry = &roots[vault].history[index];
            if index == 0 || roots[vault].lasting.contains(&(entry.snapshot, entry.inodes)) {
                continue;
            }
            // What a snapshot holds alone is known only while all newer ones stay.
            if full {
                kept[vault][index] = false;
                continue;
            }
            let state = needed([(entry.snapshot, entry.inodes)].into_iter());
            let mut added = 0;
            walk_needed(self.objects(), &promises, state, &mut |needed| {
                let id = needed.object();
                let new = seen.insert(id);
                added += if new { sizes.get(&id).copied().unwrap_or(0) } else { 0 };
                Ok(new)
            })?;
            full = held + added > allowed;
            kept[vault][index] = !full;
            held += if full { 0 } else { added };
        }
        Ok(held)
    }
}

/// Which entries of a vault's history the times of the policy keep. The newest is the present state.
fn thin(roots: &VaultRoots, policy: &RetentionPolicy, now: Timestamp) -> Vec<bool> {
    let times: Vec<Timestamp> = roots.history.iter().map(|entry| entry.time).collect();
    let mut kept = policy.times.keeps(&times, now);
    if let Some(present) = kept.first_mut() {
        *present = true;
    }
    kept
}

/// The entries that stay so far, of all vaults, newest first.
fn newest_first(roots: &[VaultRoots], kept: &[Vec<bool>]) -> Vec<(usize, usize)> {
    let mut all: Vec<(usize, usize)> = Vec::new();
    for (vault, flags) in kept.iter().enumerate() {
        all.extend(flags.iter().enumerate().filter(|(_, kept)| **kept).map(|(index, _)| (vault, index)));
    }
    all.sort_by_key(|(vault, index)| std::cmp::Reverse(roots[*vault].history[*index].time));
    all
}

impl Vault {
    /// Thins this vault's history by time alone: cheap enough to do now and then while working.
    pub(crate) fn thin_history(&self, times: &Retention) -> Result<()> {
        let mut entries = Vec::new();
        self.for_each_entry(|entry| {
            entries.push(entry);
            Ok(true)
        })?;
        let moments: Vec<Timestamp> = entries.iter().map(|entry| entry.time).collect();
        let kept = times.keeps(&moments, self.store().now());
        let gone = entries.iter().zip(kept).skip(1).filter(|(_, kept)| !kept);
        self.forget_entries(&gone.map(|(entry, _)| entry.seq).collect::<Vec<_>>())
    }

    fn forget_entries(&self, seqs: &[u64]) -> Result<()> {
        for part in seqs.chunks(1_000) {
            self.store().retry(|edits| {
                for seq in part {
                    let key = key::history(self.id(), *seq);
                    let value = self.store().refs().read(&key)?;
                    edits.extend(value.map(|value| RefEdit::delete(key, value)));
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}
