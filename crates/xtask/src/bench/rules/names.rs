//! The cost of operations on names in a tree in memory, with rules and without: no kernel, no disk, one
//! thread.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use avfs_core::rules::{Rule, Rules};
use avfs_core::{Entry, EntryName, Meta, Root, Totals};
use avfs_store::MemoryStore;
use avfs_tree::{BaseTree, EntryPlace, Ino, NewEntry, Objects, SystemClock, WorkTree};

use super::super::measure::micros;

const FILES: usize = 10_000;
const DIRECTORIES: usize = 100;
const ROUNDS: usize = 9;

/// The steps of one round, in their order.
const STEPS: [&str; 6] = ["create", "list", "look up", "attributes", "rename", "remove"];

type Step = [Duration; STEPS.len()];

/// Prints nanoseconds for each operation, as the median of rounds that take turns.
pub fn report(list: &[Rule]) -> Result<()> {
    let mut taken: [Vec<Step>; 2] = Default::default();
    for _ in 0..ROUNDS {
        taken[0].push(round(None)?);
        taken[1].push(round(Some(Rules::new(list.to_vec())?))?);
    }
    println!(
        "{:<22}{:>12}{:>12}{:>8}",
        "a name in memory, ns",
        "no rules",
        list.len(),
        "ratio"
    );
    for (index, step) in STEPS.iter().enumerate() {
        let [without, with] = [0, 1].map(|which| {
            let mut times: Vec<Duration> = taken[which].iter().map(|round| round[index]).collect();
            times.sort_unstable();
            micros(times[ROUNDS / 2]) * 1e3 / FILES as f64
        });
        println!("{step:<22}{without:>12.0}{with:>12.0}{:>8.2}", with / without);
    }
    Ok(())
}

fn round(rules: Option<Rules>) -> Result<Step> {
    let root = Entry::empty_directory(Meta {
        mode: 0o755,
        ..Meta::default()
    });
    let base = BaseTree {
        root: Root {
            directory: root,
            links: None,
            totals: Totals::default(),
        },
        inodes: None,
    };
    let tree = WorkTree::in_memory(
        Objects::new(Arc::new(MemoryStore::new())),
        base,
        Arc::new(SystemClock),
    )?;
    let door = tree.holding_door();
    if let Some(rules) = rules {
        door.set_rules(rules);
    }
    let mut directories = Vec::new();
    for number in 0..DIRECTORIES {
        let name = EntryName::new(format!("directory-{number}").as_bytes())?;
        directories.push(door.create(Ino::ROOT, &name, NewEntry::directory(0o755))?.ino);
    }
    steps(&door, &directories)
}

fn steps(door: &WorkTree, directories: &[Ino]) -> Result<Step> {
    let places = |word: &str| -> Result<Vec<EntryPlace>> {
        let name = |number: usize| EntryName::new(format!("{word}-{number}.rs").as_bytes());
        (0..FILES)
            .map(|number| Ok(EntryPlace::new(directories[number % DIRECTORIES], name(number)?)))
            .collect()
    };
    let (old, new) = (places("old")?, places("new")?);
    let mut files = Vec::new();
    Ok([
        timed(|| {
            for at in &old {
                files.push(door.create(at.parent, &at.name, NewEntry::file(0o644))?.ino);
            }
            Ok(())
        })?,
        timed(|| {
            directories
                .iter()
                .try_for_each(|ino| Ok(door.read_directory(*ino, None, FILES).map(drop)?))
        })?,
        timed(|| {
            old.iter()
                .try_for_each(|at| Ok(door.lookup(at.parent, &at.name).map(drop)?))
        })?,
        timed(|| files.iter().try_for_each(|ino| Ok(door.attr(*ino).map(drop)?)))?,
        timed(|| {
            let pairs = old.iter().zip(&new);
            pairs
                .into_iter()
                .try_for_each(|(from, to)| Ok(door.rename(from.clone(), to.clone())?))
        })?,
        timed(|| {
            new.iter()
                .try_for_each(|at| Ok(door.unlink(at.parent, &at.name)?))
        })?,
    ])
}

fn timed(act: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let start = Instant::now();
    act()?;
    Ok(start.elapsed())
}
