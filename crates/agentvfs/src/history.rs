//! The history of a vault: every state that it had, the action that made it, and the names of some of them.

use avfs_core::{NodeId, SnapshotId, Timestamp, TreePath};
use avfs_store::{RefEdit, RefKey, RefRange};
use avfs_tree::{FoundEntry, ReadError};

use crate::error::{Error, FileError, HistoryError, Result, StorageError};
use crate::name::{CheckpointName, closest};
use crate::record::{self, CheckpointRecord, Head, HistoryRecord, LastCheckpoint, key};
use crate::vault::Vault;

/// One state in the history of a vault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEntry {
    /// Its number, from 1 on.
    pub seq: u64,
    /// The state.
    pub snapshot: SnapshotId,
    /// When it was made.
    pub time: Timestamp,
    /// Who made it.
    pub actor: String,
    /// The command that made it, as one line.
    pub action: String,
    /// For an undo: the entry whose effect it reverted. For a redo: the undo that it reverted.
    pub undoes: Option<u64>,
    /// Later entries up to this one belong to it, or to the one that it reverted.
    pub since: Option<u64>,
    pub(crate) inodes: Option<NodeId>,
    pub(crate) conflicts: Option<SnapshotId>,
    pub(crate) task_base: Option<SnapshotId>,
}

impl HistoryEntry {
    /// The verb of a redo in histories.
    pub(crate) const REDO: &str = "redo";

    /// Whether it redid what had been undone.
    pub fn is_redo(&self) -> bool {
        self.undoes.is_some() && self.action.split(' ').next() == Some(HistoryEntry::REDO)
    }
}

/// A snapshot with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Its name.
    pub name: CheckpointName,
    /// The state that it names.
    pub snapshot: SnapshotId,
    /// When it was saved.
    pub time: Timestamp,
    /// Who saved it.
    pub actor: String,
    /// What was noted with it.
    pub message: Option<String>,
    /// The entry of the history that it names.
    pub seq: u64,
    /// A run saved it, and it is thinned out like an automatic snapshot.
    pub automatic: bool,
    pub(crate) inodes: Option<NodeId>,
    pub(crate) conflicts: Option<SnapshotId>,
    pub(crate) task_base: Option<SnapshotId>,
}

/// One version in the history of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathVersion {
    /// The entry of the history that made it.
    pub entry: HistoryEntry,
    /// The entry at the path from then on; `None`: nothing.
    pub found: Option<FoundEntry>,
}

/// The history of a vault: every state that it had, the ones with names, and the way back to them.
#[derive(Clone, Copy)]
pub struct VaultHistory<'a> {
    pub(crate) vault: &'a Vault,
}

