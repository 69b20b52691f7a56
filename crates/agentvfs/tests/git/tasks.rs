//! Tasks with commits.

use agentvfs::git::{Bring, CommitFiles, RefName, default_branch};
use agentvfs::transfer::{DirectoryExport, export_directory};
use agentvfs::{HeldWork, NewTask, Store, Task, TaskState, Timestamp, TreePath};

use crate::ground::{Ground, sh};

/// A task on the user's directory in which a script ran that changed the repository and made some files.
fn task(ground: &Ground, store: &Store, script: &str, made: &[&str]) -> Task {
    let task = store
        .project(&ground.path("host"))
        .unwrap()
        .new_task(&NewTask::default())
        .unwrap();
    sh(&ground.path(""), "rm -rf task");
    let (reader, to) = (task.vault().reader().unwrap(), ground.path("task"));
    // Everything is read before it is written, as in a mount.
    export_directory(&reader, &TreePath::root(), &to, &DirectoryExport::default(), &()).unwrap();
    ground.in_task(script);
    let path = |text: &str| TreePath::parse(text.as_bytes()).unwrap();
    let open = task.vault().begin().unwrap();
    open.remove(&path(".git"), true).unwrap();
    open.imports()
        .directory(&ground.path("task/.git"), &path(".git"), &())
        .unwrap();
    for file in made {
        let bytes = std::fs::read(ground.path("task").join(file)).unwrap();
        if let Some((parent, _)) = path(file).split_last() {
            open.make_directory(&parent, true).unwrap();
        }
        open.write_bytes(&path(file), &bytes).unwrap();
    }
    open.commit("work", "").unwrap();
    task
}

fn again(store: &Store, task: &Task) -> Task {
    store.task(task.vault_name().as_str()).unwrap()
}

#[test]
fn a_task_whose_only_change_is_a_commit_is_unmerged_until_that_is_brought_over() {
    let (ground, store) = (Ground::new(), Store::in_memory());
    let task = task(
        &ground,
        &store,
        "git checkout -qb wip; echo x >x; git add x; git commit -qm wip; git checkout -q main",
        &[],
    );
    assert_eq!(task.changed_files().unwrap(), [], "files of git are no changes");
    assert_eq!(task.state().unwrap(), TaskState::Unmerged);
    assert_eq!(task.git().summary().unwrap().commits.len(), 1);
    let branch = default_branch(&task).unwrap();
    assert_eq!(branch.to_string(), format!("refs/heads/avfs/{}", task.name()));
    let bring = Bring {
        branch,
        of: None,
        update: false,
        allowed: Vec::new(),
    };
    let brought = task.git().bring(&ground.path("host"), &bring).unwrap();
    let there = ground.in_host(&format!("git rev-parse avfs/{}", task.name()));
    assert_eq!(there, brought.tip.as_str());
    let task = again(&store, &task);
    assert_eq!(task.git().unbrought_refs().unwrap(), []);
    assert_eq!(task.state().unwrap(), TaskState::Unchanged);
    let audit = task.vault().audit(0, 100).unwrap();
    assert!(
        audit
            .iter()
            .any(|entry| entry.action == "bring commits" && entry.detail.contains(brought.tip.as_str()))
    );
}

#[test]
fn looking_at_git_changes_nothing_that_counts() {
    let (ground, store) = (Ground::new(), Store::in_memory());
    let task = task(
        &ground,
        &store,
        "touch file; git status --porcelain; git gc -q; git pack-refs --all",
        &[],
    );
    assert_eq!(task.state().unwrap(), TaskState::Unchanged);
}

#[test]
fn settings_and_stashes_are_work_that_is_named_and_files_unknown_to_git_are_not() {
    let (ground, store) = (Ground::new(), Store::in_memory());
    for (script, expected) in [
        (
            "echo x >.git/foo; mkdir .git/tool; echo x >.git/tool/cache",
            &[][..],
        ),
        (
            "git config user.name other; echo x >.git/foo",
            &[".git/config changed"],
        ),
        (
            "mkdir -p .git/hooks; echo true >.git/hooks/pre-push",
            &[".git/hooks/pre-push changed"],
        ),
        (
            "mkdir .git/reftable; echo x >.git/reftable/new",
            &[".git/reftable/new changed"],
        ),
        ("echo x >>file; git stash -q", &["something is stashed"]),
        (
            "echo x >x; git add x",
            &[".git holds staged files, or a commit on no branch"],
        ),
    ] {
        let task = task(&ground, &store, script, &[]);
        let traces: Vec<String> = task
            .work()
            .other_git_work(&[])
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(traces, expected, "{script}");
        let state = if expected.is_empty() {
            TaskState::Unchanged
        } else {
            TaskState::Unmerged
        };
        assert_eq!(task.state().unwrap(), state, "{script}");
    }
}

