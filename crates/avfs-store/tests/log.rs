//! Damage to SQLite's log: distinguished from the results of a crash, and never mistaken for an earlier
//! state.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "this is test code")]

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use avfs_store::{
    EmbeddedStore, LogRepair, OpenOptions, REBUILT, RefEdit, RefRange, RefStore, StoreError, UpkeepFinding,
};
use avfs_testkit::{noise, put};
use tempfile::TempDir;

const COMMITS: u64 = 8;
const HEADER: usize = 32;
const FRAME: usize = 24 + 4096;

type Refs = Vec<(String, Vec<u8>)>;

fn open(dir: &Path) -> Result<EmbeddedStore, StoreError> {
    EmbeddedStore::open(
        dir,
        OpenOptions {
            cache_bytes: 0,
            ..OpenOptions::default()
        },
    )
}

fn log(home: &TempDir) -> PathBuf {
    home.path().join("store.db-wal")
}

fn note(home: &TempDir) -> PathBuf {
    home.path().join("store.db-wal.sum")
}

/// Flips a bit in place: rewriting the whole file would make the file system sync it.
fn flip(path: &Path, bit: usize) {
    let file = fs::File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, bit as u64 / 8).unwrap();
    byte[0] ^= 1 << (bit % 8);
    file.write_all_at(&byte, bit as u64 / 8).unwrap();
}

fn commit(store: &EmbeddedStore, number: u64) {
    put(store, &noise(number, 40)).unwrap();
    store
        .commit(&[RefEdit::create(
            format!("vault/{number:04}"),
            format!("value {number}"),
        )])
        .unwrap();
}

fn refs(store: &EmbeddedStore) -> Refs {
    let mut refs = store.scan(&RefRange::prefix("")).unwrap();
    refs.retain(|(key, _)| key != REBUILT);
    refs
}

/// A closed store whose commits are all in the log.
fn sample() -> (TempDir, Refs) {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path()).unwrap();
    (0..COMMITS).for_each(|number| commit(&store, number));
    let refs = refs(&store);
    (home, refs)
}

/// A store whose log was restarted: frames of an earlier generation follow the current ones.
fn sample_with_old_frames() -> (TempDir, Refs) {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path()).unwrap();
    (0..COMMITS).for_each(|number| commit(&store, number));
    let connection = rusqlite::Connection::open(home.path().join("store.db")).unwrap();
    connection
        .query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(()))
        .unwrap();
    (COMMITS..COMMITS + 2).for_each(|number| commit(&store, number));
    let refs = refs(&store);
    (home, refs)
}

#[derive(Debug, Default)]
struct Tally {
    detected: usize,
    harmless: usize,
    /// Flips after which an earlier state was served, and the frames that they are in.
    undetected: Vec<usize>,
}

/// Opens the store with each of these bits of its log flipped, one at a time.
fn flip_each(home: &TempDir, expected: &Refs, bits: impl Iterator<Item = usize>) -> Tally {
    let whole = fs::read(log(home)).unwrap();
    let mut tally = Tally::default();
    for bit in bits {
        flip(&log(home), bit);
        match open(home.path()) {
            Err(StoreError::Damaged { place, .. }) => {
                assert_eq!(place, "store.db-wal");
                tally.detected += 1;
            }
            Err(other) => panic!("bit {bit}: {other}"),
            Ok(store) if refs(&store) == *expected => tally.harmless += 1,
            Ok(_) => tally.undetected.push((bit / 8 - HEADER) / FRAME + 1),
        }
        flip(&log(home), bit);
        assert!(fs::read(log(home)).unwrap() == whole, "opening changes nothing");
    }
    tally
}

/// A third of the bits of all headers, and some of the pages.
fn bits(home: &TempDir) -> Vec<usize> {
    let length = fs::metadata(log(home)).unwrap().len() as usize;
    let is_header = |byte: usize| byte < HEADER || (byte - HEADER) % FRAME < 24;
    let headers = (0..length * 8).filter(|bit| is_header(bit / 8)).step_by(3);
    headers.chain((0..length * 8).step_by(1009)).collect()
}

#[test]
fn flipped_bits_of_the_log_are_all_detected() {
    let (home, expected) = sample();
    let bits = bits(&home);
    let tally = flip_each(&home, &expected, bits.iter().copied());
    assert_eq!((tally.detected, tally.harmless), (bits.len(), 0), "{tally:?}");
    assert_eq!(refs(&open(home.path()).unwrap()), expected);
}

#[test]
fn flipped_bits_of_old_frames_do_no_harm_and_all_others_are_detected() {
    let (home, expected) = sample_with_old_frames();
    let bits = bits(&home);
    let tally = flip_each(&home, &expected, bits.iter().copied());
    assert!(tally.undetected.is_empty(), "{tally:?}");
    assert!(tally.harmless > 0 && tally.detected > 0, "{tally:?}");
}

