//! Snapshots of an open vault: taken by its owner, or handed to it.

use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use avfs_core::SnapshotId;
use avfs_tree::ExclusiveTree;

use super::{OpenVault, Role, limits_of};
use crate::control::Adopt;
use crate::error::{Error, FileError, OwnerError, Result};
use crate::logged_action::{LoggedAction, TreeUpdate};
use crate::record::{Head, VaultRecord};

/// The history is thinned after this many snapshots.
const THIN_EVERY: u64 = 64;

/// How far back to search for a state that was handed to an owner a moment ago.
const RECENT: usize = 64;

/// A snapshot that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// Its number in the history.
    pub seq: u64,
    /// Its id.
    pub snapshot: avfs_core::SnapshotId,
}

/// The entry in the history of an automatic snapshot.
pub(super) const AUTOMATIC: (&str, &str) = ("mount", "automatic");

impl OpenVault {
    /// Takes a snapshot of all changes since the last one, so that other processes see them in the store.
    pub fn settle(&self) -> Result<SnapshotId> {
        self.save(AUTOMATIC.0, AUTOMATIC.1)?;
        Ok(self.record().head.snapshot)
    }

    /// The same; if there is no space for a snapshot, the changes are at least durable in the journal.
    pub(crate) fn settle_or_sync(&self) -> Result<SnapshotId> {
        self.settle().inspect_err(|_| {
            // Whether that succeeds or not, the error of the snapshot is reported.
            let _ = self.sync();
        })
    }

    /// Takes a snapshot if anything changed, and closes the vault.
    pub fn commit(self, action: &str, detail: &str) -> Result<Option<Saved>> {
        self.save(action, detail)
    }

    /// Takes a snapshot if anything changed. When this returns, it survives a power loss.
    ///
    /// Fails with [`FileError::Overtaken`] if another process owns the vault and the same paths were changed
    /// there too; [`crate::Vault::change`] then retries.
    pub fn save(&self, action: &str, detail: &str) -> Result<Option<Saved>> {
        self.save_as(action, detail, TreeUpdate::InPlace)
    }

    pub(crate) fn save_as(&self, action: &str, detail: &str, update: TreeUpdate) -> Result<Option<Saved>> {
        // Snapshots of one vault are taken one after the other; a thread that waits here does not lock the
        // tree.
        let mut record = self.record();
        self.check_whole()?;
        if !self.tree.is_dirty() {
            return Ok(None);
        }
        let store = self.vault.store().clone();
        let logged = self.vault.logged(action, detail, None);
        // Before the tree is locked: a garbage collection may make us wait for the pin.
        let (mark, _pin) = (self.held.mark(), store.objects().store().pin()?);
        store.objects().commit_kept()?;
        match self.hold {
            Role::Owner(_) => {
                let saved = self.store_moving(&mut record, &logged)?;
                self.held.release(mark);
                self.after_save(&record);
                Ok(Some(saved))
            }
            Role::Client => self.hand_over(&mut record, &logged, update),
        }
    }

    /// Takes a snapshot while the tree remains usable.
    fn store_moving(&self, record: &mut VaultRecord, logged: &LoggedAction<'_>) -> Result<Saved> {
        let frozen = self.tree.freeze()?;
        let (root, inodes) = (frozen.base().root.clone(), frozen.base().inodes);
        let snapshot = self
            .vault
            .store()
            .put_snapshot(root, vec![record.head.snapshot], logged)?;
        let journal = frozen.journal().max(record.head.journal);
        let head = Head {
            snapshot,
            inodes,
            journal,
            ..record.head
        };
        record.nameless = self.tree.nameless_contents();
        let seq = self.vault.advance(record, head, logged)?;
        frozen.settle();
        Ok(Saved { seq, snapshot })
    }

    /// Takes a snapshot of a locked tree, if anything changed.
    pub(super) fn store_still(
        &self,
        still: &mut ExclusiveTree<'_>,
        record: &mut VaultRecord,
        logged: &LoggedAction<'_>,
    ) -> Result<Option<Saved>> {
        if !still.is_dirty() {
            return Ok(None);
        }
        let stored = still.freeze()?;
        let (root, inodes) = (stored.base().root.clone(), stored.base().inodes);
        let snapshot = self
            .vault
            .store()
            .put_snapshot(root, vec![record.head.snapshot], logged)?;
        let journal = stored.journal().max(record.head.journal);
        let head = Head {
            snapshot,
            inodes,
            journal,
            ..record.head
        };
        record.nameless = still.nameless_contents();
        let seq = self.vault.advance(record, head, logged)?;
        still.settle(stored);
        Ok(Some(Saved { seq, snapshot }))
    }

