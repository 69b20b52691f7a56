//! The tables of docs/rules.md are true.

use super::meaning::{at, path, rules};
use crate::rules::*;

const PAGE: &str = include_str!("../../../../../docs/rules.md");

/// The rows of the table with this first line: the texts in code quotes of each cell.
fn table(head: &str) -> Vec<Vec<Vec<String>>> {
    let lines = PAGE.lines().skip_while(|line| *line != head).skip(2);
    let rows: Vec<_> = lines
        .take_while(|line| line.starts_with('|'))
        .map(cells)
        .collect();
    assert!(!rows.is_empty(), "there is no table {head}");
    rows
}

fn cells(line: &str) -> Vec<Vec<String>> {
    let inner = line.trim_start_matches("| ").trim_end_matches('|');
    inner
        .split(" |")
        .map(|cell| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect())
        .collect()
}

fn presets_with_secrets() -> [Rules; 2] {
    [Preset::AgentSafe, Preset::Development].map(|preset| Rules::new(preset.rules()).unwrap())
}

#[test]
fn the_levels_are_those_of_the_page_in_their_order() {
    let written: Vec<String> = table("| level | what may be done |")
        .into_iter()
        .map(|row| row[0][0].clone())
        .collect();
    assert_eq!(written, Level::ALL.map(|level| level.to_string()));
}

#[test]
fn the_patterns_of_the_page_match_as_it_says() {
    let head = "| pattern | path | matches |";
    let answers = PAGE
        .lines()
        .skip_while(|line| *line != head)
        .skip(2)
        .map(|line| line.ends_with("| yes |"));
    for (row, expected) in table(head).iter().zip(answers) {
        let pattern = &row[0][0];
        let path = path(&row[1][0]);
        assert_eq!(
            Pattern::parse(pattern).unwrap().matches(&path),
            expected,
            "{pattern} and {path}"
        );
    }
}

#[test]
fn the_rules_of_the_page_decide_as_it_says() {
    for row in table("| rules | path | level |") {
        let list: Vec<&str> = row[0].iter().map(String::as_str).collect();
        assert_eq!(
            at(&rules(&list), &row[1][0]).level().to_string(),
            row[2][0],
            "{list:?} at {}",
            row[1][0]
        );
    }
}

#[test]
fn the_presets_of_the_page_are_all_that_there_are() {
    let written: Vec<String> = table("| preset | what it allows |")
        .into_iter()
        .map(|row| row[0][0].clone())
        .collect();
    assert_eq!(written, Preset::ALL.map(|preset| preset.to_string()));
    for preset in Preset::ALL {
        assert!(PAGE.replace('`', "").contains(preset.description()), "{preset}");
    }
}

#[test]
fn the_secrets_of_the_page_are_all_that_are_hidden() {
    use super::super::presets::names::{SECRETS, SECRETS_BY_WORD, SECRETS_WITH_PUBLIC};
    let rows = table("| secret | exceptions |");
    let mut written: Vec<&str> = rows.iter().map(|row| row[0][0].as_str()).collect();
    let mut hidden = [SECRETS, SECRETS_BY_WORD, SECRETS_WITH_PUBLIC].concat();
    written.sort_unstable();
    hidden.sort_unstable();
    assert_eq!(written, hidden);
    for rules in presets_with_secrets() {
        for row in &rows {
            assert_eq!(
                at(&rules, &format!("/a/{}", row[0][0].replace('*', "q"))).level(),
                Level::None
            );
            for public in row.get(1).into_iter().flatten() {
                assert!(
                    at(&rules, &format!("/a/{public}")).level() >= Level::Read,
                    "{public}"
                );
            }
        }
    }
}

#[test]
fn files_that_the_page_lists_as_run_by_the_host_are_not_writable() {
    for rules in presets_with_secrets() {
        for row in table("| run by the host |") {
            assert_eq!(
                at(&rules, &format!("/a/{}", row[0][0])).level(),
                Level::Read,
                "{}",
                row[0][0]
            );
        }
    }
}
