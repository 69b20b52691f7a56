//! git as a source, and git as a destination.

use std::path::Path;
use std::process::Command;

use crate::sandbox::Sandbox;

#[track_caller]
pub fn sh(dir: &Path, script: &str) -> String {
    let mut command = Command::new("bash");
    command.args(["-euc", script]).current_dir(dir).env("GIT_CONFIG_GLOBAL", "/dev/null");
    for who in ["GIT_AUTHOR", "GIT_COMMITTER"] {
        command.env(format!("{who}_NAME"), "Someone").env(format!("{who}_EMAIL"), "someone@example.org");
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{script}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// A repository in `project/src`.
fn with_repository() -> Sandbox {
    let sandbox = Sandbox::new();
    sh(
        &sandbox.path("project/src"),
        "git init -q -b main; seq 20 >list; mkdir bin; echo '#!/bin/sh' >bin/run; chmod +x bin/run; ln -s list link
         git add -A; git commit -qm first; git tag v1; echo later >list; git commit -qam second",
    );
    sandbox
}

#[test]
fn a_vault_is_made_from_a_commit_and_its_patch_applies_there() {
    let sandbox = with_repository();
    let made = sandbox.object("vault create web --from-git .@v1 --use --json");
    assert_eq!((&made["report"]["files"], made["commit"].as_str().unwrap().len()), (&3.into(), 40));
    assert_eq!(sandbox.good("ls"), "bin\nlink\nlist\n");
    sandbox.good_with(["write", "new file", "text"]);
    sandbox.good("rm link");
    sandbox.good("chmod 644 bin/run");
    sandbox.avfs().args(["write", "list"]).write_stdin("0\n1\n").assert().success();
    let patch = sandbox.path("changes.patch");
    std::fs::write(&patch, sandbox.data("diff --patch")).unwrap();
    let source = sandbox.path("project/src");
    sh(&source, &format!("git checkout -q v1; git apply --index {}", patch.display()));
    assert_eq!(
        sh(&source, "cat list 'new file'; git diff --cached --name-status v1"),
        "0\n1\ntext\nM\tbin/run\nD\tlink\nM\tlist\nA\tnew file"
    );
}

#[test]
fn a_commit_that_is_not_there_makes_no_vault() {
    let sandbox = with_repository();
    assert_eq!(sandbox.bad("vault create web --from-git .@nowhere"), (3, "unknown-commit".into()));
    assert_eq!(sandbox.bad("vault create web --from-git missing"), (2, "not-a-repository".into()));
    assert_eq!(sandbox.bad("vault create web --from-git .. --from .."), (2, "usage".into()));
    assert_eq!(sandbox.object("vault list --json")["vaults"], serde_json::json!([]));
}
