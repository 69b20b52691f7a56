//! Files that change while a snapshot that contains them is being settled, part by part.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use avfs_core::{Entry, EntryName, Meta, Root, Totals};
use avfs_store::MemoryStore;
use avfs_tree::{Attr, BaseTree, Ino, JournalPlace, NewEntry, Objects, SystemClock, WorkTree};

/// More than are settled in one step.
const FILES: usize = 5_000;

fn name(number: usize) -> EntryName {
    EntryName::new(format!("file{number}").as_bytes()).unwrap()
}

fn snapshot(tree: &WorkTree) -> BaseTree {
    let frozen = tree.freeze().unwrap();
    let base = frozen.base().clone();
    frozen.settle();
    base
}

#[test]
fn change_while_files_are_settled_is_in_the_next_snapshot() {
    let objects = Objects::new(Arc::new(MemoryStore::new()));
    let directory = Entry::empty_directory(Meta {
        mode: 0o755,
        ..Meta::default()
    });
    let root = Root {
        directory,
        links: None,
        totals: Totals::default(),
    };
    let place = tempfile::tempdir().unwrap();
    let journal = JournalPlace {
        directory: place.path().into(),
        included: 0,
        reserve: None,
    };
    let empty = BaseTree { root, inodes: None };
    let tree = WorkTree::journaled(objects.clone(), empty, Arc::new(SystemClock), journal).unwrap();
    tree.set_loaded_files(100);
    let kernel = tree.holding_door();
    let files: Vec<Attr> = (0..FILES)
        .map(|number| {
            let file = kernel
                .create(Ino::ROOT, &name(number), NewEntry::file(0o644))
                .unwrap();
            kernel.write(file.ino, 0, number.to_string().as_bytes()).unwrap();
            file
        })
        .collect();
    let frozen = tree.freeze().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (number, file) in files.iter().enumerate().filter(|(number, _)| number % 3 == 0) {
                kernel.append(file.ino, b"+").unwrap();
                assert_eq!(kernel.read_all(file.ino).unwrap(), format!("{number}+"));
            }
        });
        frozen.settle();
    });
    let last = WorkTree::in_memory(objects, snapshot(&tree), Arc::new(SystemClock)).unwrap();
    for (number, file) in files.iter().enumerate() {
        let expected = format!("{number}{}", if number % 3 == 0 { "+" } else { "" });
        assert_eq!(kernel.read_all(file.ino).unwrap(), expected);
        let stored = last.lookup(Ino::ROOT, &name(number)).unwrap();
        assert_eq!(last.read_all(stored.ino).unwrap(), expected);
    }
}

#[test]
fn changes_at_one_name_are_told_apart_from_all_others() {
    let objects = Objects::new(Arc::new(MemoryStore::new()));
    let directory = Entry::empty_directory(Meta {
        mode: 0o755,
        ..Meta::default()
    });
    let base = BaseTree {
        root: Root {
            directory,
            links: None,
            totals: Totals::default(),
        },
        inodes: None,
    };
    let tree = WorkTree::in_memory(objects, base, Arc::new(SystemClock)).unwrap();
    let [apart, other, file] = [".git", "src", "file"].map(|text| EntryName::new(text.as_bytes()).unwrap());
    let beside = || tree.is_dirty_beside(&apart);
    let [git, source] = [&apart, &other].map(|name| {
        let made = tree.create(Ino::ROOT, name, NewEntry::directory(0o755)).unwrap();
        tree.create(made.ino, &file, NewEntry::file(0o644)).unwrap();
        made.ino
    });
    assert!(beside());
    let frozen = tree.freeze().unwrap();
    assert!(beside(), "unstored changes count");
    frozen.settle();
    assert!(!beside());
    tree.write(tree.lookup(git, &file).unwrap().ino, 0, b"index")
        .unwrap();
    tree.unlink(git, &file).unwrap();
    assert!(tree.is_dirty() && !beside());
    let changes: [&dyn Fn(); 4] = [
        &|| {
            tree.write(tree.lookup(source, &file).unwrap().ino, 0, b"more")
                .unwrap();
        },
        &|| tree.unlink(source, &file).unwrap(),
        &|| drop(tree.create(Ino::ROOT, &file, NewEntry::file(0o644)).unwrap()),
        &|| tree.unlink(Ino::ROOT, &file).unwrap(),
    ];
    for change in changes {
        snapshot(&tree);
        assert!(!beside());
        change();
        assert!(beside());
    }
}
