//! Exclusive use of a tree: no other door reads or changes it while a state that was made elsewhere becomes
//! the current one.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

use avfs_core::Content;
use avfs_core::diff::TreeChange;

use super::{TreeMoment, WorkTree, remove_journal};
use crate::error::FsError;
use crate::journal::LogFile;
use crate::objects::ObjectWriter;
use crate::worktree::freeze::Frozen;
use crate::worktree::rebase::Rebase;
use crate::worktree::state::{BaseTree, TreeState};

/// The stored changes: to be settled once they are the head, or dropped to undo the capture.
#[must_use = "a stored tree that is not settled stays changed"]
pub struct StoredChanges {
    frozen: Frozen,
    included: u64,
}

impl StoredChanges {
    /// The state that was stored.
    pub fn base(&self) -> &BaseTree {
        &self.frozen.base
    }

    /// The number of the last journal whose operations it includes.
    pub fn journal(&self) -> u64 {
        self.included
    }
}

/// The tree, locked for one caller: while this lives, every other door waits.
#[must_use = "other doors can use the tree again when this is dropped"]
pub struct ExclusiveTree<'a> {
    tree: &'a WorkTree,
    state: MutexGuard<'a, TreeState>,
    _turn: MutexGuard<'a, ()>,
}

impl<'a> ExclusiveTree<'a> {
    pub(super) fn new(tree: &'a WorkTree) -> ExclusiveTree<'a> {
        // `turn` before `state`, as everywhere: a snapshot that is being stored takes `state` in between.
        let turn = tree.shared.turn.lock().unwrap_or_else(PoisonError::into_inner);
        ExclusiveTree {
            tree,
            state: tree.state(),
            _turn: turn,
        }
    }

    /// Whether it has changes that are not stored.
    pub fn is_dirty(&self) -> bool {
        self.state.is_dirty()
    }

    /// The stored state that the tree is based on.
    pub fn base(&self) -> &BaseTree {
        &self.state.base
    }

    /// As [`WorkTree::nameless_contents`].
    pub fn nameless_contents(&self) -> Vec<Content> {
        self.state.nameless_contents()
    }

    /// Stores the changes. Changes that were stored before and not settled are included.
    pub fn freeze(&mut self) -> Result<StoredChanges, FsError> {
        self.state.abandon()?;
        let (captured, included) = self.tree.journaling().capture(&mut self.state)?;
        let objects = self.state.objects.clone();
        let frozen = captured.store(&objects, &ObjectWriter::new(&objects))?;
        Ok(StoredChanges { frozen, included })
    }

    /// The stored changes are the head: nothing differs from it.
    pub fn settle(&mut self, stored: StoredChanges) {
        let settled = stored.frozen.settle(&mut self.state);
        settled.finish(&mut self.state);
        let logs: Vec<Arc<LogFile>> = self.state.sealed.drain(..).collect();
        logs.iter().for_each(|log| remove_journal(log.place()));
    }

    /// Makes another stored state the current one, in time proportional to the differences. The tree must not
    /// be dirty, and `changes` are the differences of its base and `to`. With `renew`, handles on files whose
    /// contents change become stale; otherwise the change looks like a write.
    pub fn rebase(&mut self, to: BaseTree, changes: &[TreeChange], renew: bool) -> Result<(), FsError> {
        if self.state.is_dirty() || self.state.settling.is_some() {
            return Err(FsError::Invalid(
                "a changed tree cannot be based on another state",
            ));
        }
        let TreeMoment(before) = self.state.moment;
        self.state.moment = TreeMoment(before + 1);
        let moved = Rebase {
            state: &mut self.state,
            renew,
        }
        .run(to, changes);
        // Only now, when every watcher has been notified of the replacements.
        self.tree.shared.moment.store(before + 1, Ordering::Release);
        moved
    }
}

impl Drop for ExclusiveTree<'_> {
    fn drop(&mut self) {
        // Already settled if it succeeded. Undoing the capture affects only memory.
        let abandoned = self.state.abandon();
        debug_assert!(abandoned.is_ok(), "{abandoned:?}");
    }
}
