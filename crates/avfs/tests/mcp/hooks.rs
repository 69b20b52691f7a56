//! `avfs hook`: what agents call, with the input that they give.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::client::project;
use crate::sandbox::Sandbox;

fn hook(sandbox: &Sandbox, name: &str, input: &Value) -> Output {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("avfs"));
    command.env_clear().env("HOME", sandbox.path("home"));
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.current_dir(sandbox.path("home")).args(["hook", name]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut process = command.spawn().unwrap();
    // A hook that fails early does not read.
    let _ = process
        .stdin
        .take()
        .unwrap()
        .write_all(input.to_string().as_bytes());
    process.wait_with_output().unwrap()
}

/// The decision on a tool call; nothing: it is left to the agent.
fn decision(sandbox: &Sandbox, cwd: &Path, tool: &str, input: Value) -> Option<Value> {
    let call = json!({
        "session_id": "8f2c11ab-0000", "cwd": cwd, "hook_event_name": "PreToolUse",
        "tool_name": tool, "tool_input": input,
    });
    let output = hook(sandbox, "pre-tool-use", &call);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    if text.is_empty() {
        return None;
    }
    let answer: Value = serde_json::from_str(&text).unwrap();
    Some(answer["hookSpecificOutput"].clone())
}

/// Runs the line that a hook has put in place of a command, as the agent's shell does.
fn run_line(sandbox: &Sandbox, cwd: &Path, line: &str) -> String {
    let mut shell = Command::new("bash");
    shell.env_clear().env("HOME", sandbox.path("home"));
    shell.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let output = shell.current_dir(cwd).args(["-c", line]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_shell_command_runs_in_the_task_of_its_session() {
    let sandbox = project();
    let root = sandbox.path("project").canonicalize().unwrap();
    let input =
        json!({ "command": "echo \"it's\" >made.txt; pwd; id -un", "description": "d", "timeout": 5 });
    let answer = decision(&sandbox, &root, "Bash", input).unwrap();
    assert_eq!(answer["permissionDecision"], "allow", "{answer}");
    // What else the call has stays.
    assert_eq!(
        (
            &answer["updatedInput"]["description"],
            &answer["updatedInput"]["timeout"]
        ),
        (&json!("d"), &json!(5))
    );
    let line = answer["updatedInput"]["command"].as_str().unwrap();
    let printed = run_line(&sandbox, &root, line);
    assert_eq!(printed, format!("{}\nagent\n", root.display()));
    assert!(!root.join("made.txt").exists());
    assert_eq!(
        sandbox.good("cat /made.txt --vault project/session-8f2c11ab0000"),
        "it's\n"
    );
    // The next command of the session finds it, from another directory.
    let input = json!({ "command": "pwd; cat ../made.txt" });
    let answer = decision(&sandbox, &root.join("src"), "Bash", input).unwrap();
    assert_eq!(
        run_line(
            &sandbox,
            &root,
            answer["updatedInput"]["command"].as_str().unwrap()
        ),
        format!("{}/src\nit's\n", root.display())
    );
    let told = hook(
        &sandbox,
        "stop",
        &json!({ "session_id": "8f2c11ab-0000", "cwd": root }),
    );
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert!(
        told["systemMessage"]
            .as_str()
            .unwrap()
            .starts_with("1 file changed in project/session-8f2c11ab0000"),
        "{told}"
    );
}

#[test]
fn the_own_tools_of_an_agent_change_no_file_that_its_commands_would_not_see() {
    let sandbox = project();
    let root = sandbox.path("project").canonicalize().unwrap();
    for tool in ["Write", "Edit", "MultiEdit"] {
        let answer = decision(
            &sandbox,
            &root,
            tool,
            json!({ "file_path": root.join("src/../new.txt") }),
        )
        .unwrap();
        assert_eq!(answer["permissionDecision"], "deny", "{answer}");
        assert!(
            answer["permissionDecisionReason"]
                .as_str()
                .unwrap()
                .contains("agentvfs server"),
            "{answer}"
        );
    }
    assert_eq!(
        decision(&sandbox, &root, "apply_patch", json!({ "command": "x" })).unwrap()["permissionDecision"],
        "deny"
    );
    // What is not in the project is the agent's own business, and so is reading.
    assert_eq!(
        decision(
            &sandbox,
            &root,
            "Write",
            json!({ "file_path": "/tmp/elsewhere.txt" })
        ),
        None
    );
    assert_eq!(
        decision(
            &sandbox,
            &root,
            "Read",
            json!({ "file_path": root.join("notes.txt") })
        ),
        None
    );
}

#[test]
fn undecidable_command_does_not_run() {
    let sandbox = project();
    let home = sandbox.path("home");
    // The home of a user is no project.
    let answer = decision(&sandbox, &home, "Bash", json!({ "command": "echo on the host" })).unwrap();
    assert_eq!(answer["permissionDecision"], "deny", "{answer}");
    let root = sandbox.path("project");
    assert_eq!(
        decision(&sandbox, &root, "Bash", json!({})).unwrap()["permissionDecision"],
        "deny"
    );
    let output = hook(&sandbox, "pre-tool-use", &json!("no object"));
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("\"permissionDecision\":\"deny\""),
        "{output:?}"
    );
}

#[test]
fn a_worktree_is_a_mounted_fork_with_everything_and_its_work_stays() {
    let sandbox = project();
    let root = sandbox.path("project").canonicalize().unwrap();
    std::fs::create_dir_all(root.join("node_modules/x")).unwrap();
    std::fs::write(root.join("node_modules/x/i.js"), "1\n").unwrap();
    let created = hook(
        &sandbox,
        "worktree-create",
        &json!({ "name": "Fix login", "cwd": root, "session_id": "s" }),
    );
    let path = String::from_utf8(created.stdout).unwrap();
    let path = Path::new(path.trim_end());
    assert_eq!(
        std::fs::read_to_string(path.join("node_modules/x/i.js")).unwrap(),
        "1\n"
    );
    // The tools of the agent and its commands work on the same files.
    std::fs::write(path.join("notes.txt"), "tool\n").unwrap();
    assert_eq!(
        decision(
            &sandbox,
            path,
            "Write",
            json!({ "file_path": path.join("notes.txt") })
        ),
        None
    );
    let answer = decision(
        &sandbox,
        path,
        "Bash",
        json!({ "command": "cat notes.txt; echo more >>notes.txt" }),
    )
    .unwrap();
    let line = answer["updatedInput"]["command"].as_str().unwrap();
    assert!(line.contains("--vault project/fix-login"), "{line}");
    assert_eq!(run_line(&sandbox, path, line), "tool\n");
    assert_eq!(
        std::fs::read_to_string(path.join("notes.txt")).unwrap(),
        "tool\nmore\n"
    );
    let started = hook(
        &sandbox,
        "session-start",
        &json!({ "cwd": path, "session_id": "s" }),
    );
    assert!(
        String::from_utf8_lossy(&started.stdout).contains("workspace project/fix-login"),
        "{started:?}"
    );
    let removed = hook(
        &sandbox,
        "worktree-remove",
        &json!({ "worktree_path": path, "cwd": root, "session_id": "s" }),
    );
    assert!(removed.status.success(), "{removed:?}");
    assert!(!path.exists());
    assert_eq!(
        std::fs::read_to_string(root.join("notes.txt")).unwrap(),
        "one\ntwo\nthree\n"
    );
    sandbox.good("apply fix-login");
    assert_eq!(
        std::fs::read_to_string(root.join("notes.txt")).unwrap(),
        "tool\nmore\n"
    );
}

/// The names of the checkpoints of a vault with their notes, newest first.
fn checkpoints(sandbox: &Sandbox, vault: &str) -> Vec<(String, String)> {
    let list = sandbox.object(&format!("checkpoint list --vault {vault} --json"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = list["checkpoints"].as_array().unwrap().iter();
    list.map(|known| (text(&known["name"]), text(&known["message"])))
        .collect()
}

#[test]
fn a_checkpoint_before_each_change_says_which_tool_and_which_file() {
    let sandbox = project();
    let root = sandbox.path("project").canonicalize().unwrap();
    let created = hook(
        &sandbox,
        "worktree-create",
        &json!({ "name": "names", "cwd": root }),
    );
    let path = String::from_utf8(created.stdout).unwrap();
    let path = Path::new(path.trim_end());
    let change = |tool: &str, input: Value, text: &str| {
        assert_eq!(decision(&sandbox, path, tool, input), None);
        std::fs::write(path.join("src/main.py"), text).unwrap();
    };
    change(
        "Edit",
        json!({ "file_path": path.join("src/main.py") }),
        "second\n",
    );
    change("Edit", json!({ "file_path": "src/../src/main.py" }), "third\n");
    let patch = "*** Begin Patch\n*** Update File: src/main.py\n@@\n-third\n+fourth\n*** End Patch\n";
    change("apply_patch", json!({ "command": patch }), "fourth\n");
    assert_eq!(
        checkpoints(&sandbox, "project/names"),
        [
            ("before-apply_patch-src-main.py", "apply_patch src/main.py"),
            ("before-edit-src-main.py-2", "Edit src/main.py"),
            ("before-edit-src-main.py", "Edit src/main.py"),
        ]
        .map(|(name, message)| (name.to_owned(), message.to_owned()))
    );
    let at = |name: &str| sandbox.good(&format!("cat /src/main.py --at {name} --vault project/names"));
    assert_eq!(at("before-edit-src-main.py"), "print('first')\n");
    assert_eq!(at("before-edit-src-main.py-2"), "second\n");
    assert_eq!(at("before-apply_patch-src-main.py"), "third\n");
    sandbox.good("checkpoint restore before-edit-src-main.py-2 --vault project/names");
    assert_eq!(
        std::fs::read_to_string(path.join("src/main.py")).unwrap(),
        "second\n"
    );
    sandbox.good("workspace stop names");
}

#[test]
fn a_worktree_in_which_nothing_changed_leaves_nothing() {
    let sandbox = project();
    let root = sandbox.path("project").canonicalize().unwrap();
    let created = hook(
        &sandbox,
        "worktree-create",
        &json!({ "name": "idle", "cwd": root }),
    );
    let path = String::from_utf8(created.stdout).unwrap();
    // The change for which a state was saved was not made after all.
    let file = Path::new(path.trim_end()).join("notes.txt");
    assert_eq!(
        decision(
            &sandbox,
            file.parent().unwrap(),
            "Write",
            json!({ "file_path": file })
        ),
        None
    );
    hook(
        &sandbox,
        "worktree-remove",
        &json!({ "worktree_path": path.trim_end(), "cwd": root }),
    );
    assert_eq!(sandbox.good("tasks --all"), "");
    let output = hook(
        &sandbox,
        "worktree-remove",
        &json!({ "worktree_path": "/nowhere", "cwd": root }),
    );
    assert_eq!(output.status.code(), Some(3), "{output:?}");
}

#[test]
fn quickstart_says_what_to_type_and_it_works() {
    let sandbox = project();
    let printed = sandbox.good("quickstart ..");
    let mount = printed
        .lines()
        .find_map(|line| line.strip_prefix("mount="))
        .unwrap();
    let next = printed
        .lines()
        .find_map(|line| line.strip_prefix("next="))
        .unwrap();
    assert!(next.starts_with(&format!("cd {mount} && ")), "{printed}");
    assert_eq!(
        std::fs::read_to_string(Path::new(mount).join("notes.txt")).unwrap(),
        "one\ntwo\nthree\n"
    );
    let listed = sandbox.good("workspace list");
    assert!(listed.contains(mount), "{listed}");
    // Nothing was done in it yet, so it serves again.
    assert_eq!(sandbox.good("quickstart .."), printed);
    sandbox.good("workspace stop task-1");
}
