//! Several processes on one store, and processes that are killed. A child is this test binary, started again.

#![allow(clippy::unwrap_used, reason = "this is test code")]

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use avfs_core::{ObjectId, ObjectKind};
use avfs_store::{CommitError, EmbeddedStore, ObjectStore, OpenOptions, RefEdit, RefRange, RefStore};
use avfs_testkit::{TestChild, acknowledge, child_task, noise, put};

/// A child of this name sweeps, and acknowledges each step before making it.
const SWEEPER: &str = "sweeper";
const OBJECTS_PER_COMMIT: u64 = 3;

fn open(dir: &Path) -> EmbeddedStore {
    EmbeddedStore::open(
        dir,
        OpenOptions {
            cache_bytes: 0,
            ..OpenOptions::default()
        },
    )
    .unwrap()
}

/// Starts a child that commits rounds named `name` and acknowledges each by its number.
fn start(dir: &Path, name: &str, rounds: u64) -> TestChild {
    TestChild::start("the_child", dir, &format!("{name} {rounds}"))
}

/// Not a test itself: the code that children run.
#[test]
fn the_child() {
    let Some((dir, script)) = child_task() else { return };
    let (name, rounds) = script.split_once(' ').unwrap();
    let store = open(&dir);
    if name == SWEEPER {
        return sweep_with_acks(&store);
    }
    for round in 0..rounds.parse().unwrap() {
        commit_round(&store, name, round);
        acknowledge(round);
    }
}

fn sweep_with_acks(store: &EmbeddedStore) {
    let exclusive = store.exclusive(Duration::from_secs(10)).unwrap();
    let mut go_on = || {
        acknowledge(0);
        true
    };
    exclusive.sweep(&live_objects(store), &mut go_on).unwrap();
}

fn live_objects(store: &EmbeddedStore) -> HashSet<ObjectId> {
    let rounds = store.scan(&RefRange::prefix("round/")).unwrap();
    rounds.iter().flat_map(|(key, _)| round_ids(key)).collect()
}

fn commit_round(store: &EmbeddedStore, name: &str, round: u64) {
    let _pin = store.pin().unwrap();
    for id in round_contents(name, round) {
        put(store, &id).unwrap();
    }
    match store.commit(&[RefEdit::create(round_key(name, round), name.as_bytes())]) {
        Ok(()) => {}
        Err(CommitError::Conflict { key }) => panic!("{key} is mine"),
        Err(CommitError::Store(error)) => panic!("{error}"),
    }
}

fn round_key(name: &str, round: u64) -> String {
    format!("round/{name}/{round:08}")
}

fn round_contents(name: &str, round: u64) -> impl Iterator<Item = Vec<u8>> {
    let seed = ObjectKind::Blob.hash(name.as_bytes()).0[0] as u64 * 1_000_000 + round * OBJECTS_PER_COMMIT;
    (0..OBJECTS_PER_COMMIT).map(move |n| noise(seed + n + 1, 2000))
}

fn round_ids(key: &str) -> Vec<ObjectId> {
    let (name, round) = key.strip_prefix("round/").unwrap().split_once('/').unwrap();
    round_contents(name, round.parse().unwrap())
        .map(|bytes| ObjectKind::Blob.hash(&bytes))
        .collect()
}

#[track_caller]
fn assert_rounds_are_whole(store: &EmbeddedStore) -> usize {
    let rounds = store.scan(&RefRange::prefix("round/")).unwrap();
    for (key, _) in &rounds {
        let ids = round_ids(key);
        assert_eq!(store.get_many(&ids).unwrap().len(), ids.len(), "{key}");
    }
    rounds.len()
}

#[test]
fn several_processes_write_to_one_store() {
    let home = tempfile::tempdir().unwrap();
    let children: Vec<_> = (0..4)
        .map(|n| start(home.path(), &format!("writer{n}"), 25))
        .collect();
    for mut child in children {
        assert_eq!(child.await_acknowledged(25), 25);
        child.finish();
    }
    let store = open(home.path());
    assert_eq!(assert_rounds_are_whole(&store), 100);
    let report = store.scrub(&mut |_, _| {}).unwrap();
    assert_eq!((report.objects, report.findings), (300, vec![]));
}

#[test]
fn whatever_was_acknowledged_survives_fifty_kills() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let mut acknowledged = 0;
    for life in 0..50 {
        let mut child = start(home.path(), &format!("life{life}"), 1_000_000);
        acknowledged += child.await_acknowledged(1 + life % 7);
        // Steps that it acknowledged between the last line read and its death count as well.
        acknowledged += child.kill().last_words.len() as u64;
        assert!(assert_rounds_are_whole(&store) as u64 >= acknowledged);
    }
    drop(store);
    let store = open(home.path());
    assert!(assert_rounds_are_whole(&store) as u64 >= acknowledged);
    assert_eq!(store.scrub(&mut |_, _| {}).unwrap().findings, []);
}

#[test]
fn sweeps_keep_everything_live_while_another_process_writes() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let mut child = start(home.path(), "busy", 60);
    let mut swept = 0;
    while child.await_acknowledged(4) == 4 {
        put(&store, &noise(9_000_000 + swept, 5000)).unwrap();
        store.sync().unwrap();
        let exclusive = store.exclusive(Duration::from_secs(60)).unwrap();
        let live = live_objects(&store);
        let report = exclusive.sweep(&live, &mut || true).unwrap();
        swept += report.removed_objects;
        drop(exclusive);
        assert_rounds_are_whole(&store);
    }
    child.finish();
    assert!(swept >= 10, "{swept}");
    assert_eq!(assert_rounds_are_whole(&store), 60);
    assert_eq!(store.scrub(&mut |_, _| {}).unwrap().findings, []);
}

#[test]
fn a_sweep_killed_thirty_times_keeps_everything_live_and_is_done_in_the_end() {
    let home = tempfile::tempdir().unwrap();
    let mut killed_inside = 0;
    let mut lives = 0;
    // On a busy machine a sweep may be done before the signal comes, even thirty times.
    while lives < 30 || (killed_inside == 0 && lives < 1_000) {
        let life = lives;
        lives += 1;
        fill_three_packs(home.path(), life);
        let mut child = start(home.path(), SWEEPER, 0);
        // One step removes rows, each of the others clears a pack: the kill hits somewhere in the last one.
        assert!(child.await_acknowledged(1 + life % 4) > 0);
        killed_inside += u64::from(!child.kill().finished_before);
        let store = open(home.path());
        assert_eq!(assert_rounds_are_whole(&store) as u64, 3 * (life + 1));
        assert_eq!(store.scrub(&mut |_, _| {}).unwrap().findings, []);
    }
    assert!(killed_inside > 0, "every sweep was faster than its death");
    let store = open(home.path());
    let live = live_objects(&store);
    let report = store
        .exclusive(Duration::ZERO)
        .unwrap()
        .sweep(&live, &mut || true)
        .unwrap();
    assert!(report.finished);
    assert_eq!(assert_rounds_are_whole(&store) as u64, 3 * lives);
    assert_eq!(store.usage().unwrap().objects, live.len() as u64);
}

/// Commits a round in each of three packs, with the same number of unneeded bytes.
fn fill_three_packs(dir: &Path, life: u64) {
    let writers = [open(dir), open(dir), open(dir)];
    for (number, store) in (0..).zip(&writers) {
        for dead in 0..10 {
            put(
                store,
                &noise(1_000_000_000 + life * 100 + number * 10 + dead, 2000),
            )
            .unwrap();
        }
        commit_round(store, &format!("live{number}"), life);
    }
}
