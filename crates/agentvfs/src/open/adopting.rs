//! States that other processes hand to the owner of a vault: a stored state becomes the head of a live tree.

use std::sync::atomic::Ordering;

use avfs_core::{Snapshot, SnapshotId};
use avfs_tree::{BaseTree, ExclusiveTree};

use super::onto;
use super::saving::AUTOMATIC;
use super::{OpenVault, Role};
use crate::control::Adopt;
use crate::error::{Error, FileError, OwnerError, Result};
use crate::logged_action::{LoggedAction, TreeUpdate};
use crate::record::{Head, VaultRecord};
use crate::vault_limits::check_growth;

/// A stored state that can be the next head.
struct Landed {
    snapshot: SnapshotId,
    base: BaseTree,
}

/// Makes states that other processes hand to the owner of a vault its own.
#[derive(Clone, Copy)]
pub(crate) struct Adoption<'a> {
    pub(crate) open: &'a OpenVault,
}

impl Adoption<'_> {
    /// Makes a state that another process has stored the head, and moves the tree there. Changes made here
    /// since its base are kept; if they affect the same paths, nothing happens and an error is returned.
    pub(crate) fn adopt(&self, adopt: &Adopt) -> Result<(u64, Head)> {
        if !matches!(self.open.hold, Role::Owner(_)) {
            return Err(Error::Owner(OwnerError::Busy {
                vault: self.open.name.to_string(),
                owner: "another one".into(),
                by: None,
            }));
        }
        let mut record = self.open.record();
        self.open.check_whole()?;
        let store = self.open.vault.store().clone();
        let (mark, _pin) = (self.open.held.mark(), store.objects().store().pin()?);
        let mut still = self.open.tree.exclusive();
        let journal = self.save_before(&mut still, &mut record)?;
        let given = self.open.vault.snapshot(adopt.snapshot)?;
        let landed = self.land(&record, adopt, &given)?;
        let conflicts = self.conflicts_after(&record, adopt)?;
        let head = Head {
            snapshot: landed.snapshot,
            inodes: landed.base.inodes,
            journal,
            conflicts,
        };
        let logged = adopt.logged(&given.author);
        let seq = self.move_to(
            &mut still,
            &mut record,
            landed.base,
            head,
            &logged,
            adopt.update(),
        )?;
        drop(still);
        self.open.held.release(mark);
        self.open.after_save(&record);
        Ok((seq, head))
    }

    /// Makes the changes in the tree a separate snapshot and leaves no journal behind; returns the number of
    /// the last one that the head contains.
    fn save_before(&self, still: &mut ExclusiveTree<'_>, record: &mut VaultRecord) -> Result<u64> {
        self.open.store_still(
            still,
            record,
            &self.open.vault.logged(AUTOMATIC.0, AUTOMATIC.1, None),
        )?;
        // A journal without a net effect may be left.
        let stored = still.freeze()?;
        let journal = stored.journal().max(record.head.journal);
        still.settle(stored);
        Ok(journal)
    }

    /// Moves the tree, then the head. If either fails, the tree is moved back and nothing has happened.
    fn move_to(
        &self,
        still: &mut ExclusiveTree<'_>,
        record: &mut VaultRecord,
        to: BaseTree,
        head: Head,
        logged: &LoggedAction<'_>,
        update: TreeUpdate,
    ) -> Result<u64> {
        let before = self.open.vault.base_of(&record.head)?;
        let mut changes = self.open.vault.history().changed_paths(&before.root, &to.root)?;
        let moved = still.rebase(to, &changes, update.renews()).map_err(Error::from);
        record.nameless = still.nameless_contents();
        moved
            .and_then(|()| self.open.vault.advance(record, head, logged))
            .inspect_err(|_| {
                changes
                    .iter_mut()
                    .for_each(|change| std::mem::swap(&mut change.before, &mut change.after));
                if still.rebase(before, &changes, update.renews()).is_err() {
                    // Neither state can be served: every later request fails until the vault is opened again.
                    self.open.torn.store(true, Ordering::Relaxed);
                }
            })
    }

    /// The open conflicts of the given state, if it changed them; they must be unchanged here.
    fn conflicts_after(&self, record: &VaultRecord, adopt: &Adopt) -> Result<Option<SnapshotId>> {
        match &adopt.conflicts {
            None => Ok(record.head.conflicts),
            Some(edit) if edit.before == record.head.conflicts || adopt.exact => Ok(edit.after),
            Some(_) => Err(Error::File(FileError::Overtaken {
                vault: self.open.name.to_string(),
                path: None,
            })),
        }
    }

    /// Where the given state lands on the present one.
    fn land(&self, record: &VaultRecord, adopt: &Adopt, given: &Snapshot) -> Result<Landed> {
        if given.parents.first() != Some(&adopt.base) {
            let reason = format!("snapshot {} does not follow {}", adopt.snapshot, adopt.base);
            return Err(Error::Owner(OwnerError::BadRequest { reason }));
        }
        let base = BaseTree {
            root: given.root.clone(),
            inodes: adopt.inodes,
        };
        if record.head.snapshot == adopt.base {
            return Ok(Landed {
                snapshot: adopt.snapshot,
                base,
            });
        }
        // The last undoable action has changed with the head.
        if adopt.undoes.is_some() {
            return Err(Error::File(FileError::Overtaken {
                vault: self.open.name.to_string(),
                path: None,
            }));
        }
        let base = match adopt.update() {
            TreeUpdate::Whole => self.land_whole(record, base)?,
            TreeUpdate::InPlace | TreeUpdate::Renewed => self.land_merged(record, adopt.base, base)?,
        };
        let mut parents = given.parents.clone();
        parents[0] = record.head.snapshot;
        let logged = adopt.logged(&given.author);
        let snapshot = self
            .open
            .vault
            .store()
            .put_snapshot(base.root.clone(), parents, &logged)?;
        Ok(Landed { snapshot, base })
    }

    /// The given state unchanged; only the times at which paths changed are new.
    fn land_whole(&self, record: &VaultRecord, given: BaseTree) -> Result<BaseTree> {
        let present = self.open.vault.base_of(&record.head)?;
        check_growth(&present.root.totals, &given.root.totals, super::limits_of(record))?;
        let changes = self
            .open
            .vault
            .history()
            .changed_paths(&present.root, &given.root)?;
        let inodes = self.open.vault.history().touch(given.clone(), &changes)?;
        Ok(BaseTree { inodes, ..given })
    }

    /// The present state with the changes from the base to the given one.
    fn land_merged(&self, record: &VaultRecord, base: SnapshotId, given: BaseTree) -> Result<BaseTree> {
        let kept = self.open.vault.revisions().kept_anywhere(base)?;
        let base = BaseTree {
            root: self.open.vault.snapshot(base)?.root,
            inodes: kept.and_then(|kept| kept.inodes),
        };
        let scratch = OpenVault::scratch(self.open.vault.clone(), record.clone())?;
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
        let vault = Store::in_memory()
            .create_vault(&VaultName::new("main").unwrap())
            .unwrap();
        let open = vault.open().unwrap();
        open.write_bytes(&path(), b"old").unwrap();
        let base = open.settle().unwrap();
        let guest = OpenVault::scratch(vault.clone(), open.record().clone()).unwrap();
        guest.write_bytes(&path(), b"new").unwrap();
        let frozen = guest.tree().freeze().unwrap();
        let logged = vault.logged("write", "/a", None);
        let root = frozen.base().root.clone();
        let snapshot = vault.store().put_snapshot(root, vec![base], &logged).unwrap();
        let head = Head {
            snapshot,
            inodes: frozen.base().inodes,
            journal: 0,
            conflicts: None,
        };
        let base = Head {
            snapshot: base,
            ..head
        };
        (open, Adopt::new(&base, &head, &logged, TreeUpdate::InPlace))
    }

    #[test]
    fn a_given_state_is_the_head_and_in_the_tree() {
        let (open, adopt) = scene();
        let (_, head) = open.adoption().adopt(&adopt).unwrap();
        assert_eq!(head.snapshot, adopt.snapshot);
        assert_eq!(&open.read(&path()).unwrap()[..], b"new");
        assert_eq!(open.vault().head().unwrap(), adopt.snapshot);
    }

    #[test]
    fn a_given_state_that_cannot_be_committed_leaves_the_tree_as_it_was() {
        let (open, adopt) = scene();
        open.vault().clone().delete(true).unwrap();
        assert_eq!(open.adoption().adopt(&adopt).unwrap_err().code(), "unknown-vault");
        assert_eq!(&open.read(&path()).unwrap()[..], b"old");
        assert!(!open.tree().is_dirty());
        open.check_whole().unwrap();
    }

    #[test]
    fn a_state_that_does_not_follow_its_base_is_refused() {
        let (open, adopt) = scene();
        let wrong = Adopt {
            base: adopt.snapshot,
            ..adopt
        };
        assert_eq!(open.adoption().adopt(&wrong).unwrap_err().code(), "owner-failed");
        assert_eq!(&open.read(&path()).unwrap()[..], b"old");
    }
}
