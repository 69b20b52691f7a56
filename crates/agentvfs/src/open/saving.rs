//! Snapshots of an open vault: taken by its owner, or handed to it.

use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use avfs_tree::Still;

use super::{Hold, OpenVault, limits_of};
use crate::control::Adopt;
use crate::deed::{Deed, Landing};
use crate::error::{Error, Result};
use crate::record::{Head, VaultRecord};

/// After so many snapshots the history is thinned.
const THIN_EVERY: u64 = 64;

/// How far back a state is looked for that was given to an owner a moment ago.
const RECENT: usize = 64;

/// A snapshot that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    pub seq: u64,
    pub snapshot: avfs_core::SnapshotId,
}

impl OpenVault {
    /// Takes a snapshot if anything changed, and closes the vault.
    pub fn commit(self, action: &str, detail: &str) -> Result<Option<Saved>> {
        self.save(action, detail)
    }

    /// Takes a snapshot if anything changed. When this returns, it survives a power loss.
    ///
    /// Fails with [`Error::Overtaken`] if another process owns the vault and what changed here was changed
    /// there too; [`crate::Vault::change`] then does it anew.
    pub fn save(&self, action: &str, detail: &str) -> Result<Option<Saved>> {
        self.save_as(action, detail, Landing::InPlace)
    }

    pub(crate) fn save_as(&self, action: &str, detail: &str, landing: Landing) -> Result<Option<Saved>> {
        // Snapshots of one vault are taken one after the other; whoever waits here does not hold the tree.
        let mut record = self.record();
        self.check_whole()?;
        if !self.tree.is_dirty() {
            return Ok(None);
        }
        let store = self.vault.store().clone();
        let deed = self.vault.deed(action, detail, None);
        // Before the tree stands still: a garbage collection may make us wait for the pin.
        let (mark, _pin) = (self.held.mark(), store.objects().store().pin()?);
        store.objects().commit_kept()?;
        match self.hold {
            Hold::Owner(_) => {
                let saved = self.store_moving(&mut record, &deed)?;
                self.held.release(mark);
                self.after_save(&record);
                Ok(Some(saved))
            }
            Hold::Guest => self.hand_over(&mut record, &deed, landing),
        }
    }

    /// Takes a snapshot while the tree goes on.
    fn store_moving(&self, record: &mut VaultRecord, deed: &Deed<'_>) -> Result<Saved> {
        let frozen = self.tree.freeze()?;
        let (root, inodes) = (frozen.base().root.clone(), frozen.base().inodes);
        let snapshot = self.vault.store().put_snapshot(root, vec![record.head.snapshot], deed)?;
        let journal = frozen.journal().max(record.head.journal);
        let head = Head { snapshot, inodes, journal, ..record.head };
        record.nameless = self.tree.nameless_contents();
        let seq = self.vault.advance(record, head, deed)?;
        frozen.settle();
        Ok(Saved { seq, snapshot })
    }

    /// Takes a snapshot of a tree that stands still, if anything changed.
    pub(super) fn store_still(
        &self,
        still: &mut Still<'_>,
        record: &mut VaultRecord,
        deed: &Deed<'_>,
    ) -> Result<Option<Saved>> {
        if !still.is_dirty() {
            return Ok(None);
        }
        let stored = still.freeze()?;
        let (root, inodes) = (stored.base().root.clone(), stored.base().inodes);
        let snapshot = self.vault.store().put_snapshot(root, vec![record.head.snapshot], deed)?;
        let journal = stored.journal().max(record.head.journal);
        let head = Head { snapshot, inodes, journal, ..record.head };
        record.nameless = still.nameless_contents();
        let seq = self.vault.advance(record, head, deed)?;
        still.settle(stored);
        Ok(Some(Saved { seq, snapshot }))
    }

    /// Stores the changes and asks the owner to make them part of the vault.
    fn hand_over(
        &self,
        record: &mut VaultRecord,
        deed: &Deed<'_>,
        landing: Landing,
    ) -> Result<Option<Saved>> {
        let mut still = self.tree.stand_still();
        let stored = still.freeze()?;
        let given = stored.base().clone();
        let snapshot =
            self.vault.store().put_snapshot(given.root.clone(), vec![record.head.snapshot], deed)?;
        let head = Head { snapshot, inodes: given.inodes, ..record.head };
        let (seq, landed) = self.give(record, head, deed, landing)?;
        still.settle(stored);
        if landed.snapshot != snapshot {
            // Others changed something else meanwhile, and both are in the new state.
            let base = self.vault.base_of(&landed)?;
            let changes = self.vault.changed_paths(&given.root, &base.root)?;
            if still.rebase(base, &changes, false).is_err() {
                // It is done all the same, but this tree cannot go on.
                self.torn.store(true, Ordering::Relaxed);
            }
        }
        (record.head, record.seq) = (landed, seq);
        Ok(Some(Saved { seq, snapshot: landed.snapshot }))
    }

    /// Asks the owner to make a stored state the head; returns what became of it.
    fn give(
        &self,
        record: &VaultRecord,
        head: Head,
        deed: &Deed<'_>,
        landing: Landing,
    ) -> Result<(u64, Head)> {
        // The owner is another process: it reads what is synced.
        self.vault.store().objects().store().sync()?;
        let adopt = Adopt::new(&record.head, &head, deed, landing);
        match self.vault.live_owner()? {
            Some(owner) => owner.adopt(&adopt).or_else(|error| self.done_after_all(head, error)),
            // It is gone. Starting anew finds its successor, or becomes it.
            None => Err(Error::Overtaken { vault: self.name.to_string(), path: None }),
        }
    }

    /// An owner may have ended between its commit and its answer; then the history has the state.
    fn done_after_all(&self, head: Head, error: Error) -> Result<(u64, Head)> {
        if let Error::OwnerGone { .. } = error {
            let recent = self.vault.history(None, RECENT)?;
            if let Some(entry) = recent.iter().find(|entry| entry.snapshot == head.snapshot) {
                return Ok((entry.seq, head));
            }
        }
        Err(error)
    }

    /// Makes an already stored state the present one; the tree in memory ends with this value.
    pub(crate) fn advance(&self, head: Head, deed: &Deed<'_>, landing: Landing) -> Result<Saved> {
        let mut record = self.record();
        let (seq, landed) = match self.hold {
            Hold::Owner(_) => (self.vault.advance(&mut record, head, deed)?, head),
            Hold::Guest => self.give(&record, head, deed, landing)?,
        };
        Ok(Saved { seq, snapshot: landed.snapshot })
    }

    pub(super) fn after_save(&self, record: &VaultRecord) {
        self.tree.set_limits(limits_of(record));
        if record.seq.is_multiple_of(THIN_EVERY) {
            // The snapshot is taken whatever becomes of older ones: they are thinned the next time.
            let _ = self.vault.thin_history(&self.vault.store().retention().times);
        }
    }

    /// Nothing may come of a tree that is not whole: what is stored is.
    pub(super) fn check_whole(&self) -> Result<()> {
        match self.torn.load(Ordering::Relaxed) {
            true => Err(Error::Torn { vault: self.name.to_string() }),
            false => Ok(()),
        }
    }

    /// The record as of the last snapshot. Held, it keeps others from taking one.
    pub(crate) fn record(&self) -> MutexGuard<'_, VaultRecord> {
        self.record.lock().expect("no panic happens while the lock is held")
    }
}
