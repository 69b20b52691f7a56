//! Nothing is made of a run that cannot begin, and nothing is left of one that changes nothing.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::project::{Project, good};

fn run(project: &Project, words: &[&str]) -> Output {
    project.avfs(&[&["run"], words].concat()).output().unwrap()
}

fn object(project: &Project, words: &[&str]) -> Value {
    let output = project.avfs(&[&["--json"], words].concat()).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The numbers of projects, tasks and vaults.
fn made(project: &Project) -> [usize; 3] {
    let count = |words: &[&str], list: &str| object(project, words)[list].as_array().unwrap().len();
    [
        count(&["project", "list"], "projects"),
        count(&["tasks", "--all"], "tasks"),
        count(&["vault", "list"], "vaults"),
    ]
}

#[test]
fn a_run_that_cannot_begin_leaves_no_project_vault_or_task() {
    let project = Project::new();
    for (words, status) in [
        (&["--", "no-such-program"][..], 127),
        (&["--", "./work.txt"], 126),
        (&["--name", "fix", "--", "no-such-program"], 127),
        (&["--name", "a/b", "--", "true"], 2),
        (&["--rule", "nonsense", "--", "true"], 2),
        (&["--profile", "unheard-of", "--", "true"], 3),
        (&["--task", "unheard-of", "--", "true"], 3),
    ] {
        let output = run(&project, words);
        assert_eq!(
            output.status.code(),
            Some(status),
            "{words:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert_eq!(made(&project), [0, 0, 0], "{words:?}");
    }
    let body = object(&project, &["run", "--", "no-such-program"]);
    assert_eq!(
        (&body["exit_code"], &body["discarded"]),
        (&127.into(), &true.into())
    );
    // Where there is a project already, it stays.
    run(&project, &["--name", "kept", "--", "true"]);
    run(&project, &["--", "no-such-program"]);
    assert_eq!(made(&project), [1, 1, 2]);
}

#[test]
fn a_directory_that_cannot_be_a_project_is_refused_before_it_is_looked_at() {
    let project = Project::new();
    let home = project.home();
    for (place, why) in [
        (Path::new("/var/tmp"), "sandboxes have their own /var/tmp"),
        (Path::new("/"), "it is the root of the system"),
        (&*home, "it is your home directory"),
    ] {
        let said = |words: &[&str]| {
            let output = project.avfs(words).current_dir(place).output().unwrap();
            let text = [output.stdout, output.stderr]
                .map(|text| String::from_utf8(text).unwrap())
                .concat();
            (output.status.code(), text)
        };
        let (status, text) = said(&["run", "--", "true"]);
        let place = place.display();
        assert_eq!(status, Some(2), "{text}");
        assert_eq!(
            text,
            format!("error: '{place}' cannot be a project: {why}\nhint: use a directory below it\n")
        );
        for words in ["status", "tasks"] {
            let (_, text) = said(&[words]);
            assert!(
                text.contains(why) && text.contains("a project is a directory below"),
                "{text}"
            );
            assert!(!text.contains("avfs run"), "{text}");
        }
    }
    assert_eq!(made(&project), [0, 0, 0]);
}

#[test]
fn a_task_in_which_nothing_changed_is_gone_unless_it_was_named() {
    let project = Project::new();
    let output = run(&project, &["--", "cat", "work.txt"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("task task-1: nothing changed, so it is gone\n"),
        "{said}"
    );
    assert_eq!(made(&project), [1, 0, 1]);
    run(&project, &["--", "sh", "-c", "echo >>work.txt"]);
    run(&project, &["--name", "named", "--", "true"]);
    run(&project, &["--", "avfs", "checkpoint", "save", "here"]);
    good(&mut project.avfs(&["task", "new", "--name", "made"]));
    let names: Vec<Value> = object(&project, &["tasks"])["tasks"].as_array().unwrap().clone();
    let names: Vec<&str> = names.iter().map(|task| task["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["task-2", "named", "task-3", "made"]);
}

#[test]
fn looking_at_a_setup_makes_no_project() {
    let project = Project::new();
    std::fs::write(
        project.root().join("avfs.toml"),
        "[setup]\ncommands = [\"true\"]\n",
    )
    .unwrap();
    assert_eq!(object(&project, &["project", "setup", "show"])["allowed"], false);
    assert_eq!(made(&project), [0, 0, 0]);
    good(&mut project.avfs(&["project", "setup", "allow", "--yes"]));
    assert_eq!(object(&project, &["project", "setup", "show"])["allowed"], true);
}
