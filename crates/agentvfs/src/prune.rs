//! Thinning the history: automatic snapshots, and checkpoints that runs save by themselves, grow sparser with age and never hold more than their share.

use std::collections::HashSet;

use avfs_core::{NodeId, ObjectId, SnapshotId, SnapshotRetention, Timestamp};
use avfs_store::RefEdit;
use avfs_tree::walk_needed;

use crate::error::{Error, Result, VaultError};
use crate::gc::StoreMaintenance;
use crate::history::Checkpoint;
use crate::history::VaultHistory;
use crate::name::{CheckpointName, VaultName};
use crate::record::key;
use crate::retention_policy::RetentionPolicy;
use crate::roots::{VaultRoots, needed};
use crate::vault::Vault;

/// What pruning removed, or would remove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// The vaults of which something was removed.
    pub vaults: Vec<PrunedVault>,
    /// Bytes that only the remaining automatic snapshots hold.
    pub held_bytes: u64,
    /// The limit for these bytes.
    pub allowed_bytes: u64,
}

/// What pruning removed of one vault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrunedVault {
    /// Its name.
    pub name: VaultName,
    /// Entries of the history that go.
    pub removed: Vec<u64>,
    /// How many entries of the history are left.
    pub kept: u64,
    /// Checkpoints of runs that go.
    pub checkpoints: Vec<CheckpointName>,
}

/// The remaining automatic states of one vault.
struct KeptStates {
    history: Vec<bool>,
    checkpoints: Vec<bool>,
}

/// An automatic state that can go.
#[derive(Clone, Copy)]
enum Candidate {
    Entry(usize),
    Checkpoint(usize),
}

impl StoreMaintenance<'_> {
    /// Removes automatic snapshots and the checkpoints of runs that the policy does not keep; with `dry_run`
    /// only returns which. The present state, named checkpoints and fork bases always stay. Their objects are
    /// removed by the next collection.
    pub fn prune(&self, policy: &RetentionPolicy, dry_run: bool) -> Result<Pruned> {
        let allowed_bytes = self.allowed_bytes(policy)?;
        let (roots, kept, held_bytes) = self.store.while_nothing_goes(|| {
            let roots = self.store.roots()?;
            let mut kept: Vec<KeptStates> = roots
                .iter()
                .map(|roots| thin(roots, policy, self.store.now()))
                .collect();
            let held_bytes = self.cut_to_share(&roots, &mut kept, allowed_bytes)?;
            Ok((roots, kept, held_bytes))
        })?;
        let mut pruned = Pruned {
            vaults: Vec::new(),
            held_bytes,
            allowed_bytes,
        };
        for (roots, kept) in roots.iter().zip(&kept) {
            let removed: Vec<u64> = gone(&roots.history, &kept.history)
                .map(|entry| entry.seq)
                .collect();
            let checkpoints: Vec<CheckpointName> = gone(&roots.automatic, &kept.checkpoints)
                .map(|point| point.name.clone())
                .collect();
            if !dry_run {
                let vault = Vault::new(self.store.clone(), roots.record.id);
                self.making_room(|| vault.history().forget_entries(&removed))?;
                match self.making_room(|| vault.history().forget_checkpoints(&checkpoints)) {
                    // Deleted meanwhile, with all that it had.
                    Err(Error::Vault(VaultError::Unknown { .. })) => {}
                    forgotten => forgotten?,
                }
            }
            let kept = (roots.history.len() - removed.len()) as u64;
            pruned.vaults.push(PrunedVault {
                name: roots.record.name.clone(),
                removed,
                kept,
                checkpoints,
            });
        }
        Ok(pruned)
    }

    fn allowed_bytes(&self, policy: &RetentionPolicy) -> Result<u64> {
        let Some(home) = self.store.home() else {
            return Ok(u64::MAX);
        };
        let disk = rustix::fs::statvfs(home).map_err(|errno| crate::Error::Host {
            action: "looking at the disk of",
            place: home.display().to_string(),
            source: errno.into(),
        })?;
        let size = disk.f_blocks.saturating_mul(disk.f_frsize);
        Ok((size as f64 * policy.disk_share.clamp(0.0, 1.0)) as u64)
    }

    /// Drops the oldest automatic snapshots until the rest holds no more than allowed. Returns what it holds.
    fn cut_to_share(&self, roots: &[VaultRoots], kept: &mut [KeptStates], allowed: u64) -> Result<u64> {
        let Some(upkeep) = self.store.upkeep() else {
            return Ok(0);
        };
        let mut sizes = std::collections::HashMap::new();
        upkeep.for_each_object(&mut |id, size| {
            sizes.insert(id, size);
        })?;
        let mut seen: HashSet<ObjectId> = HashSet::new();
        let lasting = roots.iter().flat_map(VaultRoots::lasting);
        let promises = self.store.objects().all_kept()?;
        walk_needed(self.store.objects(), &promises, lasting, &mut |needed| {
            Ok(seen.insert(needed.object()))
        })?;
        let (mut held, mut full) = (0, false);
        for (vault, candidate) in newest_first(roots, kept) {
            let state = roots[vault].state(candidate);
            if matches!(candidate, Candidate::Entry(0)) || roots[vault].lasting.contains(&state) {
                continue;
            }
            // The exclusive bytes of a snapshot are known only while all newer ones stay.
            if full {
                *kept[vault].flag(candidate) = false;
                continue;
            }
            let state = needed([state].into_iter());
            let mut added = 0;
            walk_needed(self.store.objects(), &promises, state, &mut |needed| {
                let id = needed.object();
                let new = seen.insert(id);
                added += if new {
                    sizes.get(&id).copied().unwrap_or(0)
                } else {
                    0
                };
                Ok(new)
            })?;
            full = held + added > allowed;
            *kept[vault].flag(candidate) = !full;
            held += if full { 0 } else { added };
        }
        Ok(held)
    }
}

