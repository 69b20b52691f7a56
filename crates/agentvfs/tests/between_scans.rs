//! What one process sees while another makes and deletes vaults.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::{Arc, Mutex};

use agentvfs::{Store, StoreOptions};
use avfs_core::ObjectId;
use avfs_store::{
    CommitError, MemoryStore, NewObject, Object, ObjectStore, Pin, RefEdit, RefKey, RefRange, RefStore,
    StoreError,
};
use support::name;

type Deed = Box<dyn FnOnce() + Send>;

/// A store in which something happens once, right after the names of vaults were scanned.
#[derive(Default)]
struct Busy {
    inner: MemoryStore,
    deed: Mutex<Option<Deed>>,
}

impl ObjectStore for Busy {
    fn get_many(&self, ids: &[ObjectId]) -> Result<Vec<Object>, StoreError> {
        self.inner.get_many(ids)
    }

    fn put_many(&self, objects: &[NewObject<'_>]) -> Result<(), StoreError> {
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
}

impl RefStore for Busy {
    fn read(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        RefStore::read(&self.inner, key)
    }

    fn scan(&self, range: &RefRange) -> Result<Vec<(RefKey, Vec<u8>)>, StoreError> {
        let found = self.inner.scan(range);
        let deed = (range.prefix == "name/").then(|| self.deed.lock().unwrap().take()).flatten();
        deed.into_iter().for_each(|deed| deed());
        found
    }

    fn commit(&self, edits: &[RefEdit]) -> Result<(), CommitError> {
        self.inner.commit(edits)
    }
}

/// Statistics of a store with two vaults while `deed` is done between its scans.
fn vaults_counted(deed: impl FnOnce(&Store) + Send + 'static) -> usize {
    let doors = Arc::new(Busy::default());
    let store = Store::behind(doors.clone(), StoreOptions::default());
    store.create_vault(&name("main")).unwrap();
    store.create_vault(&name("other")).unwrap();
    let other_process = store.clone();
    *doors.deed.lock().unwrap() = Some(Box::new(move || deed(&other_process)));
    store.stats().unwrap().vaults.len()
}

#[test]
fn a_vault_made_between_two_scans_is_not_damage() {
    let made = |store: &Store| {
        store.vault("main").unwrap().fork(&[name("fork")]).unwrap();
    };
    assert_eq!(vaults_counted(made), 3);
}

#[test]
fn a_vault_deleted_between_two_scans_is_not_damage() {
    assert_eq!(vaults_counted(|store| store.vault("other").unwrap().delete(false).unwrap()), 1);
}

#[test]
fn a_vault_replaced_between_two_scans_is_not_damage() {
    let replaced = |store: &Store| {
        store.vault("other").unwrap().delete(false).unwrap();
        store.create_vault(&name("new")).unwrap();
    };
    assert_eq!(vaults_counted(replaced), 2);
}
