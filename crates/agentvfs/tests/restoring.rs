//! Restoring: paths, undo and states that are no longer kept.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use agentvfs::error::HistoryError;
use agentvfs::{
    CheckpointName, Error, OpenVault, RetentionPolicy, SnapshotRetention, Store, StoreOptions, Timestamp,
    Vault,
};
use support::{SetClock, change, name, path, read, write};

fn names_of(vault: &Vault, at: &str) -> u32 {
    vault.begin().unwrap().stat(&path(at)).unwrap().names
}

/// Brings `at` back from the state before the present one; returns how many paths changed.
fn bring_back(vault: &Vault, at: &str) -> u64 {
    let from = vault.revision("@~1").unwrap();
    vault
        .restore_paths(&from, &[path(at)], "checkout", at)
        .unwrap()
        .changed
}

/// A vault in the state after `first` and then `second`.
fn vault_after(first: impl FnOnce(&OpenVault), second: impl FnOnce(&OpenVault)) -> Vault {
    let vault = Store::in_memory().create_vault(&name("main")).unwrap();
    change(&vault, first);
    change(&vault, second);
    vault
}

fn make(open: &OpenVault, at: &str, bytes: &str) {
    let path = path(at);
    open.make_directory(&path.split_last().unwrap().0, true).unwrap();
    open.write_bytes(&path, bytes.as_bytes()).unwrap();
}

fn remove(open: &OpenVault, at: &str) {
    open.remove(&path(at), true).unwrap();
}

fn link(open: &OpenVault, from: &str, to: &str) {
    open.hard_link(&path(from), &path(to)).unwrap();
}

#[test]
fn a_deleted_directory_comes_back_with_everything_in_it() {
    let vault = vault_after(|open| make(open, "/d/e/f", "1"), |open| remove(open, "/d"));
    assert_eq!(bring_back(&vault, "/d"), 3);
    assert_eq!(read(&vault, "/d/e/f").unwrap(), "1");
}

#[test]
fn a_directory_comes_back_in_place_of_a_file() {
    let vault = vault_after(
        |open| make(open, "/d/f", "1"),
        |open| {
            remove(open, "/d");
            make(open, "/d", "a file");
        },
    );
    bring_back(&vault, "/d");
    assert_eq!(read(&vault, "/d/f").unwrap(), "1");
}

#[test]
fn a_file_comes_back_in_place_of_a_directory() {
    let vault = vault_after(
        |open| make(open, "/top/d", "a file"),
        |open| {
            remove(open, "/top/d");
            make(open, "/top/d/e/f", "1");
        },
    );
    bring_back(&vault, "/top");
    assert_eq!(read(&vault, "/top/d").unwrap(), "a file");
}

#[test]
fn missing_parents_come_back_as_they_were_but_without_their_other_files() {
    let vault = vault_after(
        |open| {
            make(open, "/d/key", "1");
            make(open, "/d/other", "2");
            open.set_mode(&path("/d"), 0o700).unwrap();
        },
        |open| remove(open, "/d"),
    );
    let before = vault
        .revision("@~1")
        .unwrap()
        .reader()
        .unwrap()
        .find(&path("/d"))
        .unwrap()
        .entry
        .meta;
    bring_back(&vault, "/d/key");
    assert_eq!(vault.begin().unwrap().stat(&path("/d")).unwrap().meta, before);
    assert!(read(&vault, "/d/other").is_err());
}

#[test]
fn a_file_in_the_place_of_a_parent_is_not_taken_away() {
    let vault = vault_after(
        |open| make(open, "/d/f", "1"),
        |open| {
            remove(open, "/d");
            make(open, "/d", "a file");
        },
    );
    let from = vault.revision("@~1").unwrap();
    let outcome = vault.restore_paths(&from, &[path("/d/f")], "checkout", "/d/f");
    assert_eq!(outcome.unwrap_err().code(), "not-a-directory");
    assert_eq!(read(&vault, "/d").unwrap(), "a file");
}

#[test]
fn a_path_comes_back_without_changing_a_file_that_it_was_linked_to_since() {
    let vault = vault_after(
        |open| {
            make(open, "/p", "one");
            make(open, "/q", "two");
        },
        |open| {
            remove(open, "/q");
            link(open, "/p", "/q");
        },
    );
    bring_back(&vault, "/q");
    assert_eq!(read(&vault, "/q").unwrap(), "two");
    assert_eq!(read(&vault, "/p").unwrap(), "one");
    assert_eq!(names_of(&vault, "/p"), 1);
}

