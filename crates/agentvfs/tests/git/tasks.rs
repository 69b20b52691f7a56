//! Tasks with commits.

use agentvfs::git::{Bring, CommitFiles, RefName, default_branch};
use agentvfs::transfer::{DirectoryExport, export_directory};
use agentvfs::{NewTask, Store, Task, TaskState, Timestamp, TreePath};

use crate::ground::{Ground, sh};

/// A task on the user's directory in which a script ran that changed the repository and made some files.
fn task(ground: &Ground, store: &Store, script: &str, made: &[&str]) -> Task {
    let task = store.project(&ground.path("host")).unwrap().new_task(&NewTask::default()).unwrap();
    sh(&ground.path(""), "rm -rf task");
    let (reader, to) = (task.vault().reader().unwrap(), ground.path("task"));
    // Everything is read before it is written, as it is in a mount.
    export_directory(&reader, &TreePath::root(), &to, &DirectoryExport::default(), &()).unwrap();
    ground.in_task(script);
    let path = |text: &str| TreePath::parse(text.as_bytes()).unwrap();
    let open = task.vault().begin().unwrap();
    open.remove(&path(".git"), true).unwrap();
    open.import_directory(&ground.path("task/.git"), &path(".git"), &()).unwrap();
    for file in made {
        let bytes = std::fs::read(ground.path("task").join(file)).unwrap();
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
    assert_eq!(task.git_summary().unwrap().commits.len(), 1);
    let branch = default_branch(&task).unwrap();
    assert_eq!(branch.to_string(), format!("refs/heads/avfs/{}", task.name()));
    let bring = Bring { branch, of: None, update: false, allowed: Vec::new() };
    let brought = task.bring_commits(&ground.path("host"), &bring).unwrap();
    let there = ground.in_host(&format!("git rev-parse avfs/{}", task.name()));
    assert_eq!(there, brought.tip.as_str());
    let task = again(&store, &task);
    assert_eq!(task.unbrought_refs().unwrap(), []);
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
    let task =
        task(&ground, &store, "touch file; git status --porcelain; git gc -q; git pack-refs --all", &[]);
    assert_eq!(task.state().unwrap(), TaskState::Unchanged);
}

#[test]
fn commits_that_the_user_has_by_other_ways_are_not_unmerged() {
    let (ground, store) = (Ground::new(), Store::in_memory());
    let task = task(&ground, &store, "git branch same; git commit -q --allow-empty -m empty", &[]);
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
        time: Timestamp { seconds: 1_700_000_000, nanos: 0 },
        author: "tester".into(),
    };
    let host = ground.path("host");
    assert_eq!(task.commit_files(&host, &commit).unwrap().files, 1);
    assert_eq!(again(&store, &task).state().unwrap(), TaskState::Unmerged, "a part is not all");
    (commit.branch, commit.paths) = (RefName::branch("made").unwrap(), Vec::new());
    assert_eq!(task.commit_files(&host, &commit).unwrap().files, 2);
    assert_eq!(ground.in_host("git show made:x"), "x");
    assert_eq!(again(&store, &task).state().unwrap(), TaskState::Applied);
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
    open.import_directory(&ground.path("task/nested/.git"), &path("nested/.git"), &()).unwrap();
    open.commit("work", "").unwrap();
    let look = task.look().unwrap();
    assert_eq!((look.state, look.commits, look.repositories), (TaskState::Unmerged, 1, vec![path("nested")]));
    // What was applied of its files does not change that.
    task.note_applied(Some(task.head().unwrap()), "").unwrap();
    assert_eq!(again(&store, &task).state().unwrap(), TaskState::Unmerged);
    assert_eq!(task.git_summary().unwrap().submodules[0].path, path("nested"));
    let bring =
        Bring { branch: default_branch(&task).unwrap(), of: None, update: false, allowed: Vec::new() };
    assert_eq!(task.bring_submodules(&ground.path("host"), &bring).unwrap().len(), 1);
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
        ("git init -q new; git -C new commit -q --allow-empty -m own", vec![path("new")]),
        ("git clone -q nested new; git -C new commit -q --allow-empty -m own", vec![path("new")]),
    ] {
        let task = task(&ground, &store, script, &[]);
        let open = task.vault().begin().unwrap();
        open.make_directory(&path("new"), true).unwrap();
        open.import_directory(&ground.path("task/new/.git"), &path("new/.git"), &()).unwrap();
        open.commit("work", "").unwrap();
        assert_eq!(task.look().unwrap().repositories, expected, "{script}");
    }
}
