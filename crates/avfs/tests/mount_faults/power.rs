//! The power fails while programs write in a mount. Needs loop devices.

use std::time::Duration;

use avfs_testkit::{Dice, PowerCut};

use crate::ground::{Ground, Mount};
use crate::writers::{Kind, Writer, load};

const DISK: u64 = 512 << 20;
/// How many acknowledgements to wait for after a cut.
const LATE: usize = 20;

/// The number of power cuts. A soak run sets a higher number.
fn cuts() -> usize {
    let rounds = std::env::var("AVFS_KILL_ROUNDS")
        .ok()
        .and_then(|rounds| rounds.parse().ok());
    rounds.map_or(12, |rounds: usize| rounds / 10)
}

#[test]
fn whatever_was_synced_survives_power_cuts() {
    let seed = Dice::fresh_seed();
    println!("AVFS_FUZZ_SEED={seed}");
    let mut dice = Dice::new(seed);
    let disk = PowerCut::new(DISK);
    let ground = Ground::with_home(&disk.path().join("store"));
    ground.avfs(&["vault", "create", "work", "--use"]);
    let (mount, mut writers) = start(&ground, &mut dice);
    for cut in 0..cuts() {
        let waited_for = &writers[dice.below(writers.len())];
        waited_for.await_total(waited_for.so_far().len() + 1 + dice.below(4 * cut + 1));
        if dice.below(3) == 0 {
            ground.avfs(&["checkpoint", "save", &format!("c{cut}")]);
        }
        // Somewhere in the next step: this pause is the only way to hit it.
        std::thread::sleep(Duration::from_micros(dice.roll() % 20_000));
        cut_and_check(&disk, &writers, cut);
    }
    writers.drain(..).for_each(|writer| drop(writer.kill()));
    ground.unmount(mount);
    ground.assert_sound();
}

fn start(ground: &Ground, dice: &mut Dice) -> (Mount, Vec<Writer>) {
    let mount = ground.mount("work", "place");
    let files = Writer::start(&mount.dir, "files", Kind::Files(load(2, dice.roll())));
    let database = Writer::start(&mount.dir, "database", Kind::Sqlite);
    (mount, vec![files, database])
}

/// Opens the vault as the power cut left it and compares it with the knowledge of its writers.
fn cut_and_check(disk: &PowerCut, writers: &[Writer], cut: usize) {
    let before: Vec<Vec<String>> = writers.iter().map(Writer::so_far).collect();
    let mut image = disk.cut();
    let ground = Ground::with_home(&image.mount().join("store"));
    let mount = ground.mount("work", "after");
    // Acknowledgements before the cut may be received late. Receiving more only allows more.
    writers
        .iter()
        .for_each(|writer| writer.await_total(writer.so_far().len() + LATE));
    let after: Vec<Vec<String>> = writers.iter().map(Writer::so_far).collect();
    for (number, writer) in writers.iter().enumerate() {
        let flaws = writer.flaws_between(&mount.dir, &before[number], &after[number]);
        assert!(flaws.is_empty(), "cut {cut}: {flaws:#?}");
    }
    ground.unmount(mount);
    ground.assert_sound();
}
