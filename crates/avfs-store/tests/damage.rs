//! Flipped bits and lost files: detected when read, named by a scrub, never served, repaired where possible.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "this is test code")]

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use avfs_core::{ObjectId, ObjectKind};
use avfs_store::{
    EmbeddedStore, Finding, ObjectStore, OpenOptions, REBUILT, RefEdit, RefRange, RefStore, StoreError,
};
use avfs_testkit::{noise, put};
use tempfile::TempDir;

fn open(dir: &Path) -> EmbeddedStore {
    EmbeddedStore::open(dir, OpenOptions { cache_bytes: 0, ..OpenOptions::default() }).unwrap()
}

/// A closed store with objects and refs, all folded into `store.db`.
fn sample(objects: u64) -> (TempDir, Vec<ObjectId>) {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let ids = (0..objects).map(|n| put(&store, &noise(n, 40)).unwrap()).collect();
    let edits: Vec<_> =
        (0..20).map(|n| RefEdit::create(format!("vault/{n:04}"), format!("value {n}"))).collect();
    store.commit(&edits).unwrap();
    drop(store);
    fold(home.path());
    (home, ids)
}

/// How new the refs of these tests are.
fn age(key: &str, value: Option<&[u8]>) -> Option<u64> {
    let text = std::str::from_utf8(value?).ok()?;
    key.strip_prefix("vault/").and_then(|_| text.strip_prefix("version ")?.parse().ok())
}

/// The same store without its second copy of refs.
fn without_copy(home: &TempDir) {
    fs::remove_file(home.path().join("refs.log")).unwrap();
}

fn fold(dir: &Path) {
    let connection = rusqlite::Connection::open(dir.join("store.db")).unwrap();
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
}

fn flip(path: &Path, bit: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[bit / 8] ^= 1 << (bit % 8);
    fs::write(path, bytes).unwrap();
}

fn pack(home: &TempDir) -> PathBuf {
    home.path().join("packs/00000001.pack")
}

fn findings(store: &EmbeddedStore) -> Vec<Finding> {
    store.scrub(&mut |_, _| {}).unwrap().findings
}

#[test]
fn every_flipped_bit_of_a_pack_is_found_and_never_served() {
    let (home, ids) = sample(4);
    let store = open(home.path());
    for bit in 0..fs::read(pack(&home)).unwrap().len() * 8 {
        flip(&pack(&home), bit);
        assert!(!findings(&store).is_empty(), "bit {bit}");
        let served = ids.iter().enumerate().filter(|(n, id)| match store.get(**id) {
            Ok(object) => {
                assert_eq!(object.bytes, noise(*n as u64, 40), "bit {bit}");
                true
            }
            Err(StoreError::Corrupt { id: named, place, .. }) => {
                assert_eq!(named, **id);
                assert!(place.starts_with("packs/00000001.pack at "), "{place}");
                false
            }
            Err(other) => panic!("bit {bit}: {other}"),
        });
        let expected = if bit < 12 * 8 { 4 } else { 3 };
        assert_eq!(served.count(), expected, "bit {bit}");
        flip(&pack(&home), bit);
    }
    assert_eq!(findings(&store), []);
}

#[test]
fn a_scrub_names_the_object_and_goes_on_behind_the_damage() {
    let (home, ids) = sample(10);
    let second_record = 12 + (38 + 40);
    flip(&pack(&home), (second_record + 3) * 8);
    let report = open(home.path()).scrub(&mut |_, _| {}).unwrap();
    assert_eq!(report.objects, 9);
    let place = format!("packs/00000001.pack at {second_record}");
    let stretch = Finding::Stretch { place: place.clone(), length: 78 };
    assert_eq!(report.findings, [stretch, Finding::Object { id: ids[1], place }]);
}

#[test]
fn flipped_bits_of_the_database_never_serve_wrong_objects_or_refs() {
    let (home, ids) = sample(60);
    let path = home.path().join("store.db");
    let bits = fs::read(&path).unwrap().len() * 8;
    for bit in (0..bits).step_by(89) {
        flip(&path, bit);
        if let Ok(store) =
            EmbeddedStore::open(home.path(), OpenOptions { cache_bytes: 0, ..Default::default() })
        {
            for (n, id) in ids.iter().enumerate() {
                if let Ok(object) = store.get(*id) {
                    assert_eq!(object.bytes, noise(n as u64, 40), "bit {bit}");
                }
            }
            if let Ok(all) = store.scan(&RefRange::prefix("vault/")) {
                assert_eq!(all.len(), 20, "bit {bit}");
            }
            for n in 0..20 {
                if let Ok(value) = store.read(&format!("vault/{n:04}")) {
                    assert_eq!(value, Some(format!("value {n}").into_bytes()), "bit {bit}");
                }
            }
        }
        flip(&path, bit);
        for leftover in ["store.db-wal", "store.db-shm"] {
            _ = fs::remove_file(home.path().join(leftover));
        }
    }
    assert_eq!(findings(&open(home.path())), []);
}

