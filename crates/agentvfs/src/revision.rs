//! Naming a state: the present one, a checkpoint, a snapshot, a step back, or another vault.

use std::collections::BTreeSet;

use avfs_core::diff::TreeChange;
use avfs_core::{ObjectId, SnapshotId, TreePath};
use avfs_tree::TreeReader;

use crate::error::{Error, HistoryError, Result, VaultError};
use crate::name::closest;
use crate::record::Head;
use crate::vault::Vault;

/// The minimum number of digits of a snapshot's id.
const SHORTEST_ID: usize = 6;

/// A state of a vault that a user named.
#[derive(Clone)]
pub struct Revision {
    /// The vault.
    pub vault: Vault,
    /// The state.
    pub snapshot: SnapshotId,
}

impl Revision {
    /// Reads the state, through the rules of the vault's handle.
    pub fn reader(&self) -> Result<TreeReader> {
        self.vault.reader_at(self.snapshot)
    }

    /// The state as its vault, or another one, still keeps it. The one in this value may have been pruned
    /// meanwhile. The result is safe only while the store is pinned.
    pub(crate) fn kept_state(&self) -> Result<Head> {
        match self.vault.revisions().kept_anywhere(self.snapshot)? {
            Some(state) => Ok(state),
            None => Err(self.vault.revisions().unknown(&self.snapshot.to_string())?),
        }
    }

    /// The differences from this state to another one, in time proportional to them.
    pub fn diff(&self, to: &Revision) -> Result<Vec<TreeChange>> {
        let mut changes = Vec::new();
        self.reader()?
            .diff(&to.reader()?, &TreePath::root(), &mut |seen| {
                changes.push(seen.change);
                Ok(())
            })?;
        Ok(changes)
    }
}

/// Finds the state that a user names.
#[derive(Clone, Copy)]
pub(crate) struct VaultRevisions<'a> {
    pub(crate) vault: &'a Vault,
}

