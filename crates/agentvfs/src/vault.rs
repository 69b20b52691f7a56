//! A vault: a named, durable, writable workspace.

use avfs_core::{Snapshot, SnapshotId, Timestamp};
use avfs_store::RefEdit;
use avfs_tree::{Base, JournalPlace, TreeReader, WorkTree};

use crate::audit::{self, AuditEntry, Event};
use crate::error::{Error, Result};
use crate::name::VaultName;
use crate::open::OpenVault;
use crate::owner;
use crate::record::{self, Head, HistoryRecord, VaultId, VaultRecord, key};
use crate::store::Store;

/// What there is to know about a vault without walking it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VaultInfo {
    pub id: VaultId,
    pub name: VaultName,
    pub head: SnapshotId,
    /// Files, directories and links.
    pub files: u64,
    /// Sum of the file sizes.
    pub bytes: u64,
    pub created: Timestamp,
    /// The vault that it was forked from, if that still exists.
    pub parent: Option<VaultName>,
    /// The snapshot that it shares with its parent.
    pub fork_base: Option<SnapshotId>,
    /// How many snapshots were ever taken of it.
    pub snapshots: u64,
    pub max_bytes: Option<u64>,
    pub max_files: Option<u64>,
    /// The hash at the end of its audit log.
    pub audit_head: String,
}

/// A handle on a vault. Cheap; holds nothing open.
#[derive(Clone)]
pub struct Vault {
    store: Store,
    id: VaultId,
}

impl Vault {
    pub(crate) fn new(store: Store, id: VaultId) -> Vault {
        Vault { store, id }
    }

