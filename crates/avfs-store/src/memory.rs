//! A store that lives and dies with the process.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use avfs_core::ObjectId;
use bytes::Bytes;

use crate::door::{
    CommitError, NewObject, Object, ObjectStore, Pin, RefEdit, RefKey, RefRange, RefStore, StoreError,
};

#[derive(Default)]
pub struct MemoryStore {
    contents: RwLock<Contents>,
}

#[derive(Default)]
struct Contents {
    objects: HashMap<ObjectId, Object>,
    refs: BTreeMap<RefKey, Vec<u8>>,
}

impl Contents {
    fn scan(&self, range: &RefRange) -> Vec<(RefKey, Vec<u8>)> {
        let limit = range.limit.unwrap_or(usize::MAX);
        let within = |pair: &(&RefKey, &Vec<u8>)| pair.0.starts_with(&range.prefix);
        let owned = |(key, value): (&RefKey, &Vec<u8>)| (key.clone(), value.clone());
        let prefix = Bound::Included(range.prefix.as_str());
        if range.reverse {
            let all = self.refs.range::<str, _>((prefix, Bound::Unbounded)).take_while(within);
            let mut found: Vec<_> = all
                .take_while(|(key, _)| range.after.as_ref().is_none_or(|after| *key < after))
                .map(owned)
                .collect();
            found.reverse();
            found.truncate(limit);
            return found;
        }
        let start = range.after.as_deref().filter(|after| *after >= range.prefix.as_str());
        let start = start.map_or(prefix, Bound::Excluded);
        let rest = self.refs.range::<str, _>((start, Bound::Unbounded));
        rest.take_while(within).take(limit).map(owned).collect()
    }
}

impl MemoryStore {
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    fn read(&self) -> RwLockReadGuard<'_, Contents> {
        self.contents.read().expect("no panic happens while the lock is held")
    }

    fn write(&self) -> RwLockWriteGuard<'_, Contents> {
        self.contents.write().expect("no panic happens while the lock is held")
    }
}

impl ObjectStore for MemoryStore {
    fn get_many(&self, ids: &[ObjectId]) -> Result<Vec<Object>, StoreError> {
        let contents = self.read();
        ids.iter()
            .map(|id| contents.objects.get(id).cloned().ok_or(StoreError::Missing { id: *id }))
            .collect()
    }

    fn put_many(&self, objects: &[NewObject<'_>]) -> Result<(), StoreError> {
        let mut contents = self.write();
        for new in objects {
            contents
                .objects
                .entry(new.id)
                .or_insert_with(|| Object { kind: new.kind, bytes: Bytes::copy_from_slice(new.bytes) });
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
        Ok(Pin::new(()))
    }

    fn at_hand(&self, id: ObjectId) -> Option<Object> {
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
        if let Some(edit) = edits.iter().find(|edit| contents.refs.get(&edit.key) != edit.expect.as_ref()) {
            return Err(CommitError::Conflict { key: edit.key.clone() });
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
