//! Going back: paths, undo and states that are no longer kept.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use agentvfs::{OpenVault, Result, Store, TreePath, Vault, VaultName};

fn path(text: &str) -> TreePath {
    TreePath::parse(text.as_bytes()).unwrap()
}

fn name(text: &str) -> VaultName {
    VaultName::new(text).unwrap()
}

fn act(vault: &Vault, change: impl FnOnce(&mut OpenVault)) {
    let mut open = vault.begin().unwrap();
    change(&mut open);
    open.commit("act", "").unwrap();
}

fn read(vault: &Vault, at: &str) -> Result<String> {
    let bytes = vault.begin()?.read(&path(at))?;
    Ok(String::from_utf8(bytes.to_vec()).unwrap())
}

fn names_of(vault: &Vault, at: &str) -> u32 {
    vault.begin().unwrap().stat(&path(at)).unwrap().names
}

/// Brings `at` back from the state before the present one; returns how many paths changed.
fn bring_back(vault: &Vault, at: &str) -> u64 {
    let from = vault.revision("@~1").unwrap();
    vault.restore_paths(&from, &[path(at)], "checkout", at).unwrap().changed
}

/// A vault in the state after `first` and then `second`.
fn vault_after(first: impl FnOnce(&mut OpenVault), second: impl FnOnce(&mut OpenVault)) -> Vault {
    let vault = Store::in_memory().create_vault(&name("main")).unwrap();
    act(&vault, first);
    act(&vault, second);
    vault
}

fn make(open: &mut OpenVault, at: &str, bytes: &str) {
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
    let before = vault.revision("@~1").unwrap().reader().unwrap().find(&path("/d")).unwrap().entry.meta;
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
    let linked = |open: &mut OpenVault| {
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
            open.set_mtime(&path("/d/e"), agentvfs::Timestamp { seconds: 7, nanos: 0 }).unwrap();
            open.set_mtime(&path("/d"), agentvfs::Timestamp { seconds: 8, nanos: 0 }).unwrap();
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
    let restored =
        vault.restore_paths(&from, &[path("/d/f"), path("/d"), path("/d")], "checkout", "").unwrap();
    assert_eq!(restored.changed, 2);
    assert_eq!(read(&vault, "/d/f").unwrap(), "1");
}

#[test]
fn a_missing_parent_of_two_paths_comes_back_once() {
    let first = |open: &mut OpenVault| {
        make(open, "/d/f", "1");
        make(open, "/d/g", "2");
    };
    let vault = vault_after(first, |open| remove(open, "/d"));
    let from = vault.revision("@~1").unwrap();
    let restored = vault.restore_paths(&from, &[path("/d/f"), path("/d/g")], "checkout", "").unwrap();
    assert_eq!(restored.changed, 3);
}
