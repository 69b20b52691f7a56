//! The second half of garbage collection: it keeps live objects and frees the space of others.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "this is test code")]

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use avfs_core::ObjectId;
use avfs_store::{EmbeddedStore, ObjectStore, OpenOptions, StoreError, SweepReport};
use avfs_testkit::{noise, put};

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

fn fill(store: &EmbeddedStore, seeds: std::ops::Range<u64>) -> Vec<ObjectId> {
    let ids = seeds.map(|n| put(store, &noise(n, 1000)).unwrap()).collect();
    store.sync().unwrap();
    ids
}

fn sweep(store: &EmbeddedStore, live: &[ObjectId]) -> SweepReport {
    let live: HashSet<ObjectId> = live.iter().copied().collect();
    store
        .exclusive(Duration::ZERO)
        .unwrap()
        .sweep(&live, &mut || true)
        .unwrap()
}

#[track_caller]
fn assert_sound(store: &EmbeddedStore, live: &[ObjectId], dead: &[ObjectId]) {
    assert_eq!(store.get_many(live).unwrap().len(), live.len());
    assert!(
        dead.iter()
            .all(|id| matches!(store.get(*id), Err(StoreError::Missing { .. })))
    );
    assert_eq!(store.scrub(&mut |_, _| {}).unwrap().findings, []);
}

#[test]
fn a_pack_that_is_mostly_dead_is_rewritten() {
    let home = tempfile::tempdir().unwrap();
    let ids = fill(&open(home.path()), 0..100);
    let store = open(home.path());
    let report = sweep(&store, &ids[..50]);
    let freed = 12 + 50 * 1038;
    let expected = SweepReport {
        removed_objects: 50,
        freed_bytes: freed,
        rewritten_packs: 1,
        finished: true,
        ..SweepReport::default()
    };
    assert_eq!(report, expected);
    assert_sound(&store, &ids[..50], &ids[50..]);
    assert_eq!(store.usage().unwrap().pack_bytes, 12 + 50 * 1038);
    fill(&store, 50..100);
    assert_sound(&store, &ids, &[]);
}

#[test]
fn a_pack_that_is_mostly_live_only_loses_rows() {
    let home = tempfile::tempdir().unwrap();
    let ids = fill(&open(home.path()), 0..100);
    let store = open(home.path());
    let report = sweep(&store, &ids[20..]);
    assert_eq!(
        (report.removed_objects, report.freed_bytes, report.rewritten_packs),
        (20, 0, 0)
    );
    assert_sound(&store, &ids[20..], &ids[..20]);
}

#[test]
fn a_pack_with_nothing_live_is_removed() {
    let home = tempfile::tempdir().unwrap();
    let ids = fill(&open(home.path()), 0..10);
    let store = open(home.path());
    let report = sweep(&store, &[]);
    assert_eq!((report.removed_objects, report.removed_packs), (10, 1));
    assert_eq!(store.usage().unwrap().pack_bytes, 0);
    assert_sound(&store, &[], &ids);
}

#[test]
fn a_pack_in_use_by_a_writer_is_left_for_later() {
    let home = tempfile::tempdir().unwrap();
    let writer = open(home.path());
    let mut ids = fill(&writer, 0..100);
    let store = open(home.path());
    let report = sweep(&store, &ids[..10]);
    assert_eq!(
        (report.removed_objects, report.busy_packs, report.rewritten_packs),
        (90, 1, 0)
    );
    let later = fill(&writer, 200..210);
    ids.truncate(10);
    ids.extend(later);
    assert_sound(&store, &ids, &[]);
    drop(writer);
    assert_eq!(sweep(&store, &ids).rewritten_packs, 1);
    assert_sound(&store, &ids, &[]);
}

#[test]
fn a_reader_follows_an_object_that_was_moved() {
    let home = tempfile::tempdir().unwrap();
    let ids = fill(&open(home.path()), 0..100);
    let reader = open(home.path());
    reader.get(ids[0]).unwrap();
    let sweeper = open(home.path());
    for kept in [60, 30, 10] {
        sweep(&sweeper, &ids[..kept]);
        assert_sound(&reader, &ids[..kept], &ids[kept..]);
    }
}

#[test]
fn a_reader_notices_that_a_new_pack_has_the_number_of_a_removed_one() {
    let home = tempfile::tempdir().unwrap();
    let old = fill(&open(home.path()), 0..10);
    let reader = open(home.path());
    reader.get(old[0]).unwrap();
    sweep(&open(home.path()), &[]);
    let new = fill(&open(home.path()), 100..120);
    assert!(home.path().join("packs/00000001.pack").exists());
    assert_sound(&reader, &new, &old);
}

#[test]
fn leftovers_of_killed_processes_are_removed_and_packs_being_filled_are_not() {
    let home = tempfile::tempdir().unwrap();
    let writer = open(home.path());
    put(&writer, b"in a pack that the index does not know yet").unwrap();
    std::fs::write(
        home.path().join("packs/00000007.pack"),
        b"avfspack\x01\0\0\0 and garbage",
    )
    .unwrap();
    let store = open(home.path());
    let report = sweep(&store, &[]);
    assert_eq!(report.removed_packs, 1);
    assert!(!home.path().join("packs/00000007.pack").exists());
    writer.sync().unwrap();
    assert_eq!(store.usage().unwrap().objects, 1);
    assert_sound(&store, &[], &[]);
}