#[test]
fn files_that_shared_a_directory_and_their_contents_are_linked_again() {
    let linked = |open: &OpenVault| {
        make(open, "/d/p", "one");
        link(open, "/d/p", "/d/q");
    };
    let both_gone = vault_after(linked, |open| {
        remove(open, "/d/q");
        remove(open, "/d/p");
    });
    let one_gone = vault_after(linked, |open| remove(open, "/d/q"));
    let all_gone = vault_after(linked, |open| remove(open, "/d"));
    let copied = vault_after(linked, |open| {
        remove(open, "/d/q");
        make(open, "/d/q", "other");
        link(open, "/d/q", "/outside");
    });
    for vault in [both_gone, one_gone, all_gone, copied] {
        bring_back(&vault, "/d");
        assert_eq!(names_of(&vault, "/d/p"), 2);
        assert_eq!(read(&vault, "/d/q").unwrap(), "one");
        let outside = read(&vault, "/outside");
        assert!(outside.is_err() || outside.unwrap() == "other");
    }
}

#[test]
fn files_that_were_linked_since_are_two_again() {
    let vault = vault_after(
        |open| {
            make(open, "/d/p", "same");
            make(open, "/d/q", "same");
        },
        |open| {
            remove(open, "/d/q");
            link(open, "/d/p", "/d/q");
        },
    );
    bring_back(&vault, "/d");
    assert_eq!((names_of(&vault, "/d/p"), names_of(&vault, "/d/q")), (1, 1));
}

#[test]
fn directories_that_come_back_have_the_times_they_had() {
    let vault = vault_after(
        |open| {
            make(open, "/d/e/f", "1");
            open.set_mtime(&path("/d/e"), Timestamp { seconds: 7, nanos: 0 })
                .unwrap();
            open.set_mtime(&path("/d"), Timestamp { seconds: 8, nanos: 0 })
                .unwrap();
        },
        |open| remove(open, "/d"),
    );
    bring_back(&vault, "/d");
    let open = vault.begin().unwrap();
    let seconds = |at: &str| open.stat(&path(at)).unwrap().meta.mtime.seconds;
    assert_eq!((seconds("/d/e"), seconds("/d")), (7, 8));
}

#[test]
fn paths_within_each_other_come_back_once() {
    let vault = vault_after(|open| make(open, "/d/f", "1"), |open| remove(open, "/d"));
    let from = vault.revision("@~1").unwrap();
    let restored = vault
        .restore_paths(&from, &[path("/d/f"), path("/d"), path("/d")], "checkout", "")
        .unwrap();
    assert_eq!(restored.changed, 2);
    assert_eq!(read(&vault, "/d/f").unwrap(), "1");
}

#[test]
fn a_missing_parent_of_two_paths_comes_back_once() {
    let first = |open: &OpenVault| {
        make(open, "/d/f", "1");
        make(open, "/d/g", "2");
    };
    let vault = vault_after(first, |open| remove(open, "/d"));
    let from = vault.revision("@~1").unwrap();
    let restored = vault
        .restore_paths(&from, &[path("/d/f"), path("/d/g")], "checkout", "")
        .unwrap();
    assert_eq!(restored.changed, 3);
}

/// Keeps nothing but present states, checkpoints and fork bases.
const NOTHING: RetentionPolicy = RetentionPolicy {
    times: SnapshotRetention {
        all: 0,
        hourly: 0,
        daily: 0,
    },
    disk_share: 0.0,
};

#[test]
fn undo_that_waited_reverts_only_the_change_made_meanwhile() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path()).unwrap();
    let vault = store.create_vault(&name("main")).unwrap();
    write(&vault, "/a", "a");
    write(&vault, "/b", "b");
    let owner = vault.begin().unwrap();
    let undoing = std::thread::spawn({
        let vault = vault.clone();
        move || vault.undo().map(|(entry, _)| entry.action)
    });
    // Long enough for the other thread to have chosen, if it does so before it owns the vault.
    for number in 0..2_000 {
        owner
            .write_bytes(&path("/c"), format!("c{number}").as_bytes())
            .unwrap();
    }
    owner.commit("write", "/c").unwrap();
    let undone = undoing.join().unwrap().unwrap();
    let open = vault.begin().unwrap();
    assert_eq!(undone, "write /c");
    assert!(open.exists(&path("/b")).unwrap() && !open.exists(&path("/c")).unwrap());
}

