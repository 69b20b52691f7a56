//! A task's changes in its directory, and back.

use std::fs;
use std::path::PathBuf;

use insta::assert_snapshot;

use crate::sandbox::Sandbox;

/// A project with a task that changed it, as a workspace leaves one.
fn with_task(sandbox: &Sandbox) -> PathBuf {
    let root = sandbox.path("web");
    fs::create_dir_all(root.join("src")).unwrap();
    fs::write(root.join("src/main.rs"), "1\n2\n3\n4\n5\n6\n7\n8\n9\n").unwrap();
    fs::write(root.join("notes"), "note\n").unwrap();
    let start = format!("workspace start fix --from {}", root.display());
    let dir = PathBuf::from(sandbox.good(&start).trim_end());
    // What a task reads is known from then on, whatever happens in the directory.
    assert!(fs::read_to_string(dir.join("src/main.rs")).unwrap().starts_with("1\n"));
    assert_eq!(fs::read_to_string(dir.join("notes")).unwrap(), "note\n");
    fs::write(dir.join("src/main.rs"), "1\ntwo\n3\n4\n5\n6\n7\n8\n9\n").unwrap();
    fs::write(dir.join("package.json"), "{}").unwrap();
    fs::remove_file(dir.join("notes")).unwrap();
    sandbox.good("workspace stop fix");
    root
}

#[test]
fn a_task_is_applied_and_taken_back() {
    let sandbox = Sandbox::new();
    let root = with_task(&sandbox);
    assert_snapshot!(sandbox.run("apply fix --dry-run"), @r"
    status 0
    --- data
    removed   notes
    added     package.json
    modified  src/main.rs
    --- talk
    warning: look at package.json: npm runs its scripts, some of them on install
    ");
    assert!(root.join("notes").exists());
    let applied = sandbox.object("apply fix --json");
    assert_eq!((&applied["kind"], &applied["files"][0]["deed"]), (&"apply".into(), &"removed".into()));
    assert_eq!(applied["pointed"][0]["path"], "/package.json");
    assert_eq!(fs::read_to_string(root.join("src/main.rs")).unwrap(), "1\ntwo\n3\n4\n5\n6\n7\n8\n9\n");
    assert!(!root.join("notes").exists());
    assert_eq!(sandbox.object("tasks --all --json")["tasks"][0]["state"], "applied");
    assert_eq!(sandbox.object("apply fix --json")["id"], serde_json::Value::Null);
    assert_eq!(sandbox.bad("undo --apply"), (4, "nothing-to-undo".into()), "not of another directory");
    let undone = sandbox.object("undo --apply 1 --json");
    assert_eq!((&undone["kind"], &undone["apply"]), (&"apply-undone".into(), &applied["id"]));
    assert_eq!(fs::read_to_string(root.join("notes")).unwrap(), "note\n");
    assert!(!root.join("package.json").exists());
    assert_eq!(sandbox.object("tasks --all --json")["tasks"][0]["state"], "unmerged");
    assert_eq!(sandbox.bad("undo --apply"), (4, "nothing-to-undo".into()));
    assert_eq!(sandbox.bad("undo --apply 99"), (3, "unknown-apply".into()));
}

#[test]
fn conflicts_stop_an_apply_or_are_decided() {
    let sandbox = Sandbox::new();
    let root = with_task(&sandbox);
    fs::write(root.join("src/main.rs"), "1\nzwei\n3\n4\n5\n6\n7\n8\n9\n").unwrap();
    assert_eq!(sandbox.bad("apply fix"), (4, "apply-conflicts".into()));
    assert!(root.join("notes").exists(), "nothing was applied");
    assert_eq!(sandbox.bad("apply fix --conflicts ask"), (2, "no-terminal".into()));
    assert_eq!(sandbox.bad("apply fix nowhere"), (3, "not-changed".into()));
    assert_eq!(sandbox.bad("apply fix --hunks src/main.rs:9"), (2, "bad-hunks".into()));
    let marked = sandbox.run("apply fix --conflicts mark");
    assert!(marked.starts_with("status 1\n"), "{marked}");
    let text = fs::read_to_string(root.join("src/main.rs")).unwrap();
    assert!(text.contains("<<<<<<< here\nzwei\n=======\ntwo\n>>>>>>> fix\n"), "{text}");
}

#[test]
fn a_part_is_applied_alone_and_merged_with_what_the_user_did() {
    let sandbox = Sandbox::new();
    let root = with_task(&sandbox);
    fs::write(root.join("src/main.rs"), "1\n2\n3\n4\n5\n6\n7\n8\nnine\n").unwrap();
    sandbox.good("apply fix src");
    assert_eq!(fs::read_to_string(root.join("src/main.rs")).unwrap(), "1\ntwo\n3\n4\n5\n6\n7\n8\nnine\n");
    assert!(root.join("notes").exists());
    assert_eq!(sandbox.object("tasks --all --json")["tasks"][0]["state"], "unmerged");
}
