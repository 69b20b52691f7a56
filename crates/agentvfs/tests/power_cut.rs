//! Data that the library reports as durable is on the disk after a power cut. Needs root and loop devices.

#![allow(clippy::unwrap_used, reason = "this is test code")]

mod support;

use std::path::Path;
use std::time::Duration;

use agentvfs::{CheckpointName, OpenVault, Store, Vault};
use avfs_testkit::{Dice, PowerCut, TestChild, acknowledge, child_task, noise};
use support::{name, path};

const DISK: u64 = 512 << 20;
/// Stores, each written by a child of its own.
const STORES: u64 = 4;
const CUTS_OF_A_STORE: usize = 6;

/// Not a test itself: the code that children run.
#[test]
fn the_child() {
    let Some((home, seed)) = child_task() else { return };
    let store = Store::open(&home).unwrap();
    let vault = store.create_vault(&name("main")).unwrap();
    acknowledge("created main");
    change_for_ever(&vault, Dice::new(seed.parse().unwrap()));
}

/// Changes the vault, and acknowledges everything that was reported as durable.
fn change_for_ever(vault: &Vault, mut dice: Dice) {
    let mut open = vault.open().unwrap();
    for state in 1.. {
        write_state(&mut open, state);
        if dice.below(4) > 0 {
            open.tree().sync().unwrap();
            acknowledge(format_args!("state {state}"));
        }
        if dice.below(4) == 0 {
            open.save("write", &state.to_string()).unwrap();
            acknowledge(format_args!("state {state}"));
            name_state(vault, state, dice.below(3));
        }
    }
}

/// One file is replaced and one is appended to.
fn write_state(open: &mut OpenVault, state: u64) {
    open.write_bytes(&path("/new"), &state_bytes(state)).unwrap();
    open.rename(&path("/new"), &path("/state")).unwrap();
    let log = path("/log");
    match open.stat(&log) {
        Ok(attr) => open.tree().write(attr.ino, attr.size, &log_bytes(state)).unwrap(),
        Err(_) => open.write_bytes(&log, &log_bytes(state)).unwrap(),
    }
}

/// Gives the state a name that outlasts later ones.
fn name_state(vault: &Vault, state: u64, how: usize) {
    match how {
        0 => {
            vault
                .save_checkpoint(&CheckpointName::new(&format!("c{state}")).unwrap(), None)
                .unwrap();
            acknowledge(format_args!("checkpoint {state}"));
        }
        1 => {
            vault.fork(&[name(&format!("f{state}"))]).unwrap();
            acknowledge(format_args!("fork {state}"));
        }
        _ => {}
    }
}

/// The number, and noise that depends on it: a file of mixed contents would show.
fn state_bytes(state: u64) -> Vec<u8> {
    [
        format!("{state:<20}").into_bytes(),
        noise(state, 200 + (state as usize * 7_919) % 20_000),
    ]
    .concat()
}

fn log_bytes(state: u64) -> Vec<u8> {
    format!("{state:<99}\n").into_bytes()
}

#[test]
fn whatever_was_acknowledged_survives_power_cuts() {
    let seed = Dice::fresh_seed();
    println!("AVFS_FUZZ_SEED={seed}");
    let mut dice = Dice::new(seed);
    let disk = PowerCut::new(DISK);
    for round in 0..STORES {
        let home = format!("store-{round}");
        let child =
            TestChild::start("the_child", &disk.path().join(&home), &dice.roll().to_string()).watched();
        for cut in 0..CUTS_OF_A_STORE {
            child.await_total(child.so_far().len() + 1 + dice.below(6 * cut + 1));
            // Somewhere in the next step: this pause is the only way to hit it.
            std::thread::sleep(Duration::from_micros(dice.roll() % 10_000));
            let acknowledged = child.so_far();
            let mut image = disk.cut();
            check(&image.mount().join(&home), &acknowledged);
        }
        child.kill();
    }
}

fn check(home: &Path, acknowledged: &[String]) {
    let store = Store::open(home).unwrap();
    let vault = store.vault("main").unwrap();
    for line in acknowledged {
        match line.split_once(' ').unwrap() {
            ("created", vault) => assert!(store.has_vault(vault).unwrap()),
            // Later ones are in the place of earlier ones.
            ("state", _) => {}
            ("checkpoint", state) => {
                let checkpoint = vault.checkpoint(&format!("c{state}")).unwrap();
                let reader = vault.reader_at(checkpoint.snapshot).unwrap();
                assert_eq!(
                    reader.read(&path("/state")).unwrap(),
                    state_bytes(state.parse().unwrap())
                );
            }
            ("fork", state) => {
                let fork = store.vault(&format!("f{state}")).unwrap();
                let found = fork.begin().unwrap().read(&path("/state")).unwrap();
                assert_eq!(found, state_bytes(state.parse().unwrap()));
            }
            _ => panic!("{line}"),
        }
    }
    let states = acknowledged.iter().filter_map(|line| line.strip_prefix("state "));
    check_state(
        &vault,
        states.map(|state| state.parse().unwrap()).max().unwrap_or(0),
    );
    vault.verify_audit(None).unwrap();
    let report = store.integrity().check(&mut |_, _| {}).unwrap();
    assert!(report.is_sound(), "{report:?}");
}

/// Each file is of one state, of the last that was acknowledged or a later one.
fn check_state(vault: &Vault, acknowledged: u64) {
    let open = vault.begin().unwrap();
    let found = read_if_there(&open, "/state");
    let number = found
        .get(..20)
        .map_or("0", |number| std::str::from_utf8(number).unwrap());
    let state: u64 = number.trim().parse().unwrap();
    assert!(
        state >= acknowledged,
        "{acknowledged} was acknowledged and {state} is there"
    );
    assert!(state == 0 || found == state_bytes(state), "mixed contents");
    let log = read_if_there(&open, "/log");
    let lines = log
        .chunks(100)
        .zip(1..)
        .take_while(|(line, state)| *line == log_bytes(*state))
        .count();
    assert!(
        lines as u64 >= acknowledged,
        "{acknowledged} was acknowledged and {lines} lines are there"
    );
    assert_eq!(lines * 100, log.len(), "a torn log");
}

fn read_if_there(open: &OpenVault, at: &str) -> Vec<u8> {
    if open.exists(&path(at)).unwrap() {
        open.read(&path(at)).unwrap().to_vec()
    } else {
        Vec::new()
    }
}
