//! git as a source, and git as a destination.

use std::path::Path;
use std::process::Command;

use agentvfs::{NewTask, TaskName, TreePath};
use serde_json::json;

use crate::sandbox::Sandbox;

#[track_caller]
pub fn sh(dir: &Path, script: &str) -> String {
    let mut command = Command::new("bash");
    command
        .args(["-euc", script])
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null");
    for who in ["GIT_AUTHOR", "GIT_COMMITTER"] {
        command
            .env(format!("{who}_NAME"), "Someone")
            .env(format!("{who}_EMAIL"), "someone@example.org");
    }
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{script}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
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
    assert_eq!(
        (&made["report"]["files"], made["commit"].as_str().unwrap().len()),
        (&3.into(), 40)
    );
    assert_eq!(sandbox.good("ls"), "bin\nlink\nlist\n");
    sandbox.good_with(["write", "new file", "text"]);
    sandbox.good("rm link");
    sandbox.good("chmod 644 bin/run");
    sandbox
        .avfs()
        .args(["write", "list"])
        .write_stdin("0\n1\n")
        .assert()
        .success();
    let patch = sandbox.path("changes.patch");
    std::fs::write(&patch, sandbox.data("diff --patch")).unwrap();
    let source = sandbox.path("project/src");
    sh(
        &source,
        &format!("git checkout -q v1; git apply --index {}", patch.display()),
    );
    assert_eq!(
        sh(&source, "cat list 'new file'; git diff --cached --name-status v1"),
        "0\n1\ntext\nM\tbin/run\nD\tlink\nM\tlist\nA\tnew file"
    );
}

#[test]
fn a_commit_that_is_not_there_makes_no_vault() {
    let sandbox = with_repository();
    assert_eq!(
        sandbox.bad("vault create web --from-git .@nowhere"),
        (3, "unknown-commit".into())
    );
    assert_eq!(
        sandbox.bad("vault create web --from-git missing"),
        (2, "not-a-repository".into())
    );
    assert_eq!(
        sandbox.bad("vault create web --from-git .. --from .."),
        (2, "usage".into())
    );
    assert_eq!(
        sandbox.object("vault list --json")["vaults"],
        serde_json::json!([])
    );
}

/// A repository, and a task `fix` in it with a commit, a file that is not committed, and one that is ignored.
fn with_task() -> Sandbox {
    let sandbox = with_repository();
    let source = sandbox.path("project/src");
    let path = |text: &str| TreePath::parse(text.as_bytes()).unwrap();
    let name = Some(TaskName::new("fix").unwrap());
    let task = sandbox.library().project(&source).unwrap().new_task(&NewTask {
        name,
        ..NewTask::default()
    });
    sh(
        &sandbox.path(""),
        "cp -a project/src work; cd work; echo '*.log' >.gitignore; git add -A; git commit -qm $'ignore \\e[31mlogs'",
    );
    let open = task.unwrap().vault().begin().unwrap();
    open.remove(&path(".git"), true).unwrap();
    open.imports()
        .directory(&sandbox.path("work/.git"), &path(".git"), &())
        .unwrap();
    for (file, bytes) in [(".gitignore", "*.log\n"), ("a.log", "log\n"), ("new", "new\n")] {
        open.write_bytes(&path(file), bytes.as_bytes()).unwrap();
    }
    open.commit("work", "").unwrap();
    sandbox
}