/// The documented limit: a power cut may lose the note, and then the last transaction could be a torn one.
#[test]
fn without_the_note_only_flips_in_the_last_transaction_are_not_detected() {
    let (home, expected) = sample();
    fs::remove_file(note(&home)).unwrap();
    let bits = bits(&home);
    let tally = flip_each(&home, &expected, bits.iter().copied());
    let last = last_transaction(&fs::read(log(&home)).unwrap());
    println!("{} of {} undetected", tally.undetected.len(), bits.len());
    assert_eq!(tally.harmless, 0);
    assert!(
        tally.undetected.iter().all(|frame| *frame >= last),
        "{tally:?}, last from {last}"
    );
    assert!(tally.undetected.len() * 100 < bits.len() * 25, "{tally:?}");
}

/// The number of the first frame of the last transaction.
fn last_transaction(log: &[u8]) -> usize {
    let ends: Vec<usize> = log[HEADER..]
        .chunks_exact(FRAME)
        .enumerate()
        .filter(|(_, frame)| frame[4..8] != [0; 4])
        .map(|(at, _)| at + 1)
        .collect();
    ends[ends.len() - 2] + 1
}

#[test]
fn a_log_torn_anywhere_in_a_commit_that_was_not_acknowledged_opens() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path()).unwrap();
    (0..COMMITS).for_each(|number| commit(&store, number));
    let expected = refs(&store);
    let old_note = fs::read(note(&home)).unwrap();
    let acknowledged = fs::metadata(log(&home)).unwrap().len() as usize;
    commit(&store, COMMITS);
    drop(store);
    let whole = fs::read(log(&home)).unwrap();
    fs::write(note(&home), old_note).unwrap();
    for end in (acknowledged..whole.len()).step_by(61) {
        fs::write(log(&home), &whole[..end]).unwrap();
        assert_eq!(refs(&open(home.path()).unwrap()), expected, "{end}");
    }
    // A power cut may also keep any later part of it and lose an earlier one.
    for lost in (acknowledged..whole.len()).step_by(512) {
        let mut torn = whole.clone();
        torn[lost..(lost + 512).min(whole.len())].fill(0);
        fs::write(log(&home), &torn).unwrap();
        assert!(
            torn == whole || refs(&open(home.path()).unwrap()) == expected,
            "{lost}"
        );
    }
    fs::write(log(&home), &whole[..acknowledged - 1]).unwrap();
    assert!(
        matches!(open(home.path()), Err(StoreError::Damaged { .. })),
        "this was acknowledged"
    );
}

#[test]
fn a_log_with_hardly_a_header_opens() {
    let (home, _) = sample();
    let whole = fs::read(log(&home)).unwrap();
    for end in 0..HEADER {
        fs::write(log(&home), &whole[..end]).unwrap();
        open(home.path()).unwrap();
    }
}

#[test]
fn rebuild_after_a_flipped_bit_of_the_log_takes_later_commits_from_the_second_copy_or_reports_them_lost() {
    let (home, expected) = sample();
    let files =
        ["store.db", "store.db-wal", "store.db-wal.sum", "refs.log"].map(|name| home.path().join(name));
    let before = files.each_ref().map(|file| fs::read(file).unwrap());
    for (turn, bit) in bits(&home).into_iter().step_by(11).enumerate() {
        flip(&log(&home), bit);
        assert!(
            matches!(open(home.path()), Err(StoreError::Damaged { .. })),
            "bit {bit}"
        );
        let has_copy = turn % 2 == 0;
        if !has_copy {
            fs::remove_file(home.path().join("refs.log")).unwrap();
        }
        let report = EmbeddedStore::rebuild(home.path(), |_, _| None).unwrap();
        let store = open(home.path()).unwrap();
        assert_eq!(store.scrub(&mut |_, _| {}).unwrap().findings, []);
        if has_copy {
            assert_eq!(
                (report.log, refs(&store)),
                (LogRepair::Restored, expected.clone()),
                "bit {bit}"
            );
        } else {
            assert_eq!(report.log, LogRepair::Cut, "bit {bit}");
            assert!(expected.starts_with(&refs(&store)), "bit {bit}");
        }
        drop(store);
        files
            .iter()
            .zip(&before)
            .for_each(|(file, bytes)| fs::write(file, bytes).unwrap());
    }
}

#[test]
fn a_rebuild_says_when_it_had_to_cut_the_log_off() {
    let (home, expected) = sample();
    let mut bytes = fs::read(log(&home)).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 512].fill(0xa5);
    fs::write(log(&home), bytes).unwrap();
    fs::remove_file(home.path().join("refs.log")).unwrap();
    let report = EmbeddedStore::rebuild(home.path(), |_, _| None).unwrap();
    assert_eq!((report.log, report.objects), (LogRepair::Cut, COMMITS));
    let store = open(home.path()).unwrap();
    let left = refs(&store);
    assert!(!left.is_empty() && left.len() < expected.len() && expected.starts_with(&left));
    commit(&store, 100);
    drop(store);

    let (home, expected) = sample();
    let mut bytes = fs::read(log(&home)).unwrap();
    bytes[middle..middle + 512].fill(0xa5);
    fs::write(log(&home), bytes).unwrap();
    let report = EmbeddedStore::rebuild(home.path(), |_, _| None).unwrap();
    assert_eq!((report.log, report.has_lost_refs()), (LogRepair::Restored, false));
    assert_eq!(
        refs(&open(home.path()).unwrap()),
        expected,
        "the second copy has them all"
    );
}

