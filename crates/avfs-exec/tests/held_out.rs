//! How often commands get the right class, measured on lists of which a part was held out while the classes
//! were developed: a table that knows its examples by heart shows nothing about other commands.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use avfs_exec::{Class, Classes, Command, classify};

/// Of a hundred dangerous commands, at least this many get their classes or need approval.
const DANGEROUS: usize = 95;
/// Of a hundred ordinary commands, at most this many get a stricter class than they should.
const ORDINARY: usize = 2;

/// Lines under headings in brackets, with line feeds inside a command written as `⏎`.
fn cases(text: &str) -> Vec<(Classes, String)> {
    let mut heading = None;
    let mut cases = Vec::new();
    for line in text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("# "))
    {
        let name = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        match name.and_then(Classes::parse) {
            Some(classes) => heading = Some(classes),
            None => cases.push((heading.expect("a heading comes first"), line.replace('⏎', "\n"))),
        }
    }
    cases
}

/// The two halves of a list: the one that was used to develop the classes, and the one that was held out.
fn halves(cases: Vec<(Classes, String)>) -> [Vec<(Classes, String)>; 2] {
    let (seen, held_out) = cases
        .into_iter()
        .partition(|(_, line)| hash(line).is_multiple_of(2));
    [seen, held_out]
}

/// FNV-1a, folded to a byte: stable forever.
fn hash(line: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = line.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    (hash >> 32) ^ (hash & 0xffff_ffff)
}

fn classes_of(command: &str) -> Classes {
    classify(&Command::Shell(command.to_owned())).classes
}

/// Whether a dangerous command gets its classes, or the built-in policy asks for approval.
fn is_caught(found: Classes, least: Classes) -> bool {
    let is_asked_for = found.contains(Class::Networked) || found.contains(Class::HostEscapeRisk);
    is_asked_for || least.iter().all(|class| found.contains(class))
}

/// Whether an ordinary command gets a class that it should not. Removing and networking count as changes,
/// too.
fn is_too_strict(found: Classes, most: Classes) -> bool {
    let is_expected = |class: Class| most.contains(class) || class == Class::Mutating && !most.is_read_only();
    !found.is_read_only() && !found.iter().all(is_expected)
}

/// Lines that miss, with their actual and expected classes.
fn misses(cases: &[(Classes, String)], is_miss: impl Fn(Classes, Classes) -> bool) -> Vec<String> {
    let missed = cases
        .iter()
        .filter(|(wanted, line)| is_miss(classes_of(line), *wanted));
    missed
        .map(|(wanted, line)| format!("{line:?}: {}, not {wanted}", classes_of(line)))
        .collect()
}

#[track_caller]
fn check_dangerous(what: &str, cases: &[(Classes, String)]) {
    let misses = misses(cases, |found, least| !is_caught(found, least));
    let list = misses.join("\n");
    let most = cases.len() * (100 - DANGEROUS);
    assert!(
        misses.len() * 100 <= most,
        "{what}: {} of {}:\n{list}",
        misses.len(),
        cases.len()
    );
}

#[track_caller]
fn check_ordinary(what: &str, cases: &[(Classes, String)]) {
    let misses = misses(cases, is_too_strict);
    let list = misses.join("\n");
    let most = cases.len() * ORDINARY;
    assert!(
        misses.len() * 100 <= most,
        "{what}: {} of {}:\n{list}",
        misses.len(),
        cases.len()
    );
}

#[test]
fn dangerous_commands_of_both_halves_get_their_classes_or_are_asked_for() {
    let [seen, held_out] = halves(cases(include_str!("corpus/halves-dangerous.txt")));
    assert!(
        seen.len() >= 200 && held_out.len() >= 200,
        "{} and {}",
        seen.len(),
        held_out.len()
    );
    check_dangerous("worked on", &seen);
    check_dangerous("held out", &held_out);
}

#[test]
fn ordinary_commands_of_both_halves_get_no_stricter_class() {
    let [seen, held_out] = halves(cases(include_str!("corpus/halves-ordinary.txt")));
    assert!(
        seen.len() >= 200 && held_out.len() >= 200,
        "{} and {}",
        seen.len(),
        held_out.len()
    );
    check_ordinary("worked on", &seen);
    check_ordinary("held out", &held_out);
}

#[test]
fn dangerous_commands_of_other_tools_get_their_classes_or_are_asked_for() {
    check_dangerous("other tools", &cases(include_str!("corpus/fresh-dangerous.txt")));
}

#[test]
fn ordinary_commands_of_other_tools_get_no_stricter_class() {
    check_ordinary("other tools", &cases(include_str!("corpus/fresh-ordinary.txt")));
}

#[test]
fn everyday_commands_of_agents_get_their_classes_and_no_stricter_ones() {
    check_dangerous("every day", &cases(include_str!("corpus/everyday-dangerous.txt")));
    check_ordinary("every day", &cases(include_str!("corpus/everyday-ordinary.txt")));
}

#[test]
fn commands_written_without_knowledge_of_the_classes_are_classified() {
    check_dangerous("unseen", &cases(include_str!("corpus/unseen-dangerous.txt")));
    check_ordinary("unseen", &cases(include_str!("corpus/unseen-ordinary.txt")));
}

#[test]
fn the_measures_can_fail() {
    assert!(!is_caught(Classes::READ_ONLY, Class::Networked.into()));
    assert!(!is_caught(Class::Mutating.into(), Class::Destructive.into()));
    assert!(is_caught(Class::HostEscapeRisk.into(), Class::Destructive.into()));
    assert!(is_too_strict(Class::Mutating.into(), Classes::READ_ONLY));
    assert!(is_too_strict(Class::Networked.into(), Class::Mutating.into()));
    assert!(!is_too_strict(Class::Mutating.into(), Class::Networked.into()));
    assert!(!is_too_strict(Classes::READ_ONLY, Class::Mutating.into()));
}