#[test]
fn work_that_only_the_repository_has_stays_unmerged_when_the_files_are_applied() {
    let (ground, store) = (Ground::new(), Store::in_memory());
    let staged = ".git holds staged files, or a commit on no branch";
    for (script, expected) in [
        ("echo s >>file; git stash -q", "something is stashed"),
        ("git notes add -m note", "refs/notes/commits moved"),
        (
            "mkdir -p .git/hooks; echo true >.git/hooks/pre-push",
            ".git/hooks/pre-push changed",
        ),
        ("echo y >y; git add y; rm y", staged),
        (
            "git checkout -q --detach; git commit -q --allow-empty -m lost; git checkout -q main",
            staged,
        ),
        // The file has what is staged, or what was stashed for a while.
        ("git add x", ""),
        ("printf 'a\\r\\nb\\r\\n' >x; git -c core.autocrlf=true add x", ""),
        (
            "echo s >>file; git stash -q; git stash pop -q; git checkout -q file",
            "",
        ),
        ("git init -q new", ""),
    ] {
        let task = task(&ground, &store, &format!("echo x >x; {script}"), &["x"]);
        let bytes = std::fs::read(ground.path("task/x")).unwrap();
        std::fs::write(ground.path("host/x"), bytes).unwrap();
        task.note_applied(Some(task.head().unwrap()), "").unwrap();
        let task = again(&store, &task);
        let files = task.changes().unwrap().files;
        let traces = task.work().other_git_work(&files).unwrap();
        let traces: Vec<String> = traces.iter().map(ToString::to_string).collect();
        assert_eq!(traces.join(", "), expected, "{script}");
        let found = (task.state().unwrap(), task.work().held().unwrap());
        if expected.is_empty() {
            assert_eq!(found, (TaskState::Applied, None), "{script}");
        } else {
            assert_eq!(
                found,
                (TaskState::Unmerged, Some(HeldWork::InRepository)),
                "{script}"
            );
        }
        std::fs::remove_file(ground.path("host/x")).unwrap();
    }
}

#[test]
fn commits_are_counted_for_the_run_that_made_them() {
    let (ground, store) = (Ground::new(), Store::in_memory());
    let task = task(&ground, &store, "git commit -q --allow-empty -m one", &[]);
    let first = task.head().unwrap();
    let goes_on = |script: &str| {
        let before = task.vault().head().unwrap();
        ground.in_task(script);
        let git = TreePath::parse(b".git").unwrap();
        let open = task.vault().begin().unwrap();
        open.remove(&git, true).unwrap();
        open.imports()
            .directory(&ground.path("task/.git"), &git, &())
            .unwrap();
        open.commit("work", "").unwrap();
        task.git()
            .commits_made(before, task.vault().head().unwrap())
            .unwrap()
            .commits
    };
    assert_eq!(
        task.git()
            .commits_made(task.base().unwrap(), first)
            .unwrap()
            .commits,
        1
    );
    assert_eq!(goes_on("git status"), 0);
    assert_eq!(goes_on("git branch same; git tag same-tag"), 0);
    assert_eq!(
        goes_on("git checkout -qb more; git commit -q --allow-empty -m two"),
        1
    );
    assert_eq!(
        goes_on(
            "git commit -q --amend --allow-empty -m three; git reflog expire --expire=now --all; git gc -q --prune=now"
        ),
        1
    );
    assert_eq!(task.git().unbrought_commits().unwrap(), 2);
}

#[test]
fn commits_that_the_user_has_by_other_ways_are_not_unmerged() {
    let (ground, store) = (Ground::new(), Store::in_memory());
    let task = task(
        &ground,
        &store,
        "git branch same; git commit -q --allow-empty -m empty",
        &[],
    );
    assert_eq!(task.state().unwrap(), TaskState::Unmerged);
    ground.in_host("git fetch -q ../task main");
    ground.in_host("git branch fetched FETCH_HEAD");
    assert_eq!(task.state().unwrap(), TaskState::Unchanged);
}

