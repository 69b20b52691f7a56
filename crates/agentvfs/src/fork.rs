//! Making vaults from vaults, and taking them away.

use std::collections::HashSet;
use std::path::PathBuf;

use avfs_store::{CommitError, RefEdit, RefRange, Upkeep};
use avfs_tree::VaultLimits;

use crate::creation::Seed;
use crate::error::{Error, ErrorKind, OwnerError, Result, VaultError};
use crate::image::ImageRecord;
use crate::name::VaultName;
use crate::owner::Ownership;
use crate::record::{self, ParentRecord, TaskRecord, VaultId, VaultRecord, key};
use crate::removal::remove_tree;
use crate::revision::Revision;
use crate::store::Store;
use crate::vault::Vault;

/// How many entries of a history are removed in one commit.
const ROWS_AT_ONCE: usize = 5_000;

impl Vault {
    /// Makes vaults that start at this one's present state. Costs the same whatever the vault holds.
    pub fn fork(&self, names: &[VaultName]) -> Result<Vec<Vault>> {
        self.fork_at(&self.revision("@")?, names)
    }

    /// Makes vaults that start at a state of this vault.
    pub fn fork_at(&self, at: &Revision, names: &[VaultName]) -> Result<Vec<Vault>> {
        self.fork_for(at, names, None)
    }

    /// Makes forks that are tasks, or not.
    pub(crate) fn fork_for(
        &self,
        at: &Revision,
        names: &[VaultName],
        task: Option<TaskRecord>,
    ) -> Result<Vec<Vault>> {
        self.fork_as(at, names, task, None)
    }

    /// Makes forks that are tasks, or belong to images, or neither.
    pub(crate) fn fork_as(
        &self,
        at: &Revision,
        names: &[VaultName],
        task: Option<TaskRecord>,
        image: Option<ImageRecord>,
    ) -> Result<Vec<Vault>> {
        self.check_unrestricted("forking it")?;
        let _pin = self.store().objects().store().pin()?;
        let head = at.kept_state()?;
        let parent = ParentRecord {
            vault: self.id(),
            snapshot: at.snapshot,
        };
        let record = self.record()?.0;
        // What was hidden from the programs of a task stays hidden from those of its forks.
        let program_rules = match &task {
            Some(_) => None,
            None => record
                .program_rules
                .or_else(|| record.task.as_ref().and_then(|task| task.rules.clone())),
        };
        let seed = Seed {
            head,
            parent: Some(parent),
            action: format!("fork {}", record.name),
            limits: VaultLimits {
                bytes: record.max_bytes,
                files: record.max_files,
            },
            rules: record.rules,
            program_rules,
            task,
            image,
        };
        self.store().add_vaults(names, &seed)
    }

    /// The forks of this vault that hold work of their own.
    pub fn unmerged_forks(&self) -> Result<Vec<VaultName>> {
        let mut unmerged = Vec::new();
        for record in self.store().vault_records()? {
            let changed = record
                .parent
                .is_some_and(|parent| parent.vault == self.id() && parent.snapshot != record.head.snapshot);
            if changed
                && !self
                    .merges()
                    .has_merged(&Vault::new(self.store().clone(), record.id))?
            {
                unmerged.push(record.name);
            }
        }
        Ok(unmerged)
    }

    /// Deletes the vault with its history and checkpoints; its audit log stays. Fails if a project needs it and, unless
    /// `force`, while a process has it open and while it has forks with work of their own. A process that loses its vault in
    /// this way gets an error at its next commit.
    pub fn delete(self, force: bool) -> Result<()> {
        self.check_unrestricted("deleting it")?;
        if let Some(directory) = self.store().projects().project_of_vault(self.id())? {
            return Err(Error::Vault(VaultError::OfProject {
                vault: self.name()?.to_string(),
                directory: avfs_core::printable(directory.as_os_str().as_encoded_bytes()),
            }));
        }
        let forks = self.unmerged_forks()?;
        if !force && !forks.is_empty() {
            let forks = forks.iter().map(VaultName::to_string).collect();
            return Err(Error::Vault(VaultError::HasForks {
                vault: self.name()?.to_string(),
                forks,
            }));
        }
        let (store, name) = (self.store().clone(), self.name()?);
        self.remove(force)?;
        store.applies().forget_undone(name.as_str())
    }

    /// Deletes the vault, whatever was forked from it: forks have everything that they need. Fails, unless `force`,
    /// while a process has it open.
    pub(crate) fn remove(self, force: bool) -> Result<()> {
        self.forget(force).map(drop)
    }

