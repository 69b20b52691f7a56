//! The newest state that two vaults have in common.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

use avfs_core::{Snapshot, SnapshotId, Timestamp};
use avfs_store::StoreError;
use avfs_tree::{BaseTree, ObjectError};

use crate::conflicts::VaultMerges;
use crate::error::{Error, MergeError, Result, TaskError};
use crate::record::Head;
use crate::task::Task;
use crate::vault::Vault;

const OURS: u8 = 1;
const THEIRS: u8 = 2;

impl VaultMerges<'_> {
    /// The newest state from which both a state made of `ours` and `theirs` of another vault come.
    pub(super) fn common_state(
        &self,
        ours: &[SnapshotId],
        other: &Vault,
        theirs: SnapshotId,
    ) -> Result<Head> {
        let mut walk = Ancestry::new(self.vault, other);
        ours.iter().for_each(|id| walk.reach(*id, OURS));
        walk.reach(theirs, THEIRS);
        for (vault, side) in [(self.vault, OURS), (other, THEIRS)] {
            // A fork comes from there, even if nothing in between is kept.
            if let Some(parent) = vault.record()?.0.parent {
                walk.reach(parent.snapshot, side);
            }
        }
        while let Some(common) = walk.next_common()? {
            if common == theirs {
                return other.record().map(|(record, _)| Head {
                    snapshot: theirs,
                    ..record.head
                });
            }
            if let Some(state) = self.vault.revisions().kept_anywhere(common)? {
                return Ok(state);
            }
        }
        Err(Error::Merge(MergeError::NotRelated {
            vault: self.vault.name()?.to_string(),
            other: other.name()?.to_string(),
        }))
    }

    /// For two tasks on one directory that began at different times: where the other one began, and a state
    /// of it. The user's changes in between are then ours.
    pub(super) fn began_with(
        &self,
        other: &Vault,
        theirs: SnapshotId,
    ) -> Result<Option<(SnapshotId, BaseTree, BaseTree)>> {
        let task = |vault: &Vault| match Task::of(vault.clone()) {
            Ok(task) => Ok(Some(task)),
            Err(Error::Task(TaskError::NotATask { .. })) => Ok(None),
            Err(error) => Err(error),
        };
        let (Some(own), Some(other)) = (task(self.vault)?, task(other)?) else {
            return Ok(None);
        };
        if own.root() != other.root() {
            return Ok(None);
        }
        // Both as the task has seen them, whatever the directory has had since.
        let (began, now) = (other.base()?, self.vault.store().projects().with_moved(theirs)?);
        let base = |state| {
            Ok::<_, Error>(BaseTree {
                root: self.vault.snapshot(state)?.root,
                inodes: None,
            })
        };
        Ok(Some((began, base(began)?, base(now)?)))
    }

    /// Whether everything that another vault holds has come into this one.
    pub(crate) fn has_merged(&self, other: &Vault) -> Result<bool> {
        let theirs = other.record()?.0.head.snapshot;
        match self.common_state(&[self.vault.record()?.0.head.snapshot], other, theirs) {
            Ok(common) => Ok(common.snapshot == theirs),
            Err(Error::Merge(MergeError::NotRelated { .. })) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// A walk from two states back through their origins, newest first.
struct Ancestry<'a> {
    vaults: [&'a Vault; 2],
    open: BinaryHeap<(Timestamp, Reverse<SnapshotId>)>,
    /// From which sides a snapshot was reached.
    reached: HashMap<SnapshotId, u8>,
    loaded: HashMap<SnapshotId, Option<Snapshot>>,
    done: BTreeSet<SnapshotId>,
    fresh: Vec<SnapshotId>,
}

impl<'a> Ancestry<'a> {
    fn new(ours: &'a Vault, theirs: &'a Vault) -> Ancestry<'a> {
        Ancestry {
            vaults: [ours, theirs],
            open: BinaryHeap::new(),
            reached: HashMap::new(),
            loaded: HashMap::new(),
            done: BTreeSet::new(),
            fresh: Vec::new(),
        }
    }

    fn reach(&mut self, id: SnapshotId, side: u8) {
        let sides = self.reached.entry(id).or_default();
        if *sides | side != *sides {
            *sides |= side;
            self.fresh.push(id);
        }
    }

    /// The next snapshot, newest first, that was reached from both sides.
    fn next_common(&mut self) -> Result<Option<SnapshotId>> {
        loop {
            for id in std::mem::take(&mut self.fresh) {
                if let Some(snapshot) = self.load(id)? {
                    self.open.push((snapshot.time, Reverse(id)));
                }
            }
            let Some((_, Reverse(id))) = self.open.pop() else {
                return Ok(None);
            };
            let sides = self.reached.get(&id).copied().unwrap_or_default();
            if sides == OURS | THEIRS {
                if self.done.insert(id) {
                    self.reach_older(id, sides)?;
                    return Ok(Some(id));
                }
            } else {
                self.reach_older(id, sides)?;
            }
        }
    }

    fn reach_older(&mut self, id: SnapshotId, side: u8) -> Result<()> {
        let Some(snapshot) = self.load(id)? else {
            return Ok(());
        };
        let mut found = false;
        for parent in self.origins(&snapshot)? {
            if self.load(parent)?.is_some() {
                found = true;
                self.reach(parent, side);
            }
        }
        if !found && !snapshot.parents.is_empty() {
            self.reach_in_history(snapshot.time, side)?;
        }
        Ok(())
    }

    /// The origins of a snapshot. A parent other than the first that equals the snapshot marks a restore:
    /// changes that were undone are not in it.
    fn origins(&mut self, snapshot: &Snapshot) -> Result<Vec<SnapshotId>> {
        for parent in snapshot.parents.iter().skip(1) {
            if self
                .load(*parent)?
                .is_some_and(|parent| parent.root == snapshot.root)
            {
                return Ok(vec![*parent]);
            }
        }
        Ok(snapshot.parents.clone())
    }

    /// A history is thinned: the predecessor is then the nearest remaining state.
    fn reach_in_history(&mut self, before: Timestamp, side: u8) -> Result<()> {
        let mut found = Vec::new();
        for (vault, own) in self.vaults.iter().zip([OURS, THEIRS]) {
            if side & own != 0 {
                vault.history().for_each_entry(|entry| {
                    let older = entry.time < before;
                    found.extend(older.then_some(entry.snapshot));
                    Ok(!older)
                })?;
            }
        }
        found.into_iter().for_each(|id| self.reach(id, side));
        Ok(())
    }

    fn load(&mut self, id: SnapshotId) -> Result<Option<Snapshot>> {
        if let Some(known) = self.loaded.get(&id) {
            return Ok(known.clone());
        }
        let snapshot = match self.vaults[0].store().objects().snapshot(id) {
            Ok(snapshot) => Some(snapshot),
            Err(ObjectError::Store(StoreError::Missing { .. })) => None,
            Err(error) => return Err(error.into()),
        };
        self.loaded.insert(id, snapshot.clone());
        Ok(snapshot)
    }
}
