//! A door whose requests never wait for the store.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use avfs_core::{Content, Entry, EntryName, Meta, Root, Totals};
use avfs_store::MemoryStore;
use avfs_testkit::GatedStore;
use avfs_tree::{
    BaseTree, EntryPlace, FsError, Ino, JournalPlace, NewEntry, ObjectWriter, Objects, SetAttr, SystemClock,
    WorkTree,
};

type Gate = GatedStore<MemoryStore>;

/// Nothing here takes this long, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

fn name(name: &str) -> EntryName {
    EntryName::new(name.as_bytes()).unwrap()
}

fn empty() -> BaseTree {
    let root = Entry::empty_directory(Meta {
        mode: 0o755,
        ..Meta::default()
    });
    BaseTree {
        root: Root {
            directory: root,
            links: None,
            totals: Totals::default(),
        },
        inodes: None,
    }
}

fn journaled(gate: &Arc<Gate>, base: BaseTree, directory: &tempfile::TempDir) -> WorkTree {
    let place = JournalPlace {
        directory: directory.path().into(),
        included: 1000,
        reserve: None,
    };
    WorkTree::journaled(Objects::new(gate.clone()), base, Arc::new(SystemClock), place).unwrap()
}

/// The state of a tree with `d/e/f`, stored.
fn stored(gate: &Arc<Gate>) -> BaseTree {
    let tree = WorkTree::in_memory(Objects::new(gate.clone()), empty(), Arc::new(SystemClock)).unwrap();
    let outer = tree
        .create(Ino::ROOT, &name("d"), NewEntry::directory(0o755))
        .unwrap()
        .ino;
    let inner = tree
        .create(outer, &name("e"), NewEntry::directory(0o755))
        .unwrap()
        .ino;
    let file = tree.create(inner, &name("f"), NewEntry::file(0o644)).unwrap().ino;
    tree.write(file, 0, b"stored").unwrap();
    let frozen = tree.freeze().unwrap();
    let base = frozen.base().clone();
    frozen.settle();
    base
}

/// Repeats an action until it is not refused, and returns how often it was.
fn patiently<T>(door: &WorkTree, mut act: impl FnMut() -> Result<T, FsError>) -> (T, usize) {
    let mut fetched = Vec::new();
    loop {
        match act() {
            Ok(value) => return (value, fetched.len()),
            Err(error) => fetched.push(door.fetch(error.wanted().unwrap()).unwrap()),
        }
    }
}

#[test]
fn refused_request_has_no_effect_and_succeeds_once_its_object_is_fetched() {
    let directory = tempfile::tempdir().unwrap();
    let gate = Arc::<Gate>::default();
    let base = stored(&gate);
    let host = journaled(&gate, base, &directory);
    let door = host.holding_door().never_waiting();
    let before = host.totals();
    let renamed = || {
        door.rename(
            EntryPlace::new(Ino::ROOT, name("d")),
            EntryPlace::new(Ino::ROOT, name("d2")),
        )
    };
    assert!(renamed().unwrap_err().wanted().is_some());
    assert_eq!((host.totals(), host.journal_len()), (before, 0));
    let (outer, _) = patiently(&door, || door.lookup(Ino::ROOT, &name("d")));
    door.create(outer.ino, &name("new"), NewEntry::file(0o644))
        .unwrap();
    let (inner, _) = patiently(&door, || door.lookup(outer.ino, &name("e")));
    let (file, _) = patiently(&door, || door.lookup(inner.ino, &name("f")));
    let mut bytes = [0; 6];
    let (read, refusals) = patiently(&door, || door.read(file.ino, 0, &mut bytes));
    assert_eq!((read, &bytes, refusals), (6, b"stored", 1));
    let (_, refusals) = patiently(&door, || door.write(file.ino, 6, b" and written"));
    assert_eq!(refusals, 0);
    let mode = SetAttr {
        mode: Some(0o600),
        ..SetAttr::default()
    };
    assert_eq!(door.set_attr(file.ino, mode).unwrap().meta.mode, 0o600);
    assert_eq!(host.totals().inodes, before.inodes + 1);
    assert_eq!(&host.read_all(file.ino).unwrap()[..], b"stored and written");
}

#[test]
fn entries_that_were_refused_are_not_held() {
    let gate = Arc::<Gate>::default();
    let base = stored(&gate);
    let host = WorkTree::in_memory(Objects::new(gate.clone()), base, Arc::new(SystemClock)).unwrap();
    let door = host.holding_door().never_waiting();
    let (entries, refusals) = patiently(&door, || door.read_directory(Ino::ROOT, None, 10));
    assert!(refusals > 0);
    let ino = entries[0].1.ino;
    // Held once: after one release it is no longer held, and it is unloaded with its name.
    door.release(ino, 1).unwrap();
    host.remove_tree(Ino::ROOT, &name("d")).unwrap();
    assert!(matches!(host.attr(ino), Err(FsError::Stale(_))));
}

#[test]
fn held_back_journal_blocks_no_other_request() {
    const PIECE: usize = 32 << 10;
    let directory = tempfile::tempdir().unwrap();
    let gate = Arc::<Gate>::default();
    let host = journaled(&gate, empty(), &directory);
    let door = host.holding_door().never_waiting();
    let file = door
        .create(Ino::ROOT, &name("f"), NewEntry::file(0o644))
        .unwrap()
        .ino;
    let other = door
        .create(Ino::ROOT, &name("g"), NewEntry::file(0o644))
        .unwrap()
        .ino;
    host.sync().unwrap();
    let writer = ObjectWriter::new(&host.objects());
    let blob = writer.put_blob(b"an object".to_vec()).unwrap();
    writer.flush().unwrap();
    host.set_content(other, 9, Content::Blob(blob)).unwrap();
    gate.shut();
    let mut written = 0;
    while !door.is_sync_due() {
        door.write(file, written, &[7; PIECE]).unwrap();
        written += PIECE as u64;
    }
    assert_eq!(gate.waiting(), 0);
    std::thread::scope(|scope| {
        let syncing = scope.spawn(|| host.sync());
        let started = Instant::now();
        while gate.waiting() == 0 {
            assert!(started.elapsed() < PATIENCE, "the store is synced");
            std::thread::yield_now();
        }
        door.write(file, written, b"meanwhile").unwrap();
        assert_eq!(door.attr(file).unwrap().size, written + 9);
        gate.open();
        syncing.join().unwrap().unwrap();
    });
    assert!(!door.is_sync_due());
}
