//! Tasks: listed, compared, copied, mounted as workspaces and thrown away.

use std::fs;
use std::path::PathBuf;

use insta::assert_snapshot;
use serde_json::json;

use crate::sandbox::Sandbox;

/// A project with two files, and its directory.
fn project(sandbox: &Sandbox) -> PathBuf {
    let root = sandbox.path("web");
    fs::create_dir_all(root.join("src")).unwrap();
    fs::write(root.join("src/main.rs"), "one\ntwo\n").unwrap();
    fs::write(root.join("notes"), "first\n").unwrap();
    root
}

/// A workspace, which is a task, and where it is.
fn workspace(sandbox: &Sandbox, name: &str) -> PathBuf {
    let root = project(sandbox);
    let from = root.to_str().unwrap();
    sandbox
        .good(&format!("workspace start {name} --from {from}"))
        .trim_end()
        .into()
}

#[test]
fn a_workspace_is_a_private_copy_that_is_kept_until_it_is_discarded() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.bad("workspace start try"), (3, "unknown-task".into()));
    let dir = workspace(&sandbox, "try");
    fs::write(dir.join("src/main.rs"), "one\n2\n").unwrap();
    fs::write(dir.join("new"), "").unwrap();
    fs::remove_file(dir.join("notes")).unwrap();
    assert_eq!(
        fs::read_to_string(sandbox.path("web/src/main.rs")).unwrap(),
        "one\ntwo\n"
    );
    assert!(!sandbox.path("web/new").exists());
    let status = sandbox.object("workspace status try --json");
    assert_eq!(status["state"], "running");
    assert_eq!(status["dir"], dir.to_str().unwrap());
    assert_eq!(
        status["changed"],
        serde_json::json!({"added": 1, "modified": 1, "deleted": 1})
    );
    sandbox.good("workspace stop try");
    assert!(!dir.exists());
    assert_snapshot!(sandbox.run("tasks --all"), @r"
    status 0
    --- data
    NAME     STATE       CHANGED   CONFLICTS  STARTED   COMMAND
    web/try  unmerged    +1 ~1 -1  -          just now  workspace
    --- talk
    ");
    assert_snapshot!(sandbox.run("diff try"), @r"
    status 0
    --- data
    added     new
    removed   notes
    modified  src/main.rs
    --- talk
    ");
    assert_eq!(sandbox.good("diff try src --name-only"), "src/main.rs\n");
    assert_eq!(
        sandbox.good("workspace start try").trim_end(),
        dir.to_str().unwrap()
    );
    assert_eq!(fs::read_to_string(dir.join("src/main.rs")).unwrap(), "one\n2\n");
    assert_eq!(sandbox.bad("discard try --yes"), (5, "vault-busy".into()));
    sandbox.good("workspace stop try");
    assert_eq!(sandbox.bad("discard try"), (2, "needs-confirmation".into()));
    sandbox.good("discard try --yes");
    assert_eq!(
        sandbox.object("tasks --all --json")["tasks"],
        serde_json::json!([])
    );
}

#[test]
fn a_workspace_goes_back_to_its_checkpoints_and_to_its_beginning() {
    let sandbox = Sandbox::new();
    let dir = workspace(&sandbox, "try");
    fs::write(dir.join("notes"), "second\n").unwrap();
    sandbox.good("workspace checkpoint try works");
    fs::remove_dir_all(dir.join("src")).unwrap();
    sandbox.good("workspace rollback try");
    assert_eq!(fs::read_to_string(dir.join("src/main.rs")).unwrap(), "one\ntwo\n");
    assert_eq!(fs::read_to_string(dir.join("notes")).unwrap(), "second\n");
    sandbox.good("checkpoint delete works --vault try");
    sandbox.good("workspace rollback try");
    assert_eq!(fs::read_to_string(dir.join("notes")).unwrap(), "first\n");
    sandbox.good("workspace stop try");
    sandbox.good("discard try");
}

#[test]
fn copies_of_a_task_are_compared_side_by_side() {
    let sandbox = Sandbox::new();
    let dir = workspace(&sandbox, "try");
    fs::write(dir.join("notes"), "shared\n").unwrap();
    assert_eq!(sandbox.good("fork 2 --task try"), "try-1\ntry-2\n");
    sandbox.good("workspace stop try");
    sandbox.good("write src/main.rs one --vault try-1");
    sandbox.good("rm notes --vault try-2");
    assert_snapshot!(sandbox.run("compare try try-1 try-2"), @r"
    status 0
    --- data
    PATH           try  try-1  try-2
    notes        +1 -1     =1   gone
    src/main.rs      ·  +0 -1      ·
    --- talk
    2 files, 1 of them changed by more than one task
    ");
    let body = sandbox.object("compare try try-1 --json");
    assert_eq!(body["files"][0]["changes"][1]["same_as"], "try");
    assert_eq!(body["files"][1]["changes"][0], serde_json::Value::Null);
    assert_eq!(sandbox.good("fork 1 --task try"), "try-3\n");
    sandbox.good("discard try try-1 try-2 try-3 --yes");
    assert_eq!(sandbox.bad("fork 1"), (3, "no-project".into()));
    assert_eq!(sandbox.bad("discard web"), (2, "not-a-task".into()));
}

#[test]
fn a_project_gives_new_tasks_what_the_user_has_allowed() {
    let sandbox = Sandbox::new();
    let root = project(&sandbox);
    fs::write(sandbox.path("dev.env"), "KEY=1\n").unwrap();
    let text = "[setup]\ncommands = [\"cat .env > made; echo $((1 + 1)) >> made\"]\n\
                [setup.files]\n\".env\" = { level = \"read\", from = \"../dev.env\" }\n";
    fs::write(root.join("avfs.toml"), text).unwrap();
    let here = |line: &str| {
        let output = sandbox
            .avfs()
            .args(line.split(' '))
            .current_dir(&root)
            .output()
            .unwrap();
        (
            output.status.code().unwrap(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let (status, told) = here("workspace start one --from .");
    assert_eq!(status, 0, "{told}");
    assert!(told.contains("a [setup] that you have not allowed"), "{told}");
    sandbox.good("workspace stop one");
    assert_eq!(sandbox.good("ls --vault one"), "avfs.toml\nnotes\nsrc\n");
    assert_eq!(here("project setup allow --yes").0, 0);
    assert_eq!(here("workspace start two --from .").0, 0);
    sandbox.good("workspace stop two");
    assert_eq!(sandbox.good("cat .env made --vault two"), "KEY=1\nKEY=1\n2\n");
    assert_eq!(
        sandbox.object("tasks --all --json")["tasks"][1]["state"],
        "unchanged"
    );
    fs::write(root.join("avfs.toml"), text.replace("read", "write")).unwrap();
    assert!(
        here("workspace start three --from .")
            .1
            .contains("have not allowed")
    );
    sandbox.good("workspace stop three");
    fs::write(root.join("avfs.toml"), "[setup]\ncommands = [\"exit 3\"]\n").unwrap();
    assert_eq!(here("project setup allow --yes").0, 0);
    assert_eq!(here("workspace start four --from .").0, 1);
    sandbox.good("discard one two three four");
}

#[test]
fn a_set_up_with_a_file_that_is_missing_makes_no_task() {
    let sandbox = Sandbox::new();
    let root = project(&sandbox);
    let text = "[setup.files]\n\"config/key\" = { level = \"read\", from = \"../none\" }\n";
    fs::write(root.join("avfs.toml"), text).unwrap();
    let here = |line: &str| {
        let output = sandbox
            .avfs()
            .args(line.split(' '))
            .current_dir(&root)
            .output()
            .unwrap();
        (
            output.status.code().unwrap(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    assert_eq!(here("project setup allow --yes").0, 0);
    for line in ["workspace start one --from .", "run --name two -- true"] {
        let (status, told) = here(line);
        assert_eq!(status, 3, "{told}");
        assert!(told.contains("avfs.toml [setup.files] \"config/key\""), "{told}");
    }
    assert_eq!(
        sandbox.object("tasks --all --json")["tasks"],
        serde_json::json!([])
    );
}

#[test]
fn changes_of_the_user_come_into_a_task_without_being_its_work() {
    let sandbox = Sandbox::new();
    let root = project(&sandbox);
    fs::write(root.join("text"), "1\n2\n3\n4\n5\n6\n7\n8\n9\n").unwrap();
    let dir = workspace(&sandbox, "try");
    fs::write(dir.join("text"), "one\n2\n3\n4\n5\n6\n7\n8\n9\n").unwrap();
    fs::write(root.join("text"), "1\n2\n3\n4\n5\n6\n7\n8\nnine\n").unwrap();
    assert_eq!(fs::read_to_string(dir.join("notes")).unwrap(), "first\n");
    fs::write(root.join("notes"), "second\n").unwrap();
    fs::write(root.join("more"), "").unwrap();
    let look = sandbox.object("sync try --dry-run --json");
    assert_eq!(look["conflicts"], serde_json::json!([]));
    assert!(!dir.join("more").exists());
    sandbox.good("sync try");
    assert_eq!(
        fs::read_to_string(dir.join("text")).unwrap(),
        "one\n2\n3\n4\n5\n6\n7\n8\nnine\n"
    );
    assert_eq!(fs::read_to_string(dir.join("notes")).unwrap(), "second\n");
    assert!(dir.join("more").exists());
    assert_eq!(sandbox.good("diff try --name-only"), "text\n");
    fs::write(dir.join("notes"), "task\n").unwrap();
    fs::write(root.join("notes"), "user\n").unwrap();
    let (status, conflicts) = {
        let output = sandbox.avfs().args(["sync", "try", "--json"]).output().unwrap();
        let body: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (
            output.status.code().unwrap(),
            body["conflicts"][0]["path"].clone(),
        )
    };
    assert_eq!((status, conflicts), (1, "/notes".into()));
    sandbox.good("workspace stop try");
    sandbox.good("discard try --yes");
}

#[test]
fn tasks_that_would_not_merge_are_told_early() {
    let sandbox = Sandbox::new();
    let dir = workspace(&sandbox, "one");
    sandbox.good("fork 2 --task one --name other");
    fs::write(dir.join("notes"), "of one\n").unwrap();
    sandbox.good("workspace stop one");
    sandbox.good("write notes of-other --vault other-1");
    sandbox.good("write new file --vault other-2");
    fs::write(sandbox.path("web/notes"), "of the user\n").unwrap();
    let counted = sandbox.object("tasks --all --json");
    let counts: Vec<_> = (0..3).map(|task| &counted["tasks"][task]["conflicts"]).collect();
    assert_eq!(
        counts,
        [&json!({"files": 1}), &json!({"files": 1}), &json!({"files": 0})]
    );
    let body = sandbox.object("tasks --all --conflicts --json");
    let of = |task: usize| &body["tasks"][task]["conflicts"];
    assert_eq!(of(0)["directory"][0]["path"], "/notes");
    assert_eq!(of(0)["tasks"][0]["task"], "other-1");
    assert_eq!(of(1)["tasks"][0]["paths"][0]["path"], "/notes");
    assert_eq!(*of(2), json!({"files": 0, "directory": [], "tasks": []}));
    assert_eq!(sandbox.good("tasks --all").lines().count(), 4);
    assert!(sandbox.good("tasks --all").contains("  1 file "));
    assert!(
        sandbox
            .good("tasks --all -v")
            .contains("\n  conflicts with other-1: notes\n")
    );
    sandbox.good("discard one other-1 other-2 --yes");
}

#[test]
fn pruning_shows_first_and_spares_what_is_nowhere_else() {
    let sandbox = Sandbox::new();
    let dir = workspace(&sandbox, "kept");
    fs::write(dir.join("new"), "").unwrap();
    sandbox.good("workspace stop kept");
    workspace(&sandbox, "idle");
    sandbox.good("workspace stop idle");
    assert_eq!(sandbox.good("prune --tasks --dry-run"), "web/idle\n");
    assert_eq!(sandbox.bad("prune --tasks"), (2, "needs-confirmation".into()));
    assert_eq!(
        sandbox.object("prune --tasks --yes --json")["tasks"],
        serde_json::json!(["web/idle"])
    );
    assert_eq!(sandbox.good("prune --tasks --dry-run"), "");
    assert_eq!(sandbox.object("tasks --all --json")["tasks"][0]["name"], "kept");
    sandbox.good("discard kept --yes");
}

#[test]
fn a_run_that_ends_well_can_be_applied_at_once() {
    let sandbox = Sandbox::new();
    workspace(&sandbox, "try");
    sandbox.good("workspace stop try");
    sandbox
        .avfs()
        .args([
            "exec",
            "--vault",
            "try",
            "--apply-on-success",
            "-c",
            "echo 1 > new; exit 3",
        ])
        .assert()
        .code(3);
    assert!(!sandbox.path("web/new").exists());
    sandbox
        .avfs()
        .args([
            "exec",
            "--vault",
            "try",
            "--apply-on-success",
            "-c",
            "echo 2 > new",
        ])
        .assert()
        .success();
    assert_eq!(fs::read_to_string(sandbox.path("web/new")).unwrap(), "2\n");
    let object = sandbox.object("exec --vault try --apply-on-success --json -- touch another");
    assert_eq!(
        (&object["kind"], &object["apply"]["files"][0]["path"]),
        (&"exec".into(), &"/another".into())
    );
    assert!(sandbox.path("web/another").exists());
    assert!(object["apply"]["id"].is_u64() && object["apply"]["kind"].is_null());
    assert_eq!(
        sandbox.bad("exec --vault web --apply-on-success -- true"),
        (2, "not-a-task".into())
    );
    sandbox.good("discard try --yes");
}

#[test]
fn a_directory_with_many_files_is_one_line_and_what_is_ignored_is_counted() {
    let sandbox = Sandbox::new();
    let dir = workspace(&sandbox, "try");
    fs::write(dir.join(".gitignore"), "node_modules/\n*.log\n").unwrap();
    for (directory, files) in [
        ("dist/js", 30),
        ("node_modules/a/lib", 3),
        ("node_modules/b", 2),
        ("src", 2),
    ] {
        fs::create_dir_all(dir.join(directory)).unwrap();
        (0..files).for_each(|at| fs::write(dir.join(directory).join(format!("{at}.js")), "x\n").unwrap());
    }
    fs::write(dir.join("src/run.log"), "").unwrap();
    sandbox.good("workspace stop try");
    assert_snapshot!(sandbox.run("diff try"), @r"
    status 0
    --- data
    added  .gitignore
    added  dist/ (30 files)
    added  src/0.js
    added  src/1.js
    --- talk
    33 added; `--all` lists every file
    6 files ignored: node_modules/, src/run.log (`--ignored` shows and applies ignored files too)
    ");
    assert_eq!(sandbox.good("diff try --all").lines().count(), 33);
    assert_eq!(sandbox.good("diff try --name-only").lines().count(), 33);
    let shown = sandbox.good("diff try --ignored");
    assert!(
        shown.ends_with("ignored  node_modules/ (5 files)\nignored  src/run.log\n"),
        "{shown}"
    );
    assert_snapshot!(sandbox.run("diff try -- node_modules/a"), @r"
    status 0
    --- data
    added  node_modules/a/lib/0.js
    added  node_modules/a/lib/1.js
    added  node_modules/a/lib/2.js
    --- talk
    ");
    let body = sandbox.object("diff try --ignored --json");
    assert_eq!(body["changes"].as_array().unwrap().len(), 39);
    assert_eq!(body["changes"][38]["ignored"], true);
    assert_eq!(sandbox.object("diff try --json")["ignored"]["files"], 6);
    assert_eq!(
        sandbox.object("tasks --all --json")["tasks"][0]["changed"]["added"],
        33
    );
    sandbox.good("apply try --yes");
    assert!(sandbox.path("web/dist/js/0.js").exists() && !sandbox.path("web/node_modules").exists());
    sandbox.good("apply try node_modules/b --yes");
    assert!(sandbox.path("web/node_modules/b/0.js").exists() && !sandbox.path("web/node_modules/a").exists());
    let output = sandbox
        .avfs()
        .args(["diff", "try", "--json"])
        .env("AVFS_TASKS_IGNORED", "true")
        .output();
    let body: serde_json::Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    assert_eq!(body["changes"].as_array().unwrap().len(), 39);
    sandbox.good("discard try --yes");
}