#[test]
fn a_task_whose_files_are_a_commit_is_applied() {
    let (ground, store) = (Ground::new(), Store::in_memory());
    let task = task(&ground, &store, "echo x >x; echo y >sub/y", &["x", "sub/y"]);
    assert_eq!(task.state().unwrap(), TaskState::Unmerged);
    let mut commit = CommitFiles {
        branch: RefName::branch("part").unwrap(),
        message: "Made".into(),
        paths: vec![TreePath::parse(b"sub").unwrap()],
        allowed: Vec::new(),
        time: Timestamp {
            seconds: 1_700_000_000,
            nanos: 0,
        },
        author: "tester".into(),
    };
    let host = ground.path("host");
    assert_eq!(task.git().commit_files(&host, &commit).unwrap().files, 1);
    assert_eq!(
        again(&store, &task).state().unwrap(),
        TaskState::Unmerged,
        "a part is not all"
    );
    (commit.branch, commit.paths) = (RefName::branch("made").unwrap(), Vec::new());
    assert_eq!(task.git().commit_files(&host, &commit).unwrap().files, 2);
    assert_eq!(ground.in_host("git show made:x"), "x");
    assert_eq!(again(&store, &task).state().unwrap(), TaskState::Applied);
}

#[test]
fn a_task_whose_commits_are_in_git_holds_what_was_left_out() {
    let (ground, store) = (Ground::new(), Store::in_memory());
    let script = "echo x >x; git add x; git commit -qm x; mkdir .vscode; echo {} >.vscode/tasks.json";
    let task = task(&ground, &store, script, &["x", ".vscode/tasks.json"]);
    let host = ground.path("host");
    ground.in_host("echo x >x");
    assert_eq!(
        again(&store, &task).work().held().unwrap(),
        Some(HeldWork::LeftOut)
    );
    let branch = default_branch(&task).unwrap();
    task.git()
        .bring(
            &host,
            &Bring {
                branch,
                of: None,
                update: false,
                allowed: Vec::new(),
            },
        )
        .unwrap();
    let task = again(&store, &task);
    assert_eq!(task.state().unwrap(), TaskState::Unmerged);
    assert_eq!(task.work().held().unwrap(), Some(HeldWork::LeftOut));
    ground.in_host("mkdir -p .vscode; echo {} >.vscode/tasks.json");
    assert_eq!(
        (task.state().unwrap(), task.work().held().unwrap()),
        (TaskState::Applied, None)
    );
}

#[test]
fn commits_whose_branch_the_user_deleted_are_unmerged_unless_they_were_squashed() {
    let (ground, store) = (Ground::new(), Store::in_memory());
    let script = "echo x >x; git add x; git commit -qm x; echo more >>x; git commit -qam more";
    let task = task(&ground, &store, script, &["x"]);
    task.note_applied(Some(task.head().unwrap()), "").unwrap();
    ground.in_host("echo x >x; echo more >>x");
    assert_eq!(
        again(&store, &task).work().held().unwrap(),
        Some(HeldWork::CommitsOnly)
    );
    let branch = default_branch(&task).unwrap();
    let bring = Bring {
        branch,
        of: None,
        update: false,
        allowed: Vec::new(),
    };
    task.git().bring(&ground.path("host"), &bring).unwrap();
    let task = again(&store, &task);
    assert_eq!(
        (task.state().unwrap(), task.work().held().unwrap()),
        (TaskState::Applied, None)
    );

    ground.in_host(&format!(
        "git branch -q keep avfs/{0}; git branch -qD avfs/{0}",
        task.name()
    ));
    assert_eq!(
        task.state().unwrap(),
        TaskState::Applied,
        "another branch has them"
    );
    ground.in_host("git branch -qD keep");
    assert_eq!(task.look().unwrap().commits, 2);
    assert_eq!(task.work().held().unwrap(), Some(HeldWork::CommitsOnly));

    ground.in_host("git add x; git commit -qm 'x and more'");
    assert_eq!(
        (task.state().unwrap(), task.work().held().unwrap()),
        (TaskState::Applied, None)
    );
}

