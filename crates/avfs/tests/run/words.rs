//! The answers of commands about tasks, and what they leave unchanged.

use std::process::Output;

use crate::project::{Project, good};

/// Its status and its messages.
fn said(project: &Project, words: &[&str]) -> (Option<i32>, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = project.avfs(words).output().unwrap();
    let text = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
    (status.code(), text)
}

fn with_task(project: &Project, name: &str, file: &str) {
    let script = format!("echo {name} >{file}");
    good(&mut project.avfs(&["run", "--name", name, "--", "sh", "-c", &script]));
}

#[test]
fn discarding_a_running_task_says_how_to_stop_it_and_discards_nothing() {
    let project = Project::new();
    with_task(&project, "done", "done.txt");
    good(&mut project.avfs(&["run", "--detach", "--name", "bg", "--", "sleep", "1000"]));
    for words in [&["discard", "bg"][..], &["discard", "--yes", "done", "bg"]] {
        let (status, text) = said(&project, words);
        assert_eq!(status, Some(5), "{text}");
        assert!(
            text.contains("task 'bg' is running") && text.contains("`avfs task stop bg`"),
            "{text}"
        );
    }
    assert!(good(&mut project.avfs(&["tasks"])).contains("done"));
    good(&mut project.avfs(&["task", "stop", "--kill-after", "0s", "bg"]));
    good(&mut project.avfs(&["discard", "--yes", "done", "bg"]));

    good(&mut project.avfs(&["workspace", "start", "editor", "--from", "."]));
    let (status, text) = said(&project, &["discard", "editor", "--yes"]);
    assert_eq!(status, Some(5), "{text}");
    assert!(text.contains("`avfs workspace stop editor`"), "{text}");
    good(&mut project.avfs(&["workspace", "stop", "editor"]));
    good(&mut project.avfs(&["discard", "editor", "--yes"]));
}

#[test]
fn the_work_of_a_discarded_task_is_not_redone() {
    let project = Project::new();
    with_task(&project, "r1", "r1.txt");
    good(&mut project.avfs(&["apply", "r1"]));
    good(&mut project.avfs(&["undo"]));
    good(&mut project.avfs(&["discard", "r1", "--yes"]));
    let (status, text) = said(&project, &["redo"]);
    assert_ne!(status, Some(0), "{text}");
    assert!(!project.root().join("r1.txt").exists(), "{text}");
    // Control: the work of an existing task is redone.
    with_task(&project, "r1", "r2.txt");
    good(&mut project.avfs(&["apply", "r1"]));
    good(&mut project.avfs(&["undo"]));
    good(&mut project.avfs(&["redo"]));
    assert!(project.root().join("r2.txt").exists());
}

#[test]
fn misspelt_task_name_is_reported_by_every_command() {
    let project = Project::new();
    with_task(&project, "only", "a.txt");
    let commands = [
        &["diff", "onyl"][..],
        &["apply", "onyl"],
        &["discard", "onyl"],
        &["sync", "onyl"],
    ];
    let check = || {
        for words in commands {
            let (status, text) = said(&project, words);
            assert_eq!(status, Some(3), "{words:?}: {text}");
            let is_told = text.contains("there is no task 'onyl'") && text.contains("did you mean 'only'?");
            assert!(is_told, "{words:?}: {text}");
        }
    };
    check();
    with_task(&project, "second", "b.txt");
    check();
    let (status, text) = said(&project, &["log", "onyl"]);
    assert!(
        status == Some(3) && text.contains("did you mean 'only'?"),
        "{text}"
    );
    assert!(good(&mut project.avfs(&["log", "only"])).contains("run"));
}

#[test]
fn the_policy_of_a_project_with_several_tasks_decides_what_check_says() {
    let project = Project::new();
    with_task(&project, "one", "a.txt");
    with_task(&project, "two", "b.txt");
    let policy = project.home().join("policy.toml");
    std::fs::write(
        &policy,
        "[[rules]]\nprefix = [\"make\", \"deploy\"]\naction = \"deny\"\n",
    )
    .unwrap();
    good(&mut project.avfs(&["policy", "set", policy.to_str().unwrap()]));
    let decided = good(&mut project.avfs(&["policy", "check", "--", "make", "deploy"]));
    assert!(decided.starts_with("deny:"), "{decided}");
}

