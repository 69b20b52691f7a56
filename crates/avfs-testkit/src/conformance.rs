//! The contract of every store, whatever its implementation.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use avfs_core::{ObjectId, ObjectKind};
use avfs_store::{CommitError, NewObject, RefEdit, RefRange, Store, StoreError, StoredObject, Upkeep};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::{noise, put};

/// Runs the whole suite; `make` returns a new, empty store each time.
pub fn store_conformance<S: Store>(make: impl Fn() -> S) {
    what_was_put_reads_back(&make());
    storing_again_is_a_success(&make());
    absent_objects_are_missing(&make());
    answers_are_in_the_order_asked(&make());
    many_threads_put_the_same_objects(&make());
    commits_make_all_edits_or_none(&make());
    edits_of_one_key_are_checked_against_the_past(&make());
    one_of_many_racing_commits_wins(&make());
    scans_agree_with_a_sorted_map(&make());
    pins_can_be_held_together(&make());
    upkeep_counts_and_verifies_what_was_committed(&make());
    a_sweep_removes_what_is_not_live_and_nothing_else(&make());
    a_sweep_that_is_stopped_leaves_the_store_sound(&make());
    a_pin_and_a_sweep_exclude_each_other(&make());
}

fn what_was_put_reads_back(store: &dyn Store) {
    let contents = [Vec::new(), b"x".to_vec(), noise(1, 1000), noise(2, 3_000_000)];
    for kind in ObjectKind::ALL {
        for bytes in &contents {
            let id = kind.hash(bytes);
            store.put_many(&[NewObject { id, kind, bytes }]).unwrap();
            let expected = StoredObject {
                kind,
                bytes: bytes.clone().into(),
            };
            assert_eq!(store.get(id).unwrap(), expected, "before the sync");
            store.sync().unwrap();
            assert_eq!(store.get(id).unwrap(), expected, "after the sync");
        }
    }
}

fn storing_again_is_a_success(store: &dyn Store) {
    let id = put(store, b"twice").unwrap();
    let new = NewObject {
        id,
        kind: ObjectKind::Blob,
        bytes: b"twice",
    };
    store.put_many(&[new, new]).unwrap();
    store.sync().unwrap();
    store.put_many(&[new]).unwrap();
    store.sync().unwrap();
    assert_eq!(&store.get(id).unwrap().bytes[..], b"twice");
}

fn absent_objects_are_missing(store: &dyn Store) {
    let there = put(store, b"there").unwrap();
    let absent = ObjectKind::Blob.hash(b"absent");
    assert_eq!(
        store.contains_many(&[there, absent, there]).unwrap(),
        [true, false, true]
    );
    assert!(matches!(store.get(absent), Err(StoreError::Missing { id }) if id == absent));
    assert!(matches!(store.get_many(&[there, absent]), Err(StoreError::Missing { id }) if id == absent));
}

fn answers_are_in_the_order_asked(store: &dyn Store) {
    let early: Vec<ObjectId> = (0..50).map(|n| put(store, &noise(n, 10)).unwrap()).collect();
    store.sync().unwrap();
    let late: Vec<ObjectId> = (50..100).map(|n| put(store, &noise(n, 10)).unwrap()).collect();
    let mixed: Vec<ObjectId> = early.iter().zip(&late).flat_map(|(a, b)| [*b, *a, *b]).collect();
    for (id, object) in mixed.iter().zip(store.get_many(&mixed).unwrap()) {
        assert_eq!(*id, object.kind.hash(&object.bytes));
    }
    assert!(store.get_many(&[]).unwrap().is_empty());
}

fn many_threads_put_the_same_objects(store: &dyn Store) {
    std::thread::scope(|scope| {
        for thread in 0..8 {
            scope.spawn(move || {
                for n in 0..100 {
                    let id = put(store, &noise(n, 500)).unwrap();
                    assert_eq!(store.get(id).unwrap().bytes, noise(n, 500));
                    if n % 25 == thread {
                        store.sync().unwrap();
                    }
                }
            });
        }
    });
    store.sync().unwrap();
    let ids: Vec<ObjectId> = (0..100).map(|n| ObjectKind::Blob.hash(&noise(n, 500))).collect();
    assert_eq!(store.get_many(&ids).unwrap().len(), 100);
}