#[test]
fn a_task_tells_its_commits_and_brings_them() {
    let sandbox = with_task();
    let task = &sandbox.object("tasks --json")["tasks"][0];
    assert_eq!(
        (&task["commits"], &task["changed"]["added"]),
        (&1.into(), &2.into())
    );
    assert!(sandbox.good("tasks").contains("+2, 1 commit"));
    let diff = sandbox.object("diff fix --json");
    let paths: Vec<&str> = diff["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| change["path"].as_str().unwrap())
        .collect();
    assert_eq!(paths, ["/.gitignore", "/new"]);
    assert_eq!(
        diff["ignored"],
        json!({"files": 1, "places": [{"path": "/a.log", "files": 1}]})
    );
    assert_eq!(diff["git"]["moved"][0]["name"], "refs/heads/main");
    assert_eq!(diff["git"]["commits"][0]["files"], 1);
    let told = sandbox.run("diff fix");
    assert!(
        told.contains("git: main moved from") && told.contains("ignore \\u{1b}[31mlogs (Someone)"),
        "{told}"
    );
    assert_eq!(
        sandbox.bad("apply fix --commits --branch -x"),
        (2, "usage".into())
    );
    assert_eq!(
        sandbox.bad("apply fix --commits --branch a..b"),
        (2, "bad-branch".into())
    );
    assert_eq!(
        sandbox.bad("apply fix --commits --branch main"),
        (4, "branch-exists".into())
    );
    let applied = sandbox.object("apply fix --commits --json");
    assert_eq!(
        (&applied["kind"], &applied["branch"], &applied["left"]),
        (&"apply-commits".into(), &"avfs/fix".into(), &json!([]))
    );
    let source = sandbox.path("project/src");
    assert_eq!(
        sh(&source, "git log -1 --format=%H avfs/fix; git status --porcelain"),
        applied["commit"].as_str().unwrap()
    );
    assert_eq!(sandbox.object("tasks --json")["tasks"][0]["commits"], 0);
    assert_eq!(
        sandbox.object("tasks --json")["tasks"][0]["state"],
        "unmerged",
        "its files are not there yet"
    );
}

#[test]
fn the_files_of_a_task_become_a_commit() {
    let sandbox = with_task();
    let made = sandbox.object("apply fix --branch files -m Done --json");
    assert_eq!(
        (&made["kind"], &made["files"]),
        (&"apply-branch".into(), &2.into())
    );
    assert_eq!(made["left_out"], json!([{"path": "/a.log", "reason": "ignored"}]));
    let source = sandbox.path("project/src");
    assert_eq!(
        sh(
            &source,
            "git log -1 --format=%s files; git diff-tree -r --name-only main files; git status --porcelain"
        ),
        "Done\n.gitignore\nnew"
    );
    assert_eq!(
        sandbox.bad("apply fix --branch files"),
        (4, "branch-exists".into())
    );
    assert_eq!(
        sandbox.bad("apply fix --branch other --to .."),
        (2, "not-a-repository".into())
    );
    assert_eq!(sandbox.bad("apply fix -m text"), (2, "usage".into()));
}

#[test]
fn undo_after_commits_were_brought_says_how_to_remove_the_branch_and_changes_nothing() {
    for (apply, branch) in [
        ("apply fix --commits", "avfs/fix"),
        ("apply fix --branch files", "files"),
    ] {
        let sandbox = with_task();
        sandbox.good(apply);
        let before = sandbox.object("tasks --json")["tasks"][0]["head"].clone();
        assert_eq!(sandbox.bad("undo"), (4, "nothing-to-undo".into()));
        let said = sandbox.run("undo");
        let removes = format!("git branch -D {branch}");
        assert!(
            said.contains(&removes) && said.contains("`avfs undo --vault src/fix`"),
            "{said}"
        );
        assert_eq!(sandbox.object("tasks --json")["tasks"][0]["head"], before);
        sandbox.good("undo --vault fix");
        assert_ne!(sandbox.object("tasks --json")["tasks"][0]["head"], before);
        sandbox.good("redo --vault fix");
        sh(&sandbox.path("project/src"), &removes);
        sandbox.good("undo");
    }
}

#[test]
fn a_task_whose_branch_of_files_is_gone_is_unmerged() {
    let sandbox = with_repository();
    let source = sandbox.path("project/src");
    let new = NewTask {
        name: Some(TaskName::new("fix").unwrap()),
        ..NewTask::default()
    };
    let task = sandbox
        .library()
        .project(&source)
        .unwrap()
        .new_task(&new)
        .unwrap();
    let open = task.vault().begin().unwrap();
    open.write_bytes(&TreePath::parse(b"new").unwrap(), b"new\n")
        .unwrap();
    open.commit("work", "").unwrap();
    let state = || sandbox.object("tasks --json")["tasks"][0]["state"].clone();
    sandbox.good("apply fix --branch files -m m");
    assert_eq!(state(), "applied");
    sh(&source, "git branch -q other files; git branch -q -D files");
    assert_eq!(state(), "applied", "another branch leads there");
    sh(&source, "git branch -q -D other");
    assert_eq!(state(), "unmerged");
    assert_eq!(sandbox.bad("discard fix"), (2, "needs-confirmation".into()));
    assert!(
        sandbox
            .run("discard fix")
            .contains("on a branch that no longer exists")
    );
    sandbox.good("apply fix --yes");
    assert_eq!(state(), "applied");
}

#[test]
fn undo_after_an_apply_and_commits_names_what_undoes_the_apply() {
    let sandbox = with_task();
    sandbox.run("apply fix --yes");
    sandbox.good("apply fix --commits");
    assert_eq!(sandbox.bad("undo"), (4, "nothing-to-undo".into()));
    let said = sandbox.run("undo");
    assert!(said.contains("`avfs undo --apply`"), "{said}");
    sandbox.good("undo --apply");
}

#[test]
fn a_sync_does_not_tell_of_the_commits_that_came_from_the_task() {
    let sandbox = with_task();
    sandbox.object("diff fix --json");
    sandbox.good("apply fix --commits");
    let said = sandbox.run("sync fix");
    assert!(!said.contains("the directory's commits"), "{said}");
    sh(
        &sandbox.path("project/src"),
        "git checkout -q avfs/fix; echo user >user; git add user; git commit -qm user",
    );
    let said = sandbox.run("sync fix");
    assert!(
        said.contains("the directory's commits are at directory/avfs/fix"),
        "{said}"
    );
}

#[test]
fn a_sync_says_where_the_commits_of_the_directory_are() {
    let sandbox = with_task();
    // The old contents have been read.
    sandbox.object("diff fix --json");
    sh(
        &sandbox.path("project/src"),
        "echo user >user; git add user; git commit -qm user",
    );
    let would = sandbox.object("sync fix --dry-run --json");
    let repositories =
        json!([{"path": "/.git", "side": "ours", "refs": [{"name": "refs/remotes/directory/main"}]}]);
    assert_eq!(would["repositories"], repositories);
    let said = sandbox.run("sync fix");
    assert!(
        said.contains("the directory's commits are at directory/main in the task\n"),
        "{said}"
    );
    assert_eq!(
        sandbox.object("conflicts --vault fix --json")["conflicts"],
        json!([])
    );
    assert!(sandbox.run("sync fix").contains("has everything already"));
}

/// The number of commits in `tasks`, and how often it starts git for that.
fn counting(sandbox: &Sandbox) -> (serde_json::Value, usize) {
    let programs = sandbox.path("programs");
    let (git, calls) = (programs.join("git"), sandbox.path("calls"));
    std::fs::create_dir_all(&programs).unwrap();
    let script = format!(
        "#!/bin/sh\necho \"$@\" >>{}\nexec /usr/bin/git \"$@\"\n",
        calls.display()
    );
    std::fs::write(&git, script).unwrap();
    std::fs::set_permissions(&git, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(&calls, "").unwrap();
    let path = format!("{}:/usr/bin:/bin", programs.display());
    let output = sandbox
        .avfs()
        .args(["tasks", "--json"])
        .env("PATH", path)
        .output()
        .unwrap();
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    (
        object["tasks"][0]["commits"].clone(),
        std::fs::read_to_string(calls).unwrap().lines().count(),
    )
}

#[test]
fn commits_are_counted_once_for_a_state_of_both_repositories() {
    let sandbox = with_task();
    let (commits, calls) = counting(&sandbox);
    assert_eq!(commits, 1);
    assert!((1..=4).contains(&calls), "{calls} calls");
    assert_eq!(counting(&sandbox), (1.into(), 0), "nothing is counted again");
    let source = sandbox.path("project/src");
    sh(&source, "git branch another");
    let (commits, calls) = counting(&sandbox);
    assert!(
        commits == 1 && calls > 0,
        "the user's repository is another one: {commits}, {calls}"
    );
    sh(
        &source,
        "git fetch -q ../../work main; git branch fetched FETCH_HEAD",
    );
    assert_eq!(counting(&sandbox).0, 0, "the user has it");
    assert_eq!(counting(&sandbox), (0.into(), 0));
}
