//! Garbage collection, pruning, checks, statistics and vault files.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use agentvfs::{CheckpointName, RetentionPolicy, SnapshotRetention, Store, StoreOptions, Vault};
use support::{SetClock, name, path, write};

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new()
        .update(&seed.to_le_bytes())
        .finalize_xof()
        .fill(&mut bytes);
    bytes
}

fn pack_bytes(home: &std::path::Path) -> u64 {
    std::fs::read_dir(home.join("packs"))
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum()
}

#[test]
fn collecting_gives_back_what_a_deleted_fork_held_and_nothing_else() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path()).unwrap();
    let main = store.create_vault(&name("main")).unwrap();
    write(&main, "/kept", noise(1, 300_000));
    let fork = main.fork(&[name("fork")]).unwrap().remove(0);
    write(&fork, "/big", noise(2, 3_000_000));
    let before = pack_bytes(home.path());
    fork.delete(false).unwrap();
    // A pack that a process still appends to is left for a later collection.
    drop((main, store));

    let store = Store::open(home.path()).unwrap();
    let collected = store.collect_garbage(&mut |_| true).unwrap();
    assert!(
        collected.sweep.finished && collected.sweep.removed_objects > 40,
        "{collected:?}"
    );
    assert!(pack_bytes(home.path()) < before - 2_900_000);
    let main = store.vault("main").unwrap();
    assert_eq!(
        main.begin().unwrap().read(&path("/kept")).unwrap(),
        noise(1, 300_000)
    );
    assert!(store.integrity().check(&mut |_, _| {}).unwrap().is_sound());
}

#[test]
fn a_store_in_memory_is_counted_checked_and_collected_like_any_other() {
    let store = Store::in_memory();
    let main = store.create_vault(&name("main")).unwrap();
    write(&main, "/kept", noise(1, 300_000));
    let fork = main.fork(&[name("fork")]).unwrap().remove(0);
    write(&fork, "/big", noise(2, 3_000_000));
    let before = store.maintenance().stats().unwrap();
    assert!(before.object_bytes > 3_300_000, "{before:?}");
    fork.delete(false).unwrap();

    let collected = store.collect_garbage(&mut |_| true).unwrap();
    assert!(
        collected.sweep.finished && collected.sweep.removed_objects > 40,
        "{collected:?}"
    );
    assert!(store.maintenance().stats().unwrap().object_bytes < before.object_bytes - 2_900_000);
    assert_eq!(
        main.begin().unwrap().read(&path("/kept")).unwrap(),
        noise(1, 300_000)
    );
    let checked = store.integrity().check(&mut |_, _| {}).unwrap();
    assert!(checked.is_sound() && checked.objects > 0);
}

#[test]
fn a_collection_that_is_stopped_leaves_a_sound_store() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path()).unwrap();
    let main = store.create_vault(&name("main")).unwrap();
    for round in 0..4 {
        write(&main, "/file", noise(round, 200_000));
    }
    for allowed in 0..6 {
        let mut left = allowed;
        store
            .collect_garbage(&mut |_| {
                left -= 1;
                left >= 0
            })
            .unwrap();
        assert!(store.integrity().check(&mut |_, _| {}).unwrap().is_sound());
    }
}

#[test]
fn automatic_snapshots_are_thinned_and_checkpoints_stay() {
    const HOUR: i64 = 3600;
    let clock = Arc::new(SetClock(AtomicI64::new(1_000 * 24 * HOUR)));
    let home = tempfile::tempdir().unwrap();
    let options = StoreOptions {
        clock: clock.clone(),
        ..StoreOptions::default()
    };
    let store = Store::open_with(home.path(), options).unwrap();
    let vault = store.create_vault(&name("main")).unwrap();
    for step in 0..20 {
        clock.0.fetch_add(HOUR / 4, Ordering::Relaxed);
        write(&vault, "/file", noise(step, 100));
        if step == 3 {
            vault
                .save_checkpoint(&CheckpointName::new("kept").unwrap(), None)
                .unwrap();
        }
    }
    let policy = RetentionPolicy::default();
    assert_eq!(
        store.prune(&policy, false).unwrap().vaults[0].removed,
        [0u64; 0],
        "all of the last day"
    );

    clock.0.fetch_add(48 * HOUR, Ordering::Relaxed);
    let shown = store.prune(&policy, true).unwrap();
    assert_eq!(
        vault.history().entries(None, 100).unwrap().len(),
        21,
        "a dry run removes nothing"
    );
    let pruned = store.prune(&policy, false).unwrap();
    assert_eq!(shown, pruned);
    let left = vault.history().entries(None, 100).unwrap();
    assert_eq!(left.len(), 6, "one an hour");
    assert_eq!(pruned.vaults[0].kept, 6);
    store.collect_garbage(&mut |_| true).unwrap();
    let kept = vault.revision("kept").unwrap();
    assert_eq!(
        vault
            .reader_at(kept.snapshot)
            .unwrap()
            .read(&path("/file"))
            .unwrap(),
        noise(3, 100)
    );
    assert!(store.integrity().check(&mut |_, _| {}).unwrap().is_sound());
}

