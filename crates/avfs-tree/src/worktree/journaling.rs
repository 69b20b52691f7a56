//! Writes changes to the journal, and makes them durable while the tree remains usable.
//!
//! A journal that refers to objects is held back until they are durable. A caller that syncs has the store
//! synced without the lock of the tree; a caller that only writes never syncs the store, and
//! [`WorkTree::is_sync_due`] tells it when a sync is needed.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use super::WorkTree;
use super::state::TreeState;
use crate::ObjectError;
use crate::error::FsError;
use crate::journal::{AppendPurpose, Journal, JournalOrigin, LogFile};
use crate::op::JournalOp;
use crate::overlay::ExtentData;
use crate::worktree::capture::CapturedTree;
use crate::worktree::introduce::introduce;
use crate::worktree::replay::mark_of;

/// How often the store is synced again because the journal has referred to more objects meanwhile, before one
/// sync is made under the lock of the tree.
const ATTEMPTS: usize = 4;

/// The journal as used by a door.
pub(super) struct Journaling<'a> {
    pub tree: &'a WorkTree,
}

impl<'a> Journaling<'a> {
    /// The tree, with a journal that may be written.
    pub(super) fn with_free_journal(&self) -> Result<MutexGuard<'a, TreeState>, FsError> {
        for _ in 0..ATTEMPTS {
            let state = self.tree.state();
            if !state.journal.as_ref().is_some_and(Journal::is_held) {
                return Ok(state);
            }
            let store = Arc::clone(state.objects.store());
            let named = state.objects_named;
            drop(state);
            store.sync().map_err(ObjectError::from)?;
            let mut state = self.tree.state();
            // Objects that were named during the sync are not covered by it.
            if state.objects_named == named {
                self.free_journal(&mut state)?;
                return Ok(state);
            }
        }
        let mut state = self.tree.state();
        self.make_named_durable(&mut state)?;
        Ok(state)
    }

    /// Makes the objects durable to which the journal refers, while all doors wait.
    fn make_named_durable(&self, state: &mut TreeState) -> Result<(), FsError> {
        if state.journal.as_ref().is_some_and(Journal::is_held) {
            state.objects.store().sync().map_err(ObjectError::from)?;
        }
        self.free_journal(state)
    }

    /// Allows the journal to be written: the objects to which it refers are durable.
    fn free_journal(&self, state: &mut TreeState) -> Result<(), FsError> {
        self.tree.shared.sync_due.store(false, Ordering::Relaxed);
        match state.journal.as_mut().filter(|journal| journal.is_held()) {
            Some(journal) => {
                journal.release();
                Ok(journal.flush()?)
            }
            None => Ok(()),
        }
    }

    /// Bounds the size of the records that are held back.
    pub(super) fn bound_journal(&self, state: &mut TreeState) -> Result<(), FsError> {
        if !state.journal.as_ref().is_some_and(Journal::is_overdue) {
            return Ok(());
        }
        if self.tree.waits {
            self.make_named_durable(state)
        } else {
            self.tree.shared.sync_due.store(true, Ordering::Relaxed);
            Ok(())
        }
    }

    /// Writes an operation into the journal, if there is one.
    pub(super) fn write_down(
        &self,
        state: &mut TreeState,
        op: &JournalOp,
        data: &[u8],
    ) -> Result<ExtentData, FsError> {
        self.open_journal(state)?;
        if let Some(journal) = &mut state.journal {
            journal.set_need(if op.makes_room() {
                AppendPurpose::MakesRoom
            } else {
                AppendPurpose::Ordinary
            });
        }
        // After the need is set and before the operation: replay finds its inodes through these
        // introductions.
        introduce(state, op)?;
        let Some(journal) = &mut state.journal else {
            return Ok(ExtentData::Memory(bytes::Bytes::copy_from_slice(data)));
        };
        if op.names_objects() {
            // Held before the append: the journal must not reach the disk before the objects to which it
            // refers.
            journal.hold();
            state.objects_named += 1;
        }
        let position = journal.append(op, data)?;
        Ok(ExtentData::Logged(Arc::clone(journal.log()), position))
    }

    /// On a full disk, releases the reserved space for an operation that frees space; returns whether there
    /// was any.
    pub(super) fn use_reserve(&self, op: &JournalOp) -> bool {
        let place = self.tree.journal_place();
        let reserve = place.as_ref().and_then(|place| place.reserve.as_deref());
        op.makes_room() && reserve.is_some_and(|reserve| std::fs::remove_file(reserve).is_ok())
    }

    /// Writes bytes of a file without a name to a temporary file: they need not outlive a crash, but should
    /// not stay in memory either.
    pub(super) fn spill(&self, state: &mut TreeState, data: &[u8]) -> Result<ExtentData, FsError> {
        let place = self.tree.journal_place();
        let Some(place) = place.as_ref() else {
            return Ok(ExtentData::Memory(bytes::Bytes::copy_from_slice(data)));
        };
        let spill = match &mut state.spill {
            Some(spill) => spill,
            None => state.spill.insert(Arc::new(LogFile::nameless(&place.directory)?)),
        };
        let position = spill.append(data)?;
        Ok(ExtentData::Logged(Arc::clone(spill), position))
    }

    /// The first operation after a snapshot starts a journal.
    fn open_journal(&self, state: &mut TreeState) -> Result<(), FsError> {
        if state.journal.is_some() {
            return Ok(());
        }
        let mut place = self.tree.journal_place();
        if let Some(place) = place.as_mut() {
            let origin = if state.sealed.is_empty() && state.settling.is_none() {
                JournalOrigin {
                    base: mark_of(&state.base),
                    follows: 0,
                }
            } else {
                JournalOrigin {
                    base: 0,
                    follows: place.included,
                }
            };
            place.included += 1;
            state.journal = Some(Journal::create(&place.path(place.included), origin)?);
        }
        Ok(())
    }

    /// Captures the changes; later operations go to a new journal.
    pub(super) fn capture(&self, state: &mut TreeState) -> Result<(CapturedTree, u64), FsError> {
        self.make_named_durable(state)?;
        if let Some(journal) = &mut state.journal {
            // First: if this fails, nothing was taken out of memory yet.
            journal.seal()?;
        }
        let captured = CapturedTree::take(state)?;
        if let Some(journal) = state.journal.take() {
            state.sealed.push(Arc::clone(journal.log()));
            state.journaled.clear();
        }
        Ok((
            captured,
            self.tree
                .journal_place()
                .as_ref()
                .map_or(0, |place| place.included),
        ))
    }

    /// Returns once everything done before survives a power loss. The tree remains usable meanwhile.
    pub(super) fn sync(&self) -> Result<(), FsError> {
        let mut state = self.with_free_journal()?;
        let mut logs: Vec<(Arc<LogFile>, u64)> = state
            .sealed
            .iter()
            .map(|log| (Arc::clone(log), log.written()))
            .collect();
        if let Some(journal) = &mut state.journal {
            let end = journal.mark()?;
            logs.push((Arc::clone(journal.log()), end));
        }
        drop(state);
        // In order: recovery trusts a journal only if the one before it is complete.
        logs.into_iter().try_for_each(|(log, end)| Ok(log.sync_to(end)?))
    }
}
