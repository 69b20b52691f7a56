//! A task is applied, continues, and is applied again: only later changes of either side count.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::PathBuf;

use agentvfs::apply::{Applied, ApplyOptions, OnConflict, Selection};
use agentvfs::{MergeOptions, NewTask, Store, Task, TaskState, TreePath};
use tempfile::TempDir;

struct Loop {
    _directory: TempDir,
    root: PathBuf,
    store: Store,
    task: Task,
}

fn path(text: &str) -> TreePath {
    TreePath::parse(text.as_bytes()).unwrap()
}

impl Loop {
    fn new() -> Loop {
        let directory = TempDir::new().unwrap();
        let root = directory.path().canonicalize().unwrap().join("web");
        fs::create_dir_all(root.join("src")).unwrap();
        fs::write(root.join("a"), "one\n").unwrap();
        fs::write(root.join("src/old"), "old\n").unwrap();
        let store = Store::open(&directory.path().join("store")).unwrap();
        let project = store.project(&root).unwrap();
        let task = project.new_task(&NewTask::default()).unwrap();
        Loop {
            _directory: directory,
            root,
            store,
            task,
        }
    }

    fn task_writes(&self, at: &str, text: &str) {
        let open = self.task.vault().begin().unwrap();
        let (parent, _) = path(at).split_last().unwrap();
        if !parent.is_root() {
            open.make_directory(&parent, true).unwrap();
        }
        open.write_bytes(&path(at), text.as_bytes()).unwrap();
        open.commit("write", at).unwrap();
    }

    fn task_removes(&self, at: &str) {
        let open = self.task.vault().begin().unwrap();
        open.remove(&path(at), true).unwrap();
        open.commit("rm", at).unwrap();
    }

    fn user_writes(&self, at: &str, text: &str) {
        fs::write(self.root.join(at), text).unwrap();
    }

    fn apply(&self) -> agentvfs::Result<Applied> {
        self.task().apply(&ApplyOptions::default())
    }

    /// The stored state of the task.
    fn task(&self) -> Task {
        Task::of(self.task.vault().clone()).unwrap()
    }

    fn has(&self, at: &str) -> Option<String> {
        fs::read_to_string(self.root.join(at)).ok()
    }
}

#[test]
fn a_task_that_goes_on_is_applied_without_a_conflict_with_its_own_work() {
    let scene = Loop::new();
    scene.task_writes("/a", "one\ntwo\n");
    scene.task_writes("/src/new", "1\n");
    scene.apply().unwrap();
    scene.task_writes("/a", "one\ntwo\nthree\n");
    scene.task_writes("/src/new", "1\n2\n");
    assert_eq!(scene.task().merges().clashes_with_directory().unwrap(), []);
    scene.apply().unwrap();
    assert_eq!(scene.has("a").as_deref(), Some("one\ntwo\nthree\n"));
    assert_eq!(scene.has("src/new").as_deref(), Some("1\n2\n"));
    assert_eq!(scene.task().state().unwrap(), TaskState::Applied);
    let undo = scene.store.applies().last(|_| true).unwrap().unwrap();
    scene.store.undo_apply(undo.id, false).unwrap();
    assert_eq!(scene.has("a").as_deref(), Some("one\ntwo\n"));
    // A reverted path must be applied again.
    scene.apply().unwrap();
    assert_eq!(scene.has("a").as_deref(), Some("one\ntwo\nthree\n"));
}

#[test]
fn what_the_user_did_after_an_apply_is_merged_with_what_the_task_did_after_it() {
    let scene = Loop::new();
    let lines = |first: &str, last: &str| format!("{first}\n2\n3\n4\n5\n{last}\n");
    scene.task_writes("/a", &lines("1", "6"));
    scene.apply().unwrap();
    scene.user_writes("a", &lines("user", "6"));
    scene.task_writes("/a", &lines("1", "task"));
    scene.apply().unwrap();
    assert_eq!(scene.has("a"), Some(lines("user", "task")));
    scene.user_writes("a", &lines("user", "both"));
    scene.task_writes("/a", &lines("1", "task again"));
    assert_eq!(scene.apply().unwrap_err().code(), "apply-conflicts");
}

