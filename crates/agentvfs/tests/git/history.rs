//! Files that rules hide and git's history reveals.

use agentvfs::git::hidden_in_history;
use agentvfs::rules::{Rule, Rules};

use crate::ground::Ground;

#[test]
fn paths_that_a_commit_once_added_are_named() {
    let ground = Ground::new();
    ground.in_host(
        "echo k >.env; mkdir a; echo s >a/.env; git add -Af; git commit -qm in; git rm -rq .env a; git commit -qm out;
         git checkout -q --orphan other; git rm -rqf . ; echo x >b.env; git add -Af; git commit -qm b; git checkout -q main",
    );
    let lines = ["/**=write", "**/.env=none", "**/*.env=none"];
    let rules = Rules::new(lines.iter().map(|line| Rule::parse(line).unwrap()).collect()).unwrap();
    let found = hidden_in_history(&ground.path("host"), &rules).unwrap();
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(found, ["/.env", "/a/.env", "/b.env"]);
    assert!(hidden_in_history(&ground.path(""), &rules).unwrap().is_empty());
}
