//! A store in the memory of the process.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use avfs_core::ObjectId;
use bytes::Bytes;

use crate::door::{
    CommitError, NewObject, ObjectStore, Pin, RefEdit, RefKey, RefRange, RefStore, StoreError, StoredObject,
};

mod pins;
mod upkeep;

use crate::upkeep::Upkeep;
use pins::MemoryPins;

/// A store in memory, which ends with the process.
#[derive(Default)]
pub struct MemoryStore {
    contents: RwLock<MemoryContents>,
    pins: Arc<MemoryPins>,
}

#[derive(Default)]
struct MemoryContents {
    objects: HashMap<ObjectId, StoredObject>,
    refs: BTreeMap<RefKey, Vec<u8>>,
}

impl MemoryContents {
    fn scan(&self, range: &RefRange) -> Vec<(RefKey, Vec<u8>)> {
        let limit = range.limit.unwrap_or(usize::MAX);
        let within = |pair: &(&RefKey, &Vec<u8>)| pair.0.starts_with(&range.prefix);
        let owned = |(key, value): (&RefKey, &Vec<u8>)| (key.clone(), value.clone());
        let prefix = Bound::Included(range.prefix.as_str());
        if range.reverse {
            let all = self
                .refs
                .range::<str, _>((prefix, Bound::Unbounded))
                .take_while(within);
            let mut found: Vec<_> = all
                .take_while(|(key, _)| range.after.as_ref().is_none_or(|after| *key < after))
                .map(owned)
                .collect();
            found.reverse();
            found.truncate(limit);
            return found;
        }
        let start = range
            .after
            .as_deref()
            .filter(|after| *after >= range.prefix.as_str());
        let start = start.map_or(prefix, Bound::Excluded);
        let rest = self.refs.range::<str, _>((start, Bound::Unbounded));
        rest.take_while(within).take(limit).map(owned).collect()
    }
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    fn read(&self) -> RwLockReadGuard<'_, MemoryContents> {
        self.contents
            .read()
            .expect("no panic happens while the lock is held")
    }

    fn write(&self) -> RwLockWriteGuard<'_, MemoryContents> {
        self.contents
            .write()
            .expect("no panic happens while the lock is held")
    }
}

impl ObjectStore for MemoryStore {
    fn get_many(&self, ids: &[ObjectId]) -> Result<Vec<StoredObject>, StoreError> {
        let contents = self.read();
        ids.iter()
            .map(|id| {
                contents
                    .objects
                    .get(id)
                    .cloned()
                    .ok_or(StoreError::Missing { id: *id })
            })
            .collect()
    }

    fn put_many(&self, objects: &[NewObject<'_>]) -> Result<(), StoreError> {
        let mut contents = self.write();
        for new in objects {
            contents.objects.entry(new.id).or_insert_with(|| StoredObject {
                kind: new.kind,
                bytes: Bytes::copy_from_slice(new.bytes),
            });
        }
        Ok(())
    }

    fn contains_many(&self, ids: &[ObjectId]) -> Result<Vec<bool>, StoreError> {
        let contents = self.read();
        Ok(ids.iter().map(|id| contents.objects.contains_key(id)).collect())
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn pin(&self) -> Result<Pin, StoreError> {
        self.pins.pin()
    }

    fn upkeep(&self) -> Option<&dyn Upkeep> {
        Some(self)
    }

    fn at_hand(&self, id: ObjectId) -> Option<StoredObject> {
        self.read().objects.get(&id).cloned()
    }
}

impl RefStore for MemoryStore {
    fn read(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(MemoryStore::read(self).refs.get(key).cloned())
    }

    fn scan_many(&self, ranges: &[RefRange]) -> Result<Vec<Vec<(RefKey, Vec<u8>)>>, StoreError> {
        let contents = MemoryStore::read(self);
        Ok(ranges.iter().map(|range| contents.scan(range)).collect())
    }

    fn commit(&self, edits: &[RefEdit]) -> Result<(), CommitError> {
        let mut contents = self.write();
        if let Some(edit) = edits
            .iter()
            .find(|edit| contents.refs.get(&edit.key) != edit.expect.as_ref())
        {
            return Err(CommitError::Conflict {
                key: edit.key.clone(),
            });
        }
        for edit in edits {
            match &edit.value {
                Some(value) => contents.refs.insert(edit.key.clone(), value.clone()),
                None => contents.refs.remove(&edit.key),
            };
        }
        Ok(())
    }
}
