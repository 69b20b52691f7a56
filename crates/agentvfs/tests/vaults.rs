//! Vaults through the library, on a store in memory and on an embedded one.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use agentvfs::error::{FileError, HistoryError, OwnerError, StorageError, VaultError};
use agentvfs::{CheckpointName, Error, ErrorCode, Store, Version, WriteMode};
use support::{name, path, read, write};

/// Runs a test against both kinds of store.
fn on_each_store(test: impl Fn(&Store)) {
    test(&Store::in_memory());
    let home = tempfile::tempdir().unwrap();
    test(&Store::open(home.path()).unwrap());
}

#[test]
fn a_fork_has_its_parents_state_and_goes_its_own_way() {
    on_each_store(|store| {
        let main = store.create_vault(&name("main")).unwrap();
        write(&main, "/a", "one");
        let forks = main.fork(&[name("x"), name("y")]).unwrap();
        write(&forks[0], "/a", "two");
        write(&main, "/a", "three");
        assert_eq!(read(&forks[0], "/a").unwrap(), "two");
        assert_eq!(read(&forks[1], "/a").unwrap(), "one");
        assert_eq!(read(&main, "/a").unwrap(), "three");
        assert_eq!(main.unmerged_forks().unwrap(), [name("x")]);
    });
}

#[test]
fn a_vault_opens_again_as_it_was() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path()).unwrap();
    write(&store.create_vault(&name("main")).unwrap(), "/a", "kept");
    drop(store);
    let store = Store::open(home.path()).unwrap();
    assert_eq!(read(&store.vault("main").unwrap(), "/a").unwrap(), "kept");
}

#[test]
fn a_restore_brings_everything_back_and_can_be_undone() {
    on_each_store(|store| {
        let vault = store.create_vault(&name("main")).unwrap();
        write(&vault, "/a", "one");
        vault
            .save_checkpoint(&CheckpointName::new("start").unwrap(), Some("the start"))
            .unwrap();
        write(&vault, "/a", "two");
        write(&vault, "/b", "new");
        let restored = vault.restore(&vault.revision("start").unwrap(), "start").unwrap();
        assert_eq!(restored.changed, 3, "/a, /b and the times of the root");
        assert_eq!(read(&vault, "/a").unwrap(), "one");
        assert!(read(&vault, "/b").is_err());
        vault.undo().unwrap();
        assert_eq!(read(&vault, "/a").unwrap(), "two");
        assert_eq!(read(&vault, "/b").unwrap(), "new");
    });
}

#[test]
fn undo_goes_further_back_each_time_and_a_new_change_starts_over() {
    on_each_store(|store| {
        let vault = store.create_vault(&name("main")).unwrap();
        for step in ["1", "2", "3"] {
            write(&vault, "/a", step);
        }
        vault.undo().unwrap();
        vault.undo().unwrap();
        assert_eq!(read(&vault, "/a").unwrap(), "1");
        write(&vault, "/a", "4");
        vault.undo().unwrap();
        assert_eq!(read(&vault, "/a").unwrap(), "1");
        vault.undo().unwrap();
        assert!(read(&vault, "/a").is_err());
        assert!(matches!(
            vault.undo(),
            Err(Error::History(HistoryError::NothingToUndo { .. }))
        ));
    });
}

#[test]
fn redo_goes_forward_as_far_as_undo_went_back_until_a_new_change() {
    on_each_store(|store| {
        let vault = store.create_vault(&name("main")).unwrap();
        let redo = || {
            vault
                .redo()
                .map(|_| read(&vault, "/a").unwrap())
                .map_err(|error| error.code())
        };
        for step in ["1", "2", "3"] {
            write(&vault, "/a", step);
        }
        assert_eq!(redo(), Err(ErrorCode::NothingToRedo));
        vault.undo().unwrap();
        vault.undo().unwrap();
        assert_eq!(read(&vault, "/a").unwrap(), "1");
        assert_eq!(
            (redo(), redo(), redo()),
            (Ok("2".into()), Ok("3".into()), Err(ErrorCode::NothingToRedo))
        );
        vault.undo().unwrap();
        assert_eq!(read(&vault, "/a").unwrap(), "2");
        vault.undo().unwrap();
        assert_eq!(
            (read(&vault, "/a").unwrap(), redo()),
            ("1".into(), Ok("2".into()))
        );
        let undone = vault.history().last_undo().unwrap().map(|entry| entry.action);
        assert_eq!(undone.as_deref(), Some("undo 4 (write /a)"));
        write(&vault, "/a", "new");
        assert_eq!(redo(), Err(ErrorCode::NothingToRedo));
        vault.undo().unwrap();
        assert_eq!(
            (redo(), redo()),
            (Ok("new".into()), Err(ErrorCode::NothingToRedo)),
            "earlier undone changes are gone"
        );
        assert_eq!(
            vault
                .history()
                .next_undo()
                .unwrap()
                .map(|entry| entry.action)
                .as_deref(),
            Some("write /a")
        );
    });
}

