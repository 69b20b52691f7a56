//! What rules hide and git tells.

use agentvfs::git::{hidden_and_tracked, hidden_in_history};
use agentvfs::rules::{Rule, Rules};

use crate::ground::Ground;

fn rules(lines: &[&str]) -> Rules {
    Rules::new(lines.iter().map(|line| Rule::parse(line).unwrap()).collect()).unwrap()
}

#[test]
fn tracked_paths_that_rules_hide_are_named() {
    let ground = Ground::new();
    ground
        .in_host("echo k >.env; mkdir -p a/secrets; echo s >a/secrets/x; git add -Af; echo u >untracked.env");
    let rules = rules(&["/**=write", "**/.env=none", "**/secrets/**=none", "**/*.env=none"]);
    let found = hidden_and_tracked(&ground.path("host"), &rules, 20).unwrap();
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(found, ["/.env", "/a/secrets/x"]);
}

#[test]
fn no_more_are_looked_for_than_are_wanted() {
    let ground = Ground::with("git init -q; mkdir d; for i in $(seq 5000); do echo >d/$i; done; git add -A");
    let rules = rules(&["/**=none"]);
    assert_eq!(hidden_and_tracked(&ground.path("host"), &rules, 20).unwrap().len(), 20);
    assert_eq!(hidden_and_tracked(&ground.path(""), &rules, 20).unwrap(), []);
}

#[test]
fn paths_that_a_commit_once_added_are_named_too() {
    let ground = Ground::new();
    ground.in_host(
        "echo k >.env; mkdir a; echo s >a/.env; git add -Af; git commit -qm in; git rm -rq .env a; git commit -qm out;
         git checkout -q --orphan other; git rm -rqf . ; echo x >b.env; git add -Af; git commit -qm b; git checkout -q main",
    );
    let rules = rules(&["/**=write", "**/.env=none", "**/*.env=none"]);
    let found = hidden_in_history(&ground.path("host"), &rules, 20).unwrap();
    let mut found: Vec<String> = found.iter().map(ToString::to_string).collect();
    found.sort();
    assert_eq!(found, ["/.env", "/a/.env", "/b.env"]);
    assert_eq!(hidden_and_tracked(&ground.path("host"), &rules, 20).unwrap(), []);
    assert_eq!(hidden_in_history(&ground.path("host"), &rules, 1).unwrap().len(), 1);
}
