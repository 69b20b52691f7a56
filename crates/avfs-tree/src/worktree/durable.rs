//! Making changes durable while the tree goes on.
//!
//! A journal that names objects is held back until they are durable. The store is synced without the tree's lock, by
//! whoever syncs; who only writes never does it, he is told when it is time ([`WorkTree::is_sync_due`]).

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use super::WorkTree;
use super::state::State;
use crate::ObjectError;
use crate::error::FsError;
use crate::journal::{Journal, LogFile};

/// How often the store is synced because the journal has named more objects meanwhile, before the tree waits for
/// it once.
const ATTEMPTS: usize = 4;

impl WorkTree {
    /// Returns once everything done before survives a power loss. The tree goes on meanwhile.
    pub fn sync(&self) -> Result<(), FsError> {
        let mut state = self.with_free_journal()?;
        let mut logs: Vec<(Arc<LogFile>, u64)> =
            state.sealed.iter().map(|log| (Arc::clone(log), log.written())).collect();
        if let Some(journal) = &mut state.journal {
            let end = journal.mark()?;
            logs.push((Arc::clone(journal.log()), end));
        }
        drop(state);
        // In their order: a journal is believed only if the one before it is whole.
        logs.into_iter().try_for_each(|(log, end)| Ok(log.sync_to(end)?))
    }

    /// Whether more of the journal is held back than should be in memory: somebody who may wait is to sync.
    pub fn is_sync_due(&self) -> bool {
        self.shared.sync_due.load(Ordering::Relaxed)
    }

    /// The tree, with a journal that may be written.
    pub(super) fn with_free_journal(&self) -> Result<MutexGuard<'_, State>, FsError> {
        for _ in 0..ATTEMPTS {
            let state = self.state();
            if !state.journal.as_ref().is_some_and(Journal::is_held) {
                return Ok(state);
            }
            let (store, named) = (Arc::clone(state.objects.store()), state.objects_named);
            drop(state);
            store.sync().map_err(ObjectError::from)?;
            let mut state = self.state();
            if state.objects_named == named {
                self.free_journal(&mut state)?;
                return Ok(state);
            }
        }
        let mut state = self.state();
        self.make_named_durable(&mut state)?;
        Ok(state)
    }

    /// Makes the objects durable that the journal names, with everybody waiting for it.
    pub(super) fn make_named_durable(&self, state: &mut State) -> Result<(), FsError> {
        if state.journal.as_ref().is_some_and(Journal::is_held) {
            state.objects.store().sync().map_err(ObjectError::from)?;
        }
        self.free_journal(state)
    }

    /// The objects that the journal names are durable, so that it may be written.
    fn free_journal(&self, state: &mut State) -> Result<(), FsError> {
        self.shared.sync_due.store(false, Ordering::Relaxed);
        match state.journal.as_mut().filter(|journal| journal.is_held()) {
            Some(journal) => {
                journal.release();
                Ok(journal.flush()?)
            }
            None => Ok(()),
        }
    }

    /// Keeps what is held back from growing without end.
    pub(super) fn bound_journal(&self, state: &mut State) -> Result<(), FsError> {
        if !state.journal.as_ref().is_some_and(Journal::is_overdue) {
            return Ok(());
        }
        match self.waits {
            true => self.make_named_durable(state),
            false => {
                self.shared.sync_due.store(true, Ordering::Relaxed);
                Ok(())
            }
        }
    }
}