#[test]
fn single_paths_come_back_without_the_rest() {
    on_each_store(|store| {
        let vault = store.create_vault(&name("main")).unwrap();
        let open = vault.begin().unwrap();
        open.make_directory(&path("/d/e"), true).unwrap();
        open.commit("mkdir", "/d/e").unwrap();
        write(&vault, "/d/e/a", "one");
        write(&vault, "/d/b", "one");
        write(&vault, "/other", "one");
        let before = vault.revision("@").unwrap();
        write(&vault, "/d/e/a", "two");
        write(&vault, "/other", "two");
        let open = vault.begin().unwrap();
        open.remove(&path("/d/b"), false).unwrap();
        open.commit("rm", "/d/b").unwrap();
        write(&vault, "/d/new", "new");
        vault
            .restore_paths(&before, &[path("/d")], "checkout", "/d")
            .unwrap();
        assert_eq!(read(&vault, "/d/e/a").unwrap(), "one");
        assert_eq!(read(&vault, "/d/b").unwrap(), "one");
        assert!(read(&vault, "/d/new").is_err());
        assert_eq!(read(&vault, "/other").unwrap(), "two");
    });
}

#[test]
fn a_stale_version_changes_nothing_and_says_both_versions() {
    on_each_store(|store| {
        let vault = store.create_vault(&name("main")).unwrap();
        write(&vault, "/a", "one");
        let open = vault.begin().unwrap();
        let stale = Version::of_bytes(b"zero");
        let outcome = open.write(&path("/a"), &mut &b"two"[..], WriteMode::Replace, Some(&stale));
        let Err(Error::File(FileError::StaleVersion { expected, found, .. })) = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!(
            (expected, found),
            (stale.to_string(), Version::of_bytes(b"one").to_string())
        );
        assert_eq!(open.commit("write", "/a").unwrap(), None);
        assert_eq!(read(&vault, "/a").unwrap(), "one");
        let open = vault.begin().unwrap();
        let short = Version::parse(&Version::of_bytes(b"one").as_str()[..8]).unwrap();
        open.write(&path("/a"), &mut &b"two"[..], WriteMode::Replace, Some(&short))
            .unwrap();
    });
}

#[test]
fn nothing_is_recorded_when_nothing_changed() {
    on_each_store(|store| {
        let vault = store.create_vault(&name("main")).unwrap();
        write(&vault, "/a", "one");
        let before = vault.history().entries(None, 100).unwrap().len();
        assert_eq!(vault.begin().unwrap().commit("nothing", "").unwrap(), None);
        let here = vault.revision("@").unwrap();
        assert_eq!(vault.restore(&here, "@").unwrap().saved, None);
        assert_eq!(vault.history().entries(None, 100).unwrap().len(), before);
    });
}

#[test]
fn a_path_has_a_history_without_anyone_asking_for_one() {
    on_each_store(|store| {
        let vault = store.create_vault(&name("main")).unwrap();
        write(&vault, "/a", "one");
        write(&vault, "/b", "else");
        write(&vault, "/a", "three");
        let open = vault.begin().unwrap();
        open.remove(&path("/a"), false).unwrap();
        open.commit("rm", "/a").unwrap();
        let versions = vault.history().path_history(&path("/a"), 10).unwrap();
        let actions: Vec<&str> = versions
            .iter()
            .map(|version| version.entry.action.as_str())
            .collect();
        assert_eq!(actions, ["rm /a", "write /a", "write /a"]);
        assert!(versions[0].found.is_none());
    });
}

#[test]
fn a_quota_holds_for_bytes_and_files() {
    on_each_store(|store| {
        let vault = store.create_vault(&name("main")).unwrap();
        vault.set_quota(Some(10), Some(2)).unwrap();
        write(&vault, "/a", "12345");
        let open = vault.begin().unwrap();
        let over = open.write_bytes(&path("/b"), b"123456").unwrap_err();
        assert_eq!(over.code(), "quota-bytes");
        open.write_bytes(&path("/b"), b"1").unwrap();
        assert_eq!(
            open.write_bytes(&path("/c"), b"1").unwrap_err().code(),
            "quota-files"
        );
        let copied = open.copy(&path("/a"), &path("/d"), false).unwrap_err();
        assert_eq!(copied.code(), "quota-bytes");
    });
}

#[test]
fn deleting_a_vault_that_unmerged_forks_need_must_be_forced() {
    on_each_store(|store| {
        let main = store.create_vault(&name("main")).unwrap();
        let fork = main.fork(&[name("fork")]).unwrap().remove(0);
        write(&fork, "/a", "work");
        let refused = main.clone().delete(false);
        assert!(
            matches!(refused, Err(Error::Vault(VaultError::HasForks { .. }))),
            "{refused:?}"
        );
        main.delete(true).unwrap();
        assert_eq!(read(&fork, "/a").unwrap(), "work");
        assert_eq!(store.vaults().unwrap().vaults.len(), 1);
        assert!(matches!(
            store.vault("main"),
            Err(Error::Vault(VaultError::Unknown { .. }))
        ));
        assert_eq!(store.audit(0, 10).unwrap().len(), 1);
        store.verify_audit(None).unwrap();
    });
}

