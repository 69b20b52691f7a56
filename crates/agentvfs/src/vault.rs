//! A vault: a named, durable, writable workspace.

use avfs_core::{Snapshot, SnapshotId, Timestamp};
use avfs_store::{EmbeddedStore, RefEdit};
use avfs_tree::{Base, JournalPlace, TreeReader, WorkTree};

use crate::audit::{self, AuditEntry, Event};
use crate::control::LiveOwner;
use crate::deed::Deed;
use crate::error::{Error, Result};
use crate::name::{TaskName, VaultName};
use crate::open::{Hold, OpenVault};
use crate::owner::{self, Owner, Ownership};
use crate::record::{self, Head, HistoryRecord, VaultId, VaultRecord, key};
use crate::store::Store;
use crate::through::Sight;

/// How many owners in a row may end while they are asked something.
const ENDING_OWNERS: usize = 5;

/// The code of errors about a journal that cannot be replayed.
const DAMAGED_JOURNAL: &str = "damaged-journal";

/// What there is to know about a vault without walking it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VaultInfo {
    pub id: VaultId,
    pub name: VaultName,
    pub head: SnapshotId,
    /// Files, directories and links; through rules that may hide some, 0.
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
    /// How many conflicts are open in it; through rules that may hide some, 0.
    pub conflicts: u64,
    /// The hash at the end of its audit log.
    pub audit_head: String,
}

/// A handle on a vault. Cheap; holds nothing open.
#[derive(Clone)]
pub struct Vault {
    store: Store,
    id: VaultId,
    sight: Sight,
    /// Names no other vault.
    alone: bool,
}

impl Vault {
    pub(crate) fn new(store: Store, id: VaultId) -> Vault {
        Vault { store, id, sight: Sight::default(), alone: false }
    }

    /// The same vault, from which no other one can be named.
    pub fn alone(&self) -> Vault {
        Vault { alone: true, ..self.clone() }
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.alone
    }

    pub(crate) fn with_sight(&self, sight: Sight) -> Vault {
        Vault { sight, ..self.clone() }
    }