impl VaultHistory<'_> {
    /// The history before entry `before` (or from the end), newest first.
    pub fn entries(&self, before: Option<u64>, limit: usize) -> Result<Vec<HistoryEntry>> {
        let mut range = RefRange::prefix(key::histories(self.vault.id()))
            .reversed()
            .limit(limit);
        if let Some(before) = before {
            range = range.after(key::history(self.vault.id(), before));
        }
        let found = self.vault.store().refs().scan(&range)?;
        found
            .iter()
            .map(|(key, bytes)| self.decode_entry(key, bytes))
            .collect()
    }

    pub(crate) fn decode_entry(&self, key: &str, bytes: &[u8]) -> Result<HistoryEntry> {
        let record: HistoryRecord = record::decode(key, bytes)?;
        let seq = key::seq_of(key);
        let seq = seq.ok_or_else(|| {
            Error::Storage(StorageError::DamagedRecord {
                key: key.to_owned(),
                reason: "no number".into(),
            })
        })?;
        Ok(HistoryEntry {
            seq,
            snapshot: record.snapshot,
            time: record.time,
            actor: record.actor,
            action: self.shown_action(record.action),
            undoes: record.undoes,
            since: record.since,
            inodes: record.inodes,
            conflicts: record.conflicts,
            task_base: record.task_base,
        })
    }

    /// The action; through rules without the paths.
    fn shown_action(&self, action: String) -> String {
        match self.vault.rules() {
            Some(_) => action.split(' ').next().unwrap_or_default().to_owned(),
            None => action,
        }
    }

    /// Calls `visit` with each entry of the history, newest first, until it returns `false`.
    pub fn for_each_entry(&self, mut visit: impl FnMut(HistoryEntry) -> Result<bool>) -> Result<()> {
        let mut before = None;
        loop {
            let page = self.entries(before, 500)?;
            let Some(last) = page.last() else { return Ok(()) };
            // By number and not by position: entries may be thinned out between two pages.
            before = Some(last.seq);
            for entry in page {
                if !visit(entry)? {
                    return Ok(());
                }
            }
        }
    }

    /// The versions of one path, newest first: an entry for each state in which it was not as before.
    pub fn path_history(&self, path: &TreePath, limit: usize) -> Result<Vec<PathVersion>> {
        let mut versions: Vec<PathVersion> = Vec::new();
        let mut newer: Option<(HistoryEntry, Option<FoundEntry>)> = None;
        self.for_each_entry(|entry| {
            let found = self.find_at(entry.snapshot, path)?;
            // A hidden entry was not removed.
            if found.is_none() && self.vault.rules().is_some() && self.is_there(entry.snapshot, path)? {
                return Ok(true);
            }
            if let Some((newer_entry, newer_found)) = newer.take()
                && newer_found != found
            {
                versions.push(PathVersion {
                    entry: newer_entry,
                    found: newer_found,
                });
            }
            // A version is reported with the entry that made it, which is known only when an older one
            // differs.
            newer = Some((entry, found));
            Ok(versions.len() < limit)
        })?;
        if let Some((entry, found @ Some(_))) = newer.filter(|_| versions.len() < limit) {
            versions.push(PathVersion { entry, found });
        }
        Ok(versions)
    }

    pub(crate) fn find_at(&self, snapshot: SnapshotId, path: &TreePath) -> Result<Option<FoundEntry>> {
        match self.vault.reader_at(snapshot)?.find(path) {
            Ok(found) => Ok(Some(found)),
            Err(ReadError::NotFound { .. } | ReadError::NotADirectory { .. }) => Ok(None),
            Err(source) => Err(self.read_error(source)),
        }
    }

    /// Whether there is an entry at a path, hidden or not.
    fn is_there(&self, snapshot: SnapshotId, path: &TreePath) -> Result<bool> {
        Ok(self
            .vault
            .unrestricted()
            .history()
            .find_at(snapshot, path)?
            .is_some())
    }

    pub(crate) fn read_error(&self, source: ReadError) -> Error {
        let vault = self.vault.name().map(|name| name.to_string()).unwrap_or_default();
        Error::File(FileError::Read { vault, source })
    }

    /// Names the present state. The name must be free.
    pub fn save_checkpoint(&self, name: &CheckpointName, message: Option<&str>) -> Result<Checkpoint> {
        self.vault.head()?;
        self.name_head(name, message, false)
    }

    /// Saves the stored state as a checkpoint. Unstored changes of an owner are not included.
    pub(crate) fn name_head(
        &self,
        name: &CheckpointName,
        message: Option<&str>,
        automatic: bool,
    ) -> Result<Checkpoint> {
        let checkpoint_key = key::checkpoint(self.vault.id(), name);
        // The record is changed in an attempt that may be repeated; what counts is what the last one saved.
        let mut saved = None;
        self.vault.update("checkpoint", name.as_str(), |record, edits| {
            if self.vault.store().refs().read(&checkpoint_key)?.is_some() {
                let (vault, name) = (record.name.to_string(), name.to_string());
                return Err(Error::History(HistoryError::CheckpointExists { vault, name }));
            }
            let new = CheckpointRecord {
                snapshot: record.head.snapshot,
                inodes: record.head.inodes,
                conflicts: record.head.conflicts,
                time: self.vault.store().now(),
                actor: self.vault.store().actor().name.clone(),
                seq: record.seq,
                message: message.map(str::to_owned),
                automatic,
                task_base: record.task.as_ref().map(|task| task.base),
            };
            edits.push(RefEdit::create(checkpoint_key.clone(), record::encode(&new)));
            record.last_checkpoint = Some(LastCheckpoint {
                name: name.to_string(),
                snapshot: new.snapshot,
                saved: Some(new.time.seconds),
            });
            saved = Some(new);
            Ok(())
        })?;
        let saved = saved.ok_or_else(|| Error::Storage(StorageError::Contended { key: checkpoint_key }))?;
        Ok(checkpoint(name.clone(), saved))
    }

    /// The checkpoints of the vault, oldest first.
    pub fn checkpoints(&self) -> Result<Vec<Checkpoint>> {
        let found = self
            .vault
            .store()
            .refs()
            .scan(&RefRange::prefix(key::checkpoints(self.vault.id())))?;
        self.decode_checkpoints(&found)
    }

    pub(crate) fn decode_checkpoints(&self, rows: &[(RefKey, Vec<u8>)]) -> Result<Vec<Checkpoint>> {
        let prefix = key::checkpoints(self.vault.id());
        let mut checkpoints = Vec::new();
        for (key, bytes) in rows {
            let name = CheckpointName::new(key.strip_prefix(&prefix).unwrap_or_default())?;
            checkpoints.push(checkpoint(name, record::decode(key, bytes)?));
        }
        // The keys are in the order of the names.
        checkpoints.sort_by(|a, b| (a.seq, a.time, &a.name).cmp(&(b.seq, b.time, &b.name)));
        Ok(checkpoints)
    }

    /// The checkpoint with this name.
    pub fn checkpoint(&self, name: &str) -> Result<Checkpoint> {
        match self.find_checkpoint(name)? {
            Some(checkpoint) => Ok(checkpoint),
            None => {
                let known = self.checkpoints()?;
                let similar = closest(name, known.iter().map(|known| known.name.as_str()));
                let name = avfs_core::printable(name.as_bytes());
                Err(Error::History(HistoryError::UnknownCheckpoint {
                    vault: self.vault.name()?.to_string(),
                    name,
                    similar,
                }))
            }
        }
    }

    pub(crate) fn find_checkpoint(&self, name: &str) -> Result<Option<Checkpoint>> {
        let Ok(name) = CheckpointName::new(name) else {
            return Ok(None);
        };
        let found = record::read(
            self.vault.store().refs(),
            &key::checkpoint(self.vault.id(), &name),
        )?;
        Ok(found.map(|(record, _)| checkpoint(name, record)))
    }

    /// Takes a name away; the snapshot stays in the history as long as that keeps it.
    pub fn delete_checkpoint(&self, name: &str) -> Result<()> {
        self.vault.check_unrestricted("deleting a checkpoint")?;
        let checkpoint = self.checkpoint(name)?;
        let key = key::checkpoint(self.vault.id(), &checkpoint.name);
        self.vault.store().maintenance().making_room(|| {
            self.vault.update("checkpoint-delete", name, |record, edits| {
                record
                    .last_checkpoint
                    .take_if(|last| last.name == checkpoint.name.as_str());
                let old = self.vault.store().refs().read(&key)?;
                edits.extend(old.map(|old| RefEdit::delete(key.clone(), old)));
                Ok(())
            })
        })
    }
}

fn checkpoint(name: CheckpointName, record: CheckpointRecord) -> Checkpoint {
    Checkpoint {
        name,
        snapshot: record.snapshot,
        time: record.time,
        actor: record.actor,
        message: record.message,
        seq: record.seq,
        automatic: record.automatic,
        inodes: record.inodes,
        conflicts: record.conflicts,
        task_base: record.task_base,
    }
}

impl Checkpoint {
    pub(crate) fn state(&self) -> Head {
        Head {
            snapshot: self.snapshot,
            inodes: self.inodes,
            journal: 0,
            conflicts: self.conflicts,
        }
    }
}

impl HistoryEntry {
    pub(crate) fn state(&self) -> Head {
        Head {
            snapshot: self.snapshot,
            inodes: self.inodes,
            journal: 0,
            conflicts: self.conflicts,
        }
    }
}