#[test]
fn checkpoints_of_runs_are_thinned_like_snapshots_and_named_ones_stay() {
    const HOUR: i64 = 3600;
    let clock = Arc::new(SetClock(AtomicI64::new(1_000 * 24 * HOUR)));
    let home = tempfile::tempdir().unwrap();
    let options = StoreOptions {
        clock: clock.clone(),
        ..StoreOptions::default()
    };
    let store = Store::open_with(home.path(), options).unwrap();
    let vault = store.create_vault(&name("main")).unwrap();
    let save = |step: u64| {
        clock.0.fetch_add(HOUR / 4, Ordering::Relaxed);
        write(&vault, "/file", noise(step, 100));
        let point = CheckpointName::new(&format!("before-run-{step:02}")).unwrap();
        vault
            .history()
            .save_automatic_checkpoint(&point, Some("make"))
            .unwrap();
    };
    (0..20).for_each(save);
    vault
        .save_checkpoint(&CheckpointName::new("mine").unwrap(), None)
        .unwrap();
    assert_eq!(vault.checkpoints().unwrap().len(), 21, "all of the last day");

    clock.0.fetch_add(48 * HOUR, Ordering::Relaxed);
    let shown = store.prune(&RetentionPolicy::default(), true).unwrap();
    assert_eq!(shown.vaults[0].checkpoints.len(), 14);
    assert_eq!(
        vault.checkpoints().unwrap().len(),
        21,
        "a dry run removes nothing"
    );
    save(20);
    let left: Vec<String> = vault
        .checkpoints()
        .unwrap()
        .iter()
        .map(|point| point.name.to_string())
        .collect();
    assert_eq!(
        left,
        [
            "before-run-02",
            "before-run-06",
            "before-run-10",
            "before-run-14",
            "before-run-18",
            "before-run-19",
            "mine",
            "before-run-20"
        ],
        "the next run keeps one an hour"
    );

    clock.0.fetch_add(60 * 24 * HOUR, Ordering::Relaxed);
    store.prune(&RetentionPolicy::default(), false).unwrap();
    let left: Vec<String> = vault
        .checkpoints()
        .unwrap()
        .iter()
        .map(|point| point.name.to_string())
        .collect();
    assert_eq!(left, ["mine"]);
    store.collect_garbage(&mut |_| true).unwrap();
    let mine = vault.revision("mine").unwrap();
    assert_eq!(
        vault
            .reader_at(mine.snapshot)
            .unwrap()
            .read(&path("/file"))
            .unwrap(),
        noise(19, 100)
    );
    assert!(store.integrity().check(&mut |_, _| {}).unwrap().is_sound());
    save(21);
}

#[test]
fn automatic_snapshots_never_hold_more_than_their_share() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path()).unwrap();
    let vault = store.create_vault(&name("main")).unwrap();
    for step in 0..10 {
        write(&vault, "/file", noise(step, 100_000));
    }
    let disk = rustix::fs::statvfs(home.path()).unwrap();
    let disk_bytes = (disk.f_blocks * disk.f_frsize) as f64;
    let policy = RetentionPolicy {
        disk_share: 350_000.0 / disk_bytes,
        ..RetentionPolicy::default()
    };
    let pruned = store.prune(&policy, false).unwrap();
    assert!(pruned.held_bytes <= pruned.allowed_bytes, "{pruned:?}");
    let left = vault.history().entries(None, 100).unwrap();
    assert!((2..=6).contains(&left.len()), "{} left", left.len());
    assert_eq!(left[0].snapshot, vault.head().unwrap());
}

#[test]
fn statistics_tell_what_is_unique_and_what_is_shared() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path()).unwrap();
    let main = store.create_vault(&name("main")).unwrap();
    write(&main, "/shared", noise(1, 500_000));
    let fork = main.fork(&[name("fork")]).unwrap().remove(0);
    write(&fork, "/own", noise(2, 200_000));
    let stats = store.maintenance().stats().unwrap();
    let fork = stats
        .vaults
        .iter()
        .find(|vault| vault.name == name("fork"))
        .unwrap();
    assert_eq!(fork.logical_bytes, 700_000);
    assert!((200_000..210_000).contains(&fork.unique_bytes), "{fork:?}");
    assert!((500_000..510_000).contains(&fork.shared_bytes), "{fork:?}");
    assert_eq!(stats.garbage_bytes, 0);
}

