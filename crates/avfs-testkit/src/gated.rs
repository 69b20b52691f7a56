//! A store that can be made to hang.

use std::sync::{Condvar, Mutex, MutexGuard};

use avfs_core::ObjectId;
use avfs_store::{
    CommitError, NewObject, ObjectStore, Pin, RefEdit, RefKey, RefRange, RefStore, StoreError, StoredObject,
    Upkeep,
};

/// Forwards everything; while it is shut, reads and syncs wait. Objects are never at hand.
#[derive(Default)]
pub struct GatedStore<S> {
    inner: S,
    gate: Mutex<Gate>,
    moved: Condvar,
}

#[derive(Default)]
struct Gate {
    is_shut: bool,
    waiting: usize,
}

impl<S> GatedStore<S> {
    /// From now on reads and syncs wait.
    pub fn shut(&self) {
        self.gate().is_shut = true;
    }

    /// Lets all of them continue.
    pub fn open(&self) {
        self.gate().is_shut = false;
        self.moved.notify_all();
    }

    /// How many reads and syncs wait.
    pub fn waiting(&self) -> usize {
        self.gate().waiting
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap()
    }

    fn pass(&self) {
        let mut gate = self.gate();
        gate.waiting += 1;
        gate = self.moved.wait_while(gate, |gate| gate.is_shut).unwrap();
        gate.waiting -= 1;
    }
}

impl<S: ObjectStore> ObjectStore for GatedStore<S> {
    fn get_many(&self, ids: &[ObjectId]) -> Result<Vec<StoredObject>, StoreError> {
        self.pass();
        self.inner.get_many(ids)
    }

    fn put_many(&self, objects: &[NewObject<'_>]) -> Result<(), StoreError> {
        self.inner.put_many(objects)
    }

    fn contains_many(&self, ids: &[ObjectId]) -> Result<Vec<bool>, StoreError> {
        self.inner.contains_many(ids)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.pass();
        self.inner.sync()
    }

    fn pin(&self) -> Result<Pin, StoreError> {
        self.inner.pin()
    }

    fn upkeep(&self) -> Option<&dyn Upkeep> {
        self.inner.upkeep()
    }
}

impl<S: RefStore> RefStore for GatedStore<S> {
    fn read(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.read(key)
    }

    fn scan_many(&self, ranges: &[RefRange]) -> Result<Vec<Vec<(RefKey, Vec<u8>)>>, StoreError> {
        self.inner.scan_many(ranges)
    }

    fn commit(&self, edits: &[RefEdit]) -> Result<(), CommitError> {
        self.inner.commit(edits)
    }
}
