//! The cost of rules: of parsing them, of deciding a name, and in a mount compared with one without.

mod names;

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use agentvfs::rules::{Preset, Rule, Rules};
use anyhow::Result;
use avfs_core::{Labels, rules::RuleState};

use super::measure::{median, micros};
use super::mount;

/// The number of rules of the mount that is compared with one without.
const IN_A_MOUNT: usize = 50;
const MANY: usize = 1_000;
const RUNS: usize = 9;
const NAMES: usize = 10_000;

pub fn run(arguments: &[String]) -> Result<ExitCode> {
    println!(
        "{:<22}{:>8}{:>12}{:>14}{:>14}",
        "rules", "number", "to read ms", "a name ns", "a path ns"
    );
    for (label, list) in lists()? {
        report(&label, &list)?;
    }
    println!();
    let in_a_mount: Result<Vec<Rule>, _> = lines(IN_A_MOUNT).iter().map(|line| Rule::parse(line)).collect();
    names::report(&in_a_mount?)?;
    println!();
    mount::with_and_without(&lines(IN_A_MOUNT), arguments)
}

fn lists() -> Result<Vec<(String, Vec<Rule>)>> {
    let mut lists = Vec::new();
    for count in [IN_A_MOUNT, MANY] {
        let rules: Result<Vec<Rule>, _> = lines(count).iter().map(|line| Rule::parse(line)).collect();
        lists.push(("made up".to_owned(), rules?));
    }
    lists.extend(Preset::ALL.map(|preset| (preset.to_string(), preset.rules())));
    Ok(lists)
}

/// Rules of all kinds that match none of the benchmark's files, so that all of the work is allowed.
fn lines(count: usize) -> Vec<String> {
    let line = |index: usize| match index % 5 {
        0 => format!("/projects/p{index}/**=read"),
        1 => format!("**/secret-{index}*=none"),
        2 => format!("/logs/*/day-{index}.log=append"),
        3 => format!("**/.tool-{index}/config.{{json,toml}}=read"),
        _ => format!("/home/*/.cache-{index}/=view"),
    };
    std::iter::once("/**=write".to_owned())
        .chain((1..count).map(line))
        .collect()
}

fn report(label: &str, list: &[Rule]) -> Result<()> {
    let read = median(
        RUNS,
        |_| Ok(list.to_vec()),
        |list| Ok(black_box(Rules::new(list)).map(drop)?),
    )?;
    let rules = Rules::new(list.to_vec())?;
    let number = rules.list().len();
    let (name, path) = (per_name(&rules), per_path(&rules));
    println!(
        "{label:<22}{number:>8}{:>12.2}{:>14.0}{:>14.0}",
        micros(read) / 1e3,
        micros(name) * 1e3,
        micros(path) * 1e3
    );
    Ok(())
}

/// Names in one directory, each seen for the first time.
fn per_name(rules: &Rules) -> Duration {
    let none = Labels::default();
    let directory = walk(rules, &["src", "deep"]);
    let names: Vec<String> = (0..NAMES).map(|index| format!("file-{index}.rs")).collect();
    let start = Instant::now();
    for name in &names {
        black_box(rules.child(&directory, name.as_bytes(), &none).level());
    }
    start.elapsed() / NAMES as u32
}

/// Paths of six names from the root, each seen for the first time.
fn per_path(rules: &Rules) -> Duration {
    let names: Vec<String> = (0..NAMES).map(|index| format!("entry-{index}")).collect();
    let start = Instant::now();
    for name in &names {
        black_box(walk(rules, &["home", "me", "project", "src", name, "mod.rs"]).level());
    }
    start.elapsed() / NAMES as u32
}

fn walk(rules: &Rules, names: &[&str]) -> RuleState {
    let none = Labels::default();
    names.iter().fold(rules.root(&none), |at, name| {
        rules.child(&at, name.as_bytes(), &none)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]
    use super::*;
    use avfs_core::rules::Level;

    #[test]
    fn the_rules_that_are_made_up_can_be_read_and_leave_the_work_alone() {
        for (_, list) in lists().unwrap() {
            assert!(!list.is_empty());
        }
        let rules = Rules::new(
            lines(MANY)
                .iter()
                .map(|line| Rule::parse(line).unwrap())
                .collect(),
        )
        .unwrap();
        assert_eq!(rules.list().len(), MANY);
        assert_eq!(
            walk(&rules, &["round-0", "clone", "src", "file"]).level(),
            Level::Write
        );
        assert_eq!(walk(&rules, &["a", "secret-1", "x"]).level(), Level::Write);
        assert_eq!(walk(&rules, &["a", "secret-1x"]).level(), Level::None);
    }
}
