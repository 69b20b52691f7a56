//! A vault: a named, durable, writable workspace.

use std::path::PathBuf;

use avfs_core::{Snapshot, SnapshotId, Timestamp};
use avfs_store::{EmbeddedStore, RefEdit};
use avfs_tree::{BaseTree, JournalPlace, TreeReader, WorkTree};

use crate::audit::{self, AuditEntry, AuditEvent};
use crate::control::LiveOwner;
use crate::error::{Error, ErrorCode, OwnerError, Result, StorageError, VaultError};
use crate::logged_action::LoggedAction;
use crate::name::{TaskName, VaultName};
use crate::open::{OpenVault, Role, Saved};
use crate::owner::VaultOwner;
use crate::ownership::{self, Ownership};
use crate::record::{self, Head, HistoryRecord, VaultId, VaultRecord, key};
use crate::retry;
use crate::revision::Revision;
use crate::rule_view::VaultVisibility;
use crate::store::Store;

/// How many owners in a row may end during a request.
const ENDING_OWNERS: usize = 5;

/// Information about a vault that needs no walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VaultInfo {
    /// Its number.
    pub id: VaultId,
    /// Its name.
    pub name: VaultName,
    /// Its last snapshot.
    pub head: SnapshotId,
    /// Files, directories and links; through rules that may hide some, 0.
    pub files: u64,
    /// Sum of the file sizes.
    pub bytes: u64,
    /// When it was made.
    pub created: Timestamp,
    /// The vault that it was forked from, if that still exists.
    pub parent: Option<VaultName>,
    /// The snapshot that it shares with its parent.
    pub fork_base: Option<SnapshotId>,
    /// The number of snapshots that were ever taken of it.
    pub snapshots: u64,
    /// The most bytes that it may hold; `None`: no limit.
    pub max_bytes: Option<u64>,
    /// The most files that it may hold; `None`: no limit.
    pub max_files: Option<u64>,
    /// The number of open conflicts in it; through rules that may hide some, 0.
    pub conflicts: u64,
    /// The hash at the end of its audit log.
    pub audit_head: String,
    /// The length of the journal whose work is in no snapshot, unless an owner has space for one.
    pub unstored_bytes: u64,
}

/// A handle on a vault. Cheap; holds nothing open.
#[derive(Clone)]
pub struct Vault {
    store: Store,
    id: VaultId,
    sight: VaultVisibility,
    /// Names no other vault.
    alone: bool,
}

impl Vault {
    pub(crate) fn new(store: Store, id: VaultId) -> Vault {
        Vault {
            store,
            id,
            sight: VaultVisibility::default(),
            alone: false,
        }
    }

    /// The same vault, from which no other one can be named.
    pub fn alone(&self) -> Vault {
        Vault {
            alone: true,
            ..self.clone()
        }
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.alone
    }

    pub(crate) fn with_sight(&self, sight: VaultVisibility) -> Vault {
        Vault {
            sight,
            ..self.clone()
        }
    }

    pub(crate) fn sight(&self) -> &VaultVisibility {
        &self.sight
    }

    /// Its number, which no other vault of the store ever has.
    pub fn id(&self) -> VaultId {
        self.id
    }

    /// The store that it is in.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Its name.
    pub fn name(&self) -> Result<VaultName> {
        Ok(self.record()?.0.name)
    }

    pub(crate) fn record(&self) -> Result<(VaultRecord, Vec<u8>)> {
        let found = record::read(self.store.refs(), &key::vault(self.id))?;
        found.ok_or_else(|| {
            Error::Vault(VaultError::Unknown {
                name: format!("number {}", self.id.0),
                similar: None,
            })
        })
    }

    /// With a journal that cannot be replayed or does not fit on the disk as objects, of the last stored state.
    pub fn info(&self) -> Result<VaultInfo> {
        self.catch_up_if_possible()?;
        let record = self.record()?.0;
        let mut all = vec![record.clone()];
        if let Some(parent) = record.parent {
            all.extend(record::read(self.store.refs(), &key::vault(parent.vault))?.map(|(parent, _)| parent));
        }
        let info = self.store.info_of(&record, &all)?;
        let totals = self.reader_at(record.head.snapshot)?.totals().unwrap_or_default();
        let conflicts = if self.rules().is_some() { 0 } else { info.conflicts };
        Ok(VaultInfo {
            files: totals.inodes,
            bytes: totals.bytes,
            conflicts,
            ..info
        })
    }

