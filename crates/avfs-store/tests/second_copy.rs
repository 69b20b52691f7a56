//! Refs outlive their database: in a second copy, and in the pages of a damaged database.

#![allow(clippy::unwrap_used, reason = "this is test code")]

mod damage_support;

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use avfs_store::{
    EmbeddedStore, ObjectStore, OpenOptions, REBUILT, RefEdit, RefRange, RefStore, StoreError, UpkeepFinding,
};
use avfs_testkit::{noise, put};
use damage_support::{age, findings, flip, fold, open, replace, sample, without_copy};

#[test]
fn a_damaged_ref_comes_back_from_the_second_copy() {
    for flipped in [(&b"value 7"[..], &b"value 6"[..]), (b"vault/0007", b"vault/0017")] {
        let (home, _) = sample(1);
        replace(&home.path().join("store.db"), flipped.0, flipped.1);
        let store = open(home.path());
        let report = store.exclusive(Duration::ZERO).unwrap().repair().unwrap();
        assert_eq!((report.restored_refs, report.has_lost_refs()), (1, false));
        assert_eq!(store.read("vault/0007").unwrap(), Some(b"value 7".to_vec()));
        assert_eq!((store.read(REBUILT).unwrap(), findings(&store)), (None, vec![]));
    }
}

#[test]
fn refs_of_a_damaged_database_come_from_the_second_copy() {
    for damage in [Damage::Header, Damage::Removed, Damage::Emptied, Damage::Zeroed] {
        let (home, ids) = sample(30);
        damage.to(&home.path().join("store.db"));
        let refused = EmbeddedStore::open(home.path(), OpenOptions::default()).err();
        assert!(
            matches!(refused, Some(StoreError::Damaged { .. })),
            "{damage:?}: {refused:?}"
        );
        let report = EmbeddedStore::rebuild(home.path(), age).unwrap();
        assert_eq!((report.refs, report.has_lost_refs()), (20, false), "{damage:?}");
        let store = open(home.path());
        assert_eq!(
            store.scan(&RefRange::prefix("vault/")).unwrap().len(),
            20,
            "{damage:?}"
        );
        assert_eq!(store.get_many(&ids).unwrap().len(), 30);
        assert_eq!(findings(&store), []);
    }
}

#[test]
fn refs_are_taken_out_of_the_pages_of_a_database_without_a_header() {
    let (home, _) = sample(200);
    let store = open(home.path());
    store
        .commit(&[RefEdit::create("vault/long", noise(1, 9000))])
        .unwrap();
    drop(store);
    fold(home.path());
    let store = open(home.path());
    store
        .commit(&[RefEdit::replace("vault/0007", "value 7", "in the log")])
        .unwrap();
    drop(store);
    without_copy(&home);
    let path = home.path().join("store.db");
    let mut bytes = fs::read(&path).unwrap();
    bytes[..100].fill(0);
    fs::write(&path, bytes).unwrap();
    let report = EmbeddedStore::rebuild(home.path(), age).unwrap();
    assert_eq!((report.refs, report.may_lack_refs), (21, true));
    let store = open(home.path());
    assert_eq!(store.scan(&RefRange::prefix("vault/")).unwrap().len(), 21);
    assert_eq!(store.read("vault/long").unwrap(), Some(noise(1, 9000)));
    assert_eq!(store.read("vault/0007").unwrap(), Some(b"in the log".to_vec()));
    assert!(store.read(REBUILT).unwrap().is_some());
}

#[test]
fn database_that_was_cut_at_any_page_is_damage_and_costs_no_ref() {
    let (home, ids) = sample(200);
    let store = open(home.path());
    // SQLite reads values that do not fit into a page past its cache.
    for (key, length) in [("vault/a", 9_000), ("vault/b", 50_000), ("vault/z", 20_000)] {
        let edit = RefEdit::create(key, noise(1, length));
        store.commit(&[edit]).unwrap();
    }
    drop(store);
    fold(home.path());
    let files = ["store.db", "refs.log"].map(|name| home.path().join(name));
    let whole = files.clone().map(|path| fs::read(path).unwrap());
    let pages = whole[0].len() / 4096;
    assert!(pages > 20, "{pages}");
    for (page, has_copy) in (1..pages).flat_map(|page| [(page, true), (page, false)]) {
        let length = page * 4096 + if has_copy { 0 } else { 1000 };
        fs::write(&files[0], &whole[0][..length]).unwrap();
        if !has_copy {
            without_copy(&home);
        }
        let options = OpenOptions {
            cache_bytes: 0,
            ref_age: age,
            ..OpenOptions::default()
        };
        let repaired = EmbeddedStore::open(home.path(), options).and_then(|store| {
            let everything = store.scan(&RefRange::prefix(""));
            assert!(
                matches!(everything, Ok(_) | Err(StoreError::Damaged { .. })),
                "{length}: {everything:?}"
            );
            assert!(!findings(&store).is_empty(), "{length}");
            store.exclusive(Duration::ZERO)?.repair()
        });
        assert!(
            matches!(repaired, Ok(_) | Err(StoreError::Damaged { .. })),
            "{length}: {repaired:?}"
        );
        let report = EmbeddedStore::rebuild(home.path(), age).unwrap();
        let store = open(home.path());
        assert_eq!(report.has_lost_refs(), !has_copy, "{length}: {report:?}");
        if has_copy {
            assert_eq!(store.read("vault/b").unwrap(), Some(noise(1, 50_000)), "{length}");
            assert_eq!(report.refs, 23, "{length}");
        }
        assert_eq!(store.get_many(&ids).unwrap().len(), 200, "{length}");
        assert_eq!(findings(&store), [], "{length}");
        drop(store);
        for (path, bytes) in files.iter().zip(&whole) {
            fs::write(path, bytes).unwrap();
        }
        for leftover in ["store.db-wal", "store.db-shm", "store.db-wal.sum"] {
            _ = fs::remove_file(home.path().join(leftover));
        }
    }
}

