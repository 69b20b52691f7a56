//! The memory that a tree needs for each file that a kernel knows, counted byte by byte.

#![allow(unsafe_code, reason = "an allocator that counts is one")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};

use avfs_core::{Entry, EntryName, Meta, Root, Totals};
use avfs_store::MemoryStore;
use avfs_tree::{BaseTree, Ino, NewEntry, Objects, SystemClock, WorkTree};

struct Counting;

static IN_USE: AtomicIsize = AtomicIsize::new(0);

/// The memory that the C library uses for an allocation: with its header, in steps of sixteen bytes.
fn taken(size: usize) -> isize {
    (size + 8).next_multiple_of(16).max(32) as isize
}

// SAFETY: all arguments are passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(taken(layout.size()), Ordering::Relaxed);
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(taken(layout.size()), Ordering::Relaxed);
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        IN_USE.fetch_add(taken(size) - taken(layout.size()), Ordering::Relaxed);
        // SAFETY: guaranteed by the caller.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Chosen so that the tables have just grown and are half empty, and that all nodes stay in their cache.
const DIRECTORIES: usize = 300;
const FILES_EACH: usize = 100;
const FILES: usize = DIRECTORIES * FILES_EACH;
const LOADED: usize = 500;

fn name(kind: &str, number: usize) -> EntryName {
    EntryName::new(format!("{kind}{number:07}.txt").as_bytes()).unwrap()
}

/// A stored tree of many files.
fn stored(objects: &Objects) -> BaseTree {
    let directory = Entry::empty_directory(Meta {
        mode: 0o755,
        ..Meta::default()
    });
    let root = Root {
        directory,
        links: None,
        totals: Totals::default(),
    };
    let empty = BaseTree { root, inodes: None };
    let tree = WorkTree::in_memory(objects.clone(), empty, Arc::new(SystemClock)).unwrap();
    for directory in 0..DIRECTORIES {
        let parent = tree
            .create(Ino::ROOT, &name("d", directory), NewEntry::directory(0o755))
            .unwrap();
        for file in 0..FILES_EACH {
            tree.create(parent.ino, &name("file", file), NewEntry::file(0o644))
                .unwrap();
        }
    }
    let frozen = tree.freeze().unwrap();
    let base = frozen.base().clone();
    frozen.settle();
    base
}

/// Makes a kernel look up everything; returns the inodes that it knows.
fn walk(kernel: &WorkTree) -> Vec<Ino> {
    let mut known = Vec::with_capacity(FILES + DIRECTORIES);
    for (_, directory) in kernel.read_directory(Ino::ROOT, None, usize::MAX).unwrap() {
        known.push(directory.ino);
        let files = kernel.read_directory(directory.ino, None, usize::MAX).unwrap();
        known.extend(files.into_iter().map(|(_, file)| file.ino));
    }
    known
}

/// One test: allocations of concurrent tests would be counted too.
#[test]
fn a_known_file_takes_little_memory_and_a_forgotten_one_none() {
    let objects = Objects::new(Arc::new(MemoryStore::new()));
    let base = stored(&objects);
    // The nodes that the walk loads into the cache are already there.
    let open = || WorkTree::in_memory(objects.clone(), base.clone(), Arc::new(SystemClock)).unwrap();
    walk(&open());

    let tree = open();
    tree.set_loaded_files(LOADED);
    let kernel = tree.holding_door();
    let before = IN_USE.load(Ordering::Relaxed);
    let known = walk(&kernel);
    let list = taken(known.capacity() * size_of::<Ino>());
    let each = (IN_USE.load(Ordering::Relaxed) - before - list) as usize / FILES;
    assert!(each <= 200, "{each} bytes for each known file");

    known.iter().for_each(|ino| kernel.release(*ino, 1).unwrap());
    drop(known);
    let left = IN_USE.load(Ordering::Relaxed) - before;
    assert!(left < 64 << 10, "{left} bytes are left when all is forgotten");
}