impl KeptStates {
    fn flag(&mut self, candidate: Candidate) -> &mut bool {
        match candidate {
            Candidate::Entry(index) => &mut self.history[index],
            Candidate::Checkpoint(index) => &mut self.checkpoints[index],
        }
    }
}

impl VaultRoots {
    fn state(&self, candidate: Candidate) -> (SnapshotId, Option<NodeId>) {
        match candidate {
            Candidate::Entry(index) => (self.history[index].snapshot, self.history[index].inodes),
            Candidate::Checkpoint(index) => (self.automatic[index].snapshot, self.automatic[index].inodes),
        }
    }

    fn time(&self, candidate: Candidate) -> Timestamp {
        match candidate {
            Candidate::Entry(index) => self.history[index].time,
            Candidate::Checkpoint(index) => self.automatic[index].time,
        }
    }
}

/// The states of a vault that the times of the policy keep. The newest entry of its history is the present
/// state.
fn thin(roots: &VaultRoots, policy: &RetentionPolicy, now: Timestamp) -> KeptStates {
    let times: Vec<Timestamp> = roots.history.iter().map(|entry| entry.time).collect();
    let mut history = policy.times.keeps(&times, now);
    if let Some(present) = history.first_mut() {
        *present = true;
    }
    KeptStates {
        history,
        checkpoints: kept_checkpoints(&roots.automatic, &policy.times, now),
    }
}

fn kept_checkpoints(newest_first: &[Checkpoint], times: &SnapshotRetention, now: Timestamp) -> Vec<bool> {
    times.keeps(
        &newest_first.iter().map(|point| point.time).collect::<Vec<_>>(),
        now,
    )
}

fn gone<'a, T>(all: &'a [T], kept: &'a [bool]) -> impl Iterator<Item = &'a T> {
    all.iter()
        .zip(kept)
        .filter(|(_, kept)| !**kept)
        .map(|(item, _)| item)
}

