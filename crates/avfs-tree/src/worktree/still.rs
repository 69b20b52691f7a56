//! A tree that stands still: nobody changes it while a guard lives, and its owner may move it elsewhere.

use std::sync::MutexGuard;

use avfs_core::diff::Change;

use super::freeze::Frozen;
use super::state::{Base, State};
use super::{WorkTree, remove_journal};
use crate::error::FsError;
use crate::objects::ObjectWriter;

/// Holds a tree still until it is dropped.
#[must_use = "the tree moves again when this is dropped"]
pub struct Still<'a> {
    tree: &'a WorkTree,
    state: MutexGuard<'a, State>,
}

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

    /// The number of the last journal whose operations are in this tree.
    pub fn journal(&self) -> u64 {
        self.included
    }
}

impl WorkTree {
    pub fn stand_still(&self) -> Still<'_> {
        Still { tree: self, state: self.state() }
    }

    /// How much the journal holds: it grows with every change until a snapshot.
    pub fn journal_len(&self) -> u64 {
        self.state().journal.as_ref().map_or(0, |journal| journal.len())
    }
}

impl Still<'_> {
    /// Whether anything differs from the head.
    pub fn is_dirty(&self) -> bool {
        self.state.is_dirty()
    }

    /// Stores what changed.
    pub fn freeze(&self) -> Result<Stored, FsError> {
        let writer = ObjectWriter::new(&self.state.objects);
        let frozen = self.state.freeze(&writer)?;
        let place = self.tree.journal.lock().expect("no panic happens while the lock is held");
        let included = place.as_ref().map_or(0, |place| place.included);
        Ok(Stored { frozen, included })
    }

    /// What was stored is the head: the journal up to here is not needed any more.
    pub fn settle(&mut self, stored: Stored) {
        self.state.settle(stored.frozen);
        self.state.journaled.clear();
        if let Some(journal) = self.state.journal.take() {
            remove_journal(journal.place());
        }
    }

    /// Moves a settled tree to another stored state. If this fails, the tree is where it was.
    ///
    /// Everything in memory is loaded anew from there, whatever differs and whether or not files are
    /// renewed: numbers of inodes hold again once they were looked up.
    pub fn rebase(&mut self, to: Base, _changes: &[Change], _renew: bool) -> Result<(), FsError> {
        if self.state.is_dirty() || self.state.journal.is_some() {
            return Err(FsError::Invalid("a changed tree cannot be moved to another state"));
        }
        *self.state = State::new(self.state.objects.clone(), to)?;
        Ok(())
    }
}
