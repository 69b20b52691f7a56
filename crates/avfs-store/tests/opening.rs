//! Which stores can be opened, which are refused and which are left unchanged.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "this is test code")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use avfs_store::{EmbeddedStore, FORMAT, ObjectStore, OpenOptions, RefEdit, RefStore, StoreError};
use avfs_testkit::{noise, put};

fn open(dir: &Path) -> Result<EmbeddedStore, StoreError> {
    EmbeddedStore::open(dir, OpenOptions::default())
}

#[test]
fn a_store_is_private_to_its_user() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("deep/store");
    let store = open(&dir).unwrap();
    put(&store, b"x").unwrap();
    let _pin = store.pin().unwrap();
    store.sync().unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&dir), mode(&dir.join("packs"))), (0o700, 0o700));
    for file in ["store.db", "store.db-wal", "gc.lock", "packs/00000001.pack"] {
        assert_eq!(mode(&dir.join(file)), 0o600, "{file}");
    }
}

#[test]
fn a_missing_store_is_only_made_when_asked_for() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("store");
    let refused = EmbeddedStore::open(
        &dir,
        OpenOptions {
            create: false,
            ..OpenOptions::default()
        },
    );
    assert!(matches!(refused, Err(StoreError::Unsuitable { .. })));
    assert!(!dir.exists());
}

#[test]
fn a_newer_format_is_refused_and_left_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    put(&open(home.path()).unwrap(), b"x").unwrap();
    set_pragma(home.path(), "user_version", FORMAT + 1);
    let before = fs::read(home.path().join("store.db")).unwrap();
    match open(home.path()) {
        Err(StoreError::Newer { found, supported, .. }) => {
            assert_eq!((found, supported), (FORMAT + 1, FORMAT))
        }
        other => panic!("{:?}", other.err()),
    }
    assert_eq!(fs::read(home.path().join("store.db")).unwrap(), before);
}

#[test]
fn a_database_of_someone_else_is_refused() {
    let home = tempfile::tempdir().unwrap();
    open(home.path()).unwrap();
    set_pragma(home.path(), "application_id", 1);
    let refused = open(home.path()).err().unwrap();
    assert!(
        refused.to_string().contains("not a database of agentvfs"),
        "{refused}"
    );
}

#[test]
fn a_file_that_is_no_database_is_damaged() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("store.db"), noise(1, 10_000)).unwrap();
    assert!(matches!(open(home.path()), Err(StoreError::Damaged { .. })));
}

#[test]
fn packs_without_a_database_are_not_taken_for_a_new_store() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path()).unwrap();
    put(&store, b"x").unwrap();
    store.sync().unwrap();
    drop(store);
    fs::remove_file(home.path().join("store.db")).unwrap();
    assert!(matches!(open(home.path()), Err(StoreError::Damaged { .. })));
}

#[test]
fn many_threads_open_a_new_store_at_once() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("store");
    std::thread::scope(|scope| {
        for n in 0..8 {
            let dir = &dir;
            scope.spawn(move || {
                let store = open(dir).unwrap();
                put(&store, &noise(n, 100)).unwrap();
                store
                    .commit(&[RefEdit::create(format!("thread/{n}"), "x")])
                    .unwrap();
            });
        }
    });
    assert_eq!(open(&dir).unwrap().usage().unwrap().objects, 8);
}

#[test]
fn a_commit_waits_for_another_process_only_so_long() {
    let home = tempfile::tempdir().unwrap();
    let options = OpenOptions {
        busy_timeout: Duration::from_millis(20),
        ..OpenOptions::default()
    };
    let store = EmbeddedStore::open(home.path(), options).unwrap();
    let other = rusqlite::Connection::open(home.path().join("store.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    put(&store, b"x").unwrap();
    assert!(matches!(store.sync(), Err(StoreError::Busy { .. })));
    other.execute_batch("ROLLBACK").unwrap();
    store.sync().unwrap();
}

#[test]
fn uncommitted_objects_are_gone_and_their_bytes_are_cut_off() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path()).unwrap();
    let kept = put(&store, b"kept").unwrap();
    store.sync().unwrap();
    let gone = put(&store, b"gone").unwrap();
    drop(store);
    let pack = home.path().join("packs/00000001.pack");
    let committed = fs::read(&pack).unwrap();
    fs::write(&pack, [&committed[..], &noise(3, 5000)].concat()).unwrap();

    let store = open(home.path()).unwrap();
    assert_eq!(store.contains_many(&[kept, gone]).unwrap(), [true, false]);
    assert_eq!(store.scrub(&mut |_, _| {}).unwrap().findings, []);
    put(&store, b"next").unwrap();
    store.sync().unwrap();
    let now = fs::read(&pack).unwrap();
    assert_eq!(&now[..committed.len()], committed);
    assert_eq!(now.len(), committed.len() + 38 + 4);
}

#[test]
fn a_closed_store_of_small_files_takes_little_more_than_their_bytes() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path()).unwrap();
    for n in 0..10_000 {
        put(&store, &noise(n, 1024)).unwrap();
    }
    store.sync().unwrap();
    drop(store);
    let files = ["store.db", "store.db-wal", "packs/00000001.pack"];
    let total: u64 = files
        .iter()
        .map(|file| fs::metadata(home.path().join(file)).map_or(0, |i| i.len()))
        .sum();
    assert!(total * 100 <= 10_000 * 1024 * 112, "{total}");
}

fn set_pragma(dir: &Path, name: &str, value: u32) {
    let connection = rusqlite::Connection::open(dir.join("store.db")).unwrap();
    connection.pragma_update(None, name, value).unwrap();
}
