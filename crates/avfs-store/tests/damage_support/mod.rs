//! A small store, and ways to damage it.

#![allow(dead_code, reason = "each test file uses its part")]

use std::fs;
use std::path::Path;

use avfs_core::ObjectId;
use avfs_store::{EmbeddedStore, OpenOptions, RefEdit, RefStore, UpkeepFinding};
use avfs_testkit::{noise, put};
use tempfile::TempDir;

pub fn open(dir: &Path) -> EmbeddedStore {
    EmbeddedStore::open(
        dir,
        OpenOptions {
            cache_bytes: 0,
            ..OpenOptions::default()
        },
    )
    .unwrap()
}

/// A closed store with objects and refs, all folded into `store.db`.
pub fn sample(objects: u64) -> (TempDir, Vec<ObjectId>) {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let ids = (0..objects)
        .map(|n| put(&store, &noise(n, 40)).unwrap())
        .collect();
    let edits: Vec<_> = (0..20)
        .map(|n| RefEdit::create(format!("vault/{n:04}"), format!("value {n}")))
        .collect();
    store.commit(&edits).unwrap();
    drop(store);
    fold(home.path());
    (home, ids)
}

/// The age of the refs in these tests.
pub fn age(key: &str, value: Option<&[u8]>) -> Option<u64> {
    let text = std::str::from_utf8(value?).ok()?;
    key.strip_prefix("vault/")
        .and_then(|_| text.strip_prefix("version ")?.parse().ok())
}

/// The same store without its second copy of refs.
pub fn without_copy(home: &TempDir) {
    fs::remove_file(home.path().join("refs.log")).unwrap();
}

pub fn fold(dir: &Path) {
    let connection = rusqlite::Connection::open(dir.join("store.db")).unwrap();
    connection
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .unwrap();
}

pub fn flip(path: &Path, bit: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[bit / 8] ^= 1 << (bit % 8);
    fs::write(path, bytes).unwrap();
}

pub fn pack(home: &TempDir) -> std::path::PathBuf {
    home.path().join("packs/00000001.pack")
}

pub fn findings(store: &EmbeddedStore) -> Vec<UpkeepFinding> {
    store.scrub(&mut |_, _| {}).unwrap().findings
}

pub fn replace(path: &Path, from: &[u8], to: &[u8]) {
    let mut bytes = fs::read(path).unwrap();
    let places: Vec<usize> = (0..bytes.len() - from.len())
        .filter(|at| bytes[*at..].starts_with(from))
        .collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at..at + to.len()].copy_from_slice(to);
    }
    fs::write(path, bytes).unwrap();
}
