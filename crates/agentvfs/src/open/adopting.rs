//! What other processes give the owner of a vault: a stored state, which becomes the head of a live tree.

use std::sync::atomic::Ordering;

use avfs_core::{Snapshot, SnapshotId};
use avfs_tree::{Base, Still};

use super::onto;
use super::{Hold, OpenVault};
use crate::control::Adopt;
use crate::deed::{Deed, Landing};
use crate::error::{Error, Result};
use crate::record::{Head, VaultRecord};
use crate::restore::check_growth;

/// What the history says of a snapshot that nobody asked for.
const AUTOMATIC: (&str, &str) = ("mount", "automatic");

/// A stored state that can be the next head.
struct Landed {
    snapshot: SnapshotId,
    base: Base,
}

impl OpenVault {
    /// Takes a snapshot of what was changed since the last one, so that others see it in the store.
    pub fn settle(&self) -> Result<SnapshotId> {
        self.save(AUTOMATIC.0, AUTOMATIC.1)?;
        Ok(self.record().head.snapshot)
    }

    /// The same; if there is no room for a snapshot, what was changed is at least durable in the journal.
    pub(crate) fn settle_or_sync(&self) -> Result<SnapshotId> {
        self.settle().inspect_err(|_| {
            // Whether that succeeds or not, it is the snapshot's failure that is told.
            let _ = self.sync();
        })
    }

    /// Makes what another process has stored the head, and moves the tree there. What was changed here
    /// since its base stays; if that were the same paths, nothing happens and it is told so.
    pub(crate) fn adopt(&self, adopt: &Adopt) -> Result<(u64, Head)> {
        if !matches!(self.hold, Hold::Owner(_)) {
            return Err(Error::Busy { vault: self.name.to_string(), owner: "another one".into() });
        }
        let mut record = self.record();
        self.check_whole()?;
        let store = self.vault.store().clone();
        let (mark, _pin) = (self.held.mark(), store.objects().store().pin()?);
        let mut still = self.tree.stand_still();
        let journal = self.save_before(&mut still, &mut record)?;
        let given = self.vault.snapshot(adopt.snapshot)?;
        let landed = self.land(&record, adopt, &given)?;
        let conflicts = self.conflicts_after(&record, adopt)?;
        let head = Head { snapshot: landed.snapshot, inodes: landed.base.inodes, journal, conflicts };
        let deed = adopt.deed(&given.author);
        let seq = self.move_to(&mut still, &mut record, landed.base, head, &deed, adopt.landing())?;
        drop(still);
        self.held.release(mark);
        self.after_save(&record);
        Ok((seq, head))
    }

    /// Makes what is in the tree a snapshot of its own and leaves no journal behind; returns the number of
    /// the last one that the head contains.
    fn save_before(&self, still: &mut Still<'_>, record: &mut VaultRecord) -> Result<u64> {
        self.store_still(still, record, &self.vault.deed(AUTOMATIC.0, AUTOMATIC.1, None))?;
        // A journal whose operations came to nothing may be left.
        let stored = still.freeze()?;
        let journal = stored.journal().max(record.head.journal);
        still.settle(stored);
        Ok(journal)
    }

    /// Moves the tree, then the head. If either cannot go there, the tree goes back and nothing has happened.
    fn move_to(
        &self,
        still: &mut Still<'_>,
        record: &mut VaultRecord,
        to: Base,
        head: Head,
        deed: &Deed<'_>,
        landing: Landing,
    ) -> Result<u64> {
        let before = self.vault.base_of(&record.head)?;
        let mut changes = self.vault.changed_paths(&before.root, &to.root)?;
        let moved = still.rebase(to, &changes, landing.renews()).map_err(Error::from);
        record.nameless = still.nameless_contents();
        moved.and_then(|()| self.vault.advance(record, head, deed)).inspect_err(|_| {
            changes.iter_mut().for_each(|change| std::mem::swap(&mut change.before, &mut change.after));
            if still.rebase(before, &changes, landing.renews()).is_err() {
                self.torn.store(true, Ordering::Relaxed);
            }
        })
    }

    /// The open conflicts of the given state, if it changed them; nobody else may have done so meanwhile.
    fn conflicts_after(&self, record: &VaultRecord, adopt: &Adopt) -> Result<Option<SnapshotId>> {
        match &adopt.conflicts {
            None => Ok(record.head.conflicts),
            Some(edit) if edit.before == record.head.conflicts || adopt.exact => Ok(edit.after),
            Some(_) => Err(Error::Overtaken { vault: self.name.to_string(), path: None }),
        }
    }