    /// Opens the working tree for changes that become one snapshot: in memory until then, all or nothing. If
    /// another process serves the vault, the snapshot is handed to it; if one has it open and does not serve
    /// it, this waits for it, and fails as busy on a timeout.
    pub fn begin(&self) -> Result<OpenVault> {
        loop {
            match self.ownership().find()? {
                // As the owner, and not before: another one may die while we wait for it.
                VaultOwner::Us(ownership) => {
                    let opened = if self.has_left_journals()? {
                        self.open_as(ownership).and_then(OpenVault::without_journal)
                    } else {
                        self.open_in_memory(ownership)
                    };
                    return opened.map_err(|error| self.unstored().explain(error));
                }
                VaultOwner::Served(owner) => match owner.settle() {
                    // It ended meanwhile: it may be our turn.
                    Err(Error::Owner(error)) if error.is_end() => {}
                    settled => {
                        settled?;
                        return OpenVault::client(self.clone());
                    }
                },
            }
        }
    }

    /// Opens the working tree with a journal: synced changes survive a crash without a snapshot.
    pub fn open(&self) -> Result<OpenVault> {
        self.open_as(self.ownership().take()?)
    }

    /// Opens the working tree to be read: on a disk that is read-only, where it cannot be opened otherwise, as the last
    /// snapshot has it.
    pub fn open_to_read(&self) -> Result<OpenVault> {
        let Some(home) = self.store.home().filter(|_| self.store.is_read_only()) else {
            return self.open();
        };
        let directory = ownership::work_directory(home, self.id);
        let ownership = ownership::share(&directory, self.name()?.as_str())?;
        if self.has_journal()? {
            return Err(Error::Host {
                action: "storing what is in the journal of",
                place: directory.display().to_string(),
                source: std::io::ErrorKind::ReadOnlyFilesystem.into(),
            });
        }
        let record = self.record()?.0;
        let tree = self.tree_in_memory(&record)?;
        Ok(OpenVault::new(
            self.clone(),
            record,
            tree,
            None,
            Role::Owner(ownership),
        ))
    }

    /// Calls `edit` to change the vault and takes a snapshot of the result. If `edit` fails, nothing has
    /// happened.
    ///
    /// While another process owns the vault and changes the same paths, `edit` is called again on the state
    /// with these changes: it may be called several times, and must base its decisions on what it reads each
    /// time. Objects that it has stored meanwhile are kept.
    pub fn change<T, E: From<Error>>(
        &self,
        action: &str,
        detail: &str,
        mut edit: impl FnMut(&OpenVault) -> Result<T, E>,
    ) -> Result<(T, Option<Saved>), E> {
        retry::repeat(self, |open| {
            let value = edit(open)?;
            Ok(open.save(action, detail).map(|saved| (value, saved)))
        })
    }

    pub(crate) fn attempt<T>(&self, mut act: impl FnMut(&OpenVault) -> Result<T>) -> Result<T> {
        retry::repeat(self, |open| Ok(act(open)))
    }

    /// For changes that become a snapshot at once, where no earlier owner has left any.
    fn open_in_memory(&self, ownership: Ownership) -> Result<OpenVault> {
        let record = self.record_of_new_owner()?;
        let tree = self.tree_in_memory(&record)?;
        Ok(OpenVault::new(
            self.clone(),
            record,
            tree,
            None,
            Role::Owner(ownership),
        ))
    }

    /// Open files of an earlier owner died with it.
    fn record_of_new_owner(&self) -> Result<VaultRecord> {
        Ok(VaultRecord {
            nameless: Vec::new(),
            ..self.record()?.0
        })
    }

    fn open_as(&self, ownership: Ownership) -> Result<OpenVault> {
        // A replayed journal may refer to objects that nothing else needs; the pin of the process that put
        // them died with it.
        let pin = if self.has_journal()? {
            Some(self.store.objects().store().pin()?)
        } else {
            None
        };
        let record = self.record_of_new_owner()?;
        let tree = match self.journal_place(&record.head) {
            Some(place) => {
                let (objects, clock) = (self.store.objects().clone(), self.store.clock());
                WorkTree::journaled(objects, self.base_of(&record.head)?, clock, place)?
            }
            None => self.tree_in_memory(&record)?,
        };
        Ok(OpenVault::new(
            self.clone(),
            record,
            tree,
            pin,
            Role::Owner(ownership),
        ))
    }

    pub(crate) fn tree_in_memory(&self, record: &VaultRecord) -> Result<WorkTree> {
        let base = self.base_of(&record.head)?;
        Ok(WorkTree::in_memory(
            self.store.objects().clone(),
            base,
            self.store.clock(),
        )?)
    }

    pub(crate) fn journal_place(&self, head: &Head) -> Option<JournalPlace> {
        let directory = ownership::work_directory(self.store.work().lasting()?, self.id);
        let reserve = self.store.embedded().map(EmbeddedStore::reserve);
        Some(JournalPlace {
            directory,
            included: head.journal,
            reserve,
        })
    }

