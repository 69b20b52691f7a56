//! The load for crashes, and its check: on a directory that crashes leave alone, and on damaged ones.

#![allow(clippy::unwrap_used, reason = "this is test code")]

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use avfs_testkit::{Dice, LoadWriter, PowerCut, TestChild, child_task};

const LOAD: LoadWriter = LoadWriter {
    threads: 3,
    seed: 1,
    unsynced_may_be_zeros: false,
};

/// Not a test itself: the code that children run.
#[test]
fn the_child() {
    let Some((directory, seed)) = child_task() else {
        return;
    };
    let load = LoadWriter {
        seed: seed.parse().unwrap(),
        ..LOAD
    };
    panic!("{}", load.run(&directory));
}

#[test]
fn a_killed_writer_leaves_what_it_acknowledged() {
    let place = tempfile::tempdir().unwrap();
    let seed = Dice::fresh_seed();
    println!("AVFS_FUZZ_SEED={seed}");
    let mut dice = Dice::new(seed);
    for round in 0..6 {
        let directory = place.path().join(round.to_string());
        let child = TestChild::start("the_child", &directory, &dice.roll().to_string()).watched();
        child.await_total(dice.below(60));
        // Somewhere in the next step: this pause is the only way to hit it.
        std::thread::sleep(Duration::from_micros(dice.roll() % 3_000));
        let flaws = LOAD.check(&directory, &child.kill());
        assert!(flaws.is_empty(), "{flaws:#?}");
    }
}

#[test]
fn a_writer_that_cannot_go_on_ends() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("load");
    let child = TestChild::start("the_child", &directory, "1").watched();
    child.await_total(20);
    std::fs::rename(&directory, place.path().join("elsewhere")).unwrap();
    assert!(child.await_end().len() >= 20);
}

#[test]
fn a_power_cut_leaves_what_was_acknowledged() {
    let disk = PowerCut::new(128 << 20);
    let seed = Dice::fresh_seed();
    println!("AVFS_FUZZ_SEED={seed}");
    let mut dice = Dice::new(seed);
    let child = TestChild::start("the_child", &disk.path().join("load"), &dice.roll().to_string()).watched();
    let mut cuts = Vec::new();
    for _ in 0..8 {
        child.await_total(child.so_far().len() + dice.below(60));
        std::thread::sleep(Duration::from_micros(dice.roll() % 3_000));
        cuts.push((child.so_far(), disk.cut()));
    }
    // Acknowledgements just before a cut may arrive long after it.
    let all = child.kill();
    let load = LoadWriter {
        unsynced_may_be_zeros: true,
        ..LOAD
    };
    for (before, mut image) in cuts {
        let flaws = load.check_between(&image.mount().join("load"), &before, &all);
        assert!(flaws.is_empty(), "{flaws:#?}");
    }
}

/// The last acknowledged value of a counter.
fn last(acknowledged: &[String], what: &str) -> Option<u64> {
    let numbers = acknowledged
        .iter()
        .filter_map(|line| line.strip_prefix(what)?.strip_prefix(' '));
    numbers.map(|number| number.parse().unwrap()).max()
}

/// Whether everything has happened that some damage needs.
fn is_rich(acknowledged: &[String]) -> bool {
    let at_least = |what, least| last(acknowledged, what).is_some_and(|last| last >= least);
    let removed = last(acknowledged, "t0-removed").unwrap_or(0);
    at_least("t0-log", 1)
        && at_least("t0-document-0", 1)
        && at_least("t1-document-0", 0)
        && at_least("t0-slot-1", 2)
        && at_least("t0-removed", 0)
        && at_least("t0-created", removed + 2)
}

/// A damage, and the file in which it must be found.
type Damage = (&'static str, fn(&Path));

const DAMAGES: [Damage; 9] = [
    ("t0-log", |dir| cut_short(&dir.join("t0-log"))),
    ("t0-log", |dir| write_at(&dir.join("t0-log"), 100, b"mixed")),
    ("t0-log", |dir| append(&dir.join("t0-log"), b"not a record")),
    ("t0-document-0", |dir| {
        std::fs::remove_file(dir.join("t0-document-0")).unwrap()
    }),
    ("t0-document-0", |dir| {
        _ = std::fs::copy(dir.join("t1-document-0"), dir.join("t0-document-0")).unwrap()
    }),
    ("t0-document-0", |dir| cut_short(&dir.join("t0-document-0"))),
    // The other page of the slot is unchanged.
    ("t0-slots", |dir| {
        write_at(&dir.join("t0-slots"), 8_192, &[0; 4_096])
    }),
    ("t0-file-0", |dir| {
        std::fs::write(dir.join("t0-file-0"), "back again").unwrap()
    }),
    ("stranger", |dir| {
        std::fs::write(dir.join("stranger"), "").unwrap()
    }),
];

fn rich_load(place: &Path) -> (PathBuf, Vec<String>) {
    let loads = (0..50).map(|seed| {
        let directory = place.join(format!("load-{seed}"));
        let child = TestChild::start("the_child", &directory, &seed.to_string()).watched();
        child.await_total(100);
        (directory, child.kill())
    });
    loads
        .into_iter()
        .find(|(_, acknowledged)| is_rich(acknowledged))
        .unwrap()
}

#[test]
fn every_damage_is_found() {
    let place = tempfile::tempdir().unwrap();
    let (directory, acknowledged) = rich_load(place.path());
    assert_eq!(LOAD.check(&directory, &acknowledged), Vec::<String>::new());
    let newest = last(&acknowledged, "t0-created").unwrap();
    for (index, (file, damage)) in DAMAGES.into_iter().enumerate() {
        let copy = copy_of(&directory, &place.path().join(index.to_string()));
        damage(&copy);
        let flaws = LOAD.check(&copy, &acknowledged);
        assert!(
            flaws.len() == 1 && flaws[0].starts_with(file),
            "damage {index} of {file}: {flaws:?}"
        );
    }
    std::fs::remove_file(directory.join(format!("t0-file-{newest}"))).unwrap();
    let flaws = LOAD.check(&directory, &acknowledged);
    assert_eq!(
        flaws,
        [format!("t0-file-{newest}: gone, although it was created")]
    );
}

#[test]
fn missing_log_of_acknowledged_data_is_reported() {
    let place = tempfile::tempdir().unwrap();
    let never_made = place.path().join("load");
    assert_eq!(LOAD.check(&never_made, &[]), Vec::<String>::new());
    let flaws = LOAD.check(&never_made, &["t2-log 0".to_owned()]);
    assert!(flaws.iter().any(|flaw| flaw.starts_with("t2-log: ")), "{flaws:?}");
}

fn copy_of(from: &Path, to: &Path) -> PathBuf {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
    to.to_owned()
}

fn open(path: &Path) -> std::fs::File {
    std::fs::OpenOptions::new().write(true).open(path).unwrap()
}

/// All written files are longer.
fn cut_short(path: &Path) {
    open(path).set_len(150).unwrap();
}

fn write_at(path: &Path, offset: u64, bytes: &[u8]) {
    open(path).write_all_at(bytes, offset).unwrap();
}

fn append(path: &Path, bytes: &[u8]) {
    write_at(path, std::fs::metadata(path).unwrap().len(), bytes);
}
