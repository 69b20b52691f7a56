//! A project that is a git repository.

use std::process::Command;

use crate::project::{Project, good};

fn repository() -> Project {
    let project = Project::new();
    std::fs::write(project.root().join(".env"), "SECRET=1\n").unwrap();
    for line in ["init -q -b main", "add -f .env work.txt", "commit -qm first"] {
        let mut git = Command::new("git");
        git.args(line.split(' ')).current_dir(project.root()).env("HOME", project.home());
        good(&mut git);
    }
    project
}

#[test]
fn commits_are_counted_and_a_secret_that_git_tells_is_pointed_out() {
    let project = repository();
    let script = "cat .env; git show HEAD:.env; echo more >>work.txt; git commit -qam second; git log --oneline | wc -l";
    let output = project.avfs(&["run", "--", "sh", "-c", script]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "SECRET=1\n2\n", "{said}");
    assert!(said.contains("hidden from the program, but not in git's history: /.env"), "{said}");
    assert!(said.contains("1 commit was made\n"), "{said}");
    assert!(said.contains("1 file changed\n  M work.txt\n"), "{said}");
}

#[test]
fn without_hidden_paths_and_commits_nothing_is_said_of_them() {
    let project = repository();
    let output = project.avfs(&["run", "--no-rules", "--", "cat", ".env"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "SECRET=1\n", "{said}");
    assert!(!said.contains("history") && !said.contains("commit"), "{said}");
}
