//! A tree that stands still: nobody changes it while a state that was made elsewhere becomes the present one.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

use avfs_core::Content;
use avfs_core::diff::Change;

use super::{Moment, WorkTree, remove_journal};
use crate::error::FsError;
use crate::journal::LogFile;
use crate::objects::ObjectWriter;
use crate::worktree::freeze::Frozen;
use crate::worktree::state::{Base, State};

/// What changed, stored: to be settled once it is the head, or dropped and nothing has happened.
#[must_use = "a stored tree that is not settled stays changed"]
pub struct Stored {
    frozen: Frozen,
    included: u64,
}

impl Stored {
    pub fn base(&self) -> &Base {
        &self.frozen.base
    }

    /// The number of the last journal whose operations are in it.
    pub fn journal(&self) -> u64 {
        self.included
    }
}

/// While this lives, everybody else waits.
#[must_use = "the tree moves again when this is dropped"]
pub struct Still<'a> {
    tree: &'a WorkTree,
    state: MutexGuard<'a, State>,
    _turn: MutexGuard<'a, ()>,
}

impl WorkTree {
    /// Waits for a snapshot that is being stored, and makes everybody else wait.
    pub fn stand_still(&self) -> Still<'_> {
        let turn = self.shared.turn.lock().unwrap_or_else(PoisonError::into_inner);
        Still { tree: self, state: self.state(), _turn: turn }
    }

    /// The stored contents that files without a name still need, which are in no later snapshot: whoever
    /// takes one keeps them from being collected.
    pub fn nameless_contents(&self) -> Vec<Content> {
        self.state().nameless_contents()
    }
}

impl Still<'_> {
    pub fn is_dirty(&self) -> bool {
        self.state.is_dirty()
    }

    /// The stored state that the tree is based on.
    pub fn base(&self) -> &Base {
        &self.state.base
    }

    /// As [`WorkTree::nameless_contents`].
    pub fn nameless_contents(&self) -> Vec<Content> {
        self.state.nameless_contents()
    }

    /// Stores what changed. What was stored before and not settled counts as changed.
    pub fn freeze(&mut self) -> Result<Stored, FsError> {
        self.state.abandon()?;
        let (captured, included) = self.tree.capture(&mut self.state)?;
        let objects = self.state.objects.clone();
        let frozen = captured.store(&objects, &ObjectWriter::new(&objects))?;
        Ok(Stored { frozen, included })
    }

    /// What was stored is the head: nothing differs from it.
    pub fn settle(&mut self, stored: Stored) {
        let settled = self.state.settle(stored.frozen);
        settled.finish(&mut self.state);
        let logs: Vec<Arc<LogFile>> = self.state.sealed.drain(..).collect();
        logs.iter().for_each(|log| remove_journal(log.place()));
    }

    /// Makes another stored state the present one, in the time of what differs. The tree must not be dirty,
    /// and `changes` are the differences of its base and `to`. With `renew`, handles on files whose contents
    /// change are stale from now on; otherwise it is as if somebody had written to them.
    pub fn rebase(&mut self, to: Base, changes: &[Change], renew: bool) -> Result<(), FsError> {
        if self.state.is_dirty() || self.state.settling.is_some() {
            return Err(FsError::Invalid("a changed tree cannot be based on another state"));
        }
        let Moment(before) = self.state.moment;
        self.state.moment = Moment(before + 1);
        let moved = self.state.rebase(to, changes, renew);
        // Only now, when every watcher knows what was replaced.
        self.tree.shared.moment.store(before + 1, Ordering::Release);
        moved
    }
}

impl Drop for Still<'_> {
    fn drop(&mut self) {
        // Settled already if it succeeded. Taking changes back touches only what is in memory.
        let abandoned = self.state.abandon();
        debug_assert!(abandoned.is_ok(), "{abandoned:?}");
    }
}