#[test]
fn an_audit_log_tells_every_change_and_verifies() {
    on_each_store(|store| {
        let vault = store.create_vault(&name("main")).unwrap();
        write(&vault, "/a", "one");
        vault.set_quota(Some(100), None).unwrap();
        let entries = vault.audit(0, 100).unwrap();
        let actions: Vec<&str> = entries.iter().map(|entry| entry.action.as_str()).collect();
        assert_eq!(actions, ["create", "write", "quota"]);
        assert_eq!(vault.verify_audit(Some(&entries[1].hash)).unwrap(), 3);
        assert!(matches!(
            vault.verify_audit(Some("00")),
            Err(Error::Storage(StorageError::AuditBroken { .. }))
        ));
    });
}

#[test]
fn second_owner_learns_which_process_has_the_vault() {
    let store = Store::in_memory();
    let vault = store.create_vault(&name("main")).unwrap();
    let open = vault.begin().unwrap();
    assert!(matches!(
        vault.begin(),
        Err(Error::Owner(OwnerError::Busy { .. }))
    ));
    drop(open);
    assert!(vault.begin().is_ok());
}

#[test]
fn a_copied_directory_is_independent_and_keeps_its_hard_links_among_themselves() {
    on_each_store(|store| {
        let vault = store.create_vault(&name("main")).unwrap();
        let open = vault.begin().unwrap();
        open.make_directory(&path("/d"), false).unwrap();
        open.write_bytes(&path("/d/a"), b"linked").unwrap();
        open.hard_link(&path("/d/a"), &path("/d/b")).unwrap();
        open.copy(&path("/d"), &path("/copy"), true).unwrap();
        assert_eq!(
            open.stat(&path("/copy/a")).unwrap().ino,
            open.stat(&path("/copy/b")).unwrap().ino
        );
        assert_ne!(
            open.stat(&path("/copy/a")).unwrap().ino,
            open.stat(&path("/d/a")).unwrap().ino
        );
        open.write_bytes(&path("/copy/a"), b"changed").unwrap();
        assert_eq!(&open.read(&path("/copy/b")).unwrap()[..], b"changed");
        assert_eq!(&open.read(&path("/d/b")).unwrap()[..], b"linked");
        open.commit("cp", "/d /copy").unwrap();
        assert_eq!(read(&vault, "/copy/b").unwrap(), "changed");
    });
}

#[test]
fn synced_changes_survive_without_a_snapshot() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path()).unwrap();
    let vault = store.create_vault(&name("main")).unwrap();
    let open = vault.open().unwrap();
    open.write_bytes(&path("/kept"), b"synced").unwrap();
    open.tree().sync().unwrap();
    open.write_bytes(&path("/lost"), b"not synced").unwrap();
    // The owner dies: nothing is flushed from now on.
    drop(open);
    assert_eq!(read(&vault, "/kept").unwrap(), "synced");
    assert!(read(&vault, "/lost").is_err());
    assert_eq!(
        vault.history().entries(None, 10).unwrap()[0].action,
        "recover after a crash"
    );
}

#[test]
fn a_journal_that_refers_to_stored_contents_makes_them_durable_first() {
    let home = tempfile::tempdir().unwrap();
    let vault = Store::open(home.path())
        .unwrap()
        .create_vault(&name("main"))
        .unwrap();
    let open = vault.open().unwrap();
    open.write_bytes(&path("/kept"), &vec![7; 100_000]).unwrap();
    open.sync().unwrap();
    drop((open, vault));
    let store = Store::open(home.path()).unwrap();
    assert_eq!(
        read(&store.vault("main").unwrap(), "/kept").unwrap().len(),
        100_000
    );
}

#[test]
fn forks_of_one_name_are_refused_and_none_is_made() {
    on_each_store(|store| {
        let main = store.create_vault(&name("main")).unwrap();
        let outcome = main.fork(&[name("x"), name("y"), name("x")]);
        assert!(matches!(outcome, Err(Error::Vault(VaultError::Exists { name })) if name == "x"));
        assert_eq!(store.vaults().unwrap().vaults.len(), 1);
        assert_eq!(main.fork(&[name("x")]).unwrap()[0].id().0, main.id().0 + 1);
    });
}

#[test]
fn a_fork_may_hold_as_much_as_its_parent() {
    on_each_store(|store| {
        let main = store.create_vault(&name("main")).unwrap();
        main.set_quota(Some(10), Some(3)).unwrap();
        let fork = main.fork(&[name("fork")]).unwrap().remove(0);
        let info = fork.info().unwrap();
        assert_eq!((info.max_bytes, info.max_files), (Some(10), Some(3)));
        let outcome = fork.begin().unwrap().write_bytes(&path("/a"), b"eleven bytes");
        assert_eq!(outcome.unwrap_err().code(), "quota-bytes");
    });
}