#[test]
fn a_flipped_bit_is_found_and_the_file_is_named() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path()).unwrap();
    let main = store.create_vault(&name("main")).unwrap();
    let open = main.begin().unwrap();
    open.make_directory(&path("/d"), false).unwrap();
    open.commit("mkdir", "/d").unwrap();
    write(&main, "/d/victim", noise(9, 5_000));
    write(&main, "/d/other", b"fine");
    main.save_checkpoint(&CheckpointName::new("saved").unwrap(), None)
        .unwrap();
    drop((main, store));

    let pack = std::fs::read_dir(home.path().join("packs"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let mut bytes = std::fs::read(&pack).unwrap();
    let wanted = &noise(9, 5_000)[..64];
    let position = bytes.windows(64).position(|window| window == wanted).unwrap();
    bytes[position + 10] ^= 1;
    std::fs::write(&pack, bytes).unwrap();

    let store = Store::open(home.path()).unwrap();
    let main = store.vault("main").unwrap();
    assert_eq!(
        main.begin().unwrap().read(&path("/d/victim")).unwrap_err().code(),
        "corrupt"
    );
    assert_eq!(
        &main.begin().unwrap().read(&path("/d/other")).unwrap()[..],
        b"fine"
    );
    let report = store.integrity().check(&mut |_, _| {}).unwrap();
    assert_eq!(report.affected.len(), 1, "{report:?}");
    assert_eq!(report.affected[0].path, path("/d/victim"));
    assert!(report.affected[0].states.contains(&"@".to_owned()), "{report:?}");
}

#[test]
fn a_vault_file_carries_everything_to_another_store() {
    let (home, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = Store::open(home.path()).unwrap();
    let main = store.create_vault(&name("main")).unwrap();
    write(&main, "/a", b"one");
    main.save_checkpoint(&CheckpointName::new("start").unwrap(), Some("first"))
        .unwrap();
    write(&main, "/a", noise(3, 2_000_000));
    let mut file = Vec::new();
    main.export_bundle(&mut file, "file", &mut |_| {}).unwrap();

    let target = Store::open(other.path()).unwrap();
    let (copy, _) = target
        .import_bundle(&mut &file[..], "file", None, &mut |_| {})
        .unwrap();
    assert_eq!(copy.head().unwrap(), main.head().unwrap());
    assert_eq!(
        copy.history().entries(None, 10).unwrap(),
        main.history().entries(None, 10).unwrap()
    );
    assert_eq!(copy.checkpoints().unwrap(), main.checkpoints().unwrap());
    assert_eq!(copy.audit(0, 100).unwrap(), main.audit(0, 100).unwrap());
    assert!(target.integrity().check(&mut |_, _| {}).unwrap().is_sound());
    let again = target.import_bundle(&mut &file[..], "file", None, &mut |_| {});
    assert_eq!(again.err().unwrap().code(), "vault-exists");
    let renamed = target
        .import_bundle(&mut &file[..], "file", Some(&name("second")), &mut |_| {})
        .unwrap()
        .0;
    assert_eq!(renamed.name().unwrap(), name("second"));
}

#[test]
fn a_cut_or_changed_vault_file_is_refused_and_changes_nothing() {
    let store = Store::in_memory();
    let main = store.create_vault(&name("main")).unwrap();
    write(&main, "/a", noise(1, 3_000));
    let mut file = Vec::new();
    main.export_bundle(&mut file, "file", &mut |_| {}).unwrap();
    let target = Store::in_memory();
    for position in (0..file.len()).step_by(37).chain([file.len() - 1]) {
        let mut flipped = file.clone();
        flipped[position] ^= 0x10;
        let refused = target.import_bundle(&mut &flipped[..], "file", None, &mut |_| {});
        assert_eq!(
            refused.err().unwrap().code(),
            "bad-vault-file",
            "flipped at {position}"
        );
        let refused = target.import_bundle(&mut &file[..position], "file", None, &mut |_| {});
        assert_eq!(
            refused.err().unwrap().code(),
            "bad-vault-file",
            "cut at {position}"
        );
    }
    assert_eq!(target.vaults().unwrap().vaults, []);
    target
        .import_bundle(&mut &file[..], "file", None, &mut |_| {})
        .unwrap();
}

#[test]
fn automatic_snapshots_keep_to_their_share_of_the_disk() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path()).unwrap();
    let vault = store.create_vault(&name("main")).unwrap();
    write(&vault, "/big", noise(1, 3_000_000));
    for number in 0..5 {
        write(&vault, &format!("/f{number}"), b"x");
    }
    let open = vault.begin().unwrap();
    open.remove(&path("/big"), false).unwrap();
    open.save("rm", "/big").unwrap();
    drop(open);
    write(&vault, "/small", b"x");
    let whole = RetentionPolicy {
        disk_share: 1.0,
        ..RetentionPolicy::default()
    };
    let disk = store.prune(&whole, true).unwrap().allowed_bytes;
    let policy = RetentionPolicy {
        disk_share: 1_000_000.0 / disk as f64,
        ..whole
    };
    let pruned = store.prune(&policy, false).unwrap();
    assert!(pruned.held_bytes <= pruned.allowed_bytes);
    let history = vault.history().entries(None, 100).unwrap();
    let holds = |snapshot| vault.reader_at(snapshot).unwrap().find(&path("/big")).is_ok();
    assert_eq!(history.len(), 2, "the present state and one without the big file");
    assert!(!history.iter().any(|entry| holds(entry.snapshot)));
}