#[test]
fn commits_that_were_brought_to_another_repository_are_there() {
    let (ground, store) = (Ground::new(), Store::in_memory());
    let task = task(&ground, &store, "git commit -q --allow-empty -m work", &[]);
    sh(&ground.path(""), "git clone -q host elsewhere");
    let branch = default_branch(&task).unwrap();
    let bring = Bring {
        branch,
        of: None,
        update: false,
        allowed: Vec::new(),
    };
    task.git().bring(&ground.path("elsewhere"), &bring).unwrap();
    assert_eq!(again(&store, &task).look().unwrap().commits, 0);
    sh(
        &ground.path("elsewhere"),
        &format!("git branch -qD avfs/{}", task.name()),
    );
    assert_eq!(again(&store, &task).look().unwrap().commits, 1);
}

#[test]
fn work_on_a_branch_is_reported_as_such() {
    let (ground, store) = (Ground::new(), Store::in_memory());
    let task = task(&ground, &store, "echo x >x", &["x"]);
    let commit = CommitFiles {
        branch: RefName::branch("made").unwrap(),
        message: "Made".into(),
        paths: Vec::new(),
        allowed: Vec::new(),
        time: Timestamp {
            seconds: 1_700_000_000,
            nanos: 0,
        },
        author: "tester".into(),
    };
    task.git().commit_files(&ground.path("host"), &commit).unwrap();
    assert_eq!(
        again(&store, &task).work().held().unwrap(),
        Some(HeldWork::OnBranch)
    );
    ground.in_host("git branch -qD made");
    assert_eq!(
        again(&store, &task).work().held().unwrap(),
        Some(HeldWork::BranchGone)
    );
}

/// A repository with another one in it that is ignored there.
fn with_nested() -> Ground {
    Ground::with(
        "git init -q -b main; echo /nested >.gitignore; git init -q -b main nested
         echo n >nested/n; git -C nested add -A; git -C nested commit -qm nested; git add -A; git commit -qm first",
    )
}

#[test]
fn commits_in_a_nested_repository_are_counted_named_and_brought() {
    let (ground, store) = (with_nested(), Store::in_memory());
    let task = task(&ground, &store, "true", &[]);
    assert_eq!(task.state().unwrap(), TaskState::Unchanged);
    let path = |text: &str| TreePath::parse(text.as_bytes()).unwrap();
    ground.in_task("cd nested; echo m >m; git add m; git commit -qm more");
    let open = task.vault().begin().unwrap();
    open.remove(&path("nested/.git"), true).unwrap();
    open.imports()
        .directory(&ground.path("task/nested/.git"), &path("nested/.git"), &())
        .unwrap();
    open.commit("work", "").unwrap();
    let look = task.look().unwrap();
    assert_eq!(
        (look.state, look.commits, look.repositories),
        (TaskState::Unmerged, 1, vec![path("nested")])
    );
    // Applied files do not change that.
    task.note_applied(Some(task.head().unwrap()), "").unwrap();
    assert_eq!(again(&store, &task).state().unwrap(), TaskState::Unmerged);
    assert_eq!(task.git().summary().unwrap().submodules[0].path, path("nested"));
    let bring = Bring {
        branch: default_branch(&task).unwrap(),
        of: None,
        update: false,
        allowed: Vec::new(),
    };
    assert_eq!(
        task.git()
            .bring_submodules(&ground.path("host"), &bring)
            .unwrap()
            .len(),
        1
    );
    let log = format!("git -C nested log -1 --format=%s avfs/{}", task.name());
    assert_eq!(ground.in_host(&log), "more");
    assert_eq!(again(&store, &task).look().unwrap().commits, 0);
}

#[test]
fn a_new_repository_counts_by_its_own_commits_and_not_by_what_it_was_cloned_with() {
    let (ground, store) = (with_nested(), Store::in_memory());
    let path = |text: &str| TreePath::parse(text.as_bytes()).unwrap();
    for (script, expected) in [
        ("git clone -q nested new", vec![]),
        ("git clone -q nested new; git -C new checkout -q --detach", vec![]),
        (
            "git init -q new; git -C new commit -q --allow-empty -m own",
            vec![path("new")],
        ),
        (
            "git clone -q nested new; git -C new commit -q --allow-empty -m own",
            vec![path("new")],
        ),
    ] {
        let task = task(&ground, &store, script, &[]);
        let open = task.vault().begin().unwrap();
        open.make_directory(&path("new"), true).unwrap();
        open.imports()
            .directory(&ground.path("task/new/.git"), &path("new/.git"), &())
            .unwrap();
        open.commit("work", "").unwrap();
        assert_eq!(task.look().unwrap().repositories, expected, "{script}");
    }
}
