//! A project that is a git repository.

use std::fs;
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
    good(
        sh.args(["-euc", script])
            .current_dir(project.root())
            .env("HOME", project.home()),
    );
    project
}

#[test]
fn commits_are_counted_and_a_secret_that_git_tells_is_pointed_out() {
    let project = repository();
    let script = "cat .env; git show HEAD:.env; echo more >>work.txt; git commit -qam second; git log --oneline | wc -l";
    let output = project.avfs(&["run", "--", "sh", "-c", script]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "API_TOKEN=Zk38vnQ0pLw2\n2\n",
        "{said}"
    );
    let told = "hidden: .env (a password or key)\ngit tracks and shows (`git show`) all the same: .env\n";
    assert!(said.contains(told), "{said}");
    assert!(said.contains("1 commit was made\n"), "{said}");
    assert!(
        said.contains("1 file changed (1 modified)\n  modified  work.txt\n"),
        "{said}"
    );
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
    assert_eq!(
        printed,
        "PORT=1\n-----BEGIN PRIVATE KEY-----.env.test .git tests work.txt\nwork.txt\n"
    );
    let script = "git rm -q --sparse --cached .env; git commit -qm removed";
    good(&mut project.avfs(&["run", "--task", "one", "--", "sh", "-euc", script]));
    let refused = project
        .avfs(&["apply", "one", "--commits", "--json"])
        .output()
        .unwrap();
    let error: serde_json::Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!(error["error"]["code"], "hidden-changed", "{error}");
    assert!(
        error["error"]["message"]
            .as_str()
            .unwrap()
            .ends_with(" deletes /.env"),
        "{error}"
    );
    // The hint, as it is typed.
    good(&mut project.avfs(&["apply", "one", "--branch", "one-files", "-m", "Work of one"]));
    let mut git = Command::new("git");
    let kept = git
        .args(["show", "--format=", "--name-only", "one-files"])
        .current_dir(project.root());
    assert_eq!(good(kept.env("HOME", project.home())), "work.txt\n");
    let hidden = good(&mut project.avfs(&["rules", "hidden"]));
    assert_eq!(
        hidden,
        ".env  a password or key, tracked: `git show` prints it all the same\n"
    );
}

#[test]
fn a_single_rule_comes_on_top_of_those_of_the_task() {
    let project = repository();
    fs::create_dir(project.root().join("private")).unwrap();
    fs::write(project.root().join("private/plan"), "x").unwrap();
    let list = [
        "--",
        "sh",
        "-c",
        "ls -A | grep -x -e .env -e private; test -d .git",
    ];
    let hide = [&["run", "--name", "one", "--rule", "private/=none"], &list[..]].concat();
    assert_eq!(good(&mut project.avfs(&hide)), "");
    let again = [&["run", "--task", "one", "--rule", "/.git/=read"], &list[..]].concat();
    assert_eq!(good(&mut project.avfs(&again)), "", "those of the task hold on");
}

#[test]
fn without_hidden_paths_and_commits_nothing_is_said_of_them() {
    let project = repository();
    let output = project
        .avfs(&["run", "--no-rules", "--", "cat", ".env"])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "API_TOKEN=Zk38vnQ0pLw2\n",
        "{said}"
    );
    assert!(!said.contains("hidden") && !said.contains("commit"), "{said}");
}

/// With a hook and settings of an editor that another branch has in other versions, and a package that ships some.
fn with_hooks() -> Project {
    let project = Project::new();
    let script = "git init -q -b main; mkdir .husky .vscode; echo a >a; echo main >.husky/pre-commit; echo '{}' >.vscode/settings.json
        echo node_modules >.gitignore; git add -A; git commit -qm first
        git checkout -qb other; echo other >.husky/pre-commit; echo '[]' >.vscode/settings.json; git commit -qam other
        git checkout -q main; mkdir -p node_modules/iconv-lite/.idea; echo x >node_modules/iconv-lite/.idea/vcs.xml
        find . -path ./.git -prune -o -type f -exec touch -d 2020-01-01 {} +; git update-index -q --refresh";
    let mut sh = Command::new("bash");
    good(
        sh.args(["-euc", script])
            .current_dir(project.root())
            .env("HOME", project.home()),
    );
    project
}

fn git(project: &Project, words: &[&str]) -> String {
    good(
        Command::new("git")
            .args(words)
            .current_dir(project.root())
            .env("HOME", project.home()),
    )
}

