//! Tasks on a project that was never read: only requested files are known.

use agentvfs::apply::{Application, ApplyOptions, OnConflict, Selection};
use agentvfs::{NewTask, Result, Store, Task, TaskState};

use crate::scene::{conflicts_of, path, put};

struct Unread {
    place: tempfile::TempDir,
    store: Store,
    task: Task,
}

/// A task that wrote over `a`, and removed `gone`, without reading them.
fn unread() -> Unread {
    let place = tempfile::tempdir().unwrap();
    let project = place.path().join("project");
    ["a", "gone", "other"]
        .iter()
        .for_each(|name| put(&project, name, b"old\n"));
    let store = Store::open(&place.path().join("store")).unwrap();
    let task = store
        .project(&project)
        .unwrap()
        .new_task(&NewTask::default())
        .unwrap();
    let open = task.vault().begin().unwrap();
    open.write_bytes(&path("a"), b"task\n").unwrap();
    open.remove(&path("gone"), true).unwrap();
    open.commit("work", "").unwrap();
    Unread { place, store, task }
}

impl Unread {
    fn apply(&self) -> Result<agentvfs::apply::Applied> {
        let (base, head) = (self.task.base()?, self.task.head()?);
        let (selection, options) = (Selection::default(), ApplyOptions::default());
        Application::plan(&self.store, base, head, self.task.root(), &selection, &options)?.carry_out()
    }

    fn project(&self) -> std::path::PathBuf {
        self.place.path().join("project")
    }
}

#[test]
fn untouched_file_is_replaced_without_being_read() {
    let scene = unread();
    scene.apply().unwrap();
    assert_eq!(
        std::fs::read_to_string(scene.project().join("a")).unwrap(),
        "task\n"
    );
    assert!(!scene.project().join("gone").exists());
}

#[test]
fn file_changed_by_the_user_before_the_first_read_is_a_conflict() {
    let scene = unread();
    put(&scene.project(), "a", b"user\n");
    put(&scene.project(), "gone", b"user\n");
    let expected = ["/gone removed-there", "/a contents"];
    assert_eq!(conflicts_of(&scene.apply().unwrap_err()), expected);
    let base = scene.task.vault().reader_at(scene.task.base().unwrap()).unwrap();
    ["a", "gone"].iter().for_each(|name| drop(base.read(&path(name))));
    scene.store.objects().commit_kept().unwrap();
    assert_eq!(conflicts_of(&scene.apply().unwrap_err()).len(), 2);
    assert_eq!(
        std::fs::read_to_string(scene.project().join("a")).unwrap(),
        "user\n"
    );
}

#[test]
fn changes_of_the_user_in_a_directory_moved_unread_move_along() {
    let place = tempfile::tempdir().unwrap();
    let project = place.path().join("project");
    let lines: String = (1..=12).map(|line| format!("{line}\n")).collect();
    let mine = lines.replace("5\n", "mine\n");
    let names = ["a/b/f1.txt", "a/b/f2.txt", "a/b/f3.txt"];
    names
        .iter()
        .for_each(|name| put(&project, name, lines.as_bytes()));
    let store = Store::open(&place.path().join("store")).unwrap();
    let task = store
        .project(&project)
        .unwrap()
        .new_task(&NewTask::default())
        .unwrap();
    let open = task.vault().begin().unwrap();
    open.rename(&path("a/b"), &path("D")).unwrap();
    open.remove(&path("D/f2.txt"), false).unwrap();
    open.commit("work", "").unwrap();
    put(&project, "a/b/f1.txt", mine.as_bytes());
    put(&project, "a/b/f2.txt", mine.as_bytes());
    let refused = task.apply(&ApplyOptions::default()).unwrap_err();
    assert_eq!(conflicts_of(&refused), ["/a/b/f2.txt removed-there"]);
    let theirs = ApplyOptions {
        conflicts: OnConflict::Theirs,
        ..ApplyOptions::default()
    };
    task.apply(&theirs).unwrap();
    let read = |name: &str| std::fs::read_to_string(project.join(name)).unwrap();
    assert_eq!((read("D/f1.txt"), read("D/f3.txt")), (mine, lines));
    assert!(!project.join("a/b").exists() && !project.join("D/f2.txt").exists());
    let task = store.task(task.vault_name().as_str()).unwrap();
    assert_eq!(task.state().unwrap(), TaskState::Applied);
}
