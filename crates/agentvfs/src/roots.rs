//! What a store must keep: the roots of garbage collection, checks and statistics.

use std::collections::BTreeSet;

use avfs_core::{Content, NodeId, SnapshotId};
use avfs_store::RefRange;
use avfs_tree::Needed;

use crate::error::{Error, Result};
use crate::history::{Checkpoint, HistoryEntry};
use crate::record::{self, VaultId, VaultRecord, key};
use crate::store::Store;
use crate::vault::Vault;

/// How often names and vaults are compared before their difference counts as damage.
const LOOKS: u32 = 20;

/// Everything that one vault refers to.
#[derive(Clone, Debug)]
pub(crate) struct VaultRoots {
    pub record: VaultRecord,
    /// The present state, named checkpoints, the base of the fork and what is mounted: what stays until it is deleted
    /// by name or unmounted.
    pub lasting: BTreeSet<(SnapshotId, Option<NodeId>)>,
    /// The history, newest first.
    pub history: Vec<HistoryEntry>,
    /// The checkpoints that runs saved by themselves, newest first.
    pub automatic: Vec<Checkpoint>,
}

impl VaultRoots {
    pub fn all(&self) -> impl Iterator<Item = Needed> + '_ {
        let nameless = self.record.nameless.iter().filter_map(|content| match content {
            Content::Empty => None,
            Content::Blob(id) => Some(Needed::Blob(*id)),
            Content::Chunks(id) => Some(Needed::Chunks(*id)),
        });
        needed(self.states()).chain(nameless)
    }

    /// All states with their inode tables.
    pub fn states(&self) -> impl Iterator<Item = (SnapshotId, Option<NodeId>)> + '_ {
        let history = self.history.iter().map(|entry| (entry.snapshot, entry.inodes));
        let automatic = self.automatic.iter().map(|point| (point.snapshot, point.inodes));
        let conflicts = self.history.iter().filter_map(|entry| entry.conflicts);
        let conflicts = conflicts.chain(self.automatic.iter().filter_map(|point| point.conflicts));
        let conflicts = conflicts.map(|conflicts| (conflicts, None));
        self.lasting.iter().copied().chain(history).chain(automatic).chain(conflicts)
    }

    pub fn lasting(&self) -> impl Iterator<Item = Needed> + '_ {
        needed(self.lasting.iter().copied())
    }
}

/// A state and the inode table that goes with it.
pub(crate) fn needed(
    states: impl Iterator<Item = (SnapshotId, Option<NodeId>)>,
) -> impl Iterator<Item = Needed> {
    states.flat_map(|(snapshot, inodes)| {
        [Some(Needed::Snapshot(snapshot)), inodes.map(Needed::Inodes)].into_iter().flatten()
    })
}

impl Store {
    /// The roots of every vault. A store with vault ids but no readable vault is not one to collect.
    pub(crate) fn roots(&self) -> Result<Vec<VaultRoots>> {
        let records = self.named_records()?;
        records.into_iter().map(|record| self.vault_roots(record)).collect()
    }

    /// The record of every vault, each of which has a name and each name a vault. Names and vaults are two
    /// scans: what was made or deleted in between shows as a difference that another look does not find.
    fn named_records(&self) -> Result<Vec<VaultRecord>> {
        let mut named = self.named_ids()?;
        for _ in 0..LOOKS {
            let records = self.vault_records()?;
            let again = self.named_ids()?;
            let mut ids: Vec<VaultId> = records.iter().map(|record| record.id).collect();
            ids.sort_unstable();
            if ids == named || ids == again {
                return Ok(records);
            }
            named = again;
        }
        let reason = "names and vaults do not match".into();
        Err(Error::DamagedRecord { key: key::VAULTS.into(), reason })
    }

    /// The vaults that names stand for, in order.
    fn named_ids(&self) -> Result<Vec<VaultId>> {
        let names = self.refs().scan(&RefRange::prefix(key::NAMES))?;
        let ids = names.iter().map(|(key, bytes)| record::decode(key, bytes));
        let mut ids = ids.collect::<Result<Vec<VaultId>>>()?;
        ids.sort_unstable();
        Ok(ids)
    }

    fn vault_roots(&self, record: VaultRecord) -> Result<VaultRoots> {
        let vault = Vault::new(self.clone(), record.id);
        let mut lasting = BTreeSet::from([(record.head.snapshot, record.head.inodes)]);
        lasting.extend(record.parent.map(|parent| (parent.snapshot, None)));
        let task = record.task.as_ref();
        lasting.extend(task.map(|task| (task.base, None)));
        lasting.extend(task.and_then(|task| task.applied).map(|applied| (applied, None)));
        lasting.extend(vault.mounted_states()?.into_iter().map(|snapshot| (snapshot, None)));
        let (mut automatic, checkpoints): (Vec<_>, Vec<_>) =
            vault.checkpoints()?.into_iter().partition(|point| point.automatic);
        automatic.reverse();
        lasting.extend(checkpoints.iter().map(|point| (point.snapshot, point.inodes)));
        let conflicts = checkpoints.iter().filter_map(|point| point.conflicts).chain(record.head.conflicts);
        lasting.extend(conflicts.map(|conflicts| (conflicts, None)));
        let mut history = Vec::new();
        vault.for_each_entry(|entry| {
            history.push(entry);
            Ok(true)
        })?;
        Ok(VaultRoots { record, lasting, history, automatic })
    }
}