    /// Where the given state lands on the present one.
    fn land(&self, record: &VaultRecord, adopt: &Adopt, given: &Snapshot) -> Result<Landed> {
        if given.parents.first() != Some(&adopt.base) {
            let reason = format!("snapshot {} does not follow {}", adopt.snapshot, adopt.base);
            return Err(Error::BadRequest { reason });
        }
        let base = Base { root: given.root.clone(), inodes: adopt.inodes };
        if record.head.snapshot == adopt.base {
            return Ok(Landed { snapshot: adopt.snapshot, base });
        }
        // What the last thing was that could be undone has changed with the head.
        if adopt.undoes.is_some() {
            return Err(Error::Overtaken { vault: self.name.to_string(), path: None });
        }
        let base = match adopt.landing() {
            Landing::Whole => self.land_whole(record, base)?,
            Landing::InPlace | Landing::Renewed => self.land_merged(record, adopt.base, base)?,
        };
        let mut parents = given.parents.clone();
        parents[0] = record.head.snapshot;
        let deed = adopt.deed(&given.author);
        let snapshot = self.vault.store().put_snapshot(base.root.clone(), parents, &deed)?;
        Ok(Landed { snapshot, base })
    }

    /// The given state as it is; only the times at which paths changed are new.
    fn land_whole(&self, record: &VaultRecord, given: Base) -> Result<Base> {
        let present = self.vault.base_of(&record.head)?;
        check_growth(&present.root.totals, &given.root.totals, super::limits_of(record))?;
        let changes = self.vault.changed_paths(&present.root, &given.root)?;
        let inodes = self.vault.touch(given.clone(), &changes)?;
        Ok(Base { inodes, ..given })
    }

    /// The present state with what changed from the base to the given one.
    fn land_merged(&self, record: &VaultRecord, base: SnapshotId, given: Base) -> Result<Base> {
        let kept = self.vault.kept_anywhere(base)?;
        let base = Base { root: self.vault.snapshot(base)?.root, inodes: kept.and_then(|kept| kept.inodes) };
        let scratch = OpenVault::scratch(self.vault.clone(), record.clone())?;
        onto::bring_onto(&scratch, base, given)?;
        Ok(scratch.tree.freeze()?.base().clone())
    }
}

#[cfg(test)]
mod tests {
    use avfs_core::TreePath;

    use super::*;
    use crate::{Store, VaultName};

    fn path() -> TreePath {
        TreePath::parse(b"/a").unwrap()
    }

    /// A vault with `/a`, and a state in which it is another.
    fn scene() -> (OpenVault, Adopt) {
        let vault = Store::in_memory().create_vault(&VaultName::new("main").unwrap()).unwrap();
        let open = vault.open().unwrap();
        open.write_bytes(&path(), b"old").unwrap();
        let base = open.settle().unwrap();
        let guest = OpenVault::scratch(vault.clone(), open.record().clone()).unwrap();
        guest.write_bytes(&path(), b"new").unwrap();
        let frozen = guest.tree().freeze().unwrap();
        let deed = vault.deed("write", "/a", None);
        let root = frozen.base().root.clone();
        let snapshot = vault.store().put_snapshot(root, vec![base], &deed).unwrap();
        let head = Head { snapshot, inodes: frozen.base().inodes, journal: 0, conflicts: None };
        let base = Head { snapshot: base, ..head };
        (open, Adopt::new(&base, &head, &deed, Landing::InPlace))
    }

    #[test]
    fn a_given_state_is_the_head_and_in_the_tree() {
        let (open, adopt) = scene();
        let (_, head) = open.adopt(&adopt).unwrap();
        assert_eq!(head.snapshot, adopt.snapshot);
        assert_eq!(&open.read(&path()).unwrap()[..], b"new");
        assert_eq!(open.vault().head().unwrap(), adopt.snapshot);
    }

    #[test]
    fn a_given_state_that_cannot_be_committed_leaves_the_tree_as_it_was() {
        let (open, adopt) = scene();
        open.vault().clone().delete(true).unwrap();
        assert_eq!(open.adopt(&adopt).unwrap_err().code(), "unknown-vault");
        assert_eq!(&open.read(&path()).unwrap()[..], b"old");
        assert!(!open.tree().is_dirty());
        open.check_whole().unwrap();
    }

    #[test]
    fn a_state_that_does_not_follow_its_base_is_refused() {
        let (open, adopt) = scene();
        let wrong = Adopt { base: adopt.snapshot, ..adopt };
        assert_eq!(open.adopt(&wrong).unwrap_err().code(), "owner-failed");
        assert_eq!(&open.read(&path()).unwrap()[..], b"old");
    }
}
