//! Objects that were read ahead for a caller that must not wait for the store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use avfs_core::{ObjectId, Promise};
use avfs_store::StoredObject;

/// Fetched objects that are still needed. An object stays here until the caller that fetched it is done, so
/// its next attempt finds it however busy the caches are.
#[derive(Default)]
pub(super) struct PrefetchedObjects {
    objects: Mutex<HashMap<ObjectId, (StoredObject, usize)>>,
}

impl PrefetchedObjects {
    pub(super) fn get(&self, id: ObjectId) -> Option<StoredObject> {
        self.objects().get(&id).map(|(object, _)| object.clone())
    }

    fn put(&self, id: ObjectId, object: StoredObject) {
        self.objects().entry(id).or_insert((object, 0)).1 += 1;
    }

    fn release(&self, id: ObjectId) {
        let mut objects = self.objects();
        if let Some((_, users)) = objects.get_mut(&id) {
            *users -= 1;
            if *users == 0 {
                objects.remove(&id);
            }
        }
    }

    fn objects(&self) -> MutexGuard<'_, HashMap<ObjectId, (StoredObject, usize)>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An object that stays in memory for as long as this lives.
#[must_use = "what was fetched is at hand until this is dropped"]
pub struct PrefetchedObject {
    prefetched: Arc<PrefetchedObjects>,
    id: ObjectId,
    promise: Option<Arc<Promise>>,
}

impl PrefetchedObject {
    /// The promise that it is, if it is one.
    pub(crate) fn promise(&self) -> Option<&Promise> {
        self.promise.as_deref()
    }

    pub(super) fn new(
        prefetched: &Arc<PrefetchedObjects>,
        id: ObjectId,
        object: StoredObject,
        promise: Option<Arc<Promise>>,
    ) -> PrefetchedObject {
        prefetched.put(id, object);
        PrefetchedObject {
            prefetched: Arc::clone(prefetched),
            id,
            promise,
        }
    }
}

impl Drop for PrefetchedObject {
    fn drop(&mut self) {
        self.prefetched.release(self.id);
    }
}
