//! Making vaults from vaults, and taking them away.

use std::collections::HashSet;

use avfs_store::{CommitError, EmbeddedStore, RefEdit, RefRange};
use avfs_tree::Limits;

use crate::approvals::keys;
use crate::birth::Seed;
use crate::error::{Error, ErrorKind, Result};
use crate::name::VaultName;
use crate::owner;
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
        self.check_unrestricted("forking it")?;
        let _pin = self.store().objects().store().pin()?;
        let head = at.kept_state()?;
        let parent = ParentRecord { vault: self.id(), snapshot: at.snapshot };
        let record = self.record()?.0;
        let seed = Seed {
            head,
            parent: Some(parent),
            action: format!("fork {}", record.name),
            limits: Limits { bytes: record.max_bytes, files: record.max_files },
            rules: record.rules,
            task,
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
            if changed && !self.has_merged(&Vault::new(self.store().clone(), record.id))? {
                unmerged.push(record.name);
            }
        }
        Ok(unmerged)
    }

    /// Deletes the vault with its history and checkpoints; its audit log stays. Fails, unless `force`, while
    /// a process has it open and while forks with work of their own come from it. A process that loses its
    /// vault in this way is told at its next commit.
    pub fn delete(self, force: bool) -> Result<()> {
        self.check_unrestricted("deleting it")?;
        let forks = self.unmerged_forks()?;
        if !force && !forks.is_empty() {
            let forks = forks.iter().map(VaultName::to_string).collect();
            return Err(Error::Needed { vault: self.name()?.to_string(), forks });
        }
        self.remove(force)
    }

    /// Deletes the vault, whatever was forked from it: forks have everything that they need. Fails, unless `force`,
    /// while a process has it open.
    pub(crate) fn remove(self, force: bool) -> Result<()> {
        let ownership = match self.own() {
            Err(Error::Busy { .. }) if force => None,
            taken => Some(taken?),
        };
        match self.remove_record() {
            // What the vault has not stored goes with it, and takes the room that is needed to write that down.
            Err(error) if ownership.is_some() && error.kind() == ErrorKind::Full => {
                self.drop_unstored()?;
                self.store().embedded().into_iter().for_each(EmbeddedStore::use_reserve);
                self.remove_record()?;
            }
            removed => removed?,
        }
        // The vault is gone. What is left of a long history here, a garbage collection takes away.
        let _ = self.store().forget_history(self.id());
        if let Some(home) = self.store().home() {
            // What stays behind is an empty directory with a lock that nobody looks at any more.
            let _ = remove_tree(&owner::work_directory(home, self.id()));
        }
        drop(ownership);
        Ok(())
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
        let own = [key::checkpoints(self.id()), keys::approvals(self.id()), keys::inputs(self.id())];
        let asked = [
            keys::pointers(self.id()),
            keys::saved(self.id()),
            key::policy(self.id()),
            key::review(self.id()),
        ];
        for range in own.into_iter().chain(asked).map(RefRange::prefix).chain([history]) {
            let rows = refs.scan(&range)?;
            edits.extend(rows.into_iter().map(|(key, value)| RefEdit::delete(key, value)));
        }
        let mut last = record.clone();
        edits.push(self.audit_edit(&mut last, &self.deed("delete", "", None), None));
        edits.push(RefEdit::delete(key::vault(self.id()), bytes));
        edits.push(RefEdit::delete(key::name(record.name.as_str()), record::encode(&self.id())));
        if self.store().current_vault()?.as_deref() == Some(record.name.as_str()) {
            let current = refs.read(key::CURRENT_VAULT)?;
            edits.extend(current.map(|current| RefEdit::delete(key::CURRENT_VAULT, current)));
        }
        let detail = format!("number {} at {}", self.id().0, record.head.snapshot);
        self.store().log(edits, "delete", record.name.as_str(), detail)
    }
}

impl Store {
    /// Removes what is left of the history of a vault that is gone, in parts that keep others from waiting.
    pub(crate) fn forget_history(&self, id: VaultId) -> Result<()> {
        loop {
            let rows = self.refs().scan(&RefRange::prefix(key::histories(id)).limit(ROWS_AT_ONCE))?;
            if rows.is_empty() {
                return Ok(());
            }
            let edits: Vec<RefEdit> =
                rows.into_iter().map(|(key, value)| RefEdit::delete(key, value)).collect();
            match self.refs().commit(&edits) {
                // Who deleted the vault is removing them too.
                Ok(()) | Err(CommitError::Conflict { .. }) => {}
                Err(CommitError::Store(error)) => return Err(error.into()),
            }
        }
    }

    /// Removes the histories that deletions were kept from removing.
    pub(crate) fn forget_deleted_vaults(&self) -> Result<()> {
        // The counter first: a vault that is made after it was read has a higher number.
        let last = record::read::<u64>(self.refs(), key::VAULT_COUNTER)?.map_or(0, |(last, _)| last);
        let alive: HashSet<VaultId> = self.vault_records()?.into_iter().map(|record| record.id).collect();
        (1..=last).map(VaultId).filter(|id| !alive.contains(id)).try_for_each(|id| self.forget_history(id))
    }
}
