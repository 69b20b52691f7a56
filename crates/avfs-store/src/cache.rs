//! Verified objects kept in memory, bounded by their bytes.

use avfs_core::ObjectId;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::door::StoredObject;

/// Larger objects are not cached. A file of this size is still one object, and hashing it again would cost
/// more than the rest of reading it; objects in frequent use stay cached when large ones pass through.
const LARGEST: usize = 1024 * 1024;

/// The memory that an entry needs besides its bytes: id, handle and table slots.
const OVERHEAD: u64 = 128;

/// Recently read objects. Only verified objects are ever inserted.
pub(crate) struct ObjectCache {
    entries: Cache<ObjectId, StoredObject, ByteWeight>,
}

#[derive(Clone)]
struct ByteWeight;

impl Weighter<ObjectId, StoredObject> for ByteWeight {
    fn weight(&self, _: &ObjectId, object: &StoredObject) -> u64 {
        OVERHEAD + object.bytes.len() as u64
    }
}

impl ObjectCache {
    /// Holds up to `bytes` bytes; with 0, the cache is disabled.
    pub(crate) fn new(bytes: u64) -> ObjectCache {
        ObjectCache {
            entries: Cache::with_weighter(1024, bytes, ByteWeight),
        }
    }

    pub(crate) fn get(&self, id: &ObjectId) -> Option<StoredObject> {
        self.entries.get(id)
    }

    pub(crate) fn insert(&self, id: ObjectId, object: &StoredObject) {
        if object.bytes.len() <= LARGEST {
            self.entries.insert(id, object.clone());
        }
    }
}