fn commits_make_all_edits_or_none(store: &dyn Store) {
    store.commit(&[]).unwrap();
    store
        .commit(&[RefEdit::create("a", "1"), RefEdit::create("b", "2")])
        .unwrap();
    let failed = store.commit(&[RefEdit::replace("a", "1", "x"), RefEdit::replace("b", "1", "x")]);
    assert!(matches!(failed, Err(CommitError::Conflict { key }) if key == "b"));
    let failed = store.commit(&[RefEdit::create("c", "3"), RefEdit::create("a", "1")]);
    assert!(matches!(failed, Err(CommitError::Conflict { key }) if key == "a"));
    let failed = store.commit(&[RefEdit::delete("c", "3")]);
    assert!(matches!(failed, Err(CommitError::Conflict { key }) if key == "c"));
    assert_eq!(
        all(store),
        [("a".into(), b"1".to_vec()), ("b".into(), b"2".to_vec())]
    );

    store
        .commit(&[RefEdit::replace("a", "1", ""), RefEdit::delete("b", "2")])
        .unwrap();
    assert_eq!(store.read("a").unwrap(), Some(Vec::new()));
    assert_eq!(store.read("b").unwrap(), None);
    let only_checked = RefEdit {
        key: "b".into(),
        expect: None,
        value: None,
    };
    store
        .commit(&[only_checked, RefEdit::replace("a", "", "")])
        .unwrap();
    assert_eq!(all(store), [("a".into(), Vec::new())]);
}

fn edits_of_one_key_are_checked_against_the_past(store: &dyn Store) {
    store.commit(&[RefEdit::create("k", "1")]).unwrap();
    store
        .commit(&[RefEdit::replace("k", "1", "2"), RefEdit::replace("k", "1", "3")])
        .unwrap();
    assert_eq!(store.read("k").unwrap(), Some(b"3".to_vec()));
}

fn one_of_many_racing_commits_wins(store: &dyn Store) {
    store.commit(&[RefEdit::create("counter", "0")]).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..5).for_each(|_| increment(store)));
        }
    });
    assert_eq!(store.read("counter").unwrap(), Some(b"40".to_vec()));
}

fn increment(store: &dyn Store) {
    loop {
        let old = store.read("counter").unwrap().unwrap();
        let count: u32 = std::str::from_utf8(&old).unwrap().parse().unwrap();
        match store.commit(&[RefEdit::replace("counter", old, (count + 1).to_string())]) {
            Ok(()) => return,
            Err(CommitError::Conflict { .. }) => {}
            Err(CommitError::Store(error)) => panic!("{error}"),
        }
    }
}

fn scans_agree_with_a_sorted_map(store: &dyn Store) {
    let keys = [
        "",
        "a",
        "a/",
        "a/1",
        "a/2",
        "a0",
        "b",
        "ä",
        "a/\u{10ffff}",
        "a/\u{10ffff}\u{10ffff}",
        "c\0d",
    ];
    let model: BTreeMap<String, Vec<u8>> = keys
        .iter()
        .map(|key| (key.to_string(), key.bytes().rev().collect()))
        .collect();
    let edits: Vec<RefEdit> = model
        .iter()
        .map(|(key, value)| RefEdit::create(key.clone(), value.clone()))
        .collect();
    store.commit(&edits).unwrap();

    let text = prop::sample::select(
        [
            "",
            "a",
            "a/",
            "a/1",
            "a/15",
            "a0",
            "b",
            "c\0",
            "z",
            "ä",
            "\u{10ffff}",
            "a/\u{10ffff}",
        ]
        .to_vec(),
    );
    let ranges = (
        text.clone(),
        prop::option::of(text),
        any::<bool>(),
        prop::option::of(0usize..4),
    );
    let ran = TestRunner::default().run(&ranges, |(prefix, after, reverse, limit)| {
        let range = RefRange {
            prefix: prefix.into(),
            after: after.map(str::to_owned),
            reverse,
            limit,
        };
        prop_assert_eq!(store.scan(&range).unwrap(), scan_model(&model, &range));
        Ok(())
    });
    if let Err(failure) = ran {
        panic!("{failure}");
    }
}