fn git(project: &Project, script: &str) {
    let mut sh = std::process::Command::new("bash");
    good(
        sh.args(["-euc", script])
            .current_dir(project.root())
            .env("HOME", project.home()),
    );
}

#[test]
fn a_stash_is_told_after_an_apply_and_is_not_thrown_away_without_a_question() {
    let project = Project::new();
    git(
        &project,
        "git init -q -b main; git add .; git commit -qm first; echo mine >>work.txt",
    );
    let stash = "git stash -q; echo fix >fix.txt";
    let (_, text) = said(&project, &["run", "--name", "u1", "--", "sh", "-ec", stash]);
    assert!(text.contains("git: something is stashed\n"), "{text}");
    let told = "git: something is stashed (`avfs diff u1 /.git` shows the files)\n";
    let (status, text) = said(&project, &["apply", "u1"]);
    assert!(status == Some(0) && text.contains(told), "{text}");
    assert!(said(&project, &["diff", "u1"]).1.contains(told));
    assert!(good(&mut project.avfs(&["tasks"])).contains("unmerged"));
    good(&mut project.avfs(&["prune", "--tasks", "--yes"]));
    assert!(good(&mut project.avfs(&["tasks"])).contains("u1"));
    let (status, text) = said(&project, &["discard", "u1"]);
    assert!(
        status == Some(2) && text.contains("'u1' (its repository holds work that is nowhere else)"),
        "{text}"
    );
    assert!(good(&mut project.avfs(&["tasks"])).contains("u1"));
    good(&mut project.avfs(&["discard", "u1", "--yes"]));
}

#[test]
fn a_later_run_says_if_it_changed_no_file() {
    let project = Project::new();
    let (_, text) = said(
        &project,
        &["run", "--name", "x", "--", "sh", "-c", "echo 1 >one.txt"],
    );
    assert!(text.contains("task x: 1 file changed (1 added)\n"), "{text}");
    let (_, text) = said(&project, &["run", "--task", "x", "--", "true"]);
    assert!(
        text.contains("task x: 1 file changed (1 added), not by this run\n"),
        "{text}"
    );
    let (_, text) = said(
        &project,
        &["run", "--task", "x", "--", "sh", "-c", "echo 2 >two.txt"],
    );
    assert!(text.contains("task x: 2 files changed (2 added)\n"), "{text}");
}

#[test]
fn a_branch_that_is_left_is_brought_under_a_name_that_is_free() {
    let project = Project::new();
    git(&project, "git init -q -b main; git add .; git commit -qm first");
    let script = "git checkout -qb topic; git commit -q --allow-empty -m one
        git checkout -q main; git commit -q --allow-empty -m two; git checkout -q topic";
    said(&project, &["run", "--name", "x", "--", "sh", "-euc", script]);
    let (_, text) = said(&project, &["apply", "x", "--commits"]);
    let command = "avfs apply x --commits --of main --branch avfs/x-main";
    assert!(
        text.contains(&format!("left in the task: main; `{command}` delivers it")),
        "{text}"
    );
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    let (status, text) = said(&project, &words);
    assert!(
        status == Some(0) && text.contains("created branch 'avfs/x-main'"),
        "{text}"
    );
}

