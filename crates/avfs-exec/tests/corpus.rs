//! Ordinary commands get exactly their classes, and attacks at least theirs.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use avfs_exec::{Class, Classes, Command, classify};

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
            None => cases.push((heading.expect("a heading comes first"), decoded(line))),
        }
    }
    cases
}

/// `⏎` is a line feed, `␍` a carriage return, `␀` a NUL, `␛` an escape, `⟦hex⟧` any other character.
fn decoded(line: &str) -> String {
    let line = line
        .replace('⏎', "\n")
        .replace('␍', "\r")
        .replace('␀', "\0")
        .replace('␛', "\u{1b}");
    match line
        .split_once('⟦')
        .and_then(|(before, rest)| Some((before, rest.split_once('⟧')?)))
    {
        Some((before, (hex, after))) => {
            let mark = char::from_u32(u32::from_str_radix(hex, 16).unwrap()).unwrap();
            format!("{before}{mark}{after}")
        }
        None => line,
    }
}

fn classes_of(command: &str) -> Classes {
    classify(&Command::Shell(command.to_owned())).classes
}

#[test]
fn ordinary_commands_get_exactly_their_classes() {
    let cases = cases(include_str!("corpus/ordinary.txt"));
    assert!(cases.len() >= 1_000, "{}", cases.len());
    let misses: Vec<String> = cases
        .iter()
        .filter(|(expected, command)| classes_of(command) != *expected)
        .map(|(expected, command)| format!("{command:?}: {} instead of {expected}", classes_of(command)))
        .collect();
    println!(
        "{} of {} commands missed:\n{}",
        misses.len(),
        cases.len(),
        misses.join("\n")
    );
    assert!(misses.len() * 20 <= cases.len(), "less than 95 of 100 are exact");
}

/// A risk to the host includes everything; a destructive command mutates as well.
fn is_at_least(found: Classes, least: Classes) -> bool {
    let covered = |class: Class| {
        found.contains(class) || class == Class::Mutating && found.contains(Class::Destructive)
    };
    found.contains(Class::HostEscapeRisk) || least.iter().all(covered)
}

#[test]
fn attacks_get_at_least_their_classes() {
    let cases = cases(include_str!("corpus/attacks.txt"));
    assert!(cases.len() >= 300, "{}", cases.len());
    let misses: Vec<String> = cases
        .iter()
        .filter(|(least, command)| !is_at_least(classes_of(command), *least))
        .map(|(least, command)| format!("{command:?}: {} is less than {least}", classes_of(command)))
        .collect();
    assert!(
        misses.is_empty(),
        "{} of {}:\n{}",
        misses.len(),
        cases.len(),
        misses.join("\n")
    );
}

#[test]
fn the_comparison_of_attacks_can_fail() {
    assert!(!is_at_least(Classes::READ_ONLY, Class::Mutating.into()));
    assert!(!is_at_least(Class::Mutating.into(), Class::Destructive.into()));
    assert!(!is_at_least(Class::Mutating.into(), Class::Networked.into()));
    assert!(is_at_least(Class::Destructive.into(), Class::Mutating.into()));
    assert!(is_at_least(Class::HostEscapeRisk.into(), Class::Networked.into()));
}
