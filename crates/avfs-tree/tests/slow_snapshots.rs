//! Changes to a tree between the moment of a snapshot and its end.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use avfs_core::{Entry, EntryName, Meta, Root, Totals};
use avfs_store::MemoryStore;
use avfs_tree::{BaseTree, FsError, Ino, JournalPlace, NewEntry, Objects, SystemClock, WorkTree};

fn name(name: &str) -> EntryName {
    EntryName::new(name.as_bytes()).unwrap()
}

fn tree(directory: &tempfile::TempDir) -> WorkTree {
    let objects = Objects::new(Arc::new(MemoryStore::new()));
    let root = Entry::empty_directory(Meta {
        mode: 0o755,
        ..Meta::default()
    });
    let base = BaseTree {
        root: Root {
            directory: root,
            links: None,
            totals: Totals::default(),
        },
        inodes: None,
    };
    let place = JournalPlace {
        directory: directory.path().into(),
        included: 0,
        reserve: None,
    };
    WorkTree::journaled(objects, base, Arc::new(SystemClock), place).unwrap()
}

fn names(tree: &WorkTree, directory: Ino) -> Vec<EntryName> {
    tree.read_directory(directory, None, 100)
        .unwrap()
        .into_iter()
        .map(|(name, _)| name)
        .collect()
}

#[test]
fn directory_recreated_during_a_snapshot_stays_empty() {
    let directory = tempfile::tempdir().unwrap();
    let tree = tree(&directory);
    let old = tree
        .create(Ino::ROOT, &name("d"), NewEntry::directory(0o755))
        .unwrap()
        .ino;
    tree.create(old, &name("f"), NewEntry::file(0o644)).unwrap();
    let frozen = tree.freeze().unwrap();
    tree.remove_tree(Ino::ROOT, &name("d")).unwrap();
    let new = tree
        .create(Ino::ROOT, &name("d"), NewEntry::directory(0o755))
        .unwrap()
        .ino;
    frozen.settle();
    assert_eq!(names(&tree, new), []);
    assert_eq!(tree.totals().inodes, 1);
}

#[test]
fn a_file_in_a_removed_tree_stays_readable_while_it_is_held() {
    let directory = tempfile::tempdir().unwrap();
    let tree = tree(&directory);
    tree.set_loaded_files(0);
    let old = tree
        .create(Ino::ROOT, &name("d"), NewEntry::directory(0o755))
        .unwrap()
        .ino;
    let file = tree.create(old, &name("f"), NewEntry::file(0o644)).unwrap().ino;
    tree.write(file, 0, b"old").unwrap();
    tree.freeze().unwrap().settle();
    tree.hold(file).unwrap();
    tree.remove_tree(Ino::ROOT, &name("d")).unwrap();
    let mut bytes = [0; 3];
    let read: Result<usize, FsError> = tree.read(file, 0, &mut bytes);
    assert_eq!((read.unwrap(), &bytes), (3, b"old"));
}
