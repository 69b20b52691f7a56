//! Two mounts of one vault: each shows the changes of the other, immediately after `open(2)` and otherwise
//! very soon.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::ground::{Ground, Mount};
use crate::holder::Holder;
use crate::program::await_that;

/// Cached information is updated within this time, on a busy machine.
const SOON: Duration = Duration::from_secs(5);

fn two_doors() -> (Ground, Mount, Mount) {
    let ground = Ground::with_vault("work");
    let (one, other) = (ground.mount("work", "one"), ground.mount("work", "other"));
    assert_eq!(one.server, other.server, "one process owns the vault");
    (ground, one, other)
}

#[test]
fn after_open_the_other_side_has_the_same_bytes() {
    let (_ground, one, other) = two_doors();
    let sides = [one.path("file"), other.path("file")];
    fs::write(&sides[0], "").unwrap();
    for round in 0..200_usize {
        let (writer, reader) = (&sides[round % 2], &sides[(round + 1) % 2]);
        let text = format!("{round} ").repeat(round * 37 % 3000);
        fs::write(writer, &text).unwrap();
        let mut found = String::new();
        let mut file = File::open(reader).unwrap();
        file.read_to_string(&mut found).unwrap();
        assert!(
            found == text,
            "round {round}: {} bytes instead of {}",
            found.len(),
            text.len()
        );
        assert_eq!(file.metadata().unwrap().len(), text.len() as u64);
    }
}

/// Nothing is lost or written over. Of a single `write(2)` that crosses the border of a page, the kernel may make
/// two, between which the other door comes: so each writer has digits of its own.
#[test]
fn appended_lines_of_both_sides_are_kept() {
    const NUMBERS: usize = 2000;
    let (ground, one, other) = two_doors();
    fs::write(one.path("log"), "").unwrap();
    std::thread::scope(|scope| {
        for (writer, mount) in [&one, &other, &one, &other].into_iter().enumerate() {
            let mut log = OpenOptions::new().append(true).open(mount.path("log")).unwrap();
            scope.spawn(move || {
                (0..NUMBERS).for_each(|number| log.write_all(&digits(writer, number)).unwrap())
            });
        }
    });
    let found = [
        fs::read(one.path("log")),
        fs::read(other.path("log")),
        Ok(ground.avfs(&["cat", "log"]).into()),
    ];
    for (door, found) in found.into_iter().enumerate() {
        let found = found.unwrap();
        for writer in 0..4 {
            let by_writer: Vec<u8> = found
                .iter()
                .copied()
                .filter(|byte| writer_of(*byte) == writer)
                .collect();
            let expected: Vec<u8> = (0..NUMBERS).flat_map(|number| digits(writer, number)).collect();
            assert!(
                by_writer == expected,
                "by door {door}: {} bytes of writer {writer}",
                by_writer.len()
            );
        }
    }
}

/// A number in the format of a writer: no other writer has these bytes.
fn digits(writer: usize, number: usize) -> Vec<u8> {
    format!("{number}:")
        .bytes()
        .map(|byte| byte - b'0' + 16 * (writer as u8 + 3))
        .collect()
}

fn writer_of(byte: u8) -> usize {
    usize::from(byte / 16) - 3
}

fn line(number: usize) -> String {
    format!("{number} {}\n", "y".repeat(number % 97))
}

fn append_lines(path: &Path, lines: usize) {
    let mut log = OpenOptions::new().append(true).open(path).unwrap();
    (0..lines).for_each(|number| log.write_all(line(number).as_bytes()).unwrap());
}

/// `tail -f` at one door while the file is written at the other: it only reads bytes that were written.
#[test]
fn a_follower_at_the_other_door_reads_what_was_written_and_nothing_else() {
    const LINES: usize = 1500;
    let (_ground, one, other) = two_doors();
    fs::write(one.path("log"), "").unwrap();
    let expected: String = (0..LINES).map(line).collect();
    std::thread::scope(|scope| {
        let path = one.path("log");
        scope.spawn(move || append_lines(&path, LINES));
        let mut follower = File::open(other.path("log")).unwrap();
        let mut found = Vec::new();
        await_that("the follower has it all", Duration::from_secs(60), || {
            follower.read_to_end(&mut found).unwrap();
            let (right, bytes) = (same(&found, expected.as_bytes()), found.len());
            assert_eq!(
                right,
                bytes,
                "of {bytes} bytes, {right} are right: {:?}",
                &found[right..bytes.min(right + 20)]
            );
            bytes == expected.len()
        });
    });
}

fn same(one: &[u8], other: &[u8]) -> usize {
    one.iter()
        .zip(other)
        .take_while(|(one, other)| one == other)
        .count()
}

#[test]
fn open_files_names_and_listings_follow_soon() {
    let (_ground, one, other) = two_doors();
    fs::write(one.path("file"), "old").unwrap();
    let mut holder = Holder::start();
    holder.open("file", &other.path("file"), "O_RDWR");
    holder.tell("map file");
    for round in 0..20 {
        let (text, made) = (format!("new {round:04}"), format!("made-{round}"));
        assert!(!other.path(&made).exists());
        fs::read_dir(&other.dir).unwrap().for_each(drop);
        OpenOptions::new()
            .write(true)
            .open(one.path("file"))
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        fs::write(one.path(&made), "").unwrap();
        await_that("the open file", SOON, || holder.tell("read file 0 20") == text);
        await_that("the mapping", SOON, || holder.tell("peek file 0 3") == "new");
        await_that("the new name", SOON, || other.path(&made).exists());
        await_that("the listing", SOON, || {
            fs::read_dir(&other.dir).unwrap().count() == 2
        });
        fs::remove_file(one.path(&made)).unwrap();
        await_that("the removed name", SOON, || !other.path(&made).exists());
        await_that("the shorter listing", SOON, || {
            fs::read_dir(&other.dir).unwrap().count() == 1
        });
    }
}

/// One side replaces a file by renaming, the other opens it all the time: it is never missing, empty or mixed.
#[test]
fn a_file_that_is_replaced_at_one_door_is_whole_at_the_other() {
    let (_ground, one, other) = two_doors();
    fs::write(one.path("file"), "0".repeat(6000)).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..200_u32 {
                let digit = char::from_digit(round % 10, 10).unwrap();
                fs::write(one.path("new"), String::from(digit).repeat(6000)).unwrap();
                fs::rename(one.path("new"), one.path("file")).unwrap();
            }
            is_over.store(true, Ordering::Release);
        });
        while !is_over.load(Ordering::Acquire) {
            let found = fs::read(other.path("file")).unwrap();
            assert!(
                found.len() == 6000 && found.iter().all(|byte| *byte == found[0]),
                "mixed contents"
            );
        }
    });
}
