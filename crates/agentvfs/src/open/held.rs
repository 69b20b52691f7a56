//! Keeping garbage collection away from objects that are stored before the tree has them.

use std::sync::{Mutex, MutexGuard};

use avfs_store::Pin;

use crate::error::Result;
use crate::store::Store;

/// The pin of an open vault. Several threads may store objects while another one takes a snapshot: the pin
/// ends with a snapshot only if everything that was stored under it was part of the tree by then.
#[derive(Default)]
pub(super) struct Held(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    pin: Option<Pin>,
    /// Who stores objects right now.
    holding: u64,
    /// How often someone began to.
    begun: u64,
}

/// Objects are being stored. Once this is dropped and a later snapshot is taken, garbage collection may run.
pub struct Holding<'a>(&'a Held);

/// The moment before a tree is stored.
pub(super) struct Mark(Option<u64>);

impl Held {
    pub fn with(pin: Option<Pin>) -> Held {
        Held(Mutex::new(Inner { pin, ..Inner::default() }))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("no panic happens while the lock is held")
    }

    pub fn hold(&self, store: &Store) -> Result<Holding<'_>> {
        let mut inner = self.inner();
        if inner.pin.is_none() {
            inner.pin = Some(store.objects().store().pin()?);
        }
        inner.holding += 1;
        inner.begun += 1;
        Ok(Holding(self))
    }

    pub fn mark(&self) -> Mark {
        let inner = self.inner();
        Mark((inner.holding == 0).then_some(inner.begun))
    }

    /// What was stored before the mark is part of a snapshot now.
    pub fn release(&self, mark: Mark) {
        let mut inner = self.inner();
        if mark.0 == Some(inner.begun) {
            inner.pin = None;
        }
    }
}

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        self.0.inner().holding -= 1;
    }
}
