//! One state, whichever process changes it.

use agentvfs::{CheckpointName, Version, WriteMode};

use super::owner::{Scene, open_store, start_owner};
use super::support::{change, name, path, read, write};

fn stored(scene: &Scene, at: &str) -> String {
    let bytes = scene.vault.reader().unwrap().read(&path(at)).unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn actions(scene: &Scene) -> Vec<String> {
    scene
        .vault
        .history()
        .entries(None, 20)
        .unwrap()
        .into_iter()
        .rev()
        .map(|entry| entry.action)
        .collect()
}

#[test]
fn writes_of_the_owner_are_read_immediately() {
    let mut scene = Scene::new();
    scene.owner_writes("/a", "one");
    assert_eq!(stored(&scene, "/a"), "one");
    scene.owner_writes("/a", "two");
    assert_eq!(read(&scene.vault, "/a").unwrap(), "two");
    scene.owner_writes("/b", "three");
    assert_eq!(scene.vault.info().unwrap().files, 2);
    scene.owner_writes("/c", "four");
    assert_eq!(open_store(&scene.home).vaults().unwrap().vaults[0].files, 3);
    assert_eq!(scene.owner.ask("dirty"), "false");
}

#[test]
fn writes_of_others_are_immediately_in_the_owners_tree() {
    let mut scene = Scene::new();
    scene.owner_writes("/a", "old");
    write(&scene.vault, "/a", "new");
    write(&scene.vault, "/b", "other");
    assert_eq!(scene.owner_reads("/a"), "new");
    assert_eq!(scene.owner_reads("/b"), "other");
    change(&scene.vault, |open| open.remove(&path("/a"), false).unwrap());
    assert_eq!(scene.owner_reads("/a"), "not-found");
    assert_eq!(
        actions(&scene),
        ["create", "mount automatic", "write /a", "write /b", "change"]
    );
}

#[test]
fn history_names_the_actor() {
    let scene = Scene::new();
    let mut options = agentvfs::StoreOptions::default();
    options.actor.name = "somebody else".into();
    let store = agentvfs::Store::open_with(&scene.home, options).unwrap();
    write(&store.vault("main").unwrap(), "/a", "1");
    assert_eq!(
        scene.vault.history().entries(None, 1).unwrap()[0].actor,
        "somebody else"
    );
    assert_eq!(scene.vault.audit(0, 10).unwrap()[1].actor, "somebody else");
}

#[test]
fn different_paths_of_both_are_all_there() {
    let mut scene = Scene::new();
    scene.owner_writes("/shared", "before");
    let open = scene.vault.begin().unwrap();
    open.write_bytes(&path("/ours"), b"from outside").unwrap();
    scene.owner_writes("/theirs", "from inside");
    scene.owner_writes("/shared", "after");
    let saved = open.save("write", "/ours").unwrap().unwrap();
    // The writer's tree has moved to the state of the vault.
    assert_eq!(&open.read(&path("/theirs")).unwrap()[..], b"from inside");
    assert_eq!(scene.vault.head().unwrap(), saved.snapshot);
    for (at, text) in [
        ("/ours", "from outside"),
        ("/theirs", "from inside"),
        ("/shared", "after"),
    ] {
        assert_eq!(scene.owner_reads(at), text);
        assert_eq!(stored(&scene, at), text);
    }
    open.write_bytes(&path("/more"), b"again").unwrap();
    open.commit("write", "/more").unwrap();
    assert_eq!(scene.owner_reads("/more"), "again");
}

#[test]
fn write_of_the_same_path_is_repeated_on_the_other_writers_state() {
    let mut scene = Scene::new();
    scene.owner_writes("/log", "first");
    let vault = scene.vault.clone();
    let mut attempts = 0;
    let (_, saved) = vault
        .change("append", "/log", |open| {
            attempts += 1;
            open.write(&path("/log"), &mut &b"+ours"[..], WriteMode::Append, None)?;
            if attempts == 1 {
                scene.owner_writes("/log", "theirs");
            }
            Ok::<_, agentvfs::Error>(())
        })
        .unwrap();
    assert_eq!(attempts, 2);
    assert!(saved.is_some());
    assert_eq!(scene.owner_reads("/log"), "theirs+ours");
}

#[test]
fn a_version_that_was_expected_is_expected_at_every_attempt() {
    let mut scene = Scene::new();
    scene.owner_writes("/a", "expected");
    let expect = Version::of_bytes(b"expected");
    let vault = scene.vault.clone();
    let mut attempts = 0;
    let refused = vault.change("write", "/a", |open| {
        attempts += 1;
        let written = open.write(&path("/a"), &mut &b"ours"[..], WriteMode::Replace, Some(&expect));
        if attempts == 1 {
            scene.owner_writes("/a", "theirs");
        }
        written
    });
    assert_eq!(refused.unwrap_err().code(), "stale-version");
    assert_eq!(attempts, 2);
    assert_eq!(scene.owner_reads("/a"), "theirs");
}

#[test]
fn change_that_is_always_overtaken_fails_with_that_error() {
    let mut scene = Scene::new();
    let vault = scene.vault.clone();
    let mut attempts = 0;
    let refused = vault.change("write", "/a", |open| {
        attempts += 1;
        scene.owner_writes("/a", &format!("theirs-{attempts}"));
        open.write_bytes(&path("/a"), b"ours")
    });
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), "overtaken");
    assert!(refused.to_string().starts_with("/a in vault 'main'"), "{refused}");
    assert!(attempts > 5);
    assert_eq!(scene.owner_reads("/a"), format!("theirs-{attempts}"));
}

