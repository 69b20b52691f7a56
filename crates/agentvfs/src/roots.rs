//! What a store must keep: the roots of garbage collection, checks and statistics.

use std::collections::BTreeSet;

use avfs_core::{NodeId, SnapshotId};
use avfs_store::RefRange;
use avfs_tree::Needed;

use crate::error::{Error, Result};
use crate::history::HistoryEntry;
use crate::record::{VaultRecord, key};
use crate::store::Store;
use crate::vault::Vault;

/// Everything that one vault refers to.
#[derive(Clone, Debug)]
pub(crate) struct VaultRoots {
    pub record: VaultRecord,
    /// The present state, checkpoints and the base of the fork: what stays until it is deleted by name.
    pub lasting: BTreeSet<(SnapshotId, Option<NodeId>)>,
    /// The history, newest first.
    pub history: Vec<HistoryEntry>,
}

impl VaultRoots {
    pub fn all(&self) -> impl Iterator<Item = Needed> + '_ {
        let history = self.history.iter().map(|entry| (entry.snapshot, entry.inodes));
        needed(self.lasting.iter().copied().chain(history))
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
        let names = self.refs().scan(&RefRange::prefix(key::NAMES))?;
        let records = self.vault_records()?;
        if names.len() != records.len() {
            let reason = format!("{} names stand for {} vaults", names.len(), records.len());
            return Err(Error::DamagedRecord { key: key::VAULTS.into(), reason });
        }
        records.into_iter().map(|record| self.vault_roots(record)).collect()
    }

    fn vault_roots(&self, record: VaultRecord) -> Result<VaultRoots> {
        let vault = Vault::new(self.clone(), record.id);
        let mut lasting = BTreeSet::from([(record.head.snapshot, record.head.inodes)]);
        lasting.extend(record.parent.map(|parent| (parent.snapshot, None)));
        lasting.extend(vault.checkpoints()?.iter().map(|point| (point.snapshot, point.inodes)));
        let mut history = Vec::new();
        vault.for_each_entry(|entry| {
            history.push(entry);
            Ok(true)
        })?;
        Ok(VaultRoots { record, lasting, history })
    }
}