    /// Stores the changes and asks the owner to make them part of the vault.
    fn hand_over(
        &self,
        record: &mut VaultRecord,
        logged: &LoggedAction<'_>,
        update: TreeUpdate,
    ) -> Result<Option<Saved>> {
        let mut still = self.tree.exclusive();
        let stored = still.freeze()?;
        let given = stored.base().clone();
        let snapshot =
            self.vault
                .store()
                .put_snapshot(given.root.clone(), vec![record.head.snapshot], logged)?;
        let head = Head {
            snapshot,
            inodes: given.inodes,
            ..record.head
        };
        let (seq, landed) = self.give(record, head, logged, update)?;
        still.settle(stored);
        if landed.snapshot != snapshot {
            // Others changed something else meanwhile, and both are in the new state.
            let base = self.vault.base_of(&landed)?;
            let changes = self.vault.history().changed_paths(&given.root, &base.root)?;
            if still.rebase(base, &changes, false).is_err() {
                // The vault has the new state, but this tree cannot continue.
                self.torn.store(true, Ordering::Relaxed);
            }
        }
        (record.head, record.seq) = (landed, seq);
        Ok(Some(Saved {
            seq,
            snapshot: landed.snapshot,
        }))
    }

    /// Asks the owner to make a stored state the head; returns the outcome.
    fn give(
        &self,
        record: &VaultRecord,
        head: Head,
        logged: &LoggedAction<'_>,
        update: TreeUpdate,
    ) -> Result<(u64, Head)> {
        // The owner is another process: it can only read synced data.
        self.vault.store().objects().store().sync()?;
        let adopt = Adopt::new(&record.head, &head, logged, update);
        let given = self.vault.ask_owner(|owner| owner.adopt(&adopt));
        match given.or_else(|error| self.done_after_all(head, error).map(Some))? {
            Some(adopted) => Ok(adopted),
            // It is gone. A retry finds its successor, or becomes it.
            None => Err(Error::File(FileError::Overtaken {
                vault: self.name.to_string(),
                path: None,
            })),
        }
    }

    /// An owner may have ended between its commit and its answer; then the history has the state.
    fn done_after_all(&self, head: Head, error: Error) -> Result<(u64, Head)> {
        if let Error::Owner(OwnerError::Gone { .. }) = error {
            let recent = self.vault.history().entries(None, RECENT)?;
            if let Some(entry) = recent.iter().find(|entry| entry.snapshot == head.snapshot) {
                return Ok((entry.seq, head));
            }
        }
        Err(error)
    }

    /// Makes an already stored state the present one; the tree in memory ends with this value.
    pub(crate) fn advance(&self, head: Head, logged: &LoggedAction<'_>, update: TreeUpdate) -> Result<Saved> {
        let mut record = self.record();
        let (seq, landed) = match self.hold {
            Role::Owner(_) => (self.vault.advance(&mut record, head, logged)?, head),
            Role::Client => self.give(&record, head, logged, update)?,
        };
        Ok(Saved {
            seq,
            snapshot: landed.snapshot,
        })
    }

    pub(super) fn after_save(&self, record: &VaultRecord) {
        self.tree.set_limits(limits_of(record));
        if record.seq.is_multiple_of(THIN_EVERY) {
            // The snapshot is taken whatever becomes of older ones: they are thinned the next time.
            let _ = self
                .vault
                .history()
                .thin_history(&self.vault.store().retention().times);
        }
    }

    /// An incomplete tree must not be stored.
    pub(super) fn check_whole(&self) -> Result<()> {
        if self.torn.load(Ordering::Relaxed) {
            Err(Error::Owner(OwnerError::Torn {
                vault: self.name.to_string(),
            }))
        } else {
            Ok(())
        }
    }

    /// The record as of the last snapshot. GcPin, it keeps others from taking one.
    pub(crate) fn record(&self) -> MutexGuard<'_, VaultRecord> {
        self.record
            .lock()
            .expect("no panic happens while the lock is held")
    }
}
