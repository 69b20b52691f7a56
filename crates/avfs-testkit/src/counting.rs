//! A store that counts its calls: costs that do not depend on the machine.

use std::sync::atomic::{AtomicU64, Ordering};

use avfs_core::ObjectId;
use avfs_store::{
    CommitError, NewObject, ObjectStore, Pin, RefEdit, RefKey, RefRange, RefStore, StoreError, StoredObject,
    Upkeep,
};

/// Forwards everything and counts it.
#[derive(Default)]
pub struct CountingStore<S> {
    inner: S,
    objects_read: AtomicU64,
    objects_written: AtomicU64,
    bytes_written: AtomicU64,
    refs_touched: AtomicU64,
}

/// The calls to a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub objects_read: u64,
    pub objects_written: u64,
    pub bytes_written: u64,
    pub refs_touched: u64,
}

impl<S> CountingStore<S> {
    /// The calls since the last one of this.
    pub fn take(&self) -> Counts {
        let take = |counter: &AtomicU64| counter.swap(0, Ordering::Relaxed);
        Counts {
            objects_read: take(&self.objects_read),
            objects_written: take(&self.objects_written),
            bytes_written: take(&self.bytes_written),
            refs_touched: take(&self.refs_touched),
        }
    }
}

fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}

impl<S: ObjectStore> ObjectStore for CountingStore<S> {
    fn get_many(&self, ids: &[ObjectId]) -> Result<Vec<StoredObject>, StoreError> {
        add(&self.objects_read, ids.len());
        self.inner.get_many(ids)
    }

    fn put_many(&self, objects: &[NewObject<'_>]) -> Result<(), StoreError> {
        add(&self.objects_written, objects.len());
        add(
            &self.bytes_written,
            objects.iter().map(|object| object.bytes.len()).sum(),
        );
        self.inner.put_many(objects)
    }

    fn contains_many(&self, ids: &[ObjectId]) -> Result<Vec<bool>, StoreError> {
        self.inner.contains_many(ids)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.inner.sync()
    }

    fn pin(&self) -> Result<Pin, StoreError> {
        self.inner.pin()
    }

    fn upkeep(&self) -> Option<&dyn Upkeep> {
        self.inner.upkeep()
    }

    fn at_hand(&self, id: ObjectId) -> Option<StoredObject> {
        self.inner.at_hand(id)
    }
}

impl<S: RefStore> RefStore for CountingStore<S> {
    fn read(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        add(&self.refs_touched, 1);
        self.inner.read(key)
    }

    fn scan_many(&self, ranges: &[RefRange]) -> Result<Vec<Vec<(RefKey, Vec<u8>)>>, StoreError> {
        let found = self.inner.scan_many(ranges)?;
        add(&self.refs_touched, found.iter().map(Vec::len).sum());
        Ok(found)
    }

    fn commit(&self, edits: &[RefEdit]) -> Result<(), CommitError> {
        add(&self.refs_touched, edits.len());
        self.inner.commit(edits)
    }
}
