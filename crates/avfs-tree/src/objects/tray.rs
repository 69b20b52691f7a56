//! Objects that were read ahead for somebody who must not wait for a store himself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use avfs_core::ObjectId;
use avfs_store::Object;

/// What was fetched and is still wanted. Nothing is dropped from here before whoever fetched it is done: however
/// many others use the caches meanwhile, his next attempt finds it.
#[derive(Default)]
pub(super) struct Tray {
    objects: Mutex<HashMap<ObjectId, (Object, usize)>>,
}

impl Tray {
    pub fn get(&self, id: ObjectId) -> Option<Object> {
        self.objects().get(&id).map(|(object, _)| object.clone())
    }

    fn put(&self, id: ObjectId, object: Object) {
        self.objects().entry(id).or_insert((object, 0)).1 += 1;
    }

    fn take_back(&self, id: ObjectId) {
        let mut objects = self.objects();
        if let Some((_, users)) = objects.get_mut(&id) {
            *users -= 1;
            if *users == 0 {
                objects.remove(&id);
            }
        }
    }

    fn objects(&self) -> MutexGuard<'_, HashMap<ObjectId, (Object, usize)>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An object that is at hand for as long as this lives.
#[must_use = "what was fetched is at hand until this is dropped"]
pub struct Fetched {
    tray: Arc<Tray>,
    id: ObjectId,
}

impl Fetched {
    pub(super) fn new(tray: &Arc<Tray>, id: ObjectId, object: Object) -> Fetched {
        tray.put(id, object);
        Fetched { tray: Arc::clone(tray), id }
    }
}

impl Drop for Fetched {
    fn drop(&mut self) {
        self.tray.take_back(self.id);
    }
}
