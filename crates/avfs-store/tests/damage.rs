//! Flipped bits and lost files: detected when read, named by a scrub, never served, repaired where possible.

#![allow(clippy::unwrap_used, reason = "this is test code")]

mod damage_support;

use std::fs;
use std::time::Duration;

use avfs_core::ObjectKind;
use avfs_store::{
    EmbeddedStore, ObjectStore, OpenOptions, REBUILT, RefEdit, RefRange, RefStore, StoreError, UpkeepFinding,
};
use avfs_testkit::{noise, put};
use damage_support::{age, findings, flip, open, pack, replace, sample, without_copy};

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
    let stretch = UpkeepFinding::Stretch {
        place: place.clone(),
        length: 78,
    };
    assert_eq!(
        report.findings,
        [stretch, UpkeepFinding::Object { id: ids[1], place }]
    );
}

#[test]
fn flipped_bits_of_the_database_never_serve_wrong_objects_or_refs() {
    let (home, ids) = sample(60);
    let path = home.path().join("store.db");
    let bits = fs::read(&path).unwrap().len() * 8;
    for bit in (0..bits).step_by(89) {
        flip(&path, bit);
        if let Ok(store) = EmbeddedStore::open(
            home.path(),
            OpenOptions {
                cache_bytes: 0,
                ..Default::default()
            },
        ) {
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
    assert!(
        matches!(&error, StoreError::Damaged { place, .. } if place.contains("vault/0007")),
        "{error}"
    );
    assert_eq!(
        findings(&store),
        [UpkeepFinding::Ref {
            key: "vault/0007".into()
        }]
    );

    let report = store.exclusive(Duration::ZERO).unwrap().repair().unwrap();
    assert_eq!(report.lost_refs[0].key, b"vault/0007");
    assert_eq!(store.read("vault/0007").unwrap(), None);
    assert_eq!(store.scan(&RefRange::prefix("vault/")).unwrap().len(), 19);
    assert!(
        store.read(REBUILT).unwrap().is_some(),
        "what may be collected now is not decided yet"
    );
    assert_eq!(findings(&store), []);
}

#[test]
fn a_ref_whose_key_is_damaged_does_not_look_absent() {
    for flipped in [b"tault/0007", b"vault/0017", b"vault/0\xb007", b"6ault/0007"] {
        let (home, _) = sample(1);
        replace(&home.path().join("store.db"), b"vault/0007", flipped);
        let store = open(home.path());
        assert!(matches!(
            store.read("vault/0007"),
            Err(StoreError::Damaged { .. })
        ));
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
    connection
        .execute(
            "UPDATE objects SET offset = offset + 1 WHERE id = ?1",
            [ids[1].as_bytes()],
        )
        .unwrap();
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
    let first = open(home.path());
    let second = open(home.path());
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
fn directory_of_packs_that_is_gone_is_damage_and_costs_the_objects_alone() {
    for is_rebuilt in [false, true] {
        let (home, ids) = sample(3);
        fs::remove_dir_all(home.path().join("packs")).unwrap();
        let store = open(home.path());
        let refused = put(&store, b"new").and_then(|_| store.sync());
        assert!(matches!(refused, Err(StoreError::Damaged { .. })), "{refused:?}");
        assert!(!findings(&store).is_empty());
        if is_rebuilt {
            drop(store);
            let report = EmbeddedStore::rebuild(home.path(), age).unwrap();
            assert_eq!((report.refs, report.has_lost_refs()), (20, false));
        } else {
            let report = store.exclusive(Duration::ZERO).unwrap().repair().unwrap();
            assert_eq!((report.lost.len(), report.refs), (3, 20));
        }
        let store = open(home.path());
        assert!(matches!(store.get(ids[0]), Err(StoreError::Missing { .. })));
        put(&store, &noise(0, 40)).unwrap();
        store.sync().unwrap();
        assert_eq!(findings(&store), []);
    }
}

#[test]
fn a_store_in_use_is_not_rebuilt() {
    let (home, _) = sample(5);
    let writer = open(home.path());
    put(&writer, b"takes the pack").unwrap();
    assert!(matches!(
        EmbeddedStore::rebuild(home.path(), age),
        Err(StoreError::Busy { .. })
    ));
    let _pin = open(home.path()).pin().unwrap();
    drop(writer);
    assert!(matches!(
        EmbeddedStore::rebuild(home.path(), age),
        Err(StoreError::Busy { .. })
    ));
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
    assert!(matches!(
        store.get(ids[1]),
        Err(StoreError::Corrupt {
            detail: "its pack is cut short",
            ..
        })
    ));
    let short = UpkeepFinding::PackLength {
        pack: "packs/00000001.pack".into(),
        committed: whole.len() as u64,
        found: whole.len() as u64 - 1,
    };
    assert!(findings(&store).contains(&short));
    put(&store, b"goes elsewhere").unwrap();
    store.sync().unwrap();

    fs::remove_file(pack(&home)).unwrap();
    let store = open(home.path());
    assert!(matches!(
        store.get(ids[0]),
        Err(StoreError::Corrupt {
            detail: "its pack is gone",
            ..
        })
    ));
    assert!(
        findings(&store)
            .iter()
            .any(|finding| matches!(finding, UpkeepFinding::PackLength { found: 0, .. }))
    );
    assert!(
        store
            .contains_many(&[ObjectKind::Blob.hash(b"goes elsewhere")])
            .unwrap()[0]
    );
}
