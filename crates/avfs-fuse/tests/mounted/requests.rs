//! The number of requests that common calls cost, because each costs more than its own work.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

use avfs_core::EntryName;
use avfs_fuse::abi::Opcode;
use avfs_tree::{Ino, NewEntry};

use crate::fixture::{Mounted, unless_pages_are_reclaimed};

fn total(requests: &[(Opcode, u64)]) -> u64 {
    requests.iter().map(|(_, count)| count).sum()
}

#[test]
fn second_use_of_a_name_or_page_makes_no_request() {
    unless_pages_are_reclaimed(|| {
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
        for (what, action) in [
            ("stat", &stat as &dyn Fn()),
            ("missing name", &miss),
            ("read", &read),
        ] {
            action();
            let requests = mounted.requests_of(action);
            assert_eq!(requests, [], "{what}");
        }
    });
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
    // write would have to remove, WRITE, FLUSH for locks. With the first file the kernel learns which
    // requests it need not send.
    std::fs::write(mounted.at("first"), "a").unwrap();
    let made = mounted.requests_of(|| std::fs::write(mounted.at("second"), "b").unwrap());
    assert!(total(&made) <= 6, "{made:?}");
    let removed = mounted.requests_of(|| std::fs::remove_file(mounted.at("second")).unwrap());
    assert!(total(&removed) <= 2, "{removed:?}");
}

#[test]
fn a_listed_directory_is_not_asked_about_again() {
    unless_pages_are_reclaimed(|| {
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
        assert!(
            total(&requests) <= 2,
            "opening it and its own attributes at most: {requests:?}"
        );
    });
}

/// Reads everything in a directory as `grep -r` does: names first, then each file.
fn read_all_in(directory: &Path) {
    let names: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    names.iter().for_each(|name| drop(fs::read(name).unwrap()));
}

fn requests_for(opcode: Opcode, requests: &[(Opcode, u64)]) -> u64 {
    requests
        .iter()
        .filter(|(asked, _)| *asked == opcode)
        .map(|(_, count)| count)
        .sum()
}

/// A mount of a hundred files that the kernel has not seen yet, and that are too large to be given to it on
/// open.
fn mounted_with_large_files() -> Mounted {
    let tree = crate::fixture::empty_tree();
    let directory = tree
        .create(
            Ino::ROOT,
            &EntryName::new(b"directory").unwrap(),
            NewEntry::directory(0o755),
        )
        .unwrap();
    for number in 0..100 {
        let name = EntryName::new(format!("file {number}").as_bytes()).unwrap();
        let file = tree.create(directory.ino, &name, NewEntry::file(0o644)).unwrap();
        tree.write(file.ino, 0, &vec![7; 80 << 10]).unwrap();
    }
    Mounted::of(tree, false)
}

/// Whether a directory was listed from the kernel's cache; the kernel may have requested the directory's own
/// attributes.
fn is_kept(requests: &[(Opcode, u64)]) -> bool {
    requests
        .iter()
        .all(|request| [(Opcode::Opendir, 1), (Opcode::Getattr, 1)].contains(request))
}

#[test]
fn files_that_were_read_are_listed_again_and_not_asked_about_one_by_one() {
    unless_pages_are_reclaimed(|| {
        let mounted = mounted_with_large_files();
        let directory = mounted.at("directory");
        let first = mounted.requests_of(|| read_all_in(&directory));
        assert!(requests_for(Opcode::Read, &first) >= 100, "{first:?}");
        mounted.flush();
        let second = mounted.requests_of(|| read_all_in(&directory));
        assert!(requests_for(Opcode::Readdirplus, &second) > 0, "{second:?}");
        // That of the directory itself, which was read as well.
        assert!(requests_for(Opcode::Getattr, &second) <= 1, "{second:?}");
        let third = mounted.requests_of(|| read_all_in(&directory));
        let needed = |opcode| matches!(opcode, Opcode::Open | Opcode::Opendir | Opcode::Getattr);
        assert!(third.iter().all(|(opcode, _)| needed(*opcode)), "{third:?}");
        assert!(requests_for(Opcode::Getattr, &third) <= 1, "{third:?}");
    });
}

#[test]
fn a_few_files_that_were_read_are_no_reason_to_list_a_directory_again() {
    unless_pages_are_reclaimed(|| {
        let mounted = mounted_with_large_files();
        let directory = mounted.at("directory");
        let list = || assert_eq!(fs::read_dir(&directory).unwrap().count(), 100);
        list();
        (0..12).for_each(|number| drop(fs::read(directory.join(format!("file {number}"))).unwrap()));
        mounted.flush();
        let again = mounted.requests_of(list);
        assert!(is_kept(&again), "{again:?}");
        drop(fs::read(directory.join("file 12")).unwrap());
        mounted.flush();
        let again = mounted.requests_of(list);
        assert!(
            requests_for(Opcode::Readdirplus, &again) > 0,
            "an eighth was read: {again:?}"
        );
        let again = mounted.requests_of(list);
        assert!(is_kept(&again), "{again:?}");
    });
}

#[test]
fn a_large_file_is_read_ahead_in_large_pieces() {
    const SIZE: usize = 16 << 20;
    let tree = crate::fixture::empty_tree();
    let file = tree
        .create(
            Ino::ROOT,
            &EntryName::new(b"large").unwrap(),
            NewEntry::file(0o644),
        )
        .unwrap();
    tree.write(file.ino, 0, &vec![7; SIZE]).unwrap();
    let mounted = Mounted::of(tree, false);
    let read = mounted.requests_of(|| {
        let file = File::open(mounted.at("large")).unwrap();
        let mut piece = vec![0; 64 << 10];
        (0..SIZE)
            .step_by(piece.len())
            .for_each(|at| file.read_exact_at(&mut piece, at as u64).unwrap());
    });
    // With 128 KiB at a time it would be 128.
    assert!(total(&read) < 48, "{read:?}");
}

#[test]
fn files_of_the_past_are_read_again_without_a_request() {
    unless_pages_are_reclaimed(|| {
        let tree = crate::fixture::empty_tree();
        let file = tree
            .create(
                Ino::ROOT,
                &EntryName::new(b"file").unwrap(),
                NewEntry::file(0o644),
            )
            .unwrap();
        tree.write(file.ino, 0, b"as it was").unwrap();
        let mounted = Mounted::read_only(tree);
        let read = || assert_eq!(std::fs::read(mounted.at("file")).unwrap(), b"as it was");
        read();
        assert_eq!(mounted.requests_of(read), []);
    });
}