#[test]
fn applied_file_removed_in_the_task_is_removed_from_the_directory() {
    let scene = Loop::new();
    scene.task_writes("/dir/made", "x");
    scene.apply().unwrap();
    assert_eq!(scene.has("dir/made").as_deref(), Some("x"));
    scene.task_removes("/dir");
    scene.apply().unwrap();
    assert!(!scene.root.join("dir").exists());
}

#[test]
fn a_removed_file_that_the_task_makes_again_is_applied() {
    let scene = Loop::new();
    scene.task_removes("/src/old");
    scene.apply().unwrap();
    assert_eq!(scene.has("src/old"), None);
    scene.task_writes("/src/old", "again\n");
    scene.apply().unwrap();
    assert_eq!(scene.has("src/old").as_deref(), Some("again\n"));
}

#[test]
fn a_sync_after_an_apply_opens_no_conflict() {
    let scene = Loop::new();
    scene.task_writes("/a", "one\ntwo\n");
    scene.apply().unwrap();
    scene.task_writes("/a", "one\ntwo\nthree\n");
    let mut task = scene.task();
    let report = task.sync(&MergeOptions::default()).unwrap();
    assert_eq!(task.open_conflicts().unwrap(), [], "{report:?}");
    scene.apply().unwrap();
    assert_eq!(scene.has("a").as_deref(), Some("one\ntwo\nthree\n"));
    // From here on the task begins with the directory's contents at that time.
    scene.user_writes("src/old", "user\n");
    scene.task_writes("/a", "four\n");
    scene.apply().unwrap();
    assert_eq!(
        (scene.has("a").as_deref(), scene.has("src/old").as_deref()),
        (Some("four\n"), Some("user\n"))
    );
}

#[test]
fn only_what_was_applied_counts_as_applied() {
    let scene = Loop::new();
    scene.task_writes("/a", "task\n");
    scene.task_writes("/b", "task\n");
    let selection = Selection {
        paths: vec![path("/a")],
        ..Selection::default()
    };
    let task = scene.task();
    let plan = task.plan_apply(&selection, &ApplyOptions::default()).unwrap();
    plan.carry_out().unwrap();
    assert_eq!(
        (scene.has("a").as_deref(), scene.has("b")),
        (Some("task\n"), None)
    );
    scene.user_writes("b", "user\n");
    assert_eq!(scene.apply().unwrap_err().code(), "apply-conflicts");
    let theirs = ApplyOptions {
        conflicts: OnConflict::Theirs,
        ..ApplyOptions::default()
    };
    scene.task().apply(&theirs).unwrap();
    assert_eq!(scene.has("b").as_deref(), Some("task\n"));
    scene.task_writes("/b", "task\nmore\n");
    scene.apply().unwrap();
    assert_eq!(scene.has("b").as_deref(), Some("task\nmore\n"));
}

#[test]
fn a_path_that_was_applied_already_can_be_named_and_any_other_one_cannot() {
    let scene = Loop::new();
    scene.task_writes("/dir/made", "x");
    scene.apply().unwrap();
    let named = |at: &str| {
        let selection = Selection {
            paths: vec![path(at)],
            ..Selection::default()
        };
        scene
            .task()
            .plan_apply(&selection, &ApplyOptions::default())
            .map(|plan| plan.is_empty())
    };
    assert!(named("/dir/made").unwrap() && named("/dir").unwrap());
    assert_eq!(named("/a").unwrap_err().code(), "not-changed");
}

#[test]
fn paths_that_the_user_reverted_by_hand_are_applied_again() {
    let scene = Loop::new();
    scene.task_writes("/a", "one\ntwo\n");
    scene.task_writes("/b", "new\n");
    scene.apply().unwrap();
    scene.user_writes("a", "one\n");
    fs::remove_file(scene.root.join("b")).unwrap();
    let mut task = scene.task();
    task.sync(&MergeOptions {
        dry_run: true,
        ..MergeOptions::default()
    })
    .unwrap();
    scene.apply().unwrap();
    assert_eq!(
        (scene.has("a").as_deref(), scene.has("b").as_deref()),
        (Some("one\ntwo\n"), Some("new\n"))
    );
}