    /// The log in which processes that serve this vault in the background write messages for the operator.
    pub fn log_place(&self) -> Result<PathBuf> {
        self.check_unrestricted("its log")?;
        Ok(self.store.work().of_vault(self.id)?.join("log"))
    }

    /// Brings the head up to date: the unstored changes of a living owner and the journal of a killed one
    /// become snapshots. An owner that does not serve others keeps its changes private.
    fn catch_up(&self) -> Result<()> {
        let settled = self
            .settle_owner()
            .map_err(|error| self.unstored().explain(error))?;
        if settled || !self.is_abandoned()? {
            Ok(())
        } else {
            self.begin().map(drop)
        }
    }

    /// The same for readers of earlier states: these are readable whatever the state of the journal, and even
    /// if there is no space for its contents.
    pub(crate) fn catch_up_if_possible(&self) -> Result<()> {
        match self.catch_up() {
            Err(Error::Storage(StorageError::Unstored { .. })) => Ok(()),
            Err(error) if error.code() == ErrorCode::DamagedJournal => Ok(()),
            caught_up => caught_up,
        }
    }

    /// Asks the owner to take a snapshot, if it answers; returns whether it did.
    pub(crate) fn settle_owner(&self) -> Result<bool> {
        Ok(self.look_at_owner(LiveOwner::settle)?.is_some())
    }

    /// Sends a request to the owner of the vault; `None` if it has none. If an owner ends before it accepts
    /// the request, its successor is asked; a request that may have been executed is not repeated.
    pub fn ask_owner<T>(&self, ask: impl Fn(LiveOwner) -> Result<T>) -> Result<Option<T>> {
        self.ask_owners(ask, |error| matches!(error, OwnerError::Left { .. }))
    }

    /// The same for requests that can be repeated: an owner that ends before it answers counts as none, too.
    pub fn look_at_owner<T>(&self, ask: impl Fn(LiveOwner) -> Result<T>) -> Result<Option<T>> {
        self.ask_owners(ask, OwnerError::is_end)
    }