#[test]
fn git_works_on_tracked_hooks_and_settings_in_a_task() {
    let project = with_hooks();
    let script = "git checkout -q other; cat .husky/pre-commit; echo fix >>a; git commit -qam fix; git show --format= --name-only
        echo x >>.vscode/settings.json; git stash -q; git stash pop -q; git checkout -q .; git status --porcelain";
    let printed = good(&mut project.avfs(&["run", "--name", "one", "--", "sh", "-euc", script]));
    assert_eq!(printed, "other\na\n");
    good(&mut project.avfs(&["apply", "one", "--commits"]));
    assert_eq!(
        git(&project, &["show", "--format=", "--name-only", "avfs/one"]),
        "a\n"
    );
}

#[test]
fn packages_with_settings_of_editors_can_be_removed_and_installed_again() {
    let project = with_hooks();
    let script = "rm -rf node_modules; mkdir -p node_modules/iconv-lite/.idea; echo y >node_modules/iconv-lite/.idea/vcs.xml";
    good(&mut project.avfs(&["run", "--name", "one", "--", "sh", "-euc", script]));
}

#[test]
fn changed_hook_is_omitted_and_reported_until_it_is_named() {
    let project = with_hooks();
    let script = "echo evil >>.husky/pre-commit; echo more >>a; git commit -qam evil";
    good(&mut project.avfs(&["run", "--name", "one", "--", "sh", "-euc", script]));
    let refused = project.avfs(&["apply", "one", "--commits"]).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(4), "{said}");
    assert!(
        said.contains("changes /.husky/pre-commit (git runs it as a hook)"),
        "{said}"
    );
    assert!(
        said.contains("`avfs apply one --commits --allow /.husky/pre-commit`"),
        "{said}"
    );

    let made = project
        .avfs(&["apply", "one", "--branch", "files"])
        .output()
        .unwrap();
    let said = String::from_utf8(made.stderr).unwrap();
    assert_eq!(made.status.code(), Some(1), "{said}");
    assert!(
        said.contains("left out: .husky/pre-commit (git runs it as a hook; --allow includes it)"),
        "{said}"
    );
    good(&mut project.avfs(&["apply", "one", "--branch", "all", "--allow", ".husky/pre-commit"]));

    let applied = project.avfs(&["apply", "one"]).output().unwrap();
    let said = String::from_utf8(applied.stderr).unwrap();
    assert_eq!(applied.status.code(), Some(1), "{said}");
    assert!(
        said.contains("left out .husky/pre-commit: git runs it as a hook"),
        "{said}"
    );
    assert!(
        said.contains(
            "review it with `avfs diff one`; `avfs apply one --allow /.husky/pre-commit` applies it"
        ),
        "{said}"
    );
    let refused = project.avfs(&["discard", "one"]).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(
        said.contains("'one' (some of its files were left out when it was applied)"),
        "{said}"
    );
    let read = |name: &str| std::fs::read_to_string(project.root().join(name)).unwrap();
    assert_eq!(
        (read(".husky/pre-commit"), read("a")),
        ("main\n".into(), "a\nmore\n".into())
    );

    good(&mut project.avfs(&["apply", "one", "--allow", ".husky/pre-commit"]));
    assert_eq!(read(".husky/pre-commit"), "main\nevil\n");
    good(&mut project.avfs(&["apply", "one", "--commits", "--allow", ".husky/pre-commit"]));
}

#[test]
fn a_directory_that_git_would_take_for_a_repository_is_left_out() {
    let project = with_hooks();
    let script = "mkdir -p docs/objects docs/refs; touch docs/objects/.k docs/refs/.k; echo ref: refs/heads/main >docs/HEAD
        printf '[core]\n\trepositoryformatversion=0\n\tbare=false\n\tworktree=.\n\tfsmonitor=touch RAN; false\n' >docs/config
        echo text >docs/text";
    good(&mut project.avfs(&["run", "--name", "one", "--", "sh", "-euc", script]));
    let applied = project.avfs(&["apply", "one"]).output().unwrap();
    let said = String::from_utf8(applied.stderr).unwrap();
    assert!(
        said.contains("left out docs: git would take it for a repository"),
        "{said}"
    );
    let docs = project.root().join("docs");
    let mut status = Command::new("git");
    good(
        status
            .args(["status", "--porcelain"])
            .current_dir(&docs)
            .env("HOME", project.home()),
    );
    let mut names: Vec<_> = std::fs::read_dir(&docs)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["text"]);
}