#[test]
fn a_restore_keeps_what_was_not_stored_in_the_history() {
    let mut scene = Scene::new();
    write(&scene.vault, "/a", "good");
    scene
        .vault
        .save_checkpoint(&CheckpointName::new("good").unwrap(), None)
        .unwrap();
    scene.owner_writes("/a", "bad");
    scene.owner_writes("/more", "bad too");
    let good = scene.vault.revision("good").unwrap();
    let restored = scene.vault.restore(&good, "good").unwrap();
    assert_eq!(restored.changed, 3, "two files and the directory");
    assert_eq!(scene.owner_reads("/a"), "good");
    assert_eq!(scene.owner_reads("/more"), "not-found");
    let bad = scene.vault.revision("@~1").unwrap().reader().unwrap();
    assert_eq!(&bad.read(&path("/a")).unwrap()[..], b"bad");
    scene.vault.undo().unwrap();
    assert_eq!(scene.owner_reads("/more"), "bad too");
}

#[test]
fn single_paths_come_back_and_the_rest_stays() {
    let mut scene = Scene::new();
    change(&scene.vault, |open| {
        open.write_bytes(&path("/a"), b"good").unwrap();
        open.write_bytes(&path("/b"), b"good").unwrap();
    });
    let good = scene.vault.revision("@").unwrap();
    scene.owner_writes("/a", "bad");
    scene.owner_writes("/b", "newer");
    scene
        .vault
        .restore_paths(&good, &[path("/a")], "checkout", "/a")
        .unwrap();
    assert_eq!(scene.owner_reads("/a"), "good");
    assert_eq!(scene.owner_reads("/b"), "newer");
}

#[test]
fn undo_reverts_the_last_change_of_the_owner() {
    let mut scene = Scene::new();
    write(&scene.vault, "/a", "from outside");
    scene.owner_writes("/b", "from inside");
    let (undone, _) = scene.vault.undo().unwrap();
    assert_eq!(undone.action, "mount automatic");
    assert_eq!(scene.owner_reads("/b"), "not-found");
    assert_eq!(scene.owner_reads("/a"), "from outside");
    let (undone, _) = scene.vault.undo().unwrap();
    assert_eq!(undone.action, "write /a");
    assert_eq!(scene.owner_reads("/a"), "not-found");
}

