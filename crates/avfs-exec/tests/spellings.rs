//! A command gets its class however it is spelled; and daily work gets no stricter class than its own.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::path::Path;

use avfs_exec::policy::PolicyAction;
use avfs_exec::{Class, Classes, Command, Policy, classify};

/// Lines under headings in brackets, with line feeds inside a command written as `⏎`.
fn cases<T: Clone>(text: &str, read: impl Fn(&str) -> Option<T>) -> Vec<(T, String)> {
    let mut heading = None;
    let mut cases = Vec::new();
    for line in text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("# "))
    {
        let name = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        match name.and_then(&read) {
            Some(found) => heading = Some(found),
            None => cases.push((
                heading.clone().expect("a heading comes first"),
                line.replace('⏎', "\n"),
            )),
        }
    }
    cases
}

fn classes_of(command: &str) -> Classes {
    classify(&Command::Shell(command.to_owned())).classes
}

/// A risk to the host includes everything; a destructive command mutates as well.
fn is_at_least(found: Classes, least: Classes) -> bool {
    let covered = |class: Class| {
        found.contains(class) || class == Class::Mutating && found.contains(Class::Destructive)
    };
    found.contains(Class::HostEscapeRisk) || least.iter().all(covered)
}

#[track_caller]
fn check_none(misses: &[String], all: usize) {
    assert!(
        misses.is_empty(),
        "{} of {all}:\n{}",
        misses.len(),
        misses.join("\n")
    );
}

#[test]
fn dangerous_commands_get_their_class_in_every_spelling() {
    let cases = cases(include_str!("corpus/dangerous.txt"), Classes::parse);
    assert!(cases.len() >= 250, "{}", cases.len());
    let misses: Vec<String> = cases
        .iter()
        .filter(|(least, command)| !is_at_least(classes_of(command), *least))
        .map(|(least, command)| format!("{command:?}: {} is less than {least}", classes_of(command)))
        .collect();
    check_none(&misses, cases.len());
}

#[test]
fn daily_commands_get_exactly_their_classes() {
    let cases = cases(include_str!("corpus/daily.txt"), Classes::parse);
    assert!(cases.len() >= 250, "{}", cases.len());
    let misses: Vec<String> = cases
        .iter()
        .filter(|(expected, command)| classes_of(command) != *expected)
        .map(|(expected, command)| format!("{command:?}: {} instead of {expected}", classes_of(command)))
        .collect();
    check_none(&misses, cases.len());
}

/// The decision of a policy with one rule that denies `words`.
fn denied(words: &str, command: &str) -> bool {
    let words: Vec<&str> = words.split(' ').collect();
    let text = format!("[[rules]]\nprefix = {words:?}\naction = \"deny\"\n");
    let policy = Policy::parse(Path::new("policy.toml"), &text).unwrap();
    policy
        .decide(&classify(&Command::Shell(command.to_owned())), true)
        .action
        == PolicyAction::Deny
}

#[test]
fn a_denial_of_words_holds_in_every_spelling_and_for_nothing_else() {
    let cases = cases(include_str!("corpus/denied.txt"), |words| Some(words.to_owned()));
    let misses: Vec<String> = cases
        .iter()
        .filter_map(|(words, command)| match words.strip_prefix("not ") {
            Some(words) => denied(words, command).then(|| format!("{command:?} is denied by '{words}'")),
            None => (!denied(words, command)).then(|| format!("{command:?} is not denied by '{words}'")),
        })
        .collect();
    check_none(&misses, cases.len());
}

#[test]
fn an_approved_push_allows_no_forced_one() {
    let push = classify(&Command::Shell("git push origin main".to_owned()));
    let saved = Policy::built_in().with_saved(Policy::built_in().rules_to_save(&push));
    let text = "[[rules]]\nprefix = [\"git\", \"push\"]\nclasses = [\"networked\"]\naction = \"allow\"\n";
    let limited = Policy::parse(Path::new("policy.toml"), text).unwrap();
    let cases = cases(include_str!("corpus/dangerous.txt"), Classes::parse);
    let forced: Vec<String> = cases
        .into_iter()
        .map(|(_, command)| command)
        .filter(|command| command.starts_with("git push"))
        .collect();
    assert!(forced.len() > 20, "{}", forced.len());
    for policy in [saved, limited] {
        let action = |command: &str| {
            policy
                .decide(&classify(&Command::Shell(command.to_owned())), true)
                .action
        };
        assert_eq!(action("git push origin main"), PolicyAction::Allow);
        for command in &forced {
            assert_ne!(action(command), PolicyAction::Allow, "{command}");
        }
    }
}

#[test]
fn a_variable_that_steers_programs_counts_as_the_same_however_it_is_set() {
    let variables = [
        "PATH=.",
        "LD_PRELOAD=./x.so",
        "PYTHONPATH=/workspace/evil",
        "PYTHONSTARTUP=./x.py",
        "NODE_OPTIONS='--require ./x.js'",
        "JAVA_TOOL_OPTIONS=-javaagent:x.jar",
        "PERL5OPT=-Mx",
        "RUBYOPT=-r./x",
        "GIT_SSH_COMMAND='sh x'",
        "MAKEFLAGS=--eval=x",
        "CC=./x",
        "npm_config_registry=http://x",
        "https_proxy=http://x",
    ];
    for variable in variables {
        for command in ["ls", "python3 x", "git status"] {
            let before = classes_of(&format!("{variable} {command}"));
            assert!(!before.is_read_only(), "{variable} {command}");
            for line in [
                format!("{variable}; {command}"),
                format!("{variable} && {command}"),
                format!("{variable}⏎{command}").replace('⏎', "\n"),
                format!("export {variable}; {command}"),
                format!("declare {variable}; {command}"),
                format!("readonly {variable}; {command}"),
                format!("env {variable} {command}"),
                format!("if true; then {variable}; fi; {command}"),
            ] {
                assert_eq!(classes_of(&line), before, "{line}");
            }
        }
    }
}