    fn ask_owners<T>(
        &self,
        ask: impl Fn(LiveOwner) -> Result<T>,
        ask_again: impl Fn(&OwnerError) -> bool,
    ) -> Result<Option<T>> {
        for _ in 0..ENDING_OWNERS {
            let Some(owner) = self.live_owner()? else {
                return Ok(None);
            };
            match ask(owner) {
                // Another one may have come.
                Err(Error::Owner(error)) if ask_again(&error) => {}
                answered => return answered.map(Some),
            }
        }
        Ok(None)
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

    fn has_left_journals(&self) -> Result<bool> {
        match self.journal_place(&self.record()?.0.head) {
            Some(place) => Ok(WorkTree::has_left_journals(&place)?),
            None => Ok(false),
        }
    }

    /// Whether there is a journal and no owner of the vault.
    pub(crate) fn is_abandoned(&self) -> Result<bool> {
        if !self.has_journal()? {
            return Ok(false);
        }
        match self.store.own_at_once(self.id, self.name()?.as_str()) {
            Ok(_) => Ok(true),
            Err(Error::Owner(OwnerError::Busy { .. })) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn base_of(&self, head: &Head) -> Result<BaseTree> {
        let root = self.snapshot(head.snapshot)?.root;
        Ok(BaseTree {
            root,
            inodes: head.inodes,
        })
    }

    pub(crate) fn snapshot(&self, id: SnapshotId) -> Result<Snapshot> {
        Ok(self.store.objects().snapshot(id)?)
    }

    /// Finds the state that `text` names:
    /// `@` the present one, `@~N` the one N snapshots before, a checkpoint, `VAULT:` the present state of
    /// another vault, `VAULT:REV` a state of it, the name of a vault, or the first digits of a
    /// snapshot's id.
    pub fn revision(&self, text: &str) -> Result<Revision> {
        self.revisions().find(text)
    }

    /// Reads the present state.
    pub fn reader(&self) -> Result<TreeReader> {
        self.catch_up()?;
        self.reader_at(self.record()?.0.head.snapshot)
    }

    /// Reads the last stored state, even if another process has the vault open.
    pub(crate) fn stored_reader(&self) -> Result<TreeReader> {
        self.reader_at(self.record()?.0.head.snapshot)
    }

    /// Reads the tree of a snapshot.
    pub fn reader_at(&self, id: SnapshotId) -> Result<TreeReader> {
        Ok(self.seen(TreeReader::new(
            self.store.objects().clone(),
            self.snapshot(id)?.root,
        )))
    }

    /// The snapshot that holds the present state.
    pub fn head(&self) -> Result<SnapshotId> {
        self.catch_up()?;
        Ok(self.record()?.0.head.snapshot)
    }

    /// Makes `head` the present state, with an entry in the history and in the audit log. The nameless files
    /// in `record` are included.
    pub(crate) fn advance(
        &self,
        record: &mut VaultRecord,
        head: Head,
        logged: &LoggedAction<'_>,
    ) -> Result<u64> {
        let new = self.store.retry(|edits| {
            let (mut current, bytes) = self.record()?;
            if current.head != record.head {
                return Err(Error::Storage(StorageError::Contended {
                    key: key::vault(self.id),
                }));
            }
            (current.head, current.nameless) = (head, record.nameless.clone());
            current.seq += 1;
            if let (Some(task), Some(base)) = (&mut current.task, logged.task_base) {
                task.base = base;
            }
            edits.push(self.history_edit(&current, logged));
            edits.push(self.audit_edit(&mut current, logged, Some(head.snapshot)));
            edits.push(RefEdit::replace(
                key::vault(self.id),
                bytes,
                record::encode(&current),
            ));
            Ok(current)
        })?;
        *record = new;
        Ok(record.seq)
    }

    fn history_edit(&self, record: &VaultRecord, logged: &LoggedAction<'_>) -> RefEdit {
        let entry = HistoryRecord {
            snapshot: record.head.snapshot,
            inodes: record.head.inodes,
            conflicts: record.head.conflicts,
            time: self.store.now(),
            actor: logged.actor.to_owned(),
            action: logged.line(),
            undoes: logged.undoes,
            since: logged.since,
            task_base: record.task.as_ref().map(|task| task.base),
        };
        RefEdit::create(key::history(self.id, record.seq), record::encode(&entry))
    }

    pub(crate) fn audit_edit(
        &self,
        record: &mut VaultRecord,
        logged: &LoggedAction<'_>,
        snapshot: Option<SnapshotId>,
    ) -> RefEdit {
        let event = AuditEvent {
            time: self.store.now(),
            actor: logged.actor.to_owned(),
            vault: record.name.to_string(),
            action: logged.action.to_owned(),
            detail: logged.detail.to_owned(),
            snapshot: snapshot.map(|id| id.to_string()),
        };
        audit::append(self.id, &mut record.audit, event)
    }

    pub(crate) fn logged<'a>(
        &'a self,
        action: &'a str,
        detail: &'a str,
        undoes: Option<u64>,
    ) -> LoggedAction<'a> {
        LoggedAction {
            actor: &self.store.actor().name,
            action,
            detail,
            undoes,
            since: None,
            task_base: None,
        }
    }

    /// Records that everything after entry `since` is one action, which is undone together.
    pub(crate) fn note_together(&self, action: &str, detail: &str, since: u64) -> Result<()> {
        self.store.retry(|edits| {
            let (mut record, bytes) = self.record()?;
            let logged = LoggedAction {
                since: Some(since),
                ..self.logged(action, detail, None)
            };
            record.seq += 1;
            edits.push(self.history_edit(&record, &logged));
            let snapshot = Some(record.head.snapshot);
            edits.push(self.audit_edit(&mut record, &logged, snapshot));
            edits.push(RefEdit::replace(
                key::vault(self.id),
                bytes,
                record::encode(&record),
            ));
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
            edits.push(self.audit_edit(&mut record, &self.logged(action, detail, None), None));
            edits.push(RefEdit::replace(
                key::vault(self.id),
                bytes,
                record::encode(&record),
            ));
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
        for task in self
            .store
            .vault_records()?
            .iter()
            .filter(|record| of_project(record))
        {
            let moved = VaultName::of_task(&to, &TaskName::new(task.name.last_part())?);
            self.store.vault_by_id(task.id).rename_to(&moved)?;
        }
        Ok(())
    }

    pub(crate) fn rename_to(&self, to: &VaultName) -> Result<()> {
        let from = self.name()?;
        self.update("rename", &format!("{from} to {to}"), |record, edits| {
            if self.store.has_vault(to.as_str())? {
                return Err(Error::Vault(VaultError::Exists { name: to.to_string() }));
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

    /// Sets the limits of the vault; `None` removes a limit.
    pub fn set_quota(&self, max_bytes: Option<u64>, max_files: Option<u64>) -> Result<()> {
        self.check_unrestricted("setting its quota")?;
        let text = |limit: Option<u64>| limit.map_or("none".into(), |limit| limit.to_string());
        let detail = format!("bytes {} files {}", text(max_bytes), text(max_files));
        self.update("quota", &detail, |record, _| {
            (record.max_bytes, record.max_files) = (max_bytes, max_files);
            Ok(())
        })?;
        self.look_at_owner(LiveOwner::refresh_limits).map(drop)
    }

    /// The audit log after entry `after`, oldest first.
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
