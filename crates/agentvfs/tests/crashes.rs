//! Processes that are killed, concurrent processes, and full disks. A child is this test binary, started
//! again.

#![allow(clippy::unwrap_used, reason = "this is test code")]

mod support;

use std::path::Path;
use std::time::Duration;

use agentvfs::{CheckpointName, ConflictPolicy, MergeOptions, Store, StoreOptions, Vault};
use avfs_testkit::{Dice, SmallDisk, TestChild, acknowledge, child_task, noise};
use support::{name, path};

fn open(home: &Path) -> Store {
    let options = StoreOptions {
        patience: Duration::from_secs(60),
        ..StoreOptions::default()
    };
    Store::open_with(home, options).unwrap()
}

/// Not a test itself: the code that children run.
#[test]
fn the_child() {
    let Some((home, script)) = child_task() else {
        return;
    };
    let words: Vec<&str> = script.split(' ').collect();
    let store = open(&home);
    match words[..] {
        ["change", seed] => change_for_ever(&store, seed.parse().unwrap()),
        ["journal", seed] => journal_for_ever(&store, seed.parse().unwrap()),
        ["count", times] => count(&store, times.parse().unwrap()),
        _ => panic!("unknown script {script}"),
    }
}

fn start(home: &Path, script: &str) -> TestChild {
    TestChild::start("the_child", home, script)
}

/// Changes the vault `main` in every way, and acknowledges each change once it is durable: the number that
/// `/state` holds from then on.
fn change_for_ever(store: &Store, seed: u64) {
    let vault = store.vault("main").unwrap();
    let mut dice = Dice::new(seed);
    let mut state: u64 = read_state(&vault);
    // In the home, so that it is removed with it: a child that is killed cannot clean up.
    let source = store.home().unwrap().join(format!("source-{seed}"));
    std::fs::create_dir(&source).unwrap();
    for index in 0..30 {
        std::fs::write(source.join(format!("f{index}")), noise(index, 2_000)).unwrap();
    }
    loop {
        state += 1;
        match dice.below(8) {
            0 => import(&vault, &source, state),
            1 => {
                write_state(&vault, state);
                vault
                    .save_checkpoint(&CheckpointName::new(&format!("c{seed}-{state}")).unwrap(), None)
                    .unwrap();
            }
            2 => {
                // An undo and a redo leave the number unchanged.
                write_state(&vault, state);
                vault.restore(&vault.revision("@~1").unwrap(), "back").unwrap();
                vault.undo().unwrap();
            }
            3 => {
                write_state(&vault, state);
                store.collect_garbage(&mut |_| true).unwrap();
            }
            4 => {
                write_state(&vault, state);
                let fork = vault
                    .fork(&[name(&format!("f{seed}-{state}"))])
                    .unwrap()
                    .remove(0);
                fork.delete(false).unwrap();
            }
            5 => {
                let fork = vault
                    .fork(&[name(&format!("m{seed}-{state}"))])
                    .unwrap()
                    .remove(0);
                write_state(&fork, state);
                let options = MergeOptions {
                    conflicts: ConflictPolicy::Theirs,
                    ..MergeOptions::default()
                };
                vault.merge(&[&fork], &options).unwrap();
                fork.delete(true).unwrap();
            }
            _ => write_state(&vault, state),
        }
        acknowledge(state);
    }
}

