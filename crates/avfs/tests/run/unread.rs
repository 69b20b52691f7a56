//! Files that have not been read in a task: moved, removed, replaced, and changed by the user meanwhile.

use std::fs;

use serde_json::Value;

use crate::project::{Project, good};

fn project() -> Project {
    let project = Project::new();
    for (name, text) in [("a", "a\n"), ("b", "b\n"), ("d/x", "x\n")] {
        let file = project.root().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    project
}

fn avfs(project: &Project, line: &str) -> String {
    good(&mut project.avfs(&line.split(' ').collect::<Vec<_>>()))
}

fn run(project: &Project, task: &str, script: &str) {
    good(&mut project.avfs(&["run", "--name", task, "--", "bash", "-c", script]));
}

fn state(project: &Project) -> String {
    let tasks: Value = serde_json::from_str(&avfs(project, "--json tasks")).unwrap();
    tasks["tasks"][0]["state"].as_str().unwrap().to_owned()
}

fn read(project: &Project, name: &str) -> Option<String> {
    fs::read_to_string(project.root().join(name)).ok()
}

/// Applied, undone and applied again: each time everything is known that is needed.
fn apply_undo_apply(project: &Project) {
    for _ in 0..2 {
        avfs(project, "apply --yes");
        assert_eq!(state(project), "applied");
        avfs(project, "review --json");
        avfs(project, "undo");
        assert_eq!(read(project, "a").as_deref(), Some("a\n"));
        assert_eq!(read(project, "b").as_deref(), Some("b\n"));
        assert_eq!(read(project, "d/x").as_deref(), Some("x\n"));
    }
    avfs(project, "apply --yes");
}

#[test]
fn moved_files_and_directories_are_applied_again_after_an_undo() {
    let project = project();
    run(&project, "move", "mv a a2; mv d e");
    apply_undo_apply(&project);
    assert_eq!(read(&project, "a2").as_deref(), Some("a\n"));
    assert_eq!(read(&project, "e/x").as_deref(), Some("x\n"));
    assert_eq!(avfs(&project, "run --task move -- cat a2 e/x"), "a\nx\n");
}

#[test]
fn removed_and_replaced_files_are_applied_again_after_an_undo() {
    let project = project();
    run(
        &project,
        "remove",
        "rm b; rm -r d; echo new >d; echo other >c; mv c a",
    );
    apply_undo_apply(&project);
    assert_eq!(read(&project, "d").as_deref(), Some("new\n"));
    assert_eq!(read(&project, "a").as_deref(), Some("other\n"));
    assert_eq!(read(&project, "b"), None);
}

#[test]
fn a_file_that_the_user_changed_before_it_was_read_is_moved_with_the_change() {
    let project = project();
    run(&project, "move", "mv a a2");
    fs::write(project.root().join("a"), "a\nmine\n").unwrap();
    avfs(&project, "apply --yes");
    assert_eq!(read(&project, "a2").as_deref(), Some("a\nmine\n"));
    assert_eq!(state(&project), "applied");
}

#[test]
fn a_file_that_the_user_changed_in_a_directory_that_was_moved_is_moved_with_the_change() {
    for script in ["mv d e", "cat d/x; mv d e"] {
        let project = project();
        run(&project, "move", script);
        fs::write(project.root().join("d/x"), "mine\n").unwrap();
        avfs(&project, "apply --yes");
        assert_eq!(state(&project), "applied", "{script}");
        assert_eq!(read(&project, "e/x").as_deref(), Some("mine\n"), "{script}");
        assert_eq!(read(&project, "d/x"), None, "{script}");
    }
}

#[test]
fn a_file_that_the_user_removed_is_no_change_of_a_task_that_looked_for_it() {
    let project = project();
    run(&project, "more", "echo 2 >two");
    fs::remove_file(project.root().join("b")).unwrap();
    let missing = project
        .avfs(&["run", "--task", "more", "--", "cat", "b"])
        .output()
        .unwrap();
    assert_eq!(missing.status.code(), Some(1));
    avfs(&project, "apply --yes");
    assert_eq!(read(&project, "two").as_deref(), Some("2\n"));
    assert_eq!(read(&project, "b"), None);
    // In another project, a file of that name has not been looked up.
    let other = project.home().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("b"), "b\n").unwrap();
    for words in [
        &["run", "--name", "gone", "--", "rm", "b"][..],
        &["apply", "--yes"],
    ] {
        good(project.avfs(words).current_dir(&other));
    }
    assert!(!other.join("b").exists());
}

