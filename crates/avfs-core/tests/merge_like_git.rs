//! Generated texts, merged here and by `git merge-file` with the algorithm that `git merge` uses.
//!
//! Where lines occur once, the results are the same byte for byte, including markers. Where most lines occur
//! many times, several shortest edit scripts exist, and now and then git picks a different one.
#![allow(clippy::disallowed_methods, reason = "git is asked for the same merges")]
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::fs;
use std::path::Path;
use std::process::{Child, Command};

use avfs_core::merge::{LineMerge, MarkerStyle, SideNames, merge_lines};
use avfs_testkit::Dice;

const SHELLS: usize = 4;
/// So many words that no two lines are equal.
const UNIQUE: usize = 1_000_000_000;

struct Case {
    base: Vec<u8>,
    ours: Vec<u8>,
    theirs: Vec<u8>,
}

#[test]
fn texts_are_merged_byte_for_byte_as_git_does() {
    let cases = generated(2000, UNIQUE);
    let results = cases.iter().map(merged).zip(merged_by_git(&cases));
    let mut clean = 0;
    for (case, (here, git)) in cases.iter().zip(results) {
        assert!(
            here == git,
            "{}\ngit:\n{}",
            shown(case, &here),
            git.merged.escape_ascii()
        );
        clean += usize::from(here.is_clean());
    }
    assert!(
        clean > 500 && clean < 1900,
        "{clean} of 2000 are clean, which tests too little of the others"
    );
}

#[test]
fn texts_of_few_different_lines_are_merged_as_git_does_almost_always() {
    let cases = generated(1500, 4);
    let results: Vec<_> = cases.iter().map(merged).zip(merged_by_git(&cases)).collect();
    for (here, git) in &results {
        assert!(
            !here.is_clean() || !git.is_clean() || here.merged == git.merged,
            "{here:?} {git:?}"
        );
    }
    let other_verdict = results
        .iter()
        .filter(|(here, git)| here.is_clean() != git.is_clean())
        .count();
    let other_text = results.iter().filter(|(here, git)| here != git).count();
    assert!(
        other_verdict <= 15 && other_text <= 75,
        "{other_verdict} and {other_text} of 1500 differ"
    );
}

fn shown(case: &Case, here: &LineMerge) -> String {
    let [base, ours, theirs] = [&case.base, &case.ours, &case.theirs].map(|text| text.escape_ascii());
    format!(
        "base:\n{base}\nours:\n{ours}\ntheirs:\n{theirs}\nmerged:\n{}",
        here.merged.escape_ascii()
    )
}

fn merged(case: &Case) -> LineMerge {
    let names = SideNames {
        ours: "o".into(),
        theirs: "t".into(),
        base: "b".into(),
        style: MarkerStyle::Merge,
    };
    merge_lines(&case.base, &case.ours, &case.theirs, &names)
}

/// A few shells call git for all cases.
fn merged_by_git(cases: &[Case]) -> Vec<LineMerge> {
    let directory = tempfile::tempdir().unwrap();
    let place = |number: usize, name: &str| directory.path().join(format!("{number}.{name}"));
    for (number, case) in cases.iter().enumerate() {
        fs::write(place(number, "base"), &case.base).unwrap();
        fs::write(place(number, "ours"), &case.ours).unwrap();
        fs::write(place(number, "theirs"), &case.theirs).unwrap();
    }
    let shells: Vec<Child> = (0..SHELLS)
        .map(|first| shell(directory.path(), first, cases.len()))
        .collect();
    for mut shell in shells {
        assert!(shell.wait().unwrap().success());
    }
    let result = |number| LineMerge {
        merged: fs::read(place(number, "merged")).unwrap(),
        conflicts: fs::read_to_string(place(number, "status"))
            .unwrap()
            .trim()
            .parse()
            .unwrap(),
    };
    (0..cases.len()).map(result).collect()
}

fn shell(directory: &Path, first: usize, count: usize) -> Child {
    let script = format!(
        "n={first}; while [ $n -lt {count} ]; do \
         git merge-file --diff-algorithm=histogram -p -q -L o -L b -L t $n.ours $n.base $n.theirs > $n.merged; \
         echo $? > $n.status; n=$((n + {SHELLS})); done"
    );
    Command::new("sh")
        .arg("-c")
        .arg(script)
        .current_dir(directory)
        .spawn()
        .unwrap()
}

/// The same cases in every run, unless `AVFS_FUZZ_SEED` says otherwise.
fn generated(count: usize, words: usize) -> Vec<Case> {
    let chosen = std::env::var("AVFS_FUZZ_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let mut dice = Dice::new(chosen.unwrap_or(6));
    (0..count).map(|_| case(&mut dice, words)).collect()
}

fn case(dice: &mut Dice, words: usize) -> Case {
    let ending = if dice.below(4) == 0 { "\r\n" } else { "\n" };
    let base: Vec<String> = (0..dice.below(40)).map(|_| line(dice, words)).collect();
    let ours = edited(&base, dice, words);
    let theirs = edited(if dice.below(8) == 0 { &ours } else { &base }, dice, words);
    let [base, ours, theirs] = [base, ours, theirs].map(|lines| text(&lines, ending, dice));
    Case { base, ours, theirs }
}

fn line(dice: &mut Dice, words: usize) -> String {
    match dice.below(10) {
        0..=1 if words == UNIQUE => format!("{{ {}", dice.below(words)),
        0 => String::new(),
        1 => "}".into(),
        _ => format!("line {}", dice.below(words)),
    }
}

fn edited(lines: &[String], dice: &mut Dice, words: usize) -> Vec<String> {
    let mut lines = lines.to_vec();
    for _ in 0..dice.below(4) {
        let start = dice.below(lines.len() + 1);
        let end = (start + dice.below(4)).min(lines.len());
        let new: Vec<String> = (0..dice.below(4)).map(|_| line(dice, words)).collect();
        lines.splice(start..end, new);
    }
    lines
}

fn text(lines: &[String], ending: &str, dice: &mut Dice) -> Vec<u8> {
    let mut text = lines.join(ending);
    if !lines.is_empty() && dice.below(8) != 0 {
        text.push_str(ending);
    }
    text.into_bytes()
}
