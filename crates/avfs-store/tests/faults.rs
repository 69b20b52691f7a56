//! Disk faults behind the production code: acknowledged data is there, and errors say what to do.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "this is test code")]

use std::path::Path;
use std::sync::Arc;

use avfs_core::ObjectId;
use avfs_store::{CommitError, EmbeddedStore, ObjectStore, OpenOptions, RefEdit, RefStore, StoreError};
use avfs_testkit::{Fault, FlakyDisk, SmallDisk, noise, put};
use tempfile::TempDir;

fn flaky() -> (TempDir, FlakyDisk, EmbeddedStore) {
    let home = tempfile::tempdir().unwrap();
    let disk = FlakyDisk::new();
    let store = EmbeddedStore::open_on(Arc::new(disk.clone()), home.path(), uncached()).unwrap();
    (home, disk, store)
}

fn uncached() -> OpenOptions {
    OpenOptions {
        cache_bytes: 0,
        ..OpenOptions::default()
    }
}

#[track_caller]
fn assert_all_there(home: &TempDir, ids: &[ObjectId]) {
    let store = EmbeddedStore::open(home.path(), uncached()).unwrap();
    assert_eq!(store.get_many(ids).unwrap().len(), ids.len());
    assert_eq!(store.scrub(&mut |_, _| {}).unwrap().findings, []);
}

#[test]
fn short_writes_are_continued() {
    let (home, disk, store) = flaky();
    put(&store, b"first").unwrap();
    disk.fail_writes(Some(Fault::Short(7)));
    let ids: Vec<_> = (0..20).map(|n| put(&store, &noise(n, 1000)).unwrap()).collect();
    store.sync().unwrap();
    drop(store);
    assert_all_there(&home, &ids);
}

#[test]
fn a_full_disk_fails_the_commit_and_the_next_one_has_everything() {
    let (home, disk, store) = flaky();
    let mut ids = vec![put(&store, b"before").unwrap()];
    store.commit(&[RefEdit::create("head", "1")]).unwrap();
    disk.fail_writes(Some(Fault::Full));
    ids.push(put(&store, b"during").unwrap());
    let failed = store.commit(&[RefEdit::replace("head", "1", "2")]);
    assert!(
        matches!(failed, Err(CommitError::Store(StoreError::Full { .. }))),
        "{failed:?}"
    );
    assert_eq!(store.read("head").unwrap(), Some(b"1".to_vec()));
    assert_eq!(&store.get(ids[1]).unwrap().bytes[..], b"during");

    disk.fail_writes(None);
    store.commit(&[RefEdit::replace("head", "1", "2")]).unwrap();
    drop(store);
    assert_all_there(&home, &ids);
}

#[test]
fn a_full_disk_refuses_more_puts_than_fit_in_memory() {
    let (_home, disk, store) = flaky();
    put(&store, b"opens the pack").unwrap();
    disk.fail_writes(Some(Fault::Full));
    let refused = (0..)
        .map(|n| put(&store, &noise(n, 100_000)))
        .position(|put| put.is_err());
    assert!(refused.unwrap() <= 12);
    disk.fail_writes(None);
    store.sync().unwrap();
}

#[test]
fn a_failed_sync_moves_what_was_put_to_another_pack() {
    let (home, disk, store) = flaky();
    let mut ids = vec![put(&store, b"before").unwrap()];
    store.sync().unwrap();
    ids.extend((0..30).map(|n| put(&store, &noise(n, 100_000)).unwrap()));
    disk.fail_syncs(Some(Fault::Broken));
    assert!(matches!(
        store.sync(),
        Err(StoreError::Io {
            action: "syncing",
            ..
        })
    ));
    assert!(store.get_many(&ids).is_ok());
    disk.fail_syncs(None);
    store.sync().unwrap();
    assert_eq!(pack_count(&home), 2, "the failed pack is not synced again");
    disk.cut_power();
    drop(store);
    assert_all_there(&home, &ids);
}

#[test]
fn a_pack_that_failed_once_is_not_taken_again() {
    let (home, disk, store) = flaky();
    let mut ids = vec![put(&store, b"committed in the first pack").unwrap()];
    store.sync().unwrap();
    for round in 0..2 {
        ids.push(put(&store, &noise(round, 100)).unwrap());
        disk.fail_syncs(Some(Fault::Broken));
        store.sync().unwrap_err();
        disk.fail_syncs(None);
        store.sync().unwrap();
    }
    assert_eq!(pack_count(&home), 3);
    drop(store);
    assert_all_there(&home, &ids);
}

#[test]
fn a_failed_write_moves_what_was_put_to_another_pack() {
    let (home, disk, store) = flaky();
    let id = put(&store, b"before").unwrap();
    disk.fail_writes(Some(Fault::Broken));
    assert!(matches!(
        store.sync(),
        Err(StoreError::Io {
            action: "writing",
            ..
        })
    ));
    disk.fail_writes(None);
    store.sync().unwrap();
    assert_eq!(pack_count(&home), 2);
    drop(store);
    assert_all_there(&home, &[id]);
}