    pub(crate) fn sight(&self) -> &Sight {
        &self.sight
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

    /// With a journal that cannot be replayed, of the last stored state.
    pub fn info(&self) -> Result<VaultInfo> {
        self.catch_up_if_whole()?;
        let record = self.record()?.0;
        let mut all = vec![record.clone()];
        if let Some(parent) = record.parent {
            all.extend(record::read(self.store.refs(), &key::vault(parent.vault))?.map(|(parent, _)| parent));
        }
        let info = self.store.info_of(&record, &all)?;
        let totals = self.reader_at(record.head.snapshot)?.totals().unwrap_or_default();
        let conflicts = if self.rules().is_some() { 0 } else { info.conflicts };
        Ok(VaultInfo { files: totals.inodes, bytes: totals.bytes, conflicts, ..info })
    }

    /// Opens the working tree for changes that become one snapshot: in memory until then, all or nothing.
    /// If another process serves the vault, the snapshot is given to it; if one has it open and does not,
    /// this waits for it, and fails as busy if that takes too long.
    pub fn begin(&self) -> Result<OpenVault> {
        loop {
            match self.find_owner()? {
                // As the owner, and not before: another one may die while we wait for it.
                Owner::Us(ownership) => {
                    let opened = self.open_as(ownership).and_then(OpenVault::without_journal);
                    return opened.map_err(|error| self.if_unstored(error));
                }
                Owner::Served(owner) => match owner.settle() {
                    // It ended meanwhile: it may be our turn.
                    Err(Error::OwnerGone { .. }) => {}
                    settled => {
                        settled?;
                        return OpenVault::guest(self.clone());
                    }
                },
            }
        }
    }

    /// Opens the working tree with a journal: what was synced survives a crash without a snapshot.
    pub fn open(&self) -> Result<OpenVault> {
        self.open_as(self.own()?)
    }

    /// Opens the working tree to be read: on a disk that is read-only, where it cannot be opened otherwise, as the last
    /// snapshot has it.
    pub fn open_to_read(&self) -> Result<OpenVault> {
        let Some(home) = self.store.home().filter(|_| self.store.is_read_only()) else { return self.open() };
        let directory = owner::work_directory(home, self.id);
        let ownership = owner::share(&directory, self.name()?.as_str())?;
        if self.has_journal()? {
            return Err(Error::Host {
                action: "storing what is in the journal of",
                place: directory.display().to_string(),
                source: std::io::ErrorKind::ReadOnlyFilesystem.into(),
            });
        }
        let record = self.record()?.0;
        let tree = self.tree_in_memory(&record)?;
        Ok(OpenVault::new(self.clone(), record, tree, None, Hold::Owner(ownership)))
    }

    fn open_as(&self, ownership: Ownership) -> Result<OpenVault> {
        // A journal that is replayed may name objects that nothing else needs; the pin of whoever put them
        // died with its process.
        let pin = if self.has_journal()? { Some(self.store.objects().store().pin()?) } else { None };
        // What an earlier owner had open died with it.
        let record = VaultRecord { nameless: Vec::new(), ..self.record()?.0 };
        let tree = match self.journal_place(&record.head) {
            Some(place) => {
                let (objects, clock) = (self.store.objects().clone(), self.store.clock());
                WorkTree::journaled(objects, self.base_of(&record.head)?, clock, place)?
            }
            None => self.tree_in_memory(&record)?,
        };
        Ok(OpenVault::new(self.clone(), record, tree, pin, Hold::Owner(ownership)))
    }

    pub(crate) fn tree_in_memory(&self, record: &VaultRecord) -> Result<WorkTree> {
        let base = self.base_of(&record.head)?;
        Ok(WorkTree::in_memory(self.store.objects().clone(), base, self.store.clock())?)
    }

    pub(crate) fn journal_place(&self, head: &Head) -> Option<JournalPlace> {
        let directory = owner::work_directory(self.store.home()?, self.id);
        let reserve = self.store.embedded().map(EmbeddedStore::reserve);
        Some(JournalPlace { directory, included: head.journal, reserve })
    }

    /// Makes the head what the vault holds now: what a living owner has not stored yet and what a killed
    /// one left in its journal become snapshots. An owner that does not serve others keeps it to itself.
    fn catch_up(&self) -> Result<()> {
        let settled = self.settle_owner().map_err(|error| self.if_unstored(error))?;
        if settled || !self.is_abandoned()? { Ok(()) } else { self.begin().map(drop) }
    }

    /// The same for who looks at earlier states: those can be read whatever became of the journal.
    pub(crate) fn catch_up_if_whole(&self) -> Result<()> {
        match self.catch_up() {
            Err(error) if error.code() == DAMAGED_JOURNAL => Ok(()),
            caught_up => caught_up,
        }
    }

    /// Has the owner take a snapshot, if one answers; returns whether one did.
    pub(crate) fn settle_owner(&self) -> Result<bool> {
        for _ in 0..ENDING_OWNERS {
            let Some(owner) = self.live_owner()? else { return Ok(false) };
            match owner.settle() {
                // It ended meanwhile, and another one may have come.
                Err(Error::OwnerGone { .. }) => {}
                settled => return settled.map(|_| true),
            }
        }
        Ok(false)
    }

    /// The process that has the vault open and answers others, if there is one.
    pub fn live_owner(&self) -> Result<Option<LiveOwner>> {
        LiveOwner::find(self)
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
        self.catch_up()?;
        self.reader_at(self.record()?.0.head.snapshot)
    }

    /// Reads the last stored state, whoever has the vault open.
    pub(crate) fn stored_reader(&self) -> Result<TreeReader> {
        self.reader_at(self.record()?.0.head.snapshot)
    }

    /// Reads the tree of a snapshot.
    pub fn reader_at(&self, id: SnapshotId) -> Result<TreeReader> {
        Ok(self.seen(TreeReader::new(self.store.objects().clone(), self.snapshot(id)?.root)))
    }

    /// The snapshot that holds the present state.
    pub fn head(&self) -> Result<SnapshotId> {
        self.catch_up()?;
        Ok(self.record()?.0.head.snapshot)
    }

    /// Makes `head` the present state, with an entry in the history and in the audit log. What `record` says of
    /// files without a name goes along.
    pub(crate) fn advance(&self, record: &mut VaultRecord, head: Head, deed: &Deed<'_>) -> Result<u64> {
        let new = self.store.retry(|edits| {
            let (mut current, bytes) = self.record()?;
            if current.head != record.head {
                return Err(Error::Contended { key: key::vault(self.id) });
            }
            (current.head, current.nameless) = (head, record.nameless.clone());
            current.seq += 1;
            if let (Some(task), Some(base)) = (&mut current.task, deed.task_base) {
                task.base = base;
            }
            edits.push(self.history_edit(&current, deed));
            edits.push(self.audit_edit(&mut current, deed, Some(head.snapshot)));
            edits.push(RefEdit::replace(key::vault(self.id), bytes, record::encode(&current)));
            Ok(current)
        })?;
        *record = new;
        Ok(record.seq)
    }

    fn history_edit(&self, record: &VaultRecord, deed: &Deed<'_>) -> RefEdit {
        let entry = HistoryRecord {
            snapshot: record.head.snapshot,
            inodes: record.head.inodes,
            conflicts: record.head.conflicts,
            time: self.store.now(),
            actor: deed.actor.to_owned(),
            action: deed.line(),
            undoes: deed.undoes,
            since: deed.since,
            task_base: record.task.as_ref().map(|task| task.base),
        };
        RefEdit::create(key::history(self.id, record.seq), record::encode(&entry))
    }

    pub(crate) fn audit_edit(
        &self,
        record: &mut VaultRecord,
        deed: &Deed<'_>,
        snapshot: Option<SnapshotId>,
    ) -> RefEdit {
        let event = Event {
            time: self.store.now(),
            actor: deed.actor.to_owned(),
            vault: record.name.to_string(),
            action: deed.action.to_owned(),
            detail: deed.detail.to_owned(),
            snapshot: snapshot.map(|id| id.to_string()),
        };
        audit::append(self.id, &mut record.audit, event)
    }

    pub(crate) fn deed<'a>(&'a self, action: &'a str, detail: &'a str, undoes: Option<u64>) -> Deed<'a> {
        Deed { actor: &self.store.actor().name, action, detail, undoes, since: None, task_base: None }
    }

    /// Says that everything behind entry `since` is one thing that was done, which is taken back together.
    pub(crate) fn note_together(&self, action: &str, detail: &str, since: u64) -> Result<()> {
        self.store.retry(|edits| {
            let (mut record, bytes) = self.record()?;
            let deed = Deed { since: Some(since), ..self.deed(action, detail, None) };
            record.seq += 1;
            edits.push(self.history_edit(&record, &deed));
            let snapshot = Some(record.head.snapshot);
            edits.push(self.audit_edit(&mut record, &deed, snapshot));
            edits.push(RefEdit::replace(key::vault(self.id), bytes, record::encode(&record)));
            Ok(())
        })
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
            edits.push(self.audit_edit(&mut record, &self.deed(action, detail, None), None));
            edits.push(RefEdit::replace(key::vault(self.id), bytes, record::encode(&record)));
            Ok(())
        })
    }

    /// Gives the vault another name. A task stays in its project; tasks of a project go along with it.
    pub fn rename(&self, to: &VaultName) -> Result<()> {
        self.check_unrestricted("renaming it")?;
        let from = self.name()?;
        let to = from.beside(to);
        self.rename_to(&to)?;
        let of_project = |record: &VaultRecord| record.name.project() == Some(from.as_str());
        for task in self.store.vault_records()?.iter().filter(|record| of_project(record)) {
            let moved = VaultName::of_task(&to, &TaskName::new(task.name.last_part())?);
            self.store.vault_by_id(task.id).rename_to(&moved)?;
        }
        Ok(())
    }

    pub(crate) fn rename_to(&self, to: &VaultName) -> Result<()> {
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
        self.check_unrestricted("setting its quota")?;
        let text = |limit: Option<u64>| limit.map_or("none".into(), |limit| limit.to_string());
        let detail = format!("bytes {} files {}", text(max_bytes), text(max_files));
        self.update("quota", &detail, |record, _| {
            (record.max_bytes, record.max_files) = (max_bytes, max_files);
            Ok(())
        })?;
        match self.live_owner()? {
            Some(owner) => owner.refresh_limits(),
            None => Ok(()),
        }
    }

    /// The audit log behind entry `after`, oldest first.
    pub fn audit(&self, after: u64, limit: usize) -> Result<Vec<AuditEntry>> {
        self.check_unrestricted("its audit log")?;
        audit::entries(self.store.refs(), self.id, after, limit)
    }

    /// Checks the audit log; returns how many entries it has.
    pub fn verify_audit(&self, expect: Option<&str>) -> Result<u64> {
        self.check_unrestricted("its audit log")?;
        let name = self.name()?;
        let head = || Ok(self.record()?.0.audit);
        audit::verify(self.store.refs(), name.as_str(), self.id, &head, expect)
    }
}