#[test]
fn any_flipped_bit_of_the_database_costs_no_ref() {
    let (home, ids) = sample(60);
    let files = ["store.db", "refs.log"].map(|name| home.path().join(name));
    let whole = files.clone().map(|path| fs::read(path).unwrap());
    for bit in (0..whole[0].len() * 8).step_by(1201) {
        flip(&files[0], bit);
        let options = OpenOptions {
            cache_bytes: 0,
            ref_age: age,
            ..OpenOptions::default()
        };
        let repaired = EmbeddedStore::open(home.path(), options).and_then(|store| {
            let exclusive = store.exclusive(Duration::ZERO)?;
            exclusive.repair()
        });
        let report = repaired.unwrap_or_else(|_| EmbeddedStore::rebuild(home.path(), age).unwrap());
        assert!(!report.has_lost_refs(), "bit {bit}: {report:?}");
        let store = open(home.path());
        assert_eq!(
            store.scan(&RefRange::prefix("vault/")).unwrap().len(),
            20,
            "bit {bit}"
        );
        assert_eq!(store.get_many(&ids).unwrap().len(), 60, "bit {bit}");
        drop(store);
        for (path, bytes) in files.iter().zip(&whole) {
            fs::write(path, bytes).unwrap();
        }
        for leftover in ["store.db-wal", "store.db-shm", "store.db-wal.sum"] {
            _ = fs::remove_file(home.path().join(leftover));
        }
    }
}

#[test]
fn commits_that_a_removed_log_has_lost_are_named_and_come_back() {
    let home = tempfile::tempdir().unwrap();
    let options = || OpenOptions {
        cache_bytes: 0,
        ref_age: age,
        ..OpenOptions::default()
    };
    let store = EmbeddedStore::open(home.path(), options()).unwrap();
    store.commit(&[RefEdit::create("vault/1", "version 1")]).unwrap();
    drop(store);
    fold(home.path());
    let store = EmbeddedStore::open(home.path(), options()).unwrap();
    store
        .commit(&[RefEdit::replace("vault/1", "version 1", "version 2")])
        .unwrap();
    drop(store);
    for name in ["store.db-wal", "store.db-shm"] {
        fs::remove_file(home.path().join(name)).unwrap();
    }
    let refused = EmbeddedStore::open(home.path(), options()).err();
    let is_named = matches!(&refused, Some(StoreError::Damaged { place, .. }) if place == "store.db-wal");
    assert!(is_named, "no process continues from an older state: {refused:?}");
    // Without the note, only a process that reads everything finds the damage.
    fs::remove_file(home.path().join("store.db-wal.sum")).unwrap();
    let store = EmbeddedStore::open(home.path(), options()).unwrap();
    assert_eq!(store.read("vault/1").unwrap(), Some(b"version 1".to_vec()));
    assert_eq!(
        findings(&store),
        [UpkeepFinding::LostCommits {
            keys: vec!["vault/1".to_owned()]
        }]
    );
    let report = store.exclusive(Duration::ZERO).unwrap().repair().unwrap();
    assert_eq!((report.restored_refs, report.has_lost_refs()), (1, false));
    assert_eq!(store.read("vault/1").unwrap(), Some(b"version 2".to_vec()));
}

#[test]
fn objects_of_lost_commits_stay_until_they_are_indexed_again() {
    let home = tempfile::tempdir().unwrap();
    let options = || OpenOptions {
        cache_bytes: 0,
        ref_age: age,
        ..OpenOptions::default()
    };
    let store = EmbeddedStore::open(home.path(), options()).unwrap();
    put(&store, b"known").unwrap();
    store.commit(&[RefEdit::create("vault/1", "version 1")]).unwrap();
    drop(store);
    fold(home.path());
    let store = EmbeddedStore::open(home.path(), options()).unwrap();
    let id = put(&store, b"lost").unwrap();
    store
        .commit(&[RefEdit::replace("vault/1", "version 1", "version 2")])
        .unwrap();
    drop(store);
    for name in ["store.db-wal", "store.db-shm", "store.db-wal.sum"] {
        fs::remove_file(home.path().join(name)).unwrap();
    }
    let store = EmbeddedStore::open(home.path(), options()).unwrap();
    put(&store, b"does not take its place").unwrap();
    store.sync().unwrap();
    drop(store);
    let store = EmbeddedStore::open(home.path(), options()).unwrap();
    assert!(matches!(store.get(id), Err(StoreError::Missing { .. })));
    store.exclusive(Duration::ZERO).unwrap().repair().unwrap();
    assert_eq!(&store.get(id).unwrap().bytes[..], b"lost");
}