fn read_state(vault: &Vault) -> u64 {
    let bytes = vault.reader().unwrap().read(&path("/state")).unwrap();
    String::from_utf8(bytes[..20].to_vec())
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

/// The number, and noise that depends on it: a file of mixed contents would show.
fn state_bytes(state: u64) -> Vec<u8> {
    [format!("{state:<20}").into_bytes(), noise(state, 50_000)].concat()
}

fn write_state(vault: &Vault, state: u64) {
    let open = vault.begin().unwrap();
    open.write_bytes(&path("/state"), &state_bytes(state)).unwrap();
    open.commit("write", "/state").unwrap();
}

fn import(vault: &Vault, source: &Path, state: u64) {
    let open = vault.begin().unwrap();
    if open.exists(&path("/imported")).unwrap() {
        open.remove(&path("/imported"), true).unwrap();
    }
    open.imports().directory(source, &path("/imported"), &()).unwrap();
    open.write_bytes(&path("/state"), &state_bytes(state)).unwrap();
    open.commit("import", "/imported").unwrap();
}

/// Writes with a journal: synced states are acknowledged, and only sometimes become a snapshot.
fn journal_for_ever(store: &Store, seed: u64) {
    let vault = store.vault("main").unwrap();
    let mut dice = Dice::new(seed);
    let open = vault.open().unwrap();
    let mut state = {
        let bytes = open.read(&path("/state")).unwrap();
        String::from_utf8(bytes[..20].to_vec())
            .unwrap()
            .trim()
            .parse::<u64>()
            .unwrap()
    };
    loop {
        state += 1;
        open.write_bytes(&path("/new"), &state_bytes(state)).unwrap();
        open.rename(&path("/new"), &path("/state")).unwrap();
        open.sync().unwrap();
        acknowledge(state);
        if dice.below(4) == 0 {
            open.save("write", "/state").unwrap();
        }
    }
}

fn kill_rounds(script: &str, rounds: u64) {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let vault = store.create_vault(&name("main")).unwrap();
    write_state(&vault, 0);
    drop((vault, store));
    let seed = Dice::new(rounds).roll();
    let mut dice = Dice::new(seed);
    let mut total = 0;
    for round in 0..rounds {
        let mut child = start(home.path(), &format!("{script} {}", seed ^ round));
        let wanted = 1 + dice.below(6);
        let pause = Duration::from_micros(dice.roll() % 6_000);
        let mut last = 0;
        while let Some(state) = child.acknowledged() {
            last = state.parse().unwrap();
            total += 1;
            if total % wanted == 0 {
                // Somewhere in the next step: this pause is the only way to hit it.
                std::thread::sleep(pause);
                break;
            }
        }
        if let Some(state) = child.kill().last_words.last() {
            last = state.parse().unwrap();
        }
        let store = open(home.path());
        let vault = store.vault("main").unwrap();
        let found = read_state(&vault);
        assert!(
            found >= last,
            "round {round}: {last} was acknowledged and {found} is there"
        );
        assert_eq!(
            vault.reader().unwrap().read(&path("/state")).unwrap(),
            state_bytes(found),
            "mixed contents"
        );
        if round % 10 == 9 || round + 1 == rounds {
            let report = store.integrity().check(&mut |_, _| {}).unwrap();
            assert!(report.is_sound(), "round {round}: {report:?}");
        }
    }
}

fn rounds(usual: u64) -> u64 {
    std::env::var("AVFS_KILL_ROUNDS")
        .ok()
        .and_then(|rounds| rounds.parse().ok())
        .unwrap_or(usual)
}

#[test]
fn whatever_was_acknowledged_survives_kills_during_every_kind_of_change() {
    kill_rounds("change", rounds(120));
}

#[test]
fn whatever_was_synced_survives_kills_without_a_snapshot() {
    kill_rounds("journal", rounds(120));
}

/// Adds to a counter in the shared vault, and to a file of its own in a fork of its own.
fn count(store: &Store, times: u64) {
    let shared = store.vault("main").unwrap();
    let own = shared
        .fork(&[name(&format!("own-{}", std::process::id()))])
        .unwrap()
        .remove(0);
    for round in 0..times {
        let open = shared.begin().unwrap();
        let bytes = open.read(&path("/counter")).unwrap();
        let value: u64 = std::str::from_utf8(&bytes).unwrap().parse().unwrap();
        open.write_bytes(&path("/counter"), (value + 1).to_string().as_bytes())
            .unwrap();
        open.commit("count", "").unwrap();
        let open = own.begin().unwrap();
        open.write_bytes(&path(&format!("/f{round}")), &noise(round, 3_000))
            .unwrap();
        open.commit("write", "own").unwrap();
        if round % 8 == 3 {
            store.collect_garbage(&mut |_| true).unwrap();
        }
    }
}

#[test]
fn eight_processes_work_on_one_store_and_nothing_is_lost() {
    const PROCESSES: u64 = 8;
    const TIMES: u64 = 15;
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let vault = store.create_vault(&name("main")).unwrap();
    let open_vault = vault.begin().unwrap();
    open_vault.write_bytes(&path("/counter"), b"0").unwrap();
    open_vault.commit("write", "/counter").unwrap();
    let children: Vec<_> = (0..PROCESSES)
        .map(|_| start(home.path(), &format!("count {TIMES}")))
        .collect();
    children.into_iter().for_each(TestChild::finish);
    let counter = vault.reader().unwrap().read(&path("/counter")).unwrap();
    assert_eq!(
        std::str::from_utf8(&counter).unwrap(),
        (PROCESSES * TIMES).to_string()
    );
    let vaults = store.vaults().unwrap().vaults;
    assert_eq!(vaults.len() as u64, PROCESSES + 1);
    for info in vaults
        .iter()
        .filter(|info| info.name.as_str().starts_with("own-"))
    {
        let reader = store.vault(info.name.as_str()).unwrap().reader().unwrap();
        for round in 0..TIMES {
            assert_eq!(
                reader.read(&path(&format!("/f{round}"))).unwrap(),
                noise(round, 3_000)
            );
        }
        store
            .vault(info.name.as_str())
            .unwrap()
            .verify_audit(None)
            .unwrap();
    }
    assert!(store.integrity().check(&mut |_, _| {}).unwrap().is_sound());
}

#[test]
fn a_full_disk_is_a_clear_error_and_all_is_well_once_there_is_room() {
    SmallDisk::with(
        "a_full_disk_is_a_clear_error_and_all_is_well_once_there_is_room",
        12 << 20,
        fill_a_disk,
    );
}

fn fill_a_disk(disk: &Path) {
    let home = disk.join("store");
    let ballast = disk.join("ballast");
    std::fs::write(&ballast, vec![1; 6 << 20]).unwrap();
    let store = open(&home);
    let vault = store.create_vault(&name("main")).unwrap();
    let mut kept = 0;
    let error = loop {
        let open = vault.begin().unwrap();
        let written = open.write_bytes(&path(&format!("/f{kept}")), &noise(kept, 200_000));
        match written.and_then(|()| open.commit("write", "noise")) {
            Ok(_) => kept += 1,
            Err(error) => break error,
        }
        assert!(kept < 100, "the disk never gets full");
    };
    assert_eq!(error.code(), "disk-full", "{error:?}");
    assert!(kept > 3);
    let check = |store: &Store| {
        let reader = store.vault("main").unwrap().reader().unwrap();
        for index in 0..kept {
            assert_eq!(
                reader.read(&path(&format!("/f{index}"))).unwrap(),
                noise(index, 200_000)
            );
        }
    };
    check(&store);
    std::fs::remove_file(&ballast).unwrap();
    let open_vault = vault.begin().unwrap();
    open_vault
        .write_bytes(&path("/after"), &noise(1, 200_000))
        .unwrap();
    open_vault.commit("write", "/after").unwrap();
    check(&store);
    drop((vault, store));
    let store = open(&home);
    check(&store);
    assert!(store.integrity().check(&mut |_, _| {}).unwrap().is_sound());
}