    pub fn id(&self) -> VaultId {
        self.id
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    pub fn name(&self) -> Result<VaultName> {
        Ok(self.record()?.0.name)
    }

    pub(crate) fn record(&self) -> Result<(VaultRecord, Vec<u8>)> {
        let found = record::read(self.store.refs(), &key::vault(self.id))?;
        found.ok_or_else(|| Error::UnknownVault { name: format!("number {}", self.id.0), similar: None })
    }

    pub fn info(&self) -> Result<VaultInfo> {
        let record = self.record()?.0;
        let mut all = vec![record.clone()];
        if let Some(parent) = record.parent {
            all.extend(record::read(self.store.refs(), &key::vault(parent.vault))?.map(|(parent, _)| parent));
        }
        self.store.info_of(&record, &all)
    }

    /// Opens the working tree for changes that become one snapshot: in memory until then, all or nothing.
    /// Waits for another process that has it open, and fails as busy if that takes too long.
    pub fn begin(&self) -> Result<OpenVault> {
        // As the owner, and not before: another one may die while we wait for it.
        self.open()?.without_journal()
    }

    /// Opens the working tree with a journal: what was synced survives a crash without a snapshot.
    pub fn open(&self) -> Result<OpenVault> {
        let name = self.name()?;
        let ownership = self.store.own(self.id, name.as_str())?;
        // A journal that is replayed may name objects that nothing else needs; the pin of whoever put them
        // died with its process.
        let pin = if self.has_journal()? { Some(self.store.objects().store().pin()?) } else { None };
        let record = self.record()?.0;
        let base = self.base_of(&record.head)?;
        let (objects, clock) = (self.store.objects().clone(), self.store.clock());
        let tree = match self.journal_place(&record.head) {
            Some(place) => WorkTree::journaled(objects, base, clock, place)?,
            None => WorkTree::in_memory(objects, base, clock)?,
        };
        Ok(OpenVault::new(self.clone(), record, tree, pin, ownership))
    }

    fn journal_place(&self, head: &Head) -> Option<JournalPlace> {
        let directory = owner::work_directory(self.store.home()?, self.id);
        Some(JournalPlace { directory, included: head.journal })
    }

    /// Takes a snapshot of what a killed owner left in its journal. While an owner lives, the head is what
    /// others see.
    fn recover(&self) -> Result<()> {
        if self.is_abandoned()? { self.begin().map(drop) } else { Ok(()) }
    }

    /// Whether there is a journal that the head does not contain: of an owner, or left by one.
    pub(crate) fn has_journal(&self) -> Result<bool> {
        match self.journal_place(&self.record()?.0.head) {
            Some(place) => Ok(WorkTree::needs_recovery(&place)?),
            None => Ok(false),
        }
    }

    /// Whether there is a journal and nobody who owns the vault.
    pub(crate) fn is_abandoned(&self) -> Result<bool> {
        if !self.has_journal()? {
            return Ok(false);
        }
        match self.store.own_at_once(self.id, self.name()?.as_str()) {
            Ok(_) => Ok(true),
            Err(Error::Busy { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn base_of(&self, head: &Head) -> Result<Base> {
        let root = self.snapshot(head.snapshot)?.root;
        Ok(Base { root, inodes: head.inodes })
    }

    pub(crate) fn snapshot(&self, id: SnapshotId) -> Result<Snapshot> {
        Ok(self.store.objects().snapshot(id)?)
    }

    /// Reads the present state.
    pub fn reader(&self) -> Result<TreeReader> {
        self.recover()?;
        self.reader_at(self.record()?.0.head.snapshot)
    }

    /// Reads the tree of a snapshot.
    pub fn reader_at(&self, id: SnapshotId) -> Result<TreeReader> {
        Ok(TreeReader::new(self.store.objects().clone(), self.snapshot(id)?.root))
    }

    /// The snapshot that holds the present state.
    pub fn head(&self) -> Result<SnapshotId> {
        self.recover()?;
        Ok(self.record()?.0.head.snapshot)
    }

    /// Makes `head` the present state, with an entry in the history and in the audit log.
    pub(crate) fn advance(
        &self,
        record: &mut VaultRecord,
        head: Head,
        action: &str,
        detail: &str,
        undoes: Option<u64>,
    ) -> Result<u64> {
        let new = self.store.retry(|edits| {
            let (mut current, bytes) = self.record()?;
            if current.head != record.head {
                return Err(Error::Contended { key: key::vault(self.id) });
            }
            current.head = head;
            current.seq += 1;
            edits.push(self.history_edit(&current, action, detail, undoes));
            edits.push(self.audit_edit(&mut current, action, detail, Some(head.snapshot)));
            edits.push(RefEdit::replace(key::vault(self.id), bytes, record::encode(&current)));
            Ok(current)
        })?;
        *record = new;
        Ok(record.seq)
    }

    fn history_edit(&self, record: &VaultRecord, action: &str, detail: &str, undoes: Option<u64>) -> RefEdit {
        let entry = HistoryRecord {
            snapshot: record.head.snapshot,
            inodes: record.head.inodes,
            time: self.store.now(),
            actor: self.store.actor().name.clone(),
            action: describe(action, detail),
            undoes,
        };
        RefEdit::create(key::history(self.id, record.seq), record::encode(&entry))
    }

    pub(crate) fn audit_edit(
        &self,
        record: &mut VaultRecord,
        action: &str,
        detail: &str,
        snapshot: Option<SnapshotId>,
    ) -> RefEdit {
        let event = Event {
            time: self.store.now(),
            actor: self.store.actor().name.clone(),
            vault: record.name.to_string(),
            action: action.to_owned(),
            detail: detail.to_owned(),
            snapshot: snapshot.map(|id| id.to_string()),
        };
        audit::append(self.id, &mut record.audit, event)
    }

    /// Changes the record, with an entry in the audit log.
    pub(crate) fn update(
        &self,
        action: &str,
        detail: &str,
        mut change: impl FnMut(&mut VaultRecord, &mut Vec<RefEdit>) -> Result<()>,
    ) -> Result<()> {
        self.store.retry(|edits| {
            let (mut record, bytes) = self.record()?;
            change(&mut record, edits)?;
            edits.push(self.audit_edit(&mut record, action, detail, None));
            edits.push(RefEdit::replace(key::vault(self.id), bytes, record::encode(&record)));
            Ok(())
        })
    }

    pub fn rename(&self, to: &VaultName) -> Result<()> {
        let from = self.name()?;
        self.update("rename", &format!("{from} to {to}"), |record, edits| {
            if self.store.has_vault(to.as_str())? {
                return Err(Error::VaultExists { name: to.to_string() });
            }
            let id = record::encode(&self.id);
            edits.push(RefEdit::delete(key::name(record.name.as_str()), id.clone()));
            edits.push(RefEdit::create(key::name(to.as_str()), id));
            let current = self.store.refs().read(key::CURRENT_VAULT)?;
            if let Some(bytes) = current.filter(|bytes| *bytes == record::encode(&record.name)) {
                edits.push(RefEdit::replace(key::CURRENT_VAULT, bytes, record::encode(to)));
            }
            record.name = to.clone();
            Ok(())
        })
    }

    /// Sets how much the vault may hold; `None` takes a limit away.
    pub fn set_quota(&self, max_bytes: Option<u64>, max_files: Option<u64>) -> Result<()> {
        let text = |limit: Option<u64>| limit.map_or("none".into(), |limit| limit.to_string());
        let detail = format!("bytes {} files {}", text(max_bytes), text(max_files));
        self.update("quota", &detail, |record, _| {
            (record.max_bytes, record.max_files) = (max_bytes, max_files);
            Ok(())
        })
    }

    /// The audit log behind entry `after`, oldest first.
    pub fn audit(&self, after: u64, limit: usize) -> Result<Vec<AuditEntry>> {
        audit::entries(self.store.refs(), self.id, after, limit)
    }

    /// Checks the audit log; returns how many entries it has.
    pub fn verify_audit(&self, expect: Option<&str>) -> Result<u64> {
        let record = self.record()?.0;
        audit::verify(self.store.refs(), record.name.as_str(), self.id, &record.audit, expect)
    }
}

pub(crate) fn describe(action: &str, detail: &str) -> String {
    if detail.is_empty() { action.to_owned() } else { format!("{action} {detail}") }
}
