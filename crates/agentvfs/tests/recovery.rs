//! Journals that crashes leave, files without names, numbers that come back, and room that is not there.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::PathBuf;
use std::sync::mpsc;

use agentvfs::{EntryName, Ino, Store, TreePath, Vault};
use avfs_tree::NewEntry;
use support::{change, name, path, read, write};

struct Fixture {
    home: tempfile::TempDir,
    store: Store,
    vault: Vault,
}

impl Fixture {
    fn new() -> Fixture {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(home.path()).unwrap();
        let vault = store.create_vault(&name("main")).unwrap();
        Fixture { home, store, vault }
    }

    fn journal(&self) -> PathBuf {
        self.home
            .path()
            .join("work")
            .join(self.vault.id().to_string())
            .join("journal.1")
    }
}

#[test]
fn a_journal_that_is_part_of_a_snapshot_is_never_replayed() {
    let fixture = Fixture::new();
    let open = fixture.vault.open().unwrap();
    open.write_bytes(&path("/a"), b"old").unwrap();
    open.sync().unwrap();
    let left = std::fs::read(fixture.journal()).unwrap();
    open.commit("write", "/a").unwrap();
    // The process died between the commit and the removal of the journal.
    std::fs::write(fixture.journal(), left).unwrap();
    change(&fixture.vault, |open| open.remove(&path("/a"), false).unwrap());
    assert!(!fixture.journal().exists());
    assert!(read(&fixture.vault, "/a").is_err(), "a removed file came back");
}

#[test]
fn an_owner_that_dies_while_another_waits_is_recovered_first() {
    let fixture = Fixture::new();
    write(&fixture.vault, "/a", "zero");
    let dying = fixture.vault.open().unwrap();
    let waiting = fixture.vault.clone();
    let (started, start) = mpsc::channel();
    let waiter = std::thread::spawn(move || {
        started.send(()).unwrap();
        write(&waiting, "/a", "newer, acknowledged");
    });
    start.recv().unwrap();
    dying.write_bytes(&path("/a"), b"older, synced").unwrap();
    dying.sync().unwrap();
    drop(dying);
    waiter.join().unwrap();
    assert_eq!(read(&fixture.vault, "/a").unwrap(), "newer, acknowledged");
}

#[test]
fn a_file_without_a_name_does_not_keep_a_vault_from_being_opened() {
    for linked in [false, true] {
        let fixture = Fixture::new();
        write(&fixture.vault, "/keep", "kept");
        let open = fixture.vault.open().unwrap();
        open.write_bytes(&path("/scratch"), b"x").unwrap();
        let ino = open.stat(&path("/scratch")).unwrap().ino;
        open.tree().hold(ino).unwrap();
        if linked {
            open.hard_link(&path("/scratch"), &path("/other")).unwrap();
            open.remove(&path("/other"), false).unwrap();
        }
        open.remove(&path("/scratch"), false).unwrap();
        open.save("write", "").unwrap();
        open.tree().write(ino, 0, b"scratch").unwrap();
        assert_eq!(&open.tree().read_all(ino).unwrap()[..], b"scratch");
        open.write_bytes(&path("/more"), b"synced").unwrap();
        open.sync().unwrap();
        drop(open);
        assert_eq!(read(&fixture.vault, "/keep").unwrap(), "kept");
        assert_eq!(read(&fixture.vault, "/more").unwrap(), "synced");
    }
}

#[test]
fn a_journal_that_came_to_nothing_goes_away() {
    let fixture = Fixture::new();
    let open = fixture.vault.open().unwrap();
    open.write_bytes(&path("/lost"), b"never synced").unwrap();
    drop(open);
    assert!(fixture.journal().exists());
    fixture.vault.reader().unwrap();
    assert!(!fixture.journal().exists());
}

#[test]
fn a_journal_of_zeros_is_one_in_which_nothing_was_synced() {
    let fixture = Fixture::new();
    write(&fixture.vault, "/a", "kept");
    std::fs::write(fixture.journal(), [0u8; 4096]).unwrap();
    assert_eq!(read(&fixture.vault, "/a").unwrap(), "kept");
}

