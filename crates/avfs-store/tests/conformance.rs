//! Every store passes the same suite.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "this is test code")]

use std::cell::Cell;

use avfs_store::{EmbeddedStore, MemoryStore, OpenOptions};
use avfs_testkit::store_conformance;

#[test]
fn the_memory_store_conforms() {
    store_conformance(MemoryStore::new);
}

#[test]
fn the_embedded_store_conforms() {
    let home = tempfile::tempdir().unwrap();
    let made = Cell::new(0);
    store_conformance(|| {
        made.set(made.get() + 1);
        EmbeddedStore::open(&home.path().join(made.get().to_string()), OpenOptions::default()).unwrap()
    });
}

#[test]
fn the_embedded_store_conforms_without_a_cache() {
    let home = tempfile::tempdir().unwrap();
    let made = Cell::new(0);
    store_conformance(|| {
        made.set(made.get() + 1);
        let options = OpenOptions {
            cache_bytes: 0,
            ..OpenOptions::default()
        };
        EmbeddedStore::open(&home.path().join(made.get().to_string()), options).unwrap()
    });
}