#[test]
fn a_flipped_bit_in_a_ref_is_damage_with_the_name_of_the_ref() {
    let (home, _) = sample(1);
    without_copy(&home);
    replace(&home.path().join("store.db"), b"value 7", b"value 6");
    let store = open(home.path());
    let error = store.read("vault/0007").unwrap_err();
    assert!(matches!(&error, StoreError::Damaged { place, .. } if place.contains("vault/0007")), "{error}");
    assert_eq!(findings(&store), [Finding::Ref { key: "vault/0007".into() }]);

    let report = store.exclusive(Duration::ZERO).unwrap().repair().unwrap();
    assert_eq!(report.lost_refs[0].key, b"vault/0007");
    assert_eq!(store.read("vault/0007").unwrap(), None);
    assert_eq!(store.scan(&RefRange::prefix("vault/")).unwrap().len(), 19);
    assert!(store.read(REBUILT).unwrap().is_some(), "what may be collected now is not decided yet");
    assert_eq!(findings(&store), []);
}

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
        assert!(matches!(refused, Some(StoreError::Damaged { .. })), "{damage:?}: {refused:?}");
        let report = EmbeddedStore::rebuild(home.path(), age).unwrap();
        assert_eq!((report.refs, report.has_lost_refs()), (20, false), "{damage:?}");
        let store = open(home.path());
        assert_eq!(store.scan(&RefRange::prefix("vault/")).unwrap().len(), 20, "{damage:?}");
        assert_eq!(store.get_many(&ids).unwrap().len(), 30);
        assert_eq!(findings(&store), []);
    }
}

