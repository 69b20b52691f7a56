//! git inside a run: in a repository, a worktree and a submodule. Nothing of the user's own changes without
//! being announced.

mod large;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::project::{Project, good};
use crate::workspace::{Elsewhere, ORDINARY};

/// Runs a script of the user; returns its output.
#[track_caller]
fn sh(project: &Project, below_home: &str, script: &str) -> String {
    let mut command = Command::new("bash");
    command
        .args(["-euc", script])
        .current_dir(project.home().join(below_home))
        .env("HOME", project.home());
    // Repositories are handed to another user in between.
    let safe = [
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", "safe.directory"),
        ("GIT_CONFIG_VALUE_0", "*"),
    ];
    let quiet = [("GIT_ALLOW_PROTOCOL", "file"), ("GIT_OPTIONAL_LOCKS", "0")];
    good(command.envs(safe).envs(quiet)).trim_end().to_owned()
}

/// Every byte, mode and time of a directory.
#[track_caller]
fn all_of(project: &Project, below_home: &str) -> String {
    let script = "find . -printf '%p %y %m %s %T@ %l\\n' | sort; find . -type f -exec sha256sum {} + | sort";
    sh(project, below_home, script)
}

/// The user who runs `avfs`, and the directory.
struct User<'a> {
    project: &'a Project,
    place: PathBuf,
    is_root: bool,
}

impl User<'_> {
    fn output(&self, words: &[&str]) -> Output {
        if self.is_root {
            self.project
                .avfs(words)
                .current_dir(&self.place)
                .output()
                .unwrap()
        } else {
            self.project.avfs_as_nobody(&self.place, words)
        }
    }

    /// Its output, and its messages.
    #[track_caller]
    fn good(&self, words: &[&str]) -> (String, String) {
        let Output {
            status,
            stdout,
            stderr,
        } = self.output(words);
        let printed = String::from_utf8(stdout).unwrap();
        let said = String::from_utf8(stderr).unwrap();
        assert!(status.success(), "{words:?}: {said}{printed}");
        (printed, said)
    }

    #[track_caller]
    fn object(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.good(words).0).unwrap()
    }

    /// Runs a script in a new task.
    #[track_caller]
    fn run(&self, task: &str, script: &str) -> (String, String) {
        self.good(&["run", "--name", task, "--", "sh", "-euc", script])
    }

    #[track_caller]
    fn commits(&self, task: &str) -> (String, u64) {
        let all = self.object(&["tasks", "--json"]);
        let found = all["tasks"]
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["name"] == task)
            .unwrap();
        (
            found["state"].as_str().unwrap().to_owned(),
            found["commits"].as_u64().unwrap(),
        )
    }
}

fn root<'a>(project: &'a Project, below_home: &str) -> User<'a> {
    User {
        project,
        place: project.home().join(below_home),
        is_root: true,
    }
}

fn nobody<'a>(project: &'a Project, below_home: &str) -> User<'a> {
    User {
        is_root: false,
        ..root(project, below_home)
    }
}

/// A home with a repository in `web`.
fn with_repository() -> Project {
    let project = Project::new();
    sh(
        &project,
        "web",
        "git init -q -b main; git add -A; git commit -qm first",
    );
    project
}

/// The same with a worktree of it in `side`, on a branch `side`.
fn with_worktree() -> Project {
    let project = with_repository();
    sh(
        &project,
        "web",
        "git worktree add -q ../side -b side; git branch other",
    );
    project
}

/// A commit is made in a task, reported, and brought over.
#[track_caller]
fn commit_and_bring(user: &User<'_>, repository: &str) {
    let project = user.project;
    // Its files belong to the current user from now on.
    user.good(&["tasks"]);
    let before = all_of(project, repository);
    let (printed, said) = user.run(
        "one",
        "git status --short; echo more >>work.txt; git commit -qam more; git log --format=%s",
    );
    assert_eq!(printed, "more\nfirst\n");
    assert!(said.contains("1 commit was made\n"), "{said}");
    assert_eq!(user.commits("one"), ("unmerged".into(), 1));
    let diff = user.object(&["diff", "one", "--json"]);
    assert_eq!(diff["git"]["commits"][0]["subject"], "more");
    assert_eq!(all_of(project, repository), before);
    let brought = user.object(&["apply", "one", "--commits", "--json"]);
    assert_eq!(
        sh(project, repository, "git rev-parse avfs/one"),
        brought["commit"].as_str().unwrap()
    );
    assert_eq!(
        sh(
            project,
            repository,
            "git log --format=%s avfs/one; git fsck --full"
        ),
        "more\nfirst"
    );
    assert_eq!(user.commits("one").1, 0);
    let left = sh(
        project,
        repository,
        "git status --porcelain; git for-each-ref --format='%(refname) %(subject)'",
    );
    assert!(
        left.contains("refs/heads/avfs/one more") && left.contains("refs/heads/main first"),
        "{left}"
    );
    user.good(&["discard", "one", "--yes"]);
    assert_eq!(user.object(&["tasks", "--json"])["tasks"], serde_json::json!([]));
}