#[test]
fn a_collection_keeps_what_only_the_journal_of_a_dead_owner_needs() {
    let fixture = Fixture::new();
    let other = fixture.store.create_vault(&name("other")).unwrap();
    let holder = other.begin().unwrap();
    holder.hold_objects().unwrap();
    let home = fixture.home.path().to_owned();
    let collection = std::thread::spawn(move || {
        let store = Store::open(&home).unwrap();
        store
            .collect_garbage(&mut |_| true)
            .map(|collected| collected.sweep.finished)
    });
    let dying = fixture.vault.open().unwrap();
    dying
        .write_bytes(&path("/a"), b"synced and acknowledged")
        .unwrap();
    dying.sync().unwrap();
    drop(dying);
    drop(holder);
    assert!(collection.join().unwrap().unwrap());
    drop((other, fixture.vault, fixture.store));
    let store = Store::open(fixture.home.path()).unwrap();
    assert_eq!(
        read(&store.vault("main").unwrap(), "/a").unwrap(),
        "synced and acknowledged"
    );
}

#[test]
fn an_inode_number_that_came_back_belongs_to_one_file() {
    let vault = Store::in_memory().create_vault(&name("main")).unwrap();
    write(&vault, "/c", "first");
    change(&vault, |open| {
        open.make_directory(&path("/a"), false).unwrap();
        open.rename(&path("/c"), &path("/a/b")).unwrap();
    });
    change(&vault, |open| {
        open.stat(&path("/a/b")).unwrap();
        open.remove(&path("/a"), true).unwrap();
    });
    change(&vault, |open| {
        open.make_directory(&path("/d"), false).unwrap();
        open.write_bytes(&path("/d/b"), b"contents of d/b").unwrap();
        open.write_bytes(&path("/c"), b"contents of c").unwrap();
        open.copy(&path("/d"), &path("/a"), true).unwrap();
    });
    change(&vault, |open| {
        open.write_bytes(&path("/c"), b"new contents of c").unwrap();
        assert_ne!(
            open.stat(&path("/a/b")).unwrap().ino,
            open.stat(&path("/c")).unwrap().ino
        );
    });
    assert_eq!(read(&vault, "/c").unwrap(), "new contents of c");
    assert_eq!(read(&vault, "/a/b").unwrap(), "contents of d/b");
}

#[test]
fn a_file_without_names_counts_for_nothing() {
    let vault = Store::in_memory().create_vault(&name("main")).unwrap();
    let open = vault.begin().unwrap();
    open.write_bytes(&path("/a"), &[1; 100]).unwrap();
    open.hard_link(&path("/a"), &path("/b")).unwrap();
    let ino = open.stat(&path("/a")).unwrap().ino;
    open.tree().hold(ino).unwrap();
    open.remove(&path("/a"), false).unwrap();
    open.remove(&path("/b"), false).unwrap();
    open.tree().write(ino, 100, &[2; 900]).unwrap();
    open.commit("write", "").unwrap();
    assert_eq!(vault.info().unwrap().bytes, 0);
}

#[test]
fn an_import_over_the_quota_changes_nothing() {
    let host = tempfile::tempdir().unwrap();
    std::fs::write(host.path().join("a"), "1").unwrap();
    std::fs::hard_link(host.path().join("a"), host.path().join("b")).unwrap();
    std::fs::write(host.path().join("c"), "1").unwrap();
    let vault = Store::in_memory().create_vault(&name("main")).unwrap();
    vault.set_quota(None, Some(2)).unwrap();
    let open = vault.begin().unwrap();
    let refused = open
        .imports()
        .directory(host.path(), &TreePath::root(), &())
        .unwrap_err();
    assert_eq!(refused.code(), "quota-files");
    assert!(!open.tree().is_dirty());
}

#[test]
fn a_file_larger_than_memory_is_refused_and_its_holes_cost_nothing() {
    let vault = Store::in_memory().create_vault(&name("main")).unwrap();
    let open = vault.begin().unwrap();
    let at = path("/sparse");
    open.write_bytes(&at, b"x").unwrap();
    let ino = open.stat(&at).unwrap().ino;
    // Were holes visited page by page, this test would not end.
    open.truncate(&at, 200 << 40).unwrap();
    open.save("write", "").unwrap();
    open.tree().punch_hole(ino, 0, 100 << 40).unwrap();
    open.tree().write(ino, 150 << 40, b"far away").unwrap();
    assert_eq!(open.tree().seek_data(ino, 0).unwrap(), Some(150 << 40));
    open.save("punch", "").unwrap();
    assert_eq!(open.tree().seek_data(ino, 0).unwrap(), Some(150 << 40));
    assert_eq!(open.tree().seek_data(ino, 151 << 40).unwrap(), None);
    assert_eq!(open.read(&at).unwrap_err().code(), "too-large");
}