#[test]
fn data_lost_by_the_kernel_fails_commits_until_it_is_put_again() {
    let (home, disk, store) = flaky();
    let kept = put(&store, b"kept").unwrap();
    store.sync().unwrap();
    let lost = put(&store, b"lost").unwrap();
    disk.fail_syncs(Some(Fault::Forgotten));
    store.sync().unwrap_err();
    disk.fail_syncs(None);
    for _ in 0..2 {
        let failed = store.commit(&[RefEdit::create("head", "1")]);
        let named = matches!(&failed, Err(CommitError::Store(StoreError::Corrupt { id, .. })) if *id == lost);
        assert!(named, "{failed:?}");
    }
    assert_eq!(store.contains_many(&[kept, lost]).unwrap(), [true, false]);

    put(&store, b"lost").unwrap();
    store.commit(&[RefEdit::create("head", "1")]).unwrap();
    drop(store);
    assert_all_there(&home, &[kept, lost]);
}

#[test]
fn a_power_cut_leaves_all_that_was_committed() {
    let (home, disk, store) = flaky();
    let mut ids = Vec::new();
    for round in 0..10 {
        ids.extend((0..5).map(|n| put(&store, &noise(round * 5 + n, 3000)).unwrap()));
        store
            .commit(&[RefEdit::create(format!("round/{round}"), "x")])
            .unwrap();
    }
    put(&store, b"never synced").unwrap();
    disk.cut_power();
    drop(store);
    assert_all_there(&home, &ids);
}

#[test]
fn a_commit_syncs_its_pack_once_and_a_commit_of_refs_none() {
    let (_home, disk, store) = flaky();
    put(&store, b"makes the pack").unwrap();
    store.sync().unwrap();
    assert_eq!(disk.syncs(), (1, 1));
    put(&store, b"small").unwrap();
    store.commit(&[RefEdit::create("a", "1")]).unwrap();
    assert_eq!(disk.syncs(), (2, 1));
    store.commit(&[RefEdit::create("b", "1")]).unwrap();
    store.sync().unwrap();
    assert_eq!(disk.syncs(), (2, 1));
}

#[test]
fn a_conflict_keeps_what_was_put() {
    let (home, _disk, store) = flaky();
    store.commit(&[RefEdit::create("head", "1")]).unwrap();
    let id = put(&store, b"object").unwrap();
    assert!(matches!(
        store.commit(&[RefEdit::create("head", "2")]),
        Err(CommitError::Conflict { .. })
    ));
    store.commit(&[RefEdit::replace("head", "1", "2")]).unwrap();
    drop(store);
    assert_all_there(&home, &[id]);
}

#[test]
fn a_disk_too_full_for_the_database_fails_the_commit_and_keeps_what_was_acknowledged() {
    SmallDisk::with(
        "a_disk_too_full_for_the_database_fails_the_commit_and_keeps_what_was_acknowledged",
        2 << 20,
        fill_a_disk,
    );
}

fn fill_a_disk(disk: &Path) {
    let ballast = disk.join("ballast");
    std::fs::write(&ballast, vec![1; 1 << 20]).unwrap();
    let home = disk.join("store");
    let store = EmbeddedStore::open(&home, uncached()).unwrap();
    let id = put(&store, b"object").unwrap();
    let edit = |n: u64| RefEdit::create(format!("ref/{n:04}"), noise(n, 10_000));
    let mut kept = 0;
    let error = loop {
        match store.commit(&[edit(kept)]) {
            Ok(()) => kept += 1,
            Err(error) => break error,
        }
        assert!(kept < 1000, "the disk never gets full");
    };
    let named = matches!(&error, CommitError::Store(StoreError::Full { place }) if place == "store.db");
    assert!(named && kept > 5, "{error:?} after {kept}");
    let check = |store: &EmbeddedStore, count: u64| {
        assert_eq!(&store.get(id).unwrap().bytes[..], b"object");
        for n in 0..count {
            assert_eq!(
                store.read(&format!("ref/{n:04}")).unwrap(),
                Some(noise(n, 10_000))
            );
        }
        assert_eq!(store.read(&format!("ref/{count:04}")).unwrap(), None);
        assert_eq!(store.scrub(&mut |_, _| {}).unwrap().findings, []);
    };
    check(&store, kept);
    drop(store);
    // Opened while the disk is still full, with half a transaction in the log.
    let store = EmbeddedStore::open(&home, uncached()).unwrap();
    check(&store, kept);
    std::fs::remove_file(&ballast).unwrap();
    store.commit(&[edit(kept)]).unwrap();
    drop(store);
    check(&EmbeddedStore::open(&home, uncached()).unwrap(), kept + 1);
}

fn pack_count(home: &TempDir) -> usize {
    std::fs::read_dir(home.path().join("packs")).unwrap().count()
}
