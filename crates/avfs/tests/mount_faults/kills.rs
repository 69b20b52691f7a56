//! The server of a mount is killed at any moment, and nothing that was synced is lost.

use std::process::Stdio;
use std::time::Duration;

use avfs_testkit::Dice;

use crate::ground::{Ground, Mount, is_mounted};
use crate::writers::{Kind, Traces, Writer, load};

const WRITERS: u64 = 3;

/// How often the server is killed. A soak run sets `AVFS_KILL_ROUNDS`.
fn rounds() -> u64 {
    let chosen = std::env::var("AVFS_KILL_ROUNDS")
        .ok()
        .and_then(|rounds| rounds.parse().ok());
    chosen.unwrap_or(30)
}

/// The traces and acknowledgements of a writer, to be checked in all later rounds.
type Left = (Traces, Vec<String>);

#[test]
fn whatever_was_synced_survives_the_death_of_the_server() {
    let seed = Dice::fresh_seed();
    println!("AVFS_FUZZ_SEED={seed}");
    let mut dice = Dice::new(seed);
    let ground = Ground::with_vault("work");
    let mut left: Vec<Left> = Vec::new();
    for round in 0..rounds() {
        let mount = ground.mount("work", "place");
        left.extend(die_under_load(&ground, mount, round, &mut dice));
        let again = ground.mount("work", "place");
        check(
            &again,
            &left[left.len() - WRITERS as usize..],
            &format!("after round {round}"),
        );
        if round % 10 == 9 {
            // Once more, after other deaths; a longer list would make a soak slower and slower.
            check(&again, &left, &format!("after round {round}, all"));
            left.clear();
        }
        ground.unmount(again);
        if round % 10 == 9 {
            ground.assert_sound();
        }
    }
}

/// Kills the server of a mount in which several programs write; returns their traces.
fn die_under_load(ground: &Ground, mount: Mount, round: u64, dice: &mut Dice) -> Vec<Left> {
    let writers: Vec<Writer> = (0..WRITERS)
        .map(|number| {
            let kind = if number == 0 {
                Kind::Sqlite
            } else {
                Kind::Files(load(2, dice.roll()))
            };
            Writer::start(&mount.dir, &format!("{round}-{number}"), kind)
        })
        .collect();
    writers[dice.below(writers.len())].await_total(1 + dice.below(40));
    let checkpoint = (dice.below(3) == 0).then(|| Saving::start(ground, format!("c{round}")));
    // Somewhere in the next step: this pause is the only way to hit it.
    std::thread::sleep(Duration::from_micros(dice.roll() % 30_000));
    mount.kill_server();
    let left = writers.into_iter().map(Writer::await_end).collect();
    if let Some(saving) = checkpoint {
        saving.check(ground);
    }
    // Any command that reads the vault removes the dead mount.
    ground.avfs(&["ls", "/"]);
    assert!(
        !is_mounted(&mount.dir),
        "round {round}: the dead mount is still there"
    );
    left
}

#[track_caller]
fn check(mount: &Mount, left: &[Left], when: &str) {
    let flaws: Vec<String> = left
        .iter()
        .flat_map(|(traces, said)| traces.flaws(&mount.dir, said))
        .collect();
    assert!(flaws.is_empty(), "{when}: {flaws:#?}");
}

/// A checkpoint that is being saved while the server dies: it is there if it was reported.
struct Saving {
    name: String,
    child: std::process::Child,
}

impl Saving {
    fn start(ground: &Ground, name: String) -> Saving {
        let mut save = ground.command(&["checkpoint", "save", &name]);
        save.stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Saving {
            child: save.spawn().unwrap(),
            name,
        }
    }

    fn check(mut self, ground: &Ground) {
        if self.child.wait().unwrap().success() {
            ground.avfs(&["checkpoint", "show", &self.name]);
        }
    }
}
