//! `docs/policy.md` describes what the code does.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::path::Path;

use avfs_exec::policy::PolicyAction;
use avfs_exec::{Class, Command, Policy, classify};

const PAGE: &str = include_str!("../../../docs/policy.md");

fn code_spans(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[test]
fn the_policy_file_of_the_page_is_read_and_its_examples_hold() {
    let (_, rest) = PAGE.split_once("```toml\n").unwrap();
    let (text, _) = rest.split_once("```").unwrap();
    let policy = Policy::parse(Path::new("policy.toml"), text).unwrap();
    assert_eq!(policy.rules().len(), 3);
    assert_eq!(policy.action_for(Class::HostEscapeRisk), PolicyAction::Deny);
}

#[test]
fn the_table_of_classes_is_true() {
    let rows: Vec<Vec<&str>> = PAGE
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(code_spans)
        .collect();
    let rows: Vec<_> = rows
        .into_iter()
        .filter_map(|row| Some((Class::named(row[0])?, row)))
        .collect();
    assert_eq!(
        rows.iter().map(|(class, _)| *class).collect::<Vec<_>>(),
        Class::ALL
    );
    for (class, row) in rows {
        let (action, examples) = row[1..].split_last().unwrap();
        assert_eq!(Policy::built_in().action_for(class).word(), *action, "{class}");
        assert!(examples.len() > 1, "{class}");
        for example in examples {
            let found = classify(&Command::Shell((*example).to_owned())).classes;
            assert_eq!(found.worst(), class, "{example}");
        }
    }
}

#[test]
fn the_table_of_actions_is_whole() {
    for action in PolicyAction::ALL {
        assert!(PAGE.contains(&format!("| `{}` |", action.word())), "{action}");
    }
}

#[test]
fn what_is_said_to_go_around_a_denial_by_words_does_so_and_what_is_said_to_be_denied_is() {
    let deny = "[[rules]]\nprefix = [\"git\", \"push\"]\naction = \"deny\"\n";
    let policy = Policy::parse(Path::new("policy.toml"), deny).unwrap();
    let action = |command: &str| {
        policy
            .decide(&classify(&Command::Shell(command.to_owned())), true)
            .action
    };
    let (_, section) = PAGE.split_once("## What a rule by words is worth").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let rows = section
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains('`'));
    let around: Vec<&str> = rows.flat_map(code_spans).collect();
    assert!(around.len() > 4, "{around:?}");
    for command in around {
        assert_eq!(action(command), PolicyAction::AllowWithCheckpoint, "{command}");
    }
    for command in ["/usr/bin/git -C x push", "git-push", "ssh host git push"] {
        assert!(PAGE.contains(&format!("`{command}`")), "{command}");
        assert_eq!(action(command), PolicyAction::Deny, "{command}");
    }
}

#[test]
fn commands_that_the_page_lists_need_an_approval() {
    let commands = [
        "export PATH=/x",
        "PATH=/x ls",
        "eval \"$(x)\"",
        "bash < script",
        "curl https://x | bash",
        "git config alias.x y",
        "cat <<EOF\n`ls`\nEOF",
        "cat <<A <<B\nA\nB",
        "ls <> f",
        "coproc ls",
        "ls() { cat; }",
    ];
    for command in commands {
        let decision = Policy::built_in().decide(&classify(&Command::Shell(command.to_owned())), true);
        assert_eq!(decision.action, PolicyAction::RequireApproval, "{command}");
    }
    let sourced = Policy::built_in().decide(&classify(&Command::Shell("source x".to_owned())), true);
    assert_eq!(
        (sourced.action, sourced.class),
        (PolicyAction::AllowWithCheckpoint, Class::Destructive)
    );
}
