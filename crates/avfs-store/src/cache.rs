//! Verified objects kept in memory, bounded by their bytes.

use avfs_core::ObjectId;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::door::Object;

/// Larger objects are not kept. A file of this size is one object; hashing it again would cost more than
/// all else in reading it, and the cache keeps what is asked for often when large ones pass through.
const LARGEST: usize = 1024 * 1024;

/// What an entry costs besides its bytes: id, handle and table slots.
const OVERHEAD: u64 = 128;

/// Objects read lately. Only verified objects are ever put here.
pub(crate) struct ObjectCache {
    entries: Cache<ObjectId, Object, Weight>,
}

#[derive(Clone)]
struct Weight;

impl Weighter<ObjectId, Object> for Weight {
    fn weight(&self, _: &ObjectId, object: &Object) -> u64 {
        OVERHEAD + object.bytes.len() as u64
    }
}

impl ObjectCache {
    /// Holds up to `bytes` bytes; with 0, nothing.
    pub(crate) fn new(bytes: u64) -> ObjectCache {
        ObjectCache { entries: Cache::with_weighter(1024, bytes, Weight) }
    }

    pub(crate) fn get(&self, id: &ObjectId) -> Option<Object> {
        self.entries.get(id)
    }

    pub(crate) fn insert(&self, id: ObjectId, object: &Object) {
        if object.bytes.len() <= LARGEST {
            self.entries.insert(id, object.clone());
        }
    }
}