#[test]
fn work_in_a_repository_that_no_branch_shows_keeps_a_task() {
    let project = project();
    let sh = |script: &str| {
        let mut sh = std::process::Command::new("sh");
        good(
            sh.args(["-euc", script])
                .current_dir(project.root())
                .env("HOME", project.home()),
        );
    };
    sh("git init -q -b main; git add -A; git commit -q -m first");
    for script in [
        "echo more >>a; git stash -q",
        "git checkout -q --detach; git commit -q --allow-empty -m x; git checkout -q main",
        "echo w >w; echo w >>.git/info/exclude",
        "echo w >w; git add w; rm w",
    ] {
        let output = project
            .avfs(&["run", "--", "bash", "-c", script])
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!said.contains("so it is gone"), "{script}: {said}");
        assert_eq!(state(&project), "unmerged", "{script}");
        avfs(&project, "discard --yes");
    }
    // Reading does not count as work.
    let output = project.avfs(&["run", "--", "git", "status"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("nothing changed, so it is gone"), "{said}");
}

#[test]
fn a_task_whose_directory_is_gone_hides_no_other() {
    let project = project();
    run(&project, "here", "echo 1 >>a");
    let other = project.home().join("other");
    fs::create_dir(&other).unwrap();
    good(
        project
            .avfs(&["run", "--name", "gone", "--", "touch", "f"])
            .current_dir(&other),
    );
    fs::remove_dir_all(&other).unwrap();
    let listed = avfs(&project, "tasks --all");
    assert!(
        listed.contains("here ") && listed.contains("other/gone"),
        "{listed}"
    );
    assert!(
        listed.contains(&format!("its directory {} is missing", other.display())),
        "{listed}"
    );
}

#[test]
fn an_undo_names_the_command_of_a_run() {
    let project = project();
    run(&project, "work", "echo more >>a");
    let told = |line: &str| {
        let output = project
            .avfs(&line.split(' ').collect::<Vec<_>>())
            .output()
            .unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    let undone = told("undo --vault work");
    assert!(
        undone.starts_with("undid the run `bash -c echo more >>a` of 20"),
        "{undone}"
    );
    assert!(undone.contains(" in vault 'web/work' (1 file)\n"), "{undone}");
    let redone = told("redo --vault work");
    assert_eq!(
        redone,
        "redid the run `bash -c echo more >>a` in vault 'web/work' (1 file)\n"
    );
}

#[test]
fn nothing_is_thrown_away_unasked_that_is_not_in_the_directory() {
    let project = project();
    let refused = |line: &str, reason: &str| {
        let output = project
            .avfs(&line.split(' ').collect::<Vec<_>>())
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(reason), "{said}");
    };
    run(&project, "work", "echo more >>a");
    refused("discard work", "its work was not applied");
    avfs(&project, "apply --yes");
    fs::write(project.root().join("a"), "a\n").unwrap();
    refused(
        "discard work",
        "its work was applied, and is no longer in the directory",
    );
    assert_eq!(avfs(&project, "prune --tasks --yes"), "");
    avfs(&project, "apply --yes");
    avfs(&project, "undo");
    avfs(&project, "undo --vault work");
    refused("discard work", "its work was undone, and can be done again");
    avfs(&project, "redo --vault work");
    assert_eq!(avfs(&project, "run --task work -- cat a"), "a\nmore\n");
    avfs(&project, "apply --yes");
    assert_eq!(avfs(&project, "prune --tasks --yes"), "web/work\n");
}

#[test]
fn a_workspace_that_cannot_be_made_leaves_nothing() {
    let project = project();
    for words in [
        &["workspace", "start", "w", "--from", "a"][..],
        &["workspace", "enter", "w", "--from", ".", "--", "no-such-program"],
    ] {
        assert!(!project.avfs(words).output().unwrap().status.success());
        let projects: Value = serde_json::from_str(&avfs(&project, "--json project list")).unwrap();
        assert_eq!(projects["projects"], Value::Array(Vec::new()), "{words:?}");
    }
}