#[test]
fn a_deep_directory_with_links_is_copied() {
    let vault = Store::in_memory().create_vault(&name("main")).unwrap();
    let open = vault.begin().unwrap();
    let directory = |parent: Ino, name: &[u8]| {
        let name = EntryName::new(name).unwrap();
        open.tree()
            .create(parent, &name, NewEntry::directory(0o755))
            .unwrap()
            .ino
    };
    let top = directory(Ino::ROOT, b"deep");
    let bottom = (0..3_000).fold(top, |parent, _| directory(parent, b"d"));
    let file = open
        .tree()
        .create(bottom, &EntryName::new(b"f").unwrap(), NewEntry::file(0o644))
        .unwrap();
    open.tree()
        .link(file.ino, bottom, &EntryName::new(b"g").unwrap())
        .unwrap();
    open.save("make", "").unwrap();
    open.copy(&path("/deep"), &path("/copy"), true).unwrap();
    open.commit("copy", "").unwrap();
    assert_eq!(vault.info().unwrap().files, 2 * 3_003);
}

#[test]
fn copying_over_a_file_keeps_its_mode_and_its_other_names() {
    let vault = Store::in_memory().create_vault(&name("main")).unwrap();
    change(&vault, |open| {
        open.write_bytes(&path("/a"), b"contents of a").unwrap();
        open.write_bytes(&path("/b"), b"contents of b").unwrap();
        open.set_mode(&path("/b"), 0o600).unwrap();
        open.hard_link(&path("/b"), &path("/c")).unwrap();
        open.copy(&path("/a"), &path("/b"), false).unwrap();
        assert_eq!(open.stat(&path("/b")).unwrap().meta.mode, 0o600);
    });
    assert_eq!(read(&vault, "/c").unwrap(), "contents of a");
}

#[test]
fn moving_one_name_of_a_file_over_another_leaves_one() {
    let vault = Store::in_memory().create_vault(&name("main")).unwrap();
    change(&vault, |open| {
        open.write_bytes(&path("/a"), b"one file").unwrap();
        open.hard_link(&path("/a"), &path("/b")).unwrap();
        open.rename(&path("/a"), &path("/b")).unwrap();
        assert!(!open.exists(&path("/a")).unwrap());
    });
    assert_eq!(read(&vault, "/b").unwrap(), "one file");
}

#[test]
fn a_collection_keeps_what_a_replayed_journal_needs() {
    let fixture = Fixture::new();
    let dying = fixture.vault.open().unwrap();
    dying
        .write_bytes(&path("/a"), b"synced and acknowledged")
        .unwrap();
    dying.sync().unwrap();
    drop((dying, fixture.vault, fixture.store));
    let store = Store::open(fixture.home.path()).unwrap();
    let vault = store.vault("main").unwrap();
    let open = vault.open().unwrap();
    let home = fixture.home.path().to_owned();
    let collection = std::thread::spawn(move || {
        // It waits for the new owner, who may still need objects that only the journal names.
        Store::open(&home)
            .unwrap()
            .collect_garbage(&mut |_| true)
            .map(|collected| collected.sweep.finished)
    });
    open.save("recover", "").unwrap();
    assert!(collection.join().unwrap().unwrap());
    drop((open, vault, store));
    let store = Store::open(fixture.home.path()).unwrap();
    assert_eq!(
        read(&store.vault("main").unwrap(), "/a").unwrap(),
        "synced and acknowledged"
    );
}