#[test]
fn a_scrub_names_the_log_and_a_repair_folds_it() {
    let (home, expected) = sample();
    let store = open(home.path()).unwrap();
    refs(&store);
    flip(&log(&home), (HEADER + 24 + 4000) * 8);
    let findings = store.scrub(&mut |_, _| {}).unwrap().findings;
    assert!(matches!(&findings[0], UpkeepFinding::Log { place, detail }
        if place == "store.db-wal" && detail.starts_with("frame 1 ")));
    let report = store.exclusive(Duration::ZERO).unwrap().repair().unwrap();
    assert_eq!(report.log, LogRepair::Folded);
    assert_eq!(store.scrub(&mut |_, _| {}).unwrap().findings, []);
    drop(store);
    assert_eq!(refs(&open(home.path()).unwrap()), expected);
}

#[test]
fn every_flipped_bit_of_the_note_is_found_by_a_scrub_and_harms_nothing() {
    let (home, expected) = sample();
    let store = open(home.path()).unwrap();
    for bit in 0..fs::read(note(&home)).unwrap().len() * 8 {
        flip(&note(&home), bit);
        let findings = store.scrub(&mut |_, _| {}).unwrap().findings;
        assert!(matches!(&findings[..], [UpkeepFinding::Log { place, .. }] if place == "store.db-wal.sum"));
        assert_eq!(refs(&open(home.path()).unwrap()), expected);
        flip(&note(&home), bit);
    }
    flip(&note(&home), 0);
    commit(&store, COMMITS);
    assert_eq!(store.scrub(&mut |_, _| {}).unwrap().findings, []);
}

#[test]
fn junk_in_the_note_or_behind_it_ends_with_a_repair_or_the_next_commit() {
    for by_repair in [true, false] {
        for junk in [&[7; 28][..], &[7; 100], b""] {
            let (home, expected) = sample();
            let mut bytes = fs::read(note(&home)).unwrap();
            let case = format!("{junk:?}, {by_repair}");
            match junk {
                [] => bytes.extend(b"behind it"),
                junk => bytes = junk.to_vec(),
            }
            fs::write(note(&home), &bytes).unwrap();
            let store = open(home.path()).unwrap();
            assert_ne!(store.scrub(&mut |_, _| {}).unwrap().findings, [], "{case}");
            if by_repair {
                let report = store.exclusive(Duration::ZERO).unwrap().repair().unwrap();
                assert_eq!(
                    (report.log, report.has_lost_refs()),
                    (LogRepair::Sound, false),
                    "{case}"
                );
                assert_eq!(refs(&store), expected, "{case}");
            } else {
                commit(&store, COMMITS);
            }
            assert_eq!(store.scrub(&mut |_, _| {}).unwrap().findings, [], "{case}");
            assert_eq!(fs::read(note(&home)).unwrap().len(), 28, "{case}");
        }
    }
}

/// Writers commit, fold the log and restart it while other processes open and scrub the store.
#[test]
fn a_log_that_others_write_to_is_never_taken_for_damaged() {
    let home = tempfile::tempdir().unwrap();
    open(home.path()).unwrap();
    let done = AtomicBool::new(false);
    let opens: usize = std::thread::scope(|scope| {
        let openers: Vec<_> = (0..2)
            .map(|_| scope.spawn(|| open_until(home.path(), &done)))
            .collect();
        let writers: Vec<_> = (0..3).map(|name| (name, home.path())).collect();
        let writers: Vec<_> = writers
            .into_iter()
            .map(|(name, dir)| scope.spawn(move || write_and_fold(dir, name)))
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Relaxed);
        openers.into_iter().map(|opener| opener.join().unwrap()).sum()
    });
    println!("{opens} opens");
    assert!(opens >= 200, "{opens}");
    assert_eq!(refs(&open(home.path()).unwrap()).len(), 3 * 100);
}

fn open_until(dir: &Path, done: &AtomicBool) -> usize {
    let mut opens = 0;
    while !done.load(Ordering::Relaxed) || opens < 200 {
        let store = open(dir).unwrap();
        opens += 1;
        if opens % 10 == 0 {
            assert_eq!(store.scrub(&mut |_, _| {}).unwrap().findings, []);
        }
    }
    opens
}

fn write_and_fold(dir: &Path, name: u64) {
    for round in 0..10 {
        let store = open(dir).unwrap();
        (0..10).for_each(|n| commit(&store, name * 1000 + round * 10 + n));
        let connection = rusqlite::Connection::open(dir.join("store.db")).unwrap();
        let mode = ["TRUNCATE", "RESTART"][round as usize % 2];
        _ = connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()));
    }
}