/// A vault with ten files, of whose history only the first and the last state stay.
fn thinned_vault(at_nine: impl FnOnce(&Vault)) -> Vault {
    let clock = Arc::new(SetClock(AtomicI64::new(1_000_000_000)));
    let options = StoreOptions {
        clock: clock.clone(),
        ..StoreOptions::default()
    };
    let store = Store::in_memory_with(options);
    let vault = store.create_vault(&name("main")).unwrap();
    clock.0.fetch_add(4000, Ordering::Relaxed);
    for number in 0..9 {
        write(&vault, &format!("/f{number}"), "x");
        clock.0.fetch_add(10, Ordering::Relaxed);
    }
    at_nine(&vault);
    write(&vault, "/f9", "x");
    clock.0.fetch_add(25 * 3600, Ordering::Relaxed);
    store.prune(&RetentionPolicy::default(), false).unwrap();
    vault
}

#[test]
fn undo_reverts_only_one_change_after_the_history_was_thinned() {
    let vault = thinned_vault(|_| ());
    assert!(matches!(
        vault.undo(),
        Err(Error::History(HistoryError::Thinned { seq: 11, .. }))
    ));
    assert!(vault.begin().unwrap().exists(&path("/f9")).unwrap());
}

#[test]
fn an_undo_finds_the_state_before_in_a_checkpoint_when_the_history_was_thinned() {
    let vault = thinned_vault(|vault| {
        vault
            .save_checkpoint(&CheckpointName::new("nine").unwrap(), None)
            .unwrap();
    });
    assert_eq!(vault.undo().unwrap().0.action, "write /f9");
    let open = vault.begin().unwrap();
    assert!(open.exists(&path("/f8")).unwrap() && !open.exists(&path("/f9")).unwrap());
}

#[test]
fn a_state_that_was_pruned_meanwhile_is_unknown_to_every_command() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path()).unwrap();
    let vault = store.create_vault(&name("main")).unwrap();
    write(&vault, "/a", "a");
    write(&vault, "/a", "b");
    let gone = vault.revision("@~1").unwrap();
    let other = Store::open(home.path()).unwrap();
    other.prune(&NOTHING, false).unwrap();
    let is_unknown =
        |error: Option<Error>| matches!(error, Some(Error::History(HistoryError::UnknownRevision { .. })));
    for _ in 0..2 {
        assert!(is_unknown(vault.fork_at(&gone, &[name("f")]).err()));
        assert!(is_unknown(vault.restore(&gone, "back").err()));
        assert!(is_unknown(
            vault.restore_paths(&gone, &[path("/a")], "checkout", "/a").err()
        ));
        assert!(is_unknown(vault.revision(&gone.snapshot.to_string()).err()));
        other.collect_garbage(&mut |_| true).unwrap();
    }
    assert_eq!(store.vaults().unwrap().vaults.len(), 1);
}

#[test]
fn a_whole_id_names_a_state_of_another_vault() {
    let store = Store::in_memory();
    let (one, two) = (
        store.create_vault(&name("one")).unwrap(),
        store.create_vault(&name("two")).unwrap(),
    );
    write(&one, "/a", "from one");
    let id = one.head().unwrap().to_string();
    two.restore(&two.revision(&id).unwrap(), &id).unwrap();
    assert_eq!(read(&two, "/a").unwrap(), "from one");
}

#[test]
fn ids_may_be_given_in_capitals() {
    let store = Store::in_memory();
    let vault = store.create_vault(&name("main")).unwrap();
    let other = store.create_vault(&name("other")).unwrap();
    write(&vault, "/a", "a");
    let head = vault.head().unwrap();
    let id = head.to_string().to_ascii_uppercase();
    assert_eq!(vault.revision(&id[..12]).unwrap().snapshot, head);
    assert_eq!(other.revision(&id).unwrap().snapshot, head);
}