#[test]
fn a_sweep_can_be_stopped_at_every_step_and_done_again() {
    for steps in 0..6 {
        let home = tempfile::tempdir().unwrap();
        let writers = [open(home.path()), open(home.path()), open(home.path())];
        let ids: Vec<Vec<ObjectId>> = (0..3)
            .map(|n| fill(&writers[n as usize], n * 100..n * 100 + 100))
            .collect();
        drop(writers);
        let live: Vec<ObjectId> = ids.iter().flat_map(|ids| ids[..10].to_vec()).collect();
        let dead: Vec<ObjectId> = ids.iter().flat_map(|ids| ids[10..].to_vec()).collect();
        let store = open(home.path());
        let mut left = steps;
        let mut go_on = || {
            left -= 1;
            left >= 0
        };
        let set: HashSet<ObjectId> = live.iter().copied().collect();
        let report = store
            .exclusive(Duration::ZERO)
            .unwrap()
            .sweep(&set, &mut go_on)
            .unwrap();
        assert_eq!(report.finished, steps >= 4);
        assert_sound(&store, &live, &[]);
        assert!(sweep(&store, &live).finished);
        assert_sound(&store, &live, &dead);
    }
}

#[test]
fn pins_hold_back_a_sweep_and_a_sweep_holds_back_pins() {
    let home = tempfile::tempdir().unwrap();
    let options = OpenOptions {
        busy_timeout: Duration::ZERO,
        ..OpenOptions::default()
    };
    let store = EmbeddedStore::open(home.path(), options.clone()).unwrap();
    let other = EmbeddedStore::open(home.path(), options).unwrap();
    let first = other.pin().unwrap();
    let second = other.pin().unwrap();
    drop(first);
    assert!(matches!(
        store.exclusive(Duration::ZERO),
        Err(StoreError::Busy { .. })
    ));
    drop(second);
    let exclusive = store.exclusive(Duration::ZERO).unwrap();
    assert!(matches!(other.pin(), Err(StoreError::Busy { .. })));
    drop(exclusive);
    let _pin = other.pin().unwrap();
}

#[test]
fn a_row_of_a_pack_that_is_damaged_stops_the_sweep() {
    let home = tempfile::tempdir().unwrap();
    let ids = fill(&open(home.path()), 0..10);
    let connection = rusqlite::Connection::open(home.path().join("store.db")).unwrap();
    connection.execute("UPDATE packs SET number = 9", []).unwrap();
    let store = open(home.path());
    let refused = store
        .exclusive(Duration::ZERO)
        .unwrap()
        .sweep(&HashSet::new(), &mut || true);
    assert!(matches!(refused, Err(StoreError::Damaged { .. })));
    connection.execute("DELETE FROM packs", []).unwrap();
    sweep(&store, &ids);
    assert_eq!(
        store.get_many(&ids).unwrap().len(),
        10,
        "a pack that rows point at is no leftover"
    );
}

/// Two packs of a store, the second one with only dead objects in it.
fn two_packs(home: &Path) -> Vec<ObjectId> {
    let first = open(home);
    let live = fill(&first, 0..10);
    // The first pack is in use, so this goes to another one.
    fill(&open(home), 10..40);
    live
}

#[test]
fn scrub_finds_no_damage_in_a_pack_that_is_swept_meanwhile() {
    let home = tempfile::tempdir().unwrap();
    let live = two_packs(home.path());
    let mut sweeps = Vec::new();
    let report = open(home.path()).scrub(&mut |_, _| {
        if sweeps.is_empty() {
            sweeps.push(sweep(&open(home.path()), &live).removed_packs);
        }
    });
    assert_eq!((report.unwrap().findings, sweeps), (vec![], vec![1]));
}

#[test]
fn scrub_finds_no_damage_in_a_pack_that_took_the_number_of_a_swept_one() {
    let home = tempfile::tempdir().unwrap();
    let live = two_packs(home.path());
    let keeps_the_first_pack = open(home.path());
    fill(&keeps_the_first_pack, 40..41);
    let mut swept = false;
    let report = open(home.path()).scrub(&mut |_, _| {
        if !std::mem::replace(&mut swept, true) {
            sweep(&open(home.path()), &live);
            fill(&open(home.path()), 100..150);
        }
    });
    let report = report.unwrap();
    assert_eq!((report.findings, report.objects), (vec![], 60));
}

#[test]
fn scrub_waits_for_a_sweep_before_it_calls_something_damaged() {
    let home = tempfile::tempdir().unwrap();
    two_packs(home.path());
    let pack = home.path().join("packs").join(
        std::fs::read_dir(home.path().join("packs"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .max()
            .unwrap(),
    );
    let mut bytes = std::fs::read(&pack).unwrap();
    bytes[500] ^= 1;
    std::fs::write(&pack, bytes).unwrap();
    let options = OpenOptions {
        busy_timeout: Duration::ZERO,
        ..OpenOptions::default()
    };
    let store = EmbeddedStore::open(home.path(), options).unwrap();
    let sweeper = open(home.path());
    let sweeping = sweeper.exclusive(Duration::ZERO).unwrap();
    assert!(matches!(
        store.scrub(&mut |_, _| {}),
        Err(StoreError::Busy { .. })
    ));
    drop(sweeping);
    assert_eq!(store.scrub(&mut |_, _| {}).unwrap().findings.len(), 2);
}