impl VaultRevisions<'_> {
    /// Finds the state that `text` names:
    /// `@` the present one, `@~N` the one N snapshots before, a checkpoint, `VAULT:` the present state of
    /// another vault, `VAULT:REV` a state of it, the name of a vault, or the first digits of a
    /// snapshot's id.
    pub(crate) fn find(&self, text: &str) -> Result<Revision> {
        if let Some((vault, rest)) = text.split_once(':') {
            if self.vault.is_alone() {
                return Err(self.unknown(text)?);
            }
            let other = self.vault.likewise(&self.named_from_here(vault)?)?;
            return other.revision(if rest.is_empty() { "@" } else { rest });
        }
        if text == "@" {
            self.vault.head()?;
            return Ok(self.revise(self.vault.record()?.0.head.snapshot));
        }
        if let Some(steps) = text.strip_prefix("@~") {
            return self.steps_back(text, steps);
        }
        if let Some(checkpoint) = self.vault.history().find_checkpoint(text)? {
            return Ok(self.revise(checkpoint.snapshot));
        }
        if !self.vault.is_alone() {
            match self.named_from_here(text) {
                Err(Error::Vault(VaultError::Unknown { .. })) => {}
                found => return self.vault.likewise(&found?)?.revision("@"),
            }
        }
        self.by_id(text)
    }

    /// A vault by its name, or a task of the same project by its own.
    fn named_from_here(&self, name: &str) -> Result<Vault> {
        let unknown = match self.vault.store().vault(name) {
            Err(unknown @ Error::Vault(VaultError::Unknown { .. })) => unknown,
            found => return found,
        };
        let own = self.vault.name()?;
        let beside = format!("{}/{name}", own.project().unwrap_or(own.as_str()));
        if self.vault.store().has_vault(&beside)? {
            self.vault.store().vault(&beside)
        } else {
            Err(unknown)
        }
    }

    fn revise(&self, snapshot: SnapshotId) -> Revision {
        Revision {
            vault: self.vault.clone(),
            snapshot,
        }
    }

    fn steps_back(&self, text: &str, steps: &str) -> Result<Revision> {
        let Ok(steps) = steps.parse::<usize>() else {
            return Err(self.unknown(text)?);
        };
        self.vault.catch_up_if_possible()?;
        let history = self.vault.history().entries(None, steps.saturating_add(1))?;
        match history.get(steps) {
            Some(entry) => Ok(self.revise(entry.snapshot)),
            None => Err(self.unknown(text)?),
        }
    }

    fn by_id(&self, text: &str) -> Result<Revision> {
        let is_id =
            text.len() >= SHORTEST_ID && text.len() <= 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
        if !is_id {
            return Err(self.unknown(text)?);
        }
        let text = text.to_ascii_lowercase();
        let mut found: BTreeSet<SnapshotId> = BTreeSet::new();
        self.for_each_kept(|state| {
            if state.snapshot.to_string().starts_with(&text) {
                found.insert(state.snapshot);
            }
            Ok(true)
        })?;
        match found.len() {
            0 => self.by_full_id(&text),
            1 => found
                .pop_first()
                .map(|only| self.revise(only))
                .ok_or(self.unknown(&text)?),
            _ => Err(Error::History(HistoryError::AmbiguousRevision {
                vault: self.vault.name()?.to_string(),
                text,
            })),
        }
    }

    /// A whole id names a snapshot of any vault, as long as one keeps it.
    fn by_full_id(&self, text: &str) -> Result<Revision> {
        if let Ok(id) = ObjectId::parse_hex(text)
            && let Some(state) = self.kept_anywhere(SnapshotId::from_object(id))?
        {
            return Ok(self.revise(state.snapshot));
        }
        Err(self.unknown(text)?)
    }

    /// The state with this snapshot, if this vault or another one keeps it.
    pub(crate) fn kept_anywhere(&self, snapshot: SnapshotId) -> Result<Option<Head>> {
        if let Some(state) = self.kept(snapshot)? {
            return Ok(Some(state));
        }
        if self.vault.is_alone() {
            return Ok(None);
        }
        for record in self
            .vault
            .store()
            .vault_records()?
            .iter()
            .filter(|record| record.id != self.vault.id())
        {
            match Vault::new(self.vault.store().clone(), record.id)
                .revisions()
                .kept(snapshot)
            {
                Ok(None) | Err(Error::Vault(VaultError::Unknown { .. })) => {}
                found => return found,
            }
        }
        Ok(None)
    }

    fn kept(&self, snapshot: SnapshotId) -> Result<Option<Head>> {
        let mut found = None;
        self.for_each_kept(|state| {
            found = Some(state).filter(|state| state.snapshot == snapshot);
            Ok(found.is_none())
        })?;
        Ok(found)
    }

    /// Calls `visit` with each state that garbage collection leaves to this vault, until it returns `false`.
    fn for_each_kept(&self, mut visit: impl FnMut(Head) -> Result<bool>) -> Result<()> {
        let record = self.vault.record()?.0;
        // The present state is the most frequent one: nothing else is read then.
        if !visit(Head {
            journal: 0,
            ..record.head
        })? {
            return Ok(());
        }
        for checkpoint in self.vault.checkpoints()? {
            if !visit(checkpoint.state())? {
                return Ok(());
            }
        }
        let mut go_on = true;
        self.vault.history().for_each_entry(|entry| {
            go_on = visit(entry.state())?;
            Ok(go_on)
        })?;
        if let Some(parent) = record.parent.filter(|_| go_on) {
            visit(Head {
                snapshot: parent.snapshot,
                inodes: None,
                journal: 0,
                conflicts: None,
            })?;
        }
        Ok(())
    }

    fn unknown(&self, text: &str) -> Result<Error> {
        let checkpoints = self.vault.checkpoints()?;
        // A handle that sees only this vault must not learn other names.
        let vaults = if self.vault.is_alone() {
            Vec::new()
        } else {
            self.vault.store().vault_records()?
        };
        let names = checkpoints.iter().map(|checkpoint| checkpoint.name.as_str());
        let similar = closest(text, names.chain(vaults.iter().map(|vault| vault.name.as_str())));
        let text = avfs_core::printable(text.as_bytes());
        Ok(Error::History(HistoryError::UnknownRevision {
            vault: self.vault.name()?.to_string(),
            text,
            similar,
        }))
    }
}
