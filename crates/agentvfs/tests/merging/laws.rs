//! Laws of every merge, on random trees and changes.

use agentvfs::{MergeOptions, OpenVault, Store, Totals, TreePath, Vault};
use avfs_testkit::Dice;

use crate::support::{change, name, path};
use crate::{kinds, merge};

const ROUNDS: usize = 150;

/// A vault and forks of it, each with changes of its own.
fn forks(store: &Store, dice: &mut Dice, round: usize, count: usize) -> Vec<Vault> {
    let main = store.create_vault(&name(&format!("main-{round}"))).unwrap();
    change(&main, |open| (0..25).for_each(|_| act(open, dice)));
    let names: Vec<_> = (0..count)
        .map(|fork| name(&format!("fork-{round}-{fork}")))
        .collect();
    main.fork(&names).unwrap()
}

fn place(dice: &mut Dice) -> TreePath {
    let directory = ["", "/a", "/b", "/a/c"][dice.below(4)];
    path(&format!(
        "{directory}/{}",
        ["f", "g", "h", "i", "j"][dice.below(5)]
    ))
}

fn text(dice: &mut Dice) -> Vec<u8> {
    (0..dice.below(12))
        .map(|line| format!("{line} {}\n", dice.below(3)))
        .collect::<String>()
        .into_bytes()
}

/// Does something, if it can be done.
fn act(open: &OpenVault, dice: &mut Dice) {
    let (at, other) = (place(dice), place(dice));
    let _ = at
        .split_last()
        .map(|(parent, _)| open.make_directory(&parent, true));
    let _ = match dice.below(10) {
        0 => open.remove(&at, true),
        1 => open.rename_no_replace(&at, &other).map(drop),
        2 => open.set_mode(&at, 0o600 + dice.below(8) as u32),
        3 => open.symlink(&text(dice), &at),
        4 => open.hard_link(&at, &other),
        5 => open.make_directory(&at, false),
        _ => open.write_bytes(&at, &text(dice)),
    };
}

/// Some changes to one fork; with `own`, to paths that no other fork touches.
fn work(vault: &Vault, dice: &mut Dice, own: Option<&str>) {
    change(vault, |open| match own {
        None => (0..1 + dice.below(6)).for_each(|_| act(open, dice)),
        Some(own) => {
            for number in 0..3 {
                let at = path(&format!("/own-{own}-{number}"));
                open.write_bytes(&at, &text(dice)).unwrap();
            }
        }
    });
}

fn tree(vault: &Vault) -> (agentvfs::Entry, Totals) {
    let reader = vault.reader().unwrap();
    (reader.root().directory.clone(), reader.root().totals)
}

/// By path. How the names of one file are numbered depends on which came first.
fn differences(one: &Vault, other: &Vault) -> Vec<agentvfs::TreeChange> {
    one.revision("@")
        .unwrap()
        .diff(&other.revision("@").unwrap())
        .unwrap()
}

fn each_round(mut check: impl FnMut(&Store, &mut Dice, usize)) {
    let seed = Dice::fresh_seed();
    println!("AVFS_FUZZ_SEED={seed}");
    let (store, mut dice) = (Store::in_memory(), Dice::new(seed));
    (0..ROUNDS).for_each(|round| check(&store, &mut dice, round));
}

#[test]
fn with_an_unchanged_side_a_merge_gives_the_other_one() {
    each_round(|store, dice, round| {
        let forks = forks(store, dice, round, 2);
        work(&forks[0], dice, None);
        let changed = tree(&forks[0]);
        merge(&forks[1], &forks[0]);
        assert_eq!(tree(&forks[1]), changed, "into the unchanged one");
        merge(&forks[0], &forks[1]);
        assert_eq!(tree(&forks[0]), changed, "into the changed one");
    });
}

#[test]
fn swapping_the_sides_swaps_ours_and_theirs() {
    each_round(|store, dice, round| {
        let forks = forks(store, dice, round, 2);
        forks.iter().for_each(|fork| work(fork, dice, None));
        let dry = MergeOptions {
            dry_run: true,
            ..MergeOptions::default()
        };
        let one = forks[0].merge(&[&forks[1]], &dry).unwrap();
        let other = forks[1].merge(&[&forks[0]], &dry).unwrap();
        assert_eq!(
            one.conflicts.len(),
            other.conflicts.len(),
            "{:?} {:?}",
            kinds(&one),
            kinds(&other)
        );
        for (one, other) in one.conflicts.iter().zip(&other.conflicts) {
            let (one, other) = (&one.conflict, &other.conflict);
            if one.their_path.is_some() {
                continue;
            }
            assert_eq!((&one.path, &one.base), (&other.path, &other.base));
            assert_eq!((&one.ours, &one.theirs), (&other.theirs, &other.ours));
        }
        if one.conflicts.is_empty() {
            let copies = forks[0].fork(&[name(&format!("copy-{round}"))]).unwrap();
            merge(&copies[0], &forks[1]);
            merge(&forks[1], &forks[0]);
            assert_eq!(differences(&copies[0], &forks[1]), []);
        }
    });
}

#[test]
fn changes_without_conflicts_commute_in_any_order_and_grouping() {
    each_round(|store, dice, round| {
        let forks = forks(store, dice, round, 3);
        for (fork, own) in forks.iter().zip(["x", "y", "z"]) {
            work(fork, dice, Some(own));
        }
        let copy = |number: usize| {
            let main = store.vault(&format!("main-{round}")).unwrap();
            main.fork(&[name(&format!("into-{round}-{number}"))])
                .unwrap()
                .remove(0)
        };
        let [a, b, c] = [&forks[0], &forks[1], &forks[2]];
        let (at_once, turned, one_by_one, grouped) = (copy(0), copy(1), copy(2), copy(3));
        at_once.merge(&[a, b, c], &MergeOptions::default()).unwrap();
        turned.merge(&[c, a, b], &MergeOptions::default()).unwrap();
        [b, c, a].iter().for_each(|fork| drop(merge(&one_by_one, fork)));
        merge(&grouped, c);
        merge(b, a);
        merge(&grouped, b);
        let expected = tree(&at_once);
        for other in [&turned, &one_by_one, &grouped] {
            assert_eq!(tree(other), expected);
        }
    });
}

#[test]
fn a_merge_leaves_a_sound_store_and_is_undone_to_the_same_tree() {
    each_round(|store, dice, round| {
        let forks = forks(store, dice, round, 2);
        forks.iter().for_each(|fork| work(fork, dice, None));
        let before = tree(&forks[0]);
        let merged = merge(&forks[0], &forks[1]);
        if merged.saved.is_some() {
            forks[0].undo().unwrap();
        }
        assert_eq!(tree(&forks[0]), before);
    });
}