    /// As [`Vault::remove`]; its files in the store's directory are removed when the result is dropped.
    pub(crate) fn forget(self, force: bool) -> Result<Remains> {
        let ownership = match self.ownership().take() {
            Err(Error::Owner(OwnerError::Busy { .. })) if force => None,
            taken => Some(taken?),
        };
        match self.remove_record() {
            // Unstored changes are deleted with it, and free the space that is needed to record that.
            Err(error) if ownership.is_some() && error.kind() == ErrorKind::Full => {
                self.unstored().remove()?;
                self.store().upkeep().into_iter().for_each(Upkeep::use_reserve);
                self.remove_record()?;
            }
            removed => removed?,
        }
        // The vault is gone. A garbage collection removes the rest of a long history.
        let _ = forget_history(self.store(), self.id());
        // Nobody else needs the root directories of its sandboxes. One that is still in use stays, as a vault.
        for root in self.store().images().roots_of(self.id()).unwrap_or_default() {
            let _ = root.forget(force);
        }
        let directory = self.store().work().existing_of_vault(self.id());
        Ok(Remains {
            directory,
            _ownership: ownership,
        })
    }

    fn remove_record(&self) -> Result<()> {
        self.store().retry(|edits| {
            let (record, bytes) = self.record()?;
            self.delete_edits(edits, &record, bytes)
        })
    }

    fn delete_edits(&self, edits: &mut Vec<RefEdit>, record: &VaultRecord, bytes: Vec<u8>) -> Result<()> {
        let refs = self.store().refs();
        let history = RefRange::prefix(key::histories(self.id())).limit(ROWS_AT_ONCE);
        let own = [
            key::checkpoints(self.id()),
            key::approvals(self.id()),
            key::approval_inputs(self.id()),
        ];
        let asked = [
            key::approval_pointers(self.id()),
            key::always_allowed(self.id()),
            key::policy(self.id()),
            key::review(self.id()),
        ];
        for range in own
            .into_iter()
            .chain(asked)
            .map(RefRange::prefix)
            .chain([history])
        {
            let rows = refs.scan(&range)?;
            edits.extend(rows.into_iter().map(|(key, value)| RefEdit::delete(key, value)));
        }
        let mut last = record.clone();
        edits.push(self.audit_edit(&mut last, &self.logged("delete", "", None), None));
        edits.push(RefEdit::delete(key::vault(self.id()), bytes));
        edits.push(RefEdit::delete(
            key::name(record.name.as_str()),
            record::encode(&self.id()),
        ));
        if self.store().current_vault()?.as_deref() == Some(record.name.as_str()) {
            let current = refs.read(key::CURRENT_VAULT)?;
            edits.extend(current.map(|current| RefEdit::delete(key::CURRENT_VAULT, current)));
        }
        let detail = format!("number {} at {}", self.id().0, record.head.snapshot);
        self.store().log(edits, "delete", record.name.as_str(), detail)
    }
}

/// The directory of a vault that is gone.
pub(crate) struct Remains {
    directory: Option<PathBuf>,
    /// GcPin until then.
    _ownership: Option<Ownership>,
}

impl Drop for Remains {
    fn drop(&mut self) {
        if let Some(directory) = &self.directory {
            // An empty directory with an unused lock stays behind.
            let _ = remove_tree(directory);
        }
    }
}

/// Removes the rest of the history of a deleted vault, in small commits that do not delay other
/// processes.
pub(crate) fn forget_history(store: &Store, id: VaultId) -> Result<()> {
    loop {
        let rows = store
            .refs()
            .scan(&RefRange::prefix(key::histories(id)).limit(ROWS_AT_ONCE))?;
        if rows.is_empty() {
            return Ok(());
        }
        let edits: Vec<RefEdit> = rows
            .into_iter()
            .map(|(key, value)| RefEdit::delete(key, value))
            .collect();
        match store.refs().commit(&edits) {
            // The process that deleted the vault is removing them too.
            Ok(()) | Err(CommitError::Conflict { .. }) => {}
            Err(CommitError::Store(error)) => return Err(error.into()),
        }
    }
}

/// Removes the histories that deletions were kept from removing.
pub(crate) fn forget_deleted_vaults(store: &Store) -> Result<()> {
    // The counter first: a vault that is made after it was read has a higher number.
    let last = record::read::<u64>(store.refs(), key::VAULT_COUNTER)?.map_or(0, |(last, _)| last);
    let alive: HashSet<VaultId> = store
        .vault_records()?
        .into_iter()
        .map(|record| record.id)
        .collect();
    (1..=last)
        .map(VaultId)
        .filter(|id| !alive.contains(id))
        .try_for_each(|id| forget_history(store, id))
}
