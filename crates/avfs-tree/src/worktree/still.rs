//! A tree that stands still: nobody changes it while a state that was made elsewhere becomes the present one.

use std::sync::{Arc, MutexGuard, PoisonError};

use avfs_core::diff::Change;

use super::{WorkTree, remove_journal};
use crate::error::FsError;
use crate::journal::LogFile;
use crate::objects::ObjectWriter;
use crate::worktree::freeze::Frozen;
use crate::worktree::state::{Base, State};

/// What a tree that stands still would be stored as.
pub struct Rest {
    frozen: Frozen,
    /// The number of the last journal whose operations are in it.
    pub journal: u64,
}

impl Rest {
    pub fn base(&self) -> &Base {
        &self.frozen.base
    }
}

/// While this lives, everybody else waits.
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
}

impl Still<'_> {
    pub fn is_dirty(&self) -> bool {
        self.state.is_dirty()
    }

    /// The stored state that the tree is based on.
    pub fn base(&self) -> &Base {
        &self.state.base
    }

    /// Stores what changed. Commit the new head and call [`Still::settle`], or [`Still::abandon`].
    pub fn freeze(&mut self) -> Result<Rest, FsError> {
        let (captured, journal) = self.tree.capture(&mut self.state)?;
        let objects = self.state.objects.clone();
        match captured.store(&objects, &ObjectWriter::new(&objects)) {
            Ok(frozen) => Ok(Rest { frozen, journal }),
            Err(error) => {
                self.state.abandon()?;
                Err(error)
            }
        }
    }

    /// The new head is durable: nothing differs from it.
    pub fn settle(&mut self, rest: Rest) {
        self.state.settle(rest.frozen);
        let logs: Vec<Arc<LogFile>> = self.state.sealed.drain(..).collect();
        logs.iter().for_each(|log| remove_journal(log.place()));
    }

    /// The new head was not committed: everything differs as before.
    pub fn abandon(&mut self, rest: Rest) -> Result<(), FsError> {
        drop(rest);
        self.state.abandon()
    }

    /// Makes another stored state the present one, in the time of what differs. The tree must not be dirty,
    /// and `changes` are the differences of its base and `to`. With `renew`, handles on files whose contents
    /// change are stale from now on; otherwise it is as if somebody had written to them.
    pub fn rebase(&mut self, to: Base, changes: &[Change], renew: bool) -> Result<(), FsError> {
        if self.state.is_dirty() || self.state.settling.is_some() {
            return Err(FsError::Invalid("a changed tree cannot be based on another state"));
        }
        self.state.rebase(to, changes, renew)
    }
}
