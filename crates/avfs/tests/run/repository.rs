//! A project that is a git repository.

use std::process::Command;

use crate::project::{Project, good};

/// With a credential, a key of tests, and another branch with a key, all of them tracked.
fn repository() -> Project {
    let project = Project::new();
    let script = "git init -q -b main; echo 'API_TOKEN=Zk38vnQ0pLw2' >.env; echo PORT=1 >.env.test
        mkdir tests; printf -- '-----BEGIN PRIVATE KEY-----' >tests/key.pem; touch -d yesterday .env .env.test tests/key.pem
        git add -f .; git commit -qm first; git checkout -qb other; echo x >server.key; git add -f .; git commit -qm key
        git checkout -q main; git update-index -q --refresh";
    let mut sh = Command::new("bash");
    good(sh.args(["-euc", script]).current_dir(project.root()).env("HOME", project.home()));
    project
}

#[test]
fn commits_are_counted_and_a_secret_that_git_tells_is_pointed_out() {
    let project = repository();
    let script = "cat .env; git show HEAD:.env; echo more >>work.txt; git commit -qam second; git log --oneline | wc -l";
    let output = project.avfs(&["run", "--", "sh", "-c", script]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "API_TOKEN=Zk38vnQ0pLw2\n2\n", "{said}");
    let told = "hidden: .env (a password or key)\ngit tracks and shows (`git show`) all the same: .env\n";
    assert!(said.contains(told), "{said}");
    assert!(said.contains("1 commit was made\n"), "{said}");
    assert!(said.contains("1 file changed (1 modified)\n  modified  work.txt\n"), "{said}");
}

#[test]
fn git_stays_clean_beside_hidden_files_and_no_commit_that_changes_them_comes_home() {
    let project = repository();
    let script =
        "cat .env.test tests/key.pem; ls -A | xargs; clean() { git status --porcelain; git diff-files; }
        clean; echo more >>work.txt; git add -A; git commit -qm second; clean
        git checkout -q other; clean; git checkout -q main; git merge -q other -m merged; clean
        git reset -q --hard HEAD~1; git stash -q; git clean -fdxq; clean; git show --format= --name-only";
    let printed = good(&mut project.avfs(&["run", "--name", "one", "--", "sh", "-euc", script]));
    assert_eq!(printed, "PORT=1\n-----BEGIN PRIVATE KEY-----.env.test .git tests work.txt\nwork.txt\n");
    let script = "git rm -q --sparse --cached .env; git commit -qm removed";
    good(&mut project.avfs(&["run", "--task", "one", "--", "sh", "-euc", script]));
    let refused = project.avfs(&["apply", "one", "--commits", "--json"]).output().unwrap();
    let error: serde_json::Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!(error["error"]["code"], "hidden-changed", "{error}");
    assert!(error["error"]["message"].as_str().unwrap().ends_with(" deletes /.env"), "{error}");
    // The hint, as it is typed.
    good(&mut project.avfs(&["apply", "one", "--branch", "one-files", "-m", "Work of one"]));
    let mut git = Command::new("git");
    let kept = git.args(["show", "--format=", "--name-only", "one-files"]).current_dir(project.root());
    assert_eq!(good(kept.env("HOME", project.home())), "work.txt\n");
    let hidden = good(&mut project.avfs(&["rules", "hidden"]));
    assert_eq!(hidden, ".env  a password or key, tracked: `git show` prints it all the same\n");
}

#[test]
fn without_hidden_paths_and_commits_nothing_is_said_of_them() {
    let project = repository();
    let output = project.avfs(&["run", "--no-rules", "--", "cat", ".env"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "API_TOKEN=Zk38vnQ0pLw2\n", "{said}");
    assert!(!said.contains("hidden") && !said.contains("commit"), "{said}");
}
