//! A power cut removes unsynced data, and nothing else.

#![allow(clippy::unwrap_used, reason = "this is test code")]

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use avfs_testkit::{Dice, PowerCut, TestChild, acknowledge, child_task};

const DISK: u64 = 64 << 20;
const RECORD: usize = 1_000;
/// This many records are written without being synced.
const UNSYNCED: u64 = 100;

/// Not a test itself: the code that children run.
#[test]
fn the_child() {
    let Some((place, script)) = child_task() else {
        return;
    };
    let mut file = File::create_new(place.join("records")).unwrap();
    File::open(&place).unwrap().sync_all().unwrap();
    let sync = script == "sync";
    let records = if sync { u64::MAX } else { UNSYNCED };
    (0..records).for_each(|number| append(&mut file, number, sync));
    // Until it is killed: a file that is closed might be written out.
    std::thread::park();
}

fn append(file: &mut File, number: u64, sync: bool) {
    file.write_all(&record(number)).unwrap();
    if sync {
        file.sync_all().unwrap();
    }
    acknowledge(number);
}

fn record(number: u64) -> Vec<u8> {
    let mut record = format!("{number:<20}").into_bytes();
    record.resize(RECORD, b'.');
    record
}

/// The number of complete records, in order.
fn whole_records(disk: &Path) -> usize {
    let bytes = std::fs::read(disk.join("records")).unwrap_or_default();
    let records = bytes.chunks(RECORD).enumerate();
    records
        .take_while(|(number, found)| *found == record(*number as u64))
        .count()
}

#[test]
fn whatever_was_synced_and_acknowledged_survives_a_power_cut() {
    let seed = Dice::fresh_seed();
    println!("AVFS_FUZZ_SEED={seed}");
    let mut dice = Dice::new(seed);
    let disk = PowerCut::new(DISK);
    let child = TestChild::start("the_child", disk.path(), "sync").watched();
    for _ in 0..8 {
        child.await_total(child.so_far().len() + 1 + dice.below(5));
        // Somewhere in the next step: this pause is the only way to hit it.
        std::thread::sleep(Duration::from_micros(dice.roll() % 3_000));
        let acknowledged = child.so_far().len();
        let mut image = disk.cut();
        let found = whole_records(image.mount());
        assert!(
            found >= acknowledged,
            "{acknowledged} records were acknowledged, {found} are there"
        );
    }
    child.kill();
}

#[test]
fn whatever_was_not_synced_is_lost() {
    let disk = PowerCut::new(DISK);
    // The kernel may happen to write everything at the moment of a cut, but not each time.
    let is_lost = |round: u32| {
        let place = disk.path().join(round.to_string());
        std::fs::create_dir(&place).unwrap();
        let child = TestChild::start("the_child", &place, "do not sync").watched();
        child.await_total(UNSYNCED as usize);
        let mut image = disk.cut();
        let found = whole_records(&image.mount().join(round.to_string()));
        child.kill();
        found < UNSYNCED as usize
    };
    assert!(
        (0..5).any(is_lost),
        "nothing is ever lost: these are not power cuts"
    );
}
