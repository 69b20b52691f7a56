//! The objects that a store must keep: the roots of garbage collection, checks and statistics.

use std::collections::BTreeSet;

use avfs_core::{Content, NodeId, SnapshotId};
use avfs_store::{RefKey, RefRange};
use avfs_tree::NeededObject;
use serde::de::DeserializeOwned;

use crate::error::{Error, ErrorKind, Result, StorageError};
use crate::history::{Checkpoint, HistoryEntry};
use crate::record::{self, VaultId, VaultRecord, key};
use crate::store::Store;
use crate::vault::Vault;

/// Everything that one vault refers to.
#[derive(Clone, Debug)]
pub(crate) struct VaultRoots {
    pub record: VaultRecord,
    /// The present state, named checkpoints, the base of the fork and mounted states: these stay until they
    /// are deleted by name or unmounted.
    pub lasting: BTreeSet<(SnapshotId, Option<NodeId>)>,
    /// The checkpoints that people named, oldest first.
    pub checkpoints: Vec<Checkpoint>,
    /// The history, newest first.
    pub history: Vec<HistoryEntry>,
    /// The checkpoints that runs saved by themselves, newest first.
    pub automatic: Vec<Checkpoint>,
}

impl VaultRoots {
    pub(crate) fn all(&self) -> impl Iterator<Item = NeededObject> + '_ {
        let nameless = self.record.nameless.iter().filter_map(|content| match content {
            Content::Empty => None,
            Content::Blob(id) => Some(NeededObject::Blob(*id)),
            Content::Chunks(id) => Some(NeededObject::Chunks(*id)),
        });
        needed(self.states()).chain(nameless)
    }

    /// All states with their inode tables.
    pub(crate) fn states(&self) -> impl Iterator<Item = (SnapshotId, Option<NodeId>)> + '_ {
        let history = self.history.iter().map(|entry| (entry.snapshot, entry.inodes));
        let automatic = self.automatic.iter().map(|point| (point.snapshot, point.inodes));
        let conflicts = self.history.iter().filter_map(|entry| entry.conflicts);
        let conflicts = conflicts.chain(self.automatic.iter().filter_map(|point| point.conflicts));
        let beside = conflicts
            .chain(self.task_bases())
            .map(|snapshot| (snapshot, None));
        self.lasting
            .iter()
            .copied()
            .chain(history)
            .chain(automatic)
            .chain(beside)
    }

    /// The bases of earlier states of a task, in case one of them is restored. A vault that is no longer a
    /// task was imported without them.
    fn task_bases(&self) -> impl Iterator<Item = SnapshotId> + '_ {
        let history = self.history.iter().filter_map(|entry| entry.task_base);
        let automatic = self.automatic.iter().filter_map(|point| point.task_base);
        history.chain(automatic).filter(|_| self.record.task.is_some())
    }

    pub(crate) fn lasting(&self) -> impl Iterator<Item = NeededObject> + '_ {
        needed(self.lasting.iter().copied())
    }
}

/// A state and its inode table.
pub(crate) fn needed(
    states: impl Iterator<Item = (SnapshotId, Option<NodeId>)>,
) -> impl Iterator<Item = NeededObject> {
    states.flat_map(|(snapshot, inodes)| {
        [
            Some(NeededObject::Snapshot(snapshot)),
            inodes.map(NeededObject::Inodes),
        ]
        .into_iter()
        .flatten()
    })
}

impl Store {
    /// The roots of every vault, all as of one moment: vaults that are made and deleted meanwhile have no
    /// influence. Each vault has a name and each name a vault; a store in which they differ must not be
    /// collected.
    ///
    /// Objects that other processes delete may be collected while the caller reads them;
    /// [`Store::while_nothing_goes`] prevents that.
    pub(crate) fn roots(&self) -> Result<Vec<VaultRoots>> {
        let ranges = [key::NAMES, key::VAULTS, key::CHECKPOINTS, key::HISTORIES].map(RefRange::prefix);
        let mut found = self.refs().scan_many(&ranges)?.into_iter();
        let [names, records, checkpoints, histories] =
            std::array::from_fn(|_| found.next().unwrap_or_default());
        let records = decode_all::<VaultRecord>(&records)?;
        let mut named = decode_all::<VaultId>(&names)?;
        named.sort_unstable();
        // Their keys are sorted by number.
        if !named.iter().eq(records.iter().map(|record| &record.id)) {
            let reason = "names and vaults do not match".into();
            return Err(Error::Storage(StorageError::DamagedRecord {
                key: key::VAULTS.into(),
                reason,
            }));
        }
        let roots = records.into_iter().map(|record| {
            let checkpoints = rows_below(&checkpoints, &key::checkpoints(record.id));
            let history = rows_below(&histories, &key::histories(record.id));
            self.vault_roots(record, checkpoints, history)
        });
        roots.collect()
    }

    fn vault_roots(&self, record: VaultRecord, checkpoints: &[Row], history: &[Row]) -> Result<VaultRoots> {
        let vault = Vault::new(self.clone(), record.id);
        let mut lasting = BTreeSet::from([(record.head.snapshot, record.head.inodes)]);
        lasting.extend(record.parent.map(|parent| (parent.snapshot, None)));
        let task = record.task.as_ref();
        lasting.extend(task.map(|task| (task.base, None)));
        lasting.extend(task.and_then(|task| task.applied).map(|applied| (applied, None)));
        lasting.extend(
            vault
                .mounts()
                .mounted_states()?
                .into_iter()
                .map(|snapshot| (snapshot, None)),
        );
        let (mut automatic, checkpoints): (Vec<_>, Vec<_>) = vault
            .history()
            .decode_checkpoints(checkpoints)?
            .into_iter()
            .partition(|point| point.automatic);
        automatic.reverse();
        lasting.extend(checkpoints.iter().map(|point| (point.snapshot, point.inodes)));
        let conflicts = checkpoints
            .iter()
            .filter_map(|point| point.conflicts)
            .chain(record.head.conflicts);
        lasting.extend(conflicts.map(|conflicts| (conflicts, None)));
        let bases = checkpoints
            .iter()
            .filter_map(|point| point.task_base)
            .filter(|_| task.is_some());
        lasting.extend(bases.map(|base| (base, None)));
        let history = history
            .iter()
            .rev()
            .map(|(key, bytes)| vault.history().decode_entry(key, bytes));
        let history = history.collect::<Result<Vec<_>>>()?;
        Ok(VaultRoots {
            record,
            lasting,
            checkpoints,
            history,
            automatic,
        })
    }

    /// Examines objects that vaults need. Objects that other processes delete may be collected meanwhile and
    /// then seem to be missing: the examination is repeated, with a pin that prevents removals, before
    /// anything counts as damage.
    pub(crate) fn while_nothing_goes<T>(&self, mut look: impl FnMut() -> Result<T>) -> Result<T> {
        match look() {
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                let _pin = self.objects().store().pin()?;
                look()
            }
            looked => looked,
        }
    }
}

type Row = (RefKey, Vec<u8>);

fn decode_all<T: DeserializeOwned>(rows: &[Row]) -> Result<Vec<T>> {
    rows.iter()
        .map(|(key, bytes)| record::decode(key, bytes))
        .collect()
}

/// The rows, among sorted ones, whose keys have this prefix.
fn rows_below<'a>(rows: &'a [Row], prefix: &str) -> &'a [Row] {
    let from = rows.partition_point(|(key, _)| key.as_str() < prefix);
    let count = rows[from..].partition_point(|(key, _)| key.starts_with(prefix));
    &rows[from..from + count]
}