fn scan_model(model: &BTreeMap<String, Vec<u8>>, range: &RefRange) -> Vec<(String, Vec<u8>)> {
    let mut found: Vec<_> = model
        .iter()
        .filter(|(key, _)| key.starts_with(&range.prefix))
        .filter(|(key, _)| match &range.after {
            None => true,
            Some(after) if range.reverse => *key < after,
            Some(after) => *key > after,
        })
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if range.reverse {
        found.reverse();
    }
    found.truncate(range.limit.unwrap_or(usize::MAX));
    found
}

fn pins_can_be_held_together(store: &dyn Store) {
    let first = store.pin().unwrap();
    let second = store.pin().unwrap();
    drop(first);
    put(store, b"pinned").unwrap();
    drop(second);
}

fn upkeep(store: &dyn Store) -> &dyn Upkeep {
    store
        .upkeep()
        .expect("this suite is for stores that are kept by their users")
}

/// Stores these contents durably.
fn stored(store: &dyn Store, contents: &[&[u8]]) -> Vec<ObjectId> {
    let ids = contents.iter().map(|bytes| put(store, bytes).unwrap()).collect();
    store.sync().unwrap();
    ids
}

fn upkeep_counts_and_verifies_what_was_committed(store: &dyn Store) {
    let mut ids = stored(store, &[b"one", b"three", b"one"]);
    ids.sort_unstable();
    ids.dedup();
    let mut seen = Vec::new();
    upkeep(store)
        .for_each_object(&mut |id, size| seen.push((id, size)))
        .unwrap();
    assert_eq!(seen.iter().map(|(id, _)| *id).collect::<Vec<_>>(), ids);
    let usage = upkeep(store).usage().unwrap();
    assert_eq!((usage.objects, usage.object_bytes), (2, 8));
    let mut last = (0, 0);
    let report = upkeep(store).scrub(&mut |done, all| last = (done, all)).unwrap();
    assert_eq!((report.objects, report.findings), (2, vec![]));
    assert_eq!(last.0, last.1);
}

fn a_sweep_removes_what_is_not_live_and_nothing_else(store: &dyn Store) {
    let ids = stored(store, &[b"live", b"dead", b"also live"]);
    store.commit(&[RefEdit::create("kept", "value")]).unwrap();
    let live = HashSet::from([ids[0], ids[2]]);
    let exclusive = upkeep(store).exclusive(Duration::ZERO).unwrap();
    let report = exclusive.sweep(&live, &mut || true).unwrap();
    drop(exclusive);
    assert!(report.finished);
    assert_eq!(report.removed_objects, 1);
    assert_eq!(store.contains_many(&ids).unwrap(), [true, false, true]);
    assert_eq!(&store.get(ids[2]).unwrap().bytes[..], b"also live");
    assert_eq!(store.read("kept").unwrap().as_deref(), Some(&b"value"[..]));
    assert_eq!(
        put(store, b"dead").unwrap(),
        ids[1],
        "what was swept can be stored again"
    );
    assert_eq!(store.contains_many(&ids).unwrap(), [true; 3]);
}

fn a_sweep_that_is_stopped_leaves_the_store_sound(store: &dyn Store) {
    stored(store, &[b"one", b"two"]);
    let exclusive = upkeep(store).exclusive(Duration::ZERO).unwrap();
    let report = exclusive.sweep(&HashSet::new(), &mut || false).unwrap();
    drop(exclusive);
    assert!(!report.finished);
    assert_eq!(upkeep(store).scrub(&mut |_, _| ()).unwrap().findings, []);
}

fn a_pin_and_a_sweep_exclude_each_other(store: &dyn Store) {
    let (first, second) = (store.pin().unwrap(), store.pin().unwrap());
    drop(first);
    let refused = upkeep(store).exclusive(Duration::ZERO).err();
    assert!(matches!(refused, Some(StoreError::Busy { .. })), "{refused:?}");
    drop(second);
    let exclusive = upkeep(store).exclusive(Duration::ZERO).unwrap();
    let again = upkeep(store).exclusive(Duration::ZERO).err();
    assert!(matches!(again, Some(StoreError::Busy { .. })), "{again:?}");
    drop(exclusive);
    drop(store.pin().unwrap());
}

fn all(store: &dyn Store) -> Vec<(String, Vec<u8>)> {
    store.scan(&RefRange::prefix("")).unwrap()
}