/// The automatic states that stay so far, of all vaults, newest first.
fn newest_first(roots: &[VaultRoots], kept: &[KeptStates]) -> Vec<(usize, Candidate)> {
    let mut all: Vec<(usize, Candidate)> = Vec::new();
    let staying = |flags: &[bool]| (0..flags.len()).filter(|index| flags[*index]).collect::<Vec<_>>();
    for (vault, kept) in kept.iter().enumerate() {
        all.extend(
            staying(&kept.history)
                .into_iter()
                .map(|index| (vault, Candidate::Entry(index))),
        );
        all.extend(
            staying(&kept.checkpoints)
                .into_iter()
                .map(|index| (vault, Candidate::Checkpoint(index))),
        );
    }
    all.sort_by_key(|(vault, candidate)| std::cmp::Reverse(roots[*vault].time(*candidate)));
    all
}

impl VaultHistory<'_> {
    /// Thins this vault's history by time alone: cheap enough to do now and then while working.
    pub(crate) fn thin_history(&self, times: &SnapshotRetention) -> Result<()> {
        let mut entries = Vec::new();
        self.for_each_entry(|entry| {
            entries.push(entry);
            Ok(true)
        })?;
        let moments: Vec<Timestamp> = entries.iter().map(|entry| entry.time).collect();
        let kept = times.keeps(&moments, self.vault.store().now());
        let gone = entries.iter().zip(kept).skip(1).filter(|(_, kept)| !kept);
        self.forget_entries(&gone.map(|(entry, _)| entry.seq).collect::<Vec<_>>())
    }

    /// Saves the present state before a run, which names it. Unlike a checkpoint that a person named it is thinned out
    /// like an automatic snapshot: once an hour, by the run that is the first one in it.
    pub fn save_automatic_checkpoint(
        &self,
        name: &CheckpointName,
        message: Option<&str>,
    ) -> Result<Checkpoint> {
        let last = self.vault.record()?.0.last_checkpoint.and_then(|last| last.saved);
        let saved = self.name_head(name, message, true)?;
        let hour = |seconds: i64| seconds.div_euclid(3600);
        if last.map(hour) != Some(hour(saved.time.seconds)) {
            // The checkpoint is saved whatever becomes of older ones: they are thinned the next time.
            let _ = self.thin_checkpoints(&self.vault.store().retention().times);
        }
        Ok(saved)
    }

    fn thin_checkpoints(&self, times: &SnapshotRetention) -> Result<()> {
        let mut automatic = self.checkpoints()?;
        automatic.retain(|point| point.automatic);
        automatic.reverse();
        let kept = kept_checkpoints(&automatic, times, self.vault.store().now());
        let names = gone(&automatic, &kept).map(|point| point.name.clone());
        self.forget_checkpoints(&names.collect::<Vec<_>>())
    }

    fn forget_checkpoints(&self, names: &[CheckpointName]) -> Result<()> {
        for part in names.chunks(1_000) {
            self.vault.update(
                "checkpoint-thin",
                &format!("{} of runs", part.len()),
                |record, edits| {
                    for name in part {
                        record.last_checkpoint.take_if(|last| last.name == name.as_str());
                        let key = key::checkpoint(self.vault.id(), name);
                        let value = self.vault.store().refs().read(&key)?;
                        edits.extend(value.map(|value| RefEdit::delete(key, value)));
                    }
                    Ok(())
                },
            )?;
        }
        Ok(())
    }

    fn forget_entries(&self, seqs: &[u64]) -> Result<()> {
        for part in seqs.chunks(1_000) {
            self.vault.store().retry(|edits| {
                for seq in part {
                    let key = key::history(self.vault.id(), *seq);
                    let value = self.vault.store().refs().read(&key)?;
                    edits.extend(value.map(|value| RefEdit::delete(key, value)));
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}