#[test]
fn commits_that_git_has_merged_are_applied() {
    let project = Project::new();
    git(&project, "git init -q -b main; git add .; git commit -qm first");
    let script = "echo one >one.txt; git add .; git commit -qm one; git checkout -qb topic HEAD~1
        echo two >two.txt; git add .; git commit -qm two; git checkout -q main";
    let (status, text) = said(&project, &["run", "--name", "x", "--", "sh", "-euc", script]);
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("keep:  avfs apply x --commits"), "{text}");
    let (_, text) = said(&project, &["apply", "x", "--commits"]);
    let command = "avfs apply x --commits --of topic --branch topic";
    assert!(
        text.contains(&format!("left in the task: topic; `{command}` delivers it")),
        "{text}"
    );
    // The hint, as it is typed; then nothing is left.
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    let (status, text) = said(&project, &words);
    assert!(status == Some(0) && !text.contains("left in the task"), "{text}");
    let (_, text) = said(&project, &["apply", "x", "--commits", "--branch", "again"]);
    assert!(!text.contains("left in the task"), "{text}");
    assert!(good(&mut project.avfs(&["tasks"])).contains("unmerged"));
    git(&project, "git merge -q avfs/x");
    let tasks = good(&mut project.avfs(&["tasks"]));
    assert!(
        tasks.contains("applied") && !tasks.contains("unmerged"),
        "{tasks}"
    );
}

#[test]
fn suggested_command_can_be_typed() {
    let project = Project::new();
    assert_eq!(good(&mut project.avfs(&["task", "new", "lazy"])), "lazy\n");
    // In the task that stays, whatever it changed.
    let curl = [
        "run",
        "--name",
        "ci",
        "--net",
        "+127.0.0.1:9999",
        "--",
        "curl",
        "-s",
        "http://example.com/",
    ];
    let (_, text) = said(&project, &curl);
    assert!(text.contains("allow: avfs run --task ci "), "{text}");
    let words = [
        "run",
        "--name",
        "kept",
        "--apply-on-success",
        "--",
        "sh",
        "-c",
        "echo new >new.txt",
    ];
    let (status, text) = said(&project, &words);
    assert!(status == Some(0) && !text.contains("keep:"), "{text}");
    // After a sync, the sides are named.
    with_task(&project, "d1", "work.txt");
    std::fs::write(project.root().join("work.txt"), "mine\n").unwrap();
    let (_, text) = said(&project, &["sync", "d1"]);
    let told = "`avfs resolve PATH --task --vault web/d1` (the task's) or `--directory` (the directory's)";
    assert!(text.contains(told), "{text}");
    good(&mut project.avfs(&["resolve", "work.txt", "--task", "--vault", "web/d1"]));
}

#[test]
fn the_shell_of_a_workspace_names_it_in_its_prompt() {
    let project = Project::new();
    good(&mut project.avfs(&["workspace", "start", "try", "--from", "."]));
    let mut script = std::process::Command::new("script");
    let line = format!("{} workspace enter try", project.program().display());
    script.args(["-qec", &line, "/dev/null"]);
    let mut shell = project.in_project(script, &[]);
    let shell = shell
        .env("SHELL", "/bin/bash")
        .env("PS1", "> ")
        .stdin(std::process::Stdio::piped());
    let mut shell = shell.stdout(std::process::Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut shell.stdin.take().unwrap(), b"exit\n").unwrap();
    let shown = String::from_utf8_lossy(&shell.wait_with_output().unwrap().stdout).into_owned();
    assert!(shown.contains("(try) "), "{shown}");
    good(&mut project.avfs(&["workspace", "stop", "try"]));
}

#[test]
fn flags_behind_the_program_are_its_own() {
    let project = Project::new();
    let (status, text) = said(
        &project,
        &[
            "run",
            "--name",
            "quiet",
            "sh",
            "-c",
            "echo \"got $*\" >f",
            "sh",
            "-q",
            "--json",
        ],
    );
    assert_eq!(status, Some(0), "{text}");
    assert!(
        text.contains("task quiet"),
        "it is reported as without the program's flags: {text}"
    );
    assert!(good(&mut project.avfs(&["cat", "f", "--vault", "quiet"])).contains("got -q --json"));
    let (_, text) = said(&project, &["exec", "--vault", "quiet", "echo", "--json"]);
    assert!(
        text.contains("--json") && !text.contains("schema_version"),
        "{text}"
    );
}