#[test]
fn refs_are_taken_out_of_the_pages_of_a_database_without_a_header() {
    let (home, _) = sample(200);
    let store = open(home.path());
    store.commit(&[RefEdit::create("vault/long", noise(1, 9000))]).unwrap();
    drop(store);
    fold(home.path());
    let store = open(home.path());
    store.commit(&[RefEdit::replace("vault/0007", "value 7", "in the log")]).unwrap();
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
fn any_flipped_bit_of_the_database_costs_no_ref() {
    let (home, ids) = sample(60);
    let files = ["store.db", "refs.log"].map(|name| home.path().join(name));
    let whole = files.clone().map(|path| fs::read(path).unwrap());
    for bit in (0..whole[0].len() * 8).step_by(1201) {
        flip(&files[0], bit);
        let options = OpenOptions { cache_bytes: 0, ref_age: age, ..OpenOptions::default() };
        let repaired = EmbeddedStore::open(home.path(), options).and_then(|store| {
            let exclusive = store.exclusive(Duration::ZERO)?;
            exclusive.repair()
        });
        let report = repaired.unwrap_or_else(|_| EmbeddedStore::rebuild(home.path(), age).unwrap());
        assert!(!report.has_lost_refs(), "bit {bit}: {report:?}");
        let store = open(home.path());
        assert_eq!(store.scan(&RefRange::prefix("vault/")).unwrap().len(), 20, "bit {bit}");
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
    let options = || OpenOptions { cache_bytes: 0, ref_age: age, ..OpenOptions::default() };
    let store = EmbeddedStore::open(home.path(), options()).unwrap();
    store.commit(&[RefEdit::create("vault/1", "version 1")]).unwrap();
    drop(store);
    fold(home.path());
    let store = EmbeddedStore::open(home.path(), options()).unwrap();
    store.commit(&[RefEdit::replace("vault/1", "version 1", "version 2")]).unwrap();
    drop(store);
    for name in ["store.db-wal", "store.db-shm"] {
        fs::remove_file(home.path().join(name)).unwrap();
    }
    let refused = EmbeddedStore::open(home.path(), options()).err();
    let is_named = matches!(&refused, Some(StoreError::Damaged { place, .. }) if place == "store.db-wal");
    assert!(is_named, "nobody goes on from an older state: {refused:?}");
    // Without the note it is found by whoever reads everything.
    fs::remove_file(home.path().join("store.db-wal.sum")).unwrap();
    let store = EmbeddedStore::open(home.path(), options()).unwrap();
    assert_eq!(store.read("vault/1").unwrap(), Some(b"version 1".to_vec()));
    assert_eq!(findings(&store), [Finding::LostCommits { keys: vec!["vault/1".to_owned()] }]);
    let report = store.exclusive(Duration::ZERO).unwrap().repair().unwrap();
    assert_eq!((report.restored_refs, report.has_lost_refs()), (1, false));
    assert_eq!(store.read("vault/1").unwrap(), Some(b"version 2".to_vec()));
}

#[test]
fn objects_of_lost_commits_stay_until_they_are_indexed_again() {
    let home = tempfile::tempdir().unwrap();
    let options = || OpenOptions { cache_bytes: 0, ref_age: age, ..OpenOptions::default() };
    let store = EmbeddedStore::open(home.path(), options()).unwrap();
    put(&store, b"known").unwrap();
    store.commit(&[RefEdit::create("vault/1", "version 1")]).unwrap();
    drop(store);
    fold(home.path());
    let store = EmbeddedStore::open(home.path(), options()).unwrap();
    let id = put(&store, b"lost").unwrap();
    store.commit(&[RefEdit::replace("vault/1", "version 1", "version 2")]).unwrap();
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
    let options = || OpenOptions { cache_bytes: 0, ref_age: age, ..OpenOptions::default() };
    let store = EmbeddedStore::open(home.path(), options()).unwrap();
    store
        .commit(&[RefEdit::create("vault/1", "version 1"), RefEdit::create("vault/2", "version 1")])
        .unwrap();
    let old = fs::read(home.path().join("refs.log")).unwrap();
    store.commit(&[RefEdit::replace("vault/1", "version 1", "version 2")]).unwrap();
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
    let options = || OpenOptions { cache_bytes: 0, ref_age: age, ..OpenOptions::default() };
    let store = EmbeddedStore::open(home.path(), options()).unwrap();
    let created = ["vault/1", "vault/2"].map(|key| RefEdit::create(key, "version 1"));
    store.commit(&created).unwrap();
    let copy = home.path().join("refs.log");
    let before = fs::read(&copy).unwrap();
    // Killed before the record of this commit was written.
    let edits =
        [RefEdit::delete("vault/2", "version 1"), RefEdit::replace("vault/1", "version 1", "version 2")];
    store.commit(&edits).unwrap();
    fs::write(&copy, before).unwrap();
    store.commit(&[RefEdit::replace("vault/1", "version 2", "version 3")]).unwrap();
    assert_eq!(findings(&store), []);
    store.exclusive(Duration::ZERO).unwrap().sweep(&HashSet::new(), &mut || true).unwrap();
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
        store.commit(&[RefEdit::create(format!("more/{n}"), "x")]).unwrap();
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
fn a_copy_that_has_grown_is_written_anew() {
    let (home, _) = sample(1);
    let store = open(home.path());
    let mut value = noise(0, 30_000);
    store.commit(&[RefEdit::create("large", value.clone())]).unwrap();
    for n in 1..50 {
        let next = noise(n, 30_000);
        store.commit(&[RefEdit::replace("large", value, next.clone())]).unwrap();
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

#[test]
fn a_ref_whose_key_is_damaged_does_not_look_absent() {
    for flipped in [b"tault/0007", b"vault/0017", b"vault/0\xb007", b"6ault/0007"] {
        let (home, _) = sample(1);
        replace(&home.path().join("store.db"), b"vault/0007", flipped);
        let store = open(home.path());
        assert!(matches!(store.read("vault/0007"), Err(StoreError::Damaged { .. })));
        assert!(store.commit(&[RefEdit::create("vault/0007", "again")]).is_err());
        assert!(store.scan(&RefRange::prefix("vault/")).is_err());
        assert!(store.scan(&RefRange::prefix("vault/").reversed()).is_err());
    }
}

#[test]
fn lost_and_wrong_rows_are_rebuilt_from_the_packs() {
    let (home, ids) = sample(100);
    let connection = rusqlite::Connection::open(home.path().join("store.db")).unwrap();
    let sql = "DELETE FROM objects WHERE id = ?1";
    connection.execute(sql, [ids[0].as_bytes()]).unwrap();
    connection.execute("UPDATE objects SET offset = offset + 1 WHERE id = ?1", [ids[1].as_bytes()]).unwrap();
    connection.execute("UPDATE packs SET length = 50", []).unwrap();
    drop(connection);
    let store = open(home.path());
    assert!(matches!(store.get(ids[0]), Err(StoreError::Missing { .. })));
    assert!(matches!(store.get(ids[1]), Err(StoreError::Corrupt { .. })));
    assert!(matches!(put(&store, b"new"), Err(StoreError::Damaged { .. })));

    let report = store.exclusive(Duration::ZERO).unwrap().repair().unwrap();
    assert_eq!((report.objects, report.indexed, report.redirected), (100, 1, 1));
    assert_eq!(store.get_many(&ids).unwrap().len(), 100);
    assert_eq!(findings(&store), []);
    put(&store, b"new").unwrap();
    store.sync().unwrap();
}

#[test]
fn an_object_with_a_damaged_and_an_intact_copy_is_pointed_at_the_intact_one() {
    let home = tempfile::tempdir().unwrap();
    let (first, second) = (open(home.path()), open(home.path()));
    let id = put(&first, b"twice").unwrap();
    put(&second, b"twice").unwrap();
    first.sync().unwrap();
    second.sync().unwrap();
    drop(second);
    flip(&pack(&home), (12 + 38) * 8);
    assert!(matches!(first.get(id), Err(StoreError::Corrupt { .. })));
    let report = first.exclusive(Duration::ZERO).unwrap().repair().unwrap();
    assert_eq!((report.redirected, report.lost.len()), (1, 0));
    assert_eq!(&first.get(id).unwrap().bytes[..], b"twice");
}

#[test]
fn an_object_that_is_lost_is_named_and_can_be_put_again() {
    let (home, ids) = sample(3);
    flip(&pack(&home), (12 + 38) * 8);
    let store = open(home.path());
    let report = store.exclusive(Duration::ZERO).unwrap().repair().unwrap();
    assert_eq!(report.lost, [(ids[0], "packs/00000001.pack at 12".to_owned())]);
    assert!(matches!(store.get(ids[0]), Err(StoreError::Missing { .. })));
    put(&store, &noise(0, 40)).unwrap();
    store.sync().unwrap();
    assert_eq!(store.get_many(&ids).unwrap().len(), 3);
}

#[test]
fn a_lost_database_is_rebuilt_from_the_packs() {
    let (home, ids) = sample(50);
    fs::remove_file(home.path().join("store.db")).unwrap();
    flip(&pack(&home), 0);
    let report = EmbeddedStore::rebuild(home.path(), age).unwrap();
    assert_eq!((report.objects, report.headers, report.refs), (50, 1, 20));
    let store = open(home.path());
    assert_eq!(store.get_many(&ids).unwrap().len(), 50);
    assert_eq!(findings(&store), []);
}

#[test]
fn a_store_in_use_is_not_rebuilt() {
    let (home, _) = sample(5);
    let writer = open(home.path());
    put(&writer, b"takes the pack").unwrap();
    assert!(matches!(EmbeddedStore::rebuild(home.path(), age), Err(StoreError::Busy { .. })));
    let _pin = open(home.path()).pin().unwrap();
    drop(writer);
    assert!(matches!(EmbeddedStore::rebuild(home.path(), age), Err(StoreError::Busy { .. })));
    assert_eq!(findings(&open(home.path())), []);
}

#[test]
fn a_rebuild_that_was_killed_can_be_done_again() {
    let (home, _) = sample(5);
    fs::rename(home.path().join("store.db"), home.path().join("store.db.damaged")).unwrap();
    fs::write(home.path().join("store.db.new"), b"half a database").unwrap();
    let report = EmbeddedStore::rebuild(home.path(), age).unwrap();
    assert_eq!((report.objects, report.refs), (5, 20));
    assert_eq!(findings(&open(home.path())), []);
}

#[test]
fn a_torn_database_gives_back_its_objects_and_the_refs_it_can() {
    let (home, ids) = sample(500);
    let path = home.path().join("store.db");
    let mut bytes = fs::read(&path).unwrap();
    let end = bytes.len();
    bytes[end - 8192..].fill(0xff);
    fs::write(&path, bytes).unwrap();
    let report = EmbeddedStore::rebuild(home.path(), age).unwrap();
    assert_eq!((report.objects, report.refs), (500, 20));
    assert_eq!(open(home.path()).get_many(&ids).unwrap().len(), 500);
}

#[test]
fn a_pack_that_is_gone_or_cut_is_named() {
    let (home, ids) = sample(2);
    let whole = fs::read(pack(&home)).unwrap();
    fs::write(pack(&home), &whole[..whole.len() - 1]).unwrap();
    let store = open(home.path());
    assert!(matches!(store.get(ids[1]), Err(StoreError::Corrupt { detail: "its pack is cut short", .. })));
    let short = Finding::PackLength {
        pack: "packs/00000001.pack".into(),
        committed: whole.len() as u64,
        found: whole.len() as u64 - 1,
    };
    assert!(findings(&store).contains(&short));
    put(&store, b"goes elsewhere").unwrap();
    store.sync().unwrap();

    fs::remove_file(pack(&home)).unwrap();
    let store = open(home.path());
    assert!(matches!(store.get(ids[0]), Err(StoreError::Corrupt { detail: "its pack is gone", .. })));
    assert!(findings(&store).iter().any(|finding| matches!(finding, Finding::PackLength { found: 0, .. })));
    assert!(store.contains_many(&[ObjectKind::Blob.hash(b"goes elsewhere")]).unwrap()[0]);
}

fn replace(path: &Path, from: &[u8], to: &[u8]) {
    let mut bytes = fs::read(path).unwrap();
    let places: Vec<usize> =
        (0..bytes.len() - from.len()).filter(|at| bytes[*at..].starts_with(from)).collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at..at + to.len()].copy_from_slice(to);
    }
    fs::write(path, bytes).unwrap();
}
