//! A disk whose blocks are smaller than a page of memory: files that SQLite maps have no holes there, because
//! a store into a hole kills the process when the disk is full.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "this is test code")]

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use avfs_store::{EmbeddedStore, ObjectStore, OpenOptions, StoreError};
use avfs_testkit::{DyingDisk, put};

fn open(dir: &Path) -> Result<EmbeddedStore, StoreError> {
    EmbeddedStore::open(dir, OpenOptions::default())
}

/// Leaves this many bytes free.
fn fill(disk: &Path, room: u64) {
    let mut ballast = File::create(disk.join("ballast")).unwrap();
    for size in [1 << 20, 1 << 10] {
        while ballast.write_all(&vec![1; size]).is_ok() {}
    }
    let length = ballast.metadata().unwrap().len();
    ballast.set_len(length.saturating_sub(room)).unwrap();
    ballast.sync_all().unwrap();
}

#[test]
fn the_file_that_connections_share_has_no_holes() {
    let disk = DyingDisk::with_small_blocks(64 << 20);
    let store = open(&disk.path().join("store")).unwrap();
    put(&store, b"x").unwrap();
    store.sync().unwrap();
    let shared = fs::metadata(disk.path().join("store/store.db-shm")).unwrap();
    assert!(
        shared.len() > 0 && shared.blocks() * 512 >= shared.len(),
        "{shared:?}"
    );
}

#[test]
fn a_store_on_a_full_disk_is_opened_with_room_of_the_reserve_or_refused() {
    let disk = DyingDisk::with_small_blocks(64 << 20);
    let dir = disk.path().join("store");
    put(&open(&dir).unwrap(), b"x").unwrap();
    // As after copying the store without this file, with space for one byte in each page of it.
    let shared = dir.join("store.db-shm");
    fs::remove_file(&shared).unwrap();
    fill(disk.path(), 12 << 10);
    let reserve = fs::metadata(dir.join("reserve")).unwrap().len();
    open(&dir).unwrap();
    let rest = fs::metadata(dir.join("reserve")).unwrap().len();
    assert!(rest < reserve && rest > reserve / 2, "{rest} of {reserve}");
    fs::remove_file(&shared).unwrap();
    fs::remove_file(dir.join("reserve")).unwrap();
    fill(disk.path(), 12 << 10);
    assert!(matches!(open(&dir), Err(StoreError::Full { .. })));
    fs::remove_file(disk.path().join("ballast")).unwrap();
    open(&dir).unwrap();
}
