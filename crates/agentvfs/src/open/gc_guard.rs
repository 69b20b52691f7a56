//! Keeping garbage collection away from objects that are stored before the tree has them.

use std::sync::{Mutex, MutexGuard};

use avfs_store::Pin;

use crate::error::Result;
use crate::store::Store;

/// The pin of an open vault. Several threads may store objects while another one takes a snapshot: a snapshot
/// ends the pin only if everything that was stored under it was part of the tree by then.
#[derive(Default)]
pub(super) struct GcPin(Mutex<GuardState>);

#[derive(Default)]
struct GuardState {
    pin: Option<Pin>,
    /// How many threads are storing objects now.
    holding: u64,
    /// How often a thread began to.
    begun: u64,
}

/// Objects are being stored. Once this is dropped and a later snapshot is taken, garbage collection may run.
pub struct GcGuard<'a>(&'a GcPin);

/// The moment before a tree is stored.
pub(super) struct GuardMark(Option<u64>);

impl GcPin {
    pub(super) fn with(pin: Option<Pin>) -> GcPin {
        GcPin(Mutex::new(GuardState {
            pin,
            ..GuardState::default()
        }))
    }

    fn inner(&self) -> MutexGuard<'_, GuardState> {
        self.0.lock().expect("no panic happens while the lock is held")
    }

    pub(super) fn hold(&self, store: &Store) -> Result<GcGuard<'_>> {
        let mut inner = self.inner();
        if inner.pin.is_none() {
            inner.pin = Some(store.objects().store().pin()?);
        }
        inner.holding += 1;
        inner.begun += 1;
        Ok(GcGuard(self))
    }

    pub(super) fn mark(&self) -> GuardMark {
        let inner = self.inner();
        GuardMark((inner.holding == 0).then_some(inner.begun))
    }

    /// Everything that was stored before the mark is part of a snapshot now.
    pub(super) fn release(&self, mark: GuardMark) {
        let mut inner = self.inner();
        if mark.0 == Some(inner.begun) {
            inner.pin = None;
        }
    }
}

impl Drop for GcGuard<'_> {
    fn drop(&mut self) {
        self.0.inner().holding -= 1;
    }
}