#[test]
fn a_vault_that_cannot_be_read_does_not_hide_the_others() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path()).unwrap();
    for vault in ["good", "bad"] {
        write(
            &store.create_vault(&name(vault)).unwrap(),
            "/file",
            vault.as_bytes(),
        );
    }
    let head = store.vault("bad").unwrap().head().unwrap();
    drop(store);
    let pack = std::fs::read_dir(home.path().join("packs"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let mut bytes = std::fs::read(&pack).unwrap();
    let id = head.object();
    let position = bytes
        .windows(32)
        .position(|window| window == id.as_bytes())
        .unwrap();
    bytes[position + 40] ^= 1;
    std::fs::write(&pack, bytes).unwrap();
    let list = Store::open(home.path()).unwrap().vaults().unwrap();
    assert_eq!(
        list.vaults
            .iter()
            .map(|info| info.name.as_str())
            .collect::<Vec<_>>(),
        ["good"]
    );
    assert_eq!(list.unreadable[0].0, name("bad"));
    assert_eq!(list.unreadable[0].1.code(), "corrupt");
}

#[test]
fn an_appended_stream_is_stored_as_it_comes() {
    let vault = Store::in_memory().create_vault(&name("main")).unwrap();
    write(&vault, "/log", b"start ");
    let open = vault.begin().unwrap();
    let stream = noise(4, 20_000_000);
    let append = agentvfs::WriteMode::Append;
    open.write(&path("/log"), &mut &stream[..], append, None).unwrap();
    open.commit("append", "/log").unwrap();
    let expected = [b"start ", &stream[..]].concat();
    assert!(vault.reader().unwrap().read(&path("/log")).unwrap() == expected);
    let again = Store::in_memory().create_vault(&name("main")).unwrap();
    write(&again, "/log", &expected);
    let content = |vault: &Vault| vault.reader().unwrap().file(&path("/log")).unwrap();
    assert_eq!(
        content(&vault),
        content(&again),
        "equal files have equal contents, however they were written"
    );
}

#[test]
fn a_file_that_was_removed_while_it_was_open_is_kept_until_a_snapshot_behind_its_end() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path()).unwrap();
    let vault = store.create_vault(&name("main")).unwrap();
    let collect = || {
        let nothing = SnapshotRetention {
            all: 0,
            hourly: 0,
            daily: 0,
        };
        let store = Store::open(home.path()).unwrap();
        store
            .prune(
                &RetentionPolicy {
                    times: nothing,
                    disk_share: 0.0,
                },
                false,
            )
            .unwrap();
        store.collect_garbage(&mut |_| true).unwrap();
        store.maintenance().stats().unwrap().object_bytes
    };
    let bytes = noise(1, 100_000);
    write(&vault, "/open", &bytes);
    let open = vault.open().unwrap();
    let ino = open.stat(&path("/open")).unwrap().ino;
    open.tree().hold(ino).unwrap();
    open.remove(&path("/open"), false).unwrap();
    open.save("remove", "/open").unwrap();
    assert!(collect() > 100_000);
    assert_eq!(&open.tree().read_all(ino).unwrap()[..], &bytes[..]);
    open.tree().release(ino, 1).unwrap();
    open.write_bytes(&path("/other"), b"").unwrap();
    open.save("write", "/other").unwrap();
    assert!(collect() < 10_000, "it is no longer needed");
}