#[test]
fn a_journal_never_reaches_the_disk_before_the_objects_that_it_names() {
    let fixture = Fixture::new();
    write(&fixture.vault, "/f", "old");
    let open = fixture.vault.open().unwrap();
    open.write_bytes(&path("/f"), b"new, not synced").unwrap();
    let ino = open.stat(&path("/f")).unwrap().ino;
    for round in 0..60 {
        open.tree()
            .write(ino, 100_000 + round * 1_000_000, &vec![round as u8; 1_000_000])
            .unwrap();
    }
    // The state that a kill would leave now.
    let copy = tempfile::tempdir().unwrap();
    let mut cp = std::process::Command::new("cp");
    assert!(
        cp.arg("-r")
            .arg(fixture.home.path())
            .arg(copy.path().join("home"))
            .status()
            .unwrap()
            .success()
    );
    let store = Store::open(&copy.path().join("home")).unwrap();
    let found = store
        .vault("main")
        .unwrap()
        .begin()
        .unwrap()
        .read(&path("/f"))
        .unwrap();
    assert!(found.starts_with(b"old") || found.starts_with(b"new, not synced"));
}

#[test]
fn nothing_is_put_into_a_directory_that_was_removed() {
    let fixture = Fixture::new();
    write(&fixture.vault, "/f", "kept");
    let open = fixture.vault.open().unwrap();
    let tree = open.tree();
    let entry = |text: &str| EntryName::new(text.as_bytes()).unwrap();
    let directory = tree
        .create(Ino::ROOT, &entry("d"), NewEntry::directory(0o755))
        .unwrap()
        .ino;
    let inner = tree
        .create(directory, &entry("inner"), NewEntry::directory(0o755))
        .unwrap()
        .ino;
    let file = tree
        .create(inner, &entry("file"), NewEntry::file(0o644))
        .unwrap()
        .ino;
    for ino in [directory, inner, file] {
        tree.hold(ino).unwrap();
    }
    tree.remove_tree(Ino::ROOT, &entry("d")).unwrap();
    tree.write(file, 0, b"scratch").unwrap();
    for parent in [directory, inner] {
        let refused = tree
            .create(parent, &entry("x"), NewEntry::file(0o644))
            .unwrap_err();
        assert_eq!(refused.errno(), rustix::io::Errno::NOENT);
        let place = |parent, name| avfs_tree::EntryPlace::new(parent, entry(name));
        let refused = tree
            .rename(place(Ino::ROOT, "f"), place(parent, "f"))
            .unwrap_err();
        assert_eq!(refused.errno(), rustix::io::Errno::NOENT);
        assert_eq!(tree.read_directory(parent, None, 10).unwrap(), []);
    }
    open.sync().unwrap();
    drop(open);
    assert_eq!(read(&fixture.vault, "/f").unwrap(), "kept");
}

#[test]
fn reading_does_not_wait_for_an_owner() {
    let fixture = Fixture::new();
    write(&fixture.vault, "/a", "stored");
    let open = fixture.vault.open().unwrap();
    open.write_bytes(&path("/a"), b"not stored yet").unwrap();
    let reader = fixture.vault.reader().unwrap();
    assert_eq!(&reader.read(&path("/a")).unwrap()[..], b"stored");
}

#[test]
fn a_restore_obeys_the_quota_unless_it_makes_the_vault_smaller() {
    let vault = Store::in_memory().create_vault(&name("main")).unwrap();
    write(&vault, "/big", "x".repeat(1_000));
    change(&vault, |open| open.remove(&path("/big"), false).unwrap());
    write(&vault, "/small", "x");
    vault.set_quota(Some(100), None).unwrap();
    let refused = vault.restore(&vault.revision("@~2").unwrap(), "big").unwrap_err();
    assert_eq!(refused.code(), "quota-bytes");
    vault.restore(&vault.revision("@~1").unwrap(), "nothing").unwrap();
}

#[test]
fn restoring_one_name_of_a_file_leaves_its_other_names_alone() {
    let vault = Store::in_memory().create_vault(&name("main")).unwrap();
    change(&vault, |open| {
        open.write_bytes(&path("/a"), b"1").unwrap();
        open.hard_link(&path("/a"), &path("/b")).unwrap();
    });
    write(&vault, "/a", "2");
    let before = vault.revision("@~1").unwrap();
    vault
        .restore_paths(&before, &[path("/a")], "checkout", "/a")
        .unwrap();
    assert_eq!(read(&vault, "/a").unwrap(), "1");
    assert_eq!(read(&vault, "/b").unwrap(), "2");
}