#[test]
fn a_copy_that_is_behind_takes_nothing_back() {
    let home = tempfile::tempdir().unwrap();
    let options = || OpenOptions {
        cache_bytes: 0,
        ref_age: age,
        ..OpenOptions::default()
    };
    let store = EmbeddedStore::open(home.path(), options()).unwrap();
    store
        .commit(&[
            RefEdit::create("vault/1", "version 1"),
            RefEdit::create("vault/2", "version 1"),
        ])
        .unwrap();
    let old = fs::read(home.path().join("refs.log")).unwrap();
    store
        .commit(&[RefEdit::replace("vault/1", "version 1", "version 2")])
        .unwrap();
    store.commit(&[RefEdit::delete("vault/2", "version 1")]).unwrap();
    fs::write(home.path().join("refs.log"), old).unwrap();
    assert_eq!(findings(&store), []);
    let report = store.exclusive(Duration::ZERO).unwrap().repair().unwrap();
    assert_eq!((report.refs, report.has_lost_refs()), (1, false));
    assert_eq!(store.read("vault/1").unwrap(), Some(b"version 2".to_vec()));
}

#[test]
fn a_copy_that_lacks_the_removal_of_a_ref_is_no_proof_of_it() {
    let home = tempfile::tempdir().unwrap();
    let options = || OpenOptions {
        cache_bytes: 0,
        ref_age: age,
        ..OpenOptions::default()
    };
    let store = EmbeddedStore::open(home.path(), options()).unwrap();
    let created = ["vault/1", "vault/2"].map(|key| RefEdit::create(key, "version 1"));
    store.commit(&created).unwrap();
    let copy = home.path().join("refs.log");
    let before = fs::read(&copy).unwrap();
    // Killed before the record of this commit was written.
    let edits = [
        RefEdit::delete("vault/2", "version 1"),
        RefEdit::replace("vault/1", "version 1", "version 2"),
    ];
    store.commit(&edits).unwrap();
    fs::write(&copy, before).unwrap();
    store
        .commit(&[RefEdit::replace("vault/1", "version 2", "version 3")])
        .unwrap();
    assert_eq!(findings(&store), []);
    store
        .exclusive(Duration::ZERO)
        .unwrap()
        .sweep(&HashSet::new(), &mut || true)
        .unwrap();
    drop(store);
    fs::remove_file(home.path().join("store.db")).unwrap();
    let report = EmbeddedStore::rebuild(home.path(), age).unwrap();
    assert_eq!(
        (report.refs, report.has_lost_refs()),
        (1, false),
        "the collection has written the copy again"
    );
}

#[test]
fn a_damaged_copy_is_found_and_written_again() {
    let (home, _) = sample(1);
    let store = open(home.path());
    for n in 0..5 {
        store
            .commit(&[RefEdit::create(format!("more/{n}"), "x")])
            .unwrap();
    }
    let path = home.path().join("refs.log");
    let whole = fs::read(&path).unwrap();
    let mut found = 0;
    for bit in (0..whole.len() * 8).step_by(37) {
        flip(&path, bit);
        found += findings(&store).len();
        store.exclusive(Duration::ZERO).unwrap().repair().unwrap();
        assert_eq!(store.scan(&RefRange::prefix("")).unwrap().len(), 25, "bit {bit}");
        fs::write(&path, &whole).unwrap();
    }
    assert!(found > 50, "{found}");
}

#[test]
fn copy_that_has_grown_is_rewritten() {
    let (home, _) = sample(1);
    let store = open(home.path());
    let mut value = noise(0, 30_000);
    store.commit(&[RefEdit::create("large", value.clone())]).unwrap();
    for n in 1..50 {
        let next = noise(n, 30_000);
        store
            .commit(&[RefEdit::replace("large", value, next.clone())])
            .unwrap();
        value = next;
    }
    let length = || fs::metadata(home.path().join("refs.log")).unwrap().len();
    assert!(length() > 1_400_000);
    drop(store);
    assert!(length() < 40_000, "{}", length());
    fs::remove_file(home.path().join("store.db")).unwrap();
    assert_eq!(EmbeddedStore::rebuild(home.path(), age).unwrap().refs, 21);
    assert_eq!(open(home.path()).read("large").unwrap(), Some(value));
}

#[derive(Clone, Copy, Debug)]
enum Damage {
    Header,
    Removed,
    Emptied,
    Zeroed,
}

impl Damage {
    fn to(self, path: &Path) {
        let length = fs::read(path).unwrap().len();
        match self {
            Damage::Header => flip(path, 3),
            Damage::Removed => fs::remove_file(path).unwrap(),
            Damage::Emptied => fs::write(path, b"").unwrap(),
            Damage::Zeroed => fs::write(path, vec![0; length]).unwrap(),
        }
    }
}
