//! The costs of operations in objects read and written: numbers that do not depend on the machine.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use avfs_core::{Entry, EntryName, Meta, Root, Totals};
use avfs_store::MemoryStore;
use avfs_testkit::CountingStore;
use avfs_tree::{BaseTree, Ino, NewEntry, Objects, SetAttr, SystemClock, WorkTree};

type Counted = Arc<CountingStore<MemoryStore>>;

fn name(text: &str) -> EntryName {
    EntryName::new(text.as_bytes()).unwrap()
}

fn open(store: &Counted, base: BaseTree) -> WorkTree {
    WorkTree::in_memory(Objects::new(store.clone()), base, Arc::new(SystemClock)).unwrap()
}

fn empty() -> (Counted, WorkTree) {
    let store = Counted::default();
    let directory = Entry::empty_directory(Meta {
        mode: 0o755,
        ..Meta::default()
    });
    let root = Root {
        directory,
        links: None,
        totals: Totals::default(),
    };
    let tree = open(&store, BaseTree { root, inodes: None });
    (store, tree)
}

fn snapshot(tree: &WorkTree) -> BaseTree {
    let frozen = tree.freeze().unwrap();
    let base = frozen.base().clone();
    frozen.settle();
    base
}

#[test]
fn a_small_change_in_a_large_file_costs_a_chunk_and_the_nodes_above_it() {
    const SIZE: usize = 64 << 20;
    let (store, tree) = empty();
    let file = tree
        .create(Ino::ROOT, &name("large"), NewEntry::file(0o644))
        .unwrap();
    let piece: Vec<u8> = (0..1 << 20).map(|index: u32| (index % 251) as u8).collect();
    for offset in (0..SIZE).step_by(piece.len()) {
        tree.write(file.ino, offset as u64, &piece).unwrap();
    }
    // As a fork sees it: nothing is in memory.
    let fork = open(&store, snapshot(&tree));
    let file = fork.lookup(Ino::ROOT, &name("large")).unwrap();
    store.take();
    fork.write(file.ino, 40_000_000, &[7; 4096]).unwrap();
    let _ = snapshot(&fork);
    let cost = store.take();
    // One or two chunks, two levels of chunk lists, the directory, the table of change times.
    assert!(cost.objects_written <= 6, "{cost:?}");
    assert!(cost.bytes_written <= 3 * (64 << 10), "{cost:?}");
    assert!(cost.objects_read <= 12, "{cost:?}");
}

#[test]
fn a_sparse_file_costs_its_data() {
    const SIZE: u64 = 20 << 30;
    let (store, tree) = empty();
    let file = tree
        .create(Ino::ROOT, &name("sparse"), NewEntry::file(0o644))
        .unwrap();
    tree.set_attr(
        file.ino,
        SetAttr {
            size: Some(SIZE),
            ..SetAttr::default()
        },
    )
    .unwrap();
    for part in 0..5 {
        tree.write(file.ino, part * (4 << 30), &[b'x'; 4096]).unwrap();
    }
    assert_eq!(tree.occupied(file.ino).unwrap(), 5 * 4096, "before it is stored");
    store.take();
    let base = snapshot(&tree);
    let cost = store.take();
    assert!(cost.objects_written <= 20, "{cost:?}");
    assert!(cost.bytes_written <= 64 << 10, "{cost:?}");
    assert_eq!(tree.occupied(file.ino).unwrap(), 5 * 4096, "when it is stored");
    let reopened = open(&store, base);
    let file = reopened.lookup(Ino::ROOT, &name("sparse")).unwrap();
    assert_eq!(
        (file.size, reopened.occupied(file.ino).unwrap()),
        (SIZE, 5 * 4096)
    );
}

#[test]
fn second_lookup_needs_no_store() {
    let (store, tree) = empty();
    let directory = tree
        .create(Ino::ROOT, &name("large"), NewEntry::directory(0o755))
        .unwrap()
        .ino;
    let names: Vec<EntryName> = (0..5_000)
        .map(|number| name(&format!("file{number:05}")))
        .collect();
    for name in &names {
        tree.create(directory, name, NewEntry::file(0o644)).unwrap();
    }
    let tree = open(&store, snapshot(&tree));
    let directory = tree.lookup(Ino::ROOT, &name("large")).unwrap().ino;
    let kernel = tree.holding_door();
    for name in &names {
        kernel.lookup(directory, name).unwrap();
    }
    store.take();
    for name in &names {
        kernel.lookup(directory, name).unwrap();
    }
    assert_eq!(store.take().objects_read, 0);
}

#[test]
fn a_new_name_costs_the_same_in_a_large_directory() {
    let cost_among = |count: usize| {
        let (store, tree) = empty();
        for number in 0..count {
            tree.create(
                Ino::ROOT,
                &name(&format!("file{number:06}")),
                NewEntry::file(0o644),
            )
            .unwrap();
        }
        let tree = open(&store, snapshot(&tree));
        store.take();
        tree.create(Ino::ROOT, &name("file000500x"), NewEntry::file(0o644))
            .unwrap();
        tree.unlink(Ino::ROOT, &name("file000700")).unwrap();
        let _ = snapshot(&tree);
        store.take()
    };
    let small = cost_among(2_000);
    let large = cost_among(50_000);
    assert!(
        large.objects_read <= small.objects_read + 16,
        "{small:?}, {large:?}"
    );
    assert!(
        large.objects_written <= small.objects_written + 8,
        "{small:?}, {large:?}"
    );
}
