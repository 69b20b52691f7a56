//! How many requests common calls cost, because each costs more than what it asks for.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;

use avfs_core::EntryName;
use avfs_fuse::abi::Opcode;
use avfs_tree::{Ino, NewEntry};

use crate::fixture::Mounted;

fn total(requests: &[(Opcode, u64)]) -> u64 {
    requests.iter().map(|(_, count)| count).sum()
}

#[test]
fn what_was_asked_once_is_not_asked_again() {
    let mounted = Mounted::new();
    std::fs::write(mounted.at("a"), vec![7; 100_000]).unwrap();
    let stat = || assert!(mounted.at("a").metadata().is_ok());
    let miss = || assert!(!mounted.at("missing").exists());
    let file = File::open(mounted.at("a")).unwrap();
    let read = || {
        let mut buffer = vec![0; 100_000];
        file.read_exact_at(&mut buffer, 0).unwrap();
        assert!(buffer.iter().all(|byte| *byte == 7));
    };
    for (what, action) in [("stat", &stat as &dyn Fn()), ("missing name", &miss), ("read", &read)] {
        action();
        let requests = mounted.requests_of(action);
        assert_eq!(requests, [], "{what}");
    }
}

#[test]
fn writes_go_through_one_by_one() {
    let mounted = Mounted::new();
    let mut file = File::create(mounted.at("a")).unwrap();
    file.write_all(b"the first").unwrap();
    let requests = mounted.requests_of(|| file.write_all(b"another").unwrap());
    assert_eq!(requests, [(Opcode::Write, 1)]);
}

#[test]
fn a_new_file_and_a_removed_one_cost_little() {
    let mounted = Mounted::new();
    // LOOKUP, the directory's GETATTR for its permissions, CREATE, GETXATTR for capabilities that a first
    // write would have to take away, WRITE, FLUSH for locks.
    // The kernel learns with the first file what it need not ask.
    std::fs::write(mounted.at("first"), "a").unwrap();
    let made = mounted.requests_of(|| std::fs::write(mounted.at("second"), "b").unwrap());
    assert!(total(&made) <= 6, "{made:?}");
    let removed = mounted.requests_of(|| std::fs::remove_file(mounted.at("second")).unwrap());
    assert!(total(&removed) <= 2, "{removed:?}");
}

#[test]
fn a_listed_directory_is_not_asked_about_again() {
    let mounted = Mounted::new();
    for number in 0..100 {
        File::create(mounted.at(&format!("file {number}"))).unwrap();
    }
    let walk = || {
        for entry in std::fs::read_dir(mounted.path()).unwrap() {
            entry.unwrap().metadata().unwrap();
        }
    };
    walk();
    let requests = mounted.requests_of(walk);
    assert!(total(&requests) <= 2, "opening it and its own attributes at most: {requests:?}");
}

#[test]
fn a_large_file_is_read_ahead_in_large_pieces() {
    const SIZE: usize = 16 << 20;
    let tree = crate::fixture::empty_tree();
    let file = tree.create(Ino::ROOT, &EntryName::new(b"large").unwrap(), NewEntry::file(0o644)).unwrap();
    tree.write(file.ino, 0, &vec![7; SIZE]).unwrap();
    let mounted = Mounted::of(tree, false);
    let read = mounted.requests_of(|| {
        let (file, mut piece) = (File::open(mounted.at("large")).unwrap(), vec![0; 64 << 10]);
        (0..SIZE).step_by(piece.len()).for_each(|at| file.read_exact_at(&mut piece, at as u64).unwrap());
    });
    // With 128 KiB at a time it would be 128.
    assert!(total(&read) < 48, "{read:?}");
}

#[test]
fn files_of_the_past_are_read_again_without_a_request() {
    let tree = crate::fixture::empty_tree();
    let file = tree.create(Ino::ROOT, &EntryName::new(b"file").unwrap(), NewEntry::file(0o644)).unwrap();
    tree.write(file.ino, 0, b"as it was").unwrap();
    let mounted = Mounted::read_only(tree);
    let read = || assert_eq!(std::fs::read(mounted.at("file")).unwrap(), b"as it was");
    read();
    assert_eq!(mounted.requests_of(read), []);
}