#[test]
fn a_new_quota_binds_the_owner() {
    let mut scene = Scene::new();
    scene.vault.set_quota(Some(5), None).unwrap();
    assert_eq!(scene.owner.ask("write /a 123456"), "quota-bytes");
    scene.vault.set_quota(None, None).unwrap();
    scene.owner_writes("/a", "123456");
    scene.vault.set_quota(Some(8), None).unwrap();
    let open = scene.vault.begin().unwrap();
    open.write_bytes(&path("/b"), b"12").unwrap();
    scene.owner_writes("/c", "12");
    // Each of the two had room, but not both.
    let refused = open.commit("write", "/b").unwrap_err();
    assert_eq!(refused.code(), "quota-bytes");
}

#[test]
fn a_killed_owner_loses_nothing_that_was_synced() {
    let mut scene = Scene::new();
    write(&scene.vault, "/a", "by a command");
    scene.owner_writes("/b", "synced");
    assert_eq!(scene.owner.ask("sync"), "done");
    scene.owner.kill();
    let vault = open_store(&scene.home).vault("main").unwrap();
    assert_eq!(read(&vault, "/a").unwrap(), "by a command");
    assert_eq!(read(&vault, "/b").unwrap(), "synced");
    assert_eq!(
        vault.history().entries(None, 1).unwrap()[0].action,
        "recover after a crash"
    );
    let mut owner = start_owner(&scene.home);
    write(&vault, "/c", "to the next one");
    assert_eq!(owner.ask("read /c"), "to the next one");
    assert_eq!(owner.ask("read /b"), "synced");
}

#[test]
fn change_that_outlives_its_owner_is_repeated() {
    let mut scene = Scene::new();
    scene.owner_writes("/a", "unsaved");
    let home = scene.home.clone();
    let vault = open_store(&home).vault("main").unwrap();
    let mut owner = Some(scene.owner);
    let mut attempts = 0;
    vault
        .change("write", "/b", |open| {
            attempts += 1;
            if let Some(owner) = owner.take() {
                owner.kill();
            }
            open.write_bytes(&path("/b"), b"kept")
        })
        .unwrap();
    assert_eq!(attempts, 2);
    assert_eq!(read(&vault, "/b").unwrap(), "kept");
    assert_eq!(read(&vault, "/a").unwrap(), "unsaved");
}

#[test]
fn a_fork_and_a_checkpoint_hold_what_the_owner_has_not_stored() {
    let mut scene = Scene::new();
    scene.owner_writes("/a", "one");
    let fork = scene.vault.fork(&[name("fork")]).unwrap().remove(0);
    scene.owner_writes("/a", "two");
    scene
        .vault
        .save_checkpoint(&CheckpointName::new("two").unwrap(), None)
        .unwrap();
    scene.owner_writes("/a", "three");
    assert_eq!(read(&fork, "/a").unwrap(), "one");
    let two = scene.vault.revision("two").unwrap().reader().unwrap();
    assert_eq!(&two.read(&path("/a")).unwrap()[..], b"two");
}

#[test]
fn links_and_directories_of_both_sides_are_kept() {
    let mut scene = Scene::new();
    change(&scene.vault, |open| {
        open.make_directory(&path("/d"), false).unwrap();
        open.write_bytes(&path("/d/a"), b"1").unwrap();
        open.hard_link(&path("/d/a"), &path("/d/b")).unwrap();
    });
    let open = scene.vault.begin().unwrap();
    open.write_bytes(&path("/d/b"), b"2").unwrap();
    open.hard_link(&path("/d/b"), &path("/d/c")).unwrap();
    open.set_mode(&path("/d"), 0o700).unwrap();
    scene.owner_writes("/d/x", "inside");
    open.commit("change", "").unwrap();
    for at in ["/d/a", "/d/b", "/d/c"] {
        assert_eq!(scene.owner_reads(at), "2");
    }
    assert_eq!(scene.owner_reads("/d/x"), "inside");
    let open = scene.vault.begin().unwrap();
    assert_eq!(open.stat(&path("/d")).unwrap().meta.mode, 0o700);
    assert_eq!(open.stat(&path("/d/a")).unwrap().names, 3);
}