#[test]
fn commits_of_a_run_are_told_and_brought_over() {
    let project = with_repository();
    commit_and_bring(&root(&project, "web"), "web");
}

#[test]
fn commits_of_an_ordinary_users_run_are_too() {
    let project = with_repository();
    commit_and_bring(&nobody(&project, "web"), "web");
}

#[test]
fn the_index_of_the_host_is_valid_in_a_run_and_stays_so() {
    for is_root in [true, false] {
        let project = with_repository();
        let user = User {
            is_root,
            ..root(&project, "web")
        };
        // Its files belong to the user from now on.
        user.good(&["tasks"]);
        sh(&project, "web", "git update-index -q --refresh");
        // Without reading contents, `diff-files` names each file that differs from the index.
        let script = "git diff-files; stat -c %u:%g work.txt; echo $(id -u):$(id -g)
            touch -d yesterday work.txt; git diff-files --name-only; git status --short; git diff-files";
        let owner = if is_root { "1000:1000" } else { "65534:65534" };
        let expected = format!("{owner}\n{owner}\nwork.txt\n");
        assert_eq!(user.run("one", script).0, expected, "root: {is_root}");
    }
}

#[test]
fn packing_by_the_user_takes_no_objects_from_a_task_that_has_listed_them() {
    let project = with_repository();
    let user = root(&project, "web");
    sh(
        &project,
        "web",
        "for n in $(seq 30); do echo $n >f$n; done; git add -A; git commit -qm many",
    );
    // Git's objects are listed, and not read, when the user packs them and removes the loose ones.
    let script =
        "ls -R .git/objects .git/refs >/dev/null; cat .git/refs/heads/main >/dev/null; echo ready; read go
        for try in $(seq 300); do ls .git/objects/pack/*.idx >/dev/null 2>&1 && break; sleep 0.1; done
        git archive HEAD >/dev/null; git log --format=%s; git status --short";
    let mut command = project.avfs(&["run", "--name", "one", "--", "sh", "-euc", script]);
    command
        .current_dir(&user.place)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut running = command.spawn().unwrap();
    let mut output = BufReader::new(running.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    sh(&project, "web", "git gc -q --prune=now");
    running.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert!(running.wait().unwrap().success(), "{rest}");
    assert_eq!(rest, "many\nfirst\n");
    // Packing by the user is not work of the task.
    assert_eq!(user.commits("one"), ("unchanged".into(), 0));
}

#[test]
fn a_worktree_is_a_repository_of_its_own_in_a_run() {
    let project = with_worktree();
    commit_and_bring(&root(&project, "side"), "web");
}

#[test]
fn a_worktree_of_an_ordinary_user_is_too() {
    let project = with_worktree();
    commit_and_bring(&nobody(&project, "side"), "web");
}

#[test]
fn a_submodule_is_a_project_with_commits_of_its_own() {
    let project = with_repository();
    sh(
        &project,
        ".",
        "git init -q -b main all; cd all; git submodule --quiet add ../web part; git commit -qm all",
    );
    commit_and_bring(&root(&project, "all/part"), "all/part");
}

#[test]
fn files_that_git_would_run_for_the_user_are_closed_in_a_worktree() {
    let project = with_worktree();
    let script =
        "for file in .git/config .git/hooks/pre-commit ~/web/.git/config ~/web/.git/hooks/post-commit; do
            ! echo x >>$file || echo $file is open
        done 2>/dev/null
        ! git config user.name Eve 2>/dev/null; ! rm -rf .git 2>/dev/null; test -e .git/config";
    let before = all_of(&project, "web");
    assert_eq!(root(&project, "side").run("one", script).0, "");
    assert_eq!(all_of(&project, "web"), before);
}

#[test]
fn the_repository_of_a_worktree_is_at_its_own_path_too() {
    let project = with_worktree();
    let repository = project.home().join("web/.git");
    let script = "git --git-dir $0 log -1 --format=%s; git --git-dir $0 branch made; git branch --list made
        git checkout -q other; git checkout -q side; git worktree list | wc -l; git fsck --full";
    let before = all_of(&project, "web");
    // Within the home that is shown, and beside it.
    for home in [project.home(), project.home().join("other")] {
        std::fs::create_dir_all(&home).unwrap();
        let mut run = project.avfs(&["run", "--", "sh", "-euc", script]);
        run.arg(&repository)
            .current_dir(project.home().join("side"))
            .env("HOME", &home);
        assert_eq!(good(&mut run), "first\n  made\n1\n", "{home:?}");
    }
    assert_eq!(all_of(&project, "web"), before);
}

#[test]
fn a_task_in_a_worktree_goes_on_is_copied_synced_and_thrown_away() {
    let project = with_worktree();
    let user = root(&project, "side");
    user.run("one", "git commit -q --allow-empty -m first-of-task");
    sh(
        &project,
        "side",
        "echo new >new; git add new; git commit -qm of-the-user",
    );
    user.good(&["fork", "2", "--task", "one"]);
    let commit = |task: &str| {
        [
            "run",
            "--task",
            task,
            "--",
            "git",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "later",
        ]
        .map(str::to_owned)
    };
    for task in ["one", "one-2"] {
        let words = commit(task);
        user.good(&words.iter().map(String::as_str).collect::<Vec<_>>());
    }
    assert_eq!(
        [
            user.commits("one").1,
            user.commits("one-1").1,
            user.commits("one-2").1
        ],
        [2, 1, 2]
    );
    user.good(&["undo", "--vault", "one"]);
    assert_eq!(user.commits("one").1, 1);
    let log = user
        .good(&["exec", "--vault", "one", "--", "git", "log", "-1", "--format=%s"])
        .0;
    assert_eq!(log, "first-of-task\n");
    let shown = user.good(&["prune", "--tasks"]).0;
    assert!(!shown.contains("one"), "nothing unmerged is pruned: {shown}");
    user.run("two", "true");
    sh(
        &project,
        "side",
        "echo newer >new; git commit -qam of-the-user-again",
    );
    user.good(&["sync", "two"]);
    let log = user
        .good(&[
            "run",
            "--task",
            "two",
            "--",
            "sh",
            "-c",
            "git status --short; git log -1 --format=%s",
        ])
        .0;
    assert_eq!(log, "of-the-user-again\n");
    assert_eq!(user.commits("two"), ("unchanged".into(), 0));
    user.good(&["discard", "one", "one-1", "one-2", "two", "--yes"]);
    assert_eq!(user.object(&["tasks", "--json"])["tasks"], serde_json::json!([]));
}

#[test]
fn a_task_that_waits_begins_with_the_directory_of_its_first_run() {
    let project = with_worktree();
    for place in ["web", "side"] {
        let user = root(&project, place);
        // Hidden tracked files are removed from the index when the task is made.
        sh(
            &project,
            place,
            "echo key >id_rsa; echo old >file; git add -A; git commit -qm before",
        );
        user.good(&["task", "new", "--name", "waiting"]);
        sh(
            &project,
            place,
            "echo mine >file; echo mine >mine; git add -A; git commit -qm of-the-user",
        );
        let status = [
            "run",
            "--task",
            "waiting",
            "--",
            "sh",
            "-c",
            "git status --short; git log -1 --format=%s",
        ];
        assert_eq!(user.good(&status).0, "of-the-user\n", "{place}");
        user.good(&["run", "--task", "waiting", "--", "sh", "-c", "echo work >work"]);
        sh(
            &project,
            place,
            "echo last >last; git add -A; git commit -qm last",
        );
        assert_eq!(
            user.good(&status).0,
            "?? work\nof-the-user\n",
            "it has begun, {place}"
        );
    }
}

#[test]
fn git_in_a_workspace_of_a_worktree_stays_in_the_workspace() {
    let project = with_worktree();
    let user = root(&project, "side");
    let before = all_of(&project, "web");
    let place = user.good(&["workspace", "start", "try", "--from", "."]).0;
    let relative = Path::new(place.trim_end())
        .strip_prefix(project.home())
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    let log = sh(
        &project,
        &relative,
        "echo x >x; git add x; git commit -qm there; git log -1 --format='%s %D'",
    );
    user.good(&["workspace", "stop", "try"]);
    assert_eq!(log, "there HEAD -> side");
    assert_eq!(user.commits("try").1, 1);
    assert_eq!(all_of(&project, "web"), before);
}

#[test]
fn worktrees_in_a_bare_repository_work() {
    let project = with_repository();
    sh(
        &project,
        ".",
        "git clone -q --bare web all.git; cd all.git; git worktree add -q tree main; echo x >tree/x",
    );
    let user = root(&project, "all.git/tree");
    let (printed, _) = user.run(
        "one",
        "git status --short; git add x; git commit -qm x; git log --format=%s; ls .git/tree 2>&1 | wc -l",
    );
    assert_eq!(printed, "?? x\nx\nfirst\n1\n");
    user.good(&["apply", "one", "--commits"]);
    assert_eq!(sh(&project, "all.git", "git log -1 --format=%s avfs/one"), "x");
}

#[test]
fn submodules_take_commits_wherever_their_git_directories_are() {
    let project = with_repository();
    let recursive = "git submodule --quiet update --init --recursive";
    let script = format!(
        "git init -q -b main middle; cd middle; git submodule --quiet add ../web 'odd #1/part'; git commit -qm middle
         cd ..; git init -q -b main all; cd all; git submodule --quiet add ../middle middle; {recursive}; git commit -qm all
         git worktree add -q ../tree; cd ../tree; {recursive}"
    );
    sh(&project, ".", &script);
    let before = [all_of(&project, "all"), all_of(&project, "tree")];
    // Each task writes its own name: equal commits of one second would be one commit, which the first apply brings.
    let script = |top: &str, task: &str| {
        format!(
            "cd {top}'odd #1/part'; git checkout -qb deep; echo {task} >>work.txt; git commit -qam deep; git log -1 --format=%s
             cd ../..; git commit -qam upper; git status --short; git submodule status --recursive | wc -l; git log -1 --format=%s"
        )
    };
    // The outermost one comes last: everything below a known project belongs to it.
    let places = [
        ("all/middle", "", "in-middle"),
        ("all", "middle/", "in-all"),
        ("tree", "middle/", "in-tree"),
    ];
    for (place, top, task) in places {
        assert_eq!(
            root(&project, place).run(task, &script(top, task)).0,
            "deep\n1\nupper\n",
            "{place}"
        );
        assert_eq!(root(&project, place).commits(task).1, 2, "{place}");
        let diff = root(&project, place).object(&["diff", task, "--json"]);
        let told = diff["git"]["submodules"].as_array().unwrap();
        let deepest = told
            .iter()
            .find(|one| one["path"] == format!("/{top}odd #1/part"))
            .unwrap();
        assert_eq!(deepest["commits"][0]["subject"], "deep", "{place}");
    }
    assert_eq!([all_of(&project, "all"), all_of(&project, "tree")], before);
    for (place, top, task) in places {
        let brought = root(&project, place).object(&["apply", task, "--commits", "--json"]);
        let made = |below: &str| {
            let script = format!("git log -1 --format='%H %s' avfs/{task}");
            sh(&project, &format!("{place}/{below}"), &script)
        };
        let told = |below: &str| {
            let path = format!("/{}", below.trim_end_matches('/'));
            let submodules = brought["submodules"].as_array().unwrap();
            let found = submodules
                .iter()
                .find(|one| one["path"] == path)
                .unwrap_or(&brought);
            found["commit"].as_str().unwrap().to_owned()
        };
        let deepest = format!("{top}odd #1/part");
        assert_eq!(format!("{} deep", told(&deepest)), made(&deepest), "{place}");
        assert_eq!(format!("{} upper", told(top)), made(top), "{place}");
        assert_eq!(
            brought["commit"].is_null(),
            !top.is_empty(),
            "nothing was committed above"
        );
        assert_eq!(root(&project, place).commits(task).1, 0, "{place}");
    }
}

#[test]
fn undo_names_every_branch_that_was_made_of_a_task() {
    let project = with_repository();
    let script = "git init -q -b main all; cd all; for name in one two; do git submodule --quiet add ../web $name; done
         git commit -qm all";
    sh(&project, ".", script);
    let user = root(&project, "all");
    let commit = "for name in one two; do
             git -C $name checkout -qb work; echo x >>$name/work.txt; git -C $name commit -qam deep
         done; git commit -qam upper";
    let (_, said) = user.run("fix", commit);
    assert!(
        said.contains("3 commits were made\ncommits were made in one, two\n"),
        "{said}"
    );
    let (_, said) = user.good(&["diff", "fix"]);
    assert!(
        said.contains("git in /one: work is new, at ") && said.contains("git: main moved from "),
        "{said}"
    );
    let (_, said) = user.good(&["run", "--task", "fix", "--", "git", "status", "--short"]);
    assert!(
        !said.contains("made") && said.contains("avfs apply fix --commits"),
        "{said}"
    );
    user.good(&["apply", "fix", "--commits"]);
    let refused = user.output(&["undo"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    let commands: Vec<&str> = said
        .split('`')
        .filter(|part| part.contains("branch -D avfs/fix"))
        .collect();
    assert_eq!(commands.len(), 3, "{said}");
    commands
        .iter()
        .for_each(|command| drop(sh(&project, "all", command)));
    let left = "git branch --list 'avfs/*'; git submodule --quiet foreach \"git branch --list 'avfs/*'\"";
    assert_eq!(sh(&project, "all", left), "");
}

#[test]
fn commits_in_a_nested_repository_are_told_and_not_thrown_away_unasked() {
    let project = with_repository();
    sh(
        &project,
        "web",
        "echo /nested >>.gitignore; git commit -qam ignore || { git add -A; git commit -qm ignore; }
         git init -q -b main nested; git -C nested commit -q --allow-empty -m nested",
    );
    let user = root(&project, "web");
    let (_, said) = user.run("one", "cd nested; git commit -q --allow-empty -m more");
    assert!(
        said.contains("1 commit was made\ncommits were made in nested\n"),
        "{said}"
    );
    assert_eq!(user.commits("one"), ("unmerged".into(), 1));
    assert!(user.good(&["tasks"]).0.contains("  commits in nested\n"));
    assert!(
        !user.output(&["discard", "one"]).status.success(),
        "it asks first"
    );
    user.good(&["apply", "one", "--commits"]);
    assert_eq!(
        sh(&project, "web/nested", "git log -1 --format=%s avfs/one"),
        "more"
    );
}

#[test]
fn a_repository_of_another_user_is_safe_in_a_run_that_was_started_there() {
    let project = with_repository();
    project.program_for(ORDINARY);
    good(Command::new("chown").args(["-R", "0:0"]).arg(project.root()));
    good(Command::new("chmod").args(["-R", "a+rX"]).arg(project.root()));
    let user = Elsewhere::new(&project);
    let output = user.avfs(&project, &["run", "--", "git", "log", "--oneline"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !output.stdout.is_empty(), "{said}");
    // Without the setting, git would not.
    let output = user.avfs(
        &project,
        &["run", "--", "env", "-u", "GIT_CONFIG_COUNT", "git", "log"],
    );
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("dubious ownership"), "{said}");
}

#[test]
fn an_agent_merges_what_the_user_committed_meanwhile() {
    let project = with_repository();
    let user = root(&project, "web");
    user.run(
        "one",
        "git status --short; echo task >of-task; git add -A; git commit -qm 'of the task'",
    );
    sh(
        &project,
        "web",
        "echo user >of-user; git add -A; git commit -qm 'of the user'",
    );
    let said = user.good(&["sync", "one"]).1;
    assert!(
        said.contains("the directory's commits are at directory/main in the task\n"),
        "{said}"
    );
    let script = "git fsck --full >&2; git status --short; git add -A; git commit -qm sync
        git merge -q directory/main -m merged; git status --short; cat of-task of-user";
    let (printed, _) = user.good(&["run", "--task", "one", "--", "sh", "-euc", script]);
    assert_eq!(printed, "?? of-user\ntask\nuser\n");
    user.good(&["apply", "one", "--commits"]);
    assert_eq!(
        sh(
            &project,
            "web",
            "git merge -q avfs/one; git log -1 --format=%s; git fsck --full"
        ),
        "merged"
    );
}

#[test]
fn a_diff_from_inside_shows_work_and_neither_what_git_ignores_nor_what_git_keeps() {
    let project = with_repository();
    let user = root(&project, "web");
    let script = "echo out >.gitignore; mkdir out; echo x >out/built; echo more >>work.txt; git add -A
         git commit -qm more; avfs diff --name-only; echo; avfs diff --name-only --ignored; avfs diff --name-only /out";
    let (printed, said) = user.run("one", script);
    assert_eq!(
        printed,
        ".gitignore\nwork.txt\n\n.gitignore\nwork.txt\nout/built\nout/built\n"
    );
    assert!(said.contains("1 file ignored: out/ "), "{said}");
}
