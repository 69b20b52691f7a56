//! Tasks on projects whose git directories lie outside of them.

use agentvfs::{NewTask, Store, Task, TreePath};

use crate::ground::{Ground, sh};

/// A repository with a worktree in `tree`, in which a script was run.
fn worktree(script: &str) -> (Ground, Store, Task) {
    let ground = Ground::new();
    ground.in_host("git worktree add -q ../tree -b side");
    sh(&ground.path("tree"), script);
    let store = Store::in_memory();
    let task = store
        .project(&ground.path("tree"))
        .unwrap()
        .new_task(&NewTask::default())
        .unwrap();
    (ground, store, task)
}

fn path(text: &str) -> TreePath {
    TreePath::parse(text.as_bytes()).unwrap()
}

#[track_caller]
fn read(task: &Task, file: &str) -> String {
    let bytes = task.vault().reader().unwrap().read(&path(file)).unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn names(task: &Task, directory: &str) -> Vec<String> {
    let reader = task.vault().reader().unwrap();
    let listed = reader.list(&path(directory)).unwrap();
    listed
        .map(|entry| String::from_utf8_lossy(entry.unwrap().0.as_bytes()).into_owned())
        .collect()
}

#[test]
fn files_of_other_working_directories_stay_away() {
    let (ground, _, _) = worktree("git worktree add -q ../third");
    ground.in_host("git checkout -q -b clash HEAD~1; echo other >>file; git commit -qam clash");
    ground.in_host("! git rebase -q main 2>/dev/null; test -d .git/rebase-merge");
    let store = Store::in_memory();
    let task = store
        .project(&ground.path("tree"))
        .unwrap()
        .new_task(&NewTask::default())
        .unwrap();
    assert_eq!(read(&task, ".git/HEAD"), "ref: refs/heads/side\n");
    let there = names(&task, ".git");
    for own_of_others in ["rebase-merge", "REBASE_HEAD", "commondir", "gitdir"] {
        assert!(!there.contains(&own_of_others.to_owned()), "{there:?}");
    }
    assert_eq!(names(&task, ".git/worktrees"), ["third"]);
    let log = read(&task, ".git/logs/HEAD");
    assert!(!log.contains("clash"), "{log}");
}

#[test]
fn unfinished_work_and_sparse_settings_of_the_worktree_are_there() {
    let (_ground, _, task) = worktree(
        "git sparse-checkout set --no-cone sub; echo side >sub/other; git commit -qam side
         git checkout -q -b more HEAD~1; echo more >sub/other; git commit -qam more; ! git merge -q side",
    );
    assert!(names(&task, ".git").contains(&"MERGE_HEAD".to_owned()));
    assert_eq!(read(&task, ".git/info/sparse-checkout"), "sub\n");
    assert!(
        names(&task, ".git/info").contains(&"exclude".to_owned()),
        "shared files are there as well"
    );
    for file in [".git/config", ".git/config.worktree"] {
        let settings = read(&task, file);
        assert!(
            settings.ends_with("\tbare = false\n\tworktree = \"..\"\n"),
            "{settings}"
        );
    }
}

#[test]
fn a_branch_that_the_user_moves_before_anybody_looks_is_not_moved_by_the_task() {
    let (ground, store, task) = worktree("true");
    let file = path(".git/refs/heads/side");
    // The name is known, and the contents of the file are not.
    assert_eq!(names(&task, ".git/refs/heads"), ["main", "side"]);
    sh(&ground.path("tree"), "git commit -q --allow-empty -m user");
    let open = task.vault().begin().unwrap();
    let seen = open.read(&file).unwrap();
    open.commit("looked", "").unwrap();
    assert_eq!(
        seen.trim_ascii_end(),
        sh(&ground.path("tree"), "git rev-parse side").as_bytes()
    );
    let task = store.task(task.vault_name().as_str()).unwrap();
    assert_eq!(task.git().work().unwrap().moved_refs().unwrap(), []);
    // The index of the worktree is in another place than on the host.
    let index = path(".git/index");
    sh(&ground.path("tree"), "echo x >x; git add x");
    let open = task.vault().begin().unwrap();
    open.read(&index).unwrap();
    open.commit("looked", "").unwrap();
    let (base, head) = (task.base().unwrap(), task.head().unwrap());
    let at = |state| task.vault().reader_at(state).unwrap().find(&index).unwrap().entry;
    assert_eq!(at(base), at(head));
}

#[test]
fn a_project_that_did_not_change_is_the_same_each_time() {
    let (ground, store, task) = worktree("true");
    assert_eq!(task.changed_files().unwrap(), []);
    let project = store.project(&ground.path("tree")).unwrap();
    let next = project.new_task(&NewTask::default()).unwrap();
    // Both have to look before they can be compared.
    let whole = |task: &Task| {
        let reader = task.vault().reader().unwrap();
        names(task, ".");
        names(task, ".git");
        [".", ".git", ".git/config", ".git/index", ".git/HEAD", ".git/logs"]
            .map(|file| (file, reader.find(&path(file)).unwrap().entry.meta))
    };
    assert_eq!(whole(&task), whole(&next));
    assert_eq!(read(&task, ".git/config"), read(&next, ".git/config"));
}
