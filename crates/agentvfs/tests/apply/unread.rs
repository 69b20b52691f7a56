//! Tasks on a project that was never read: only what somebody asked for is known.

use agentvfs::apply::{Application, ApplyOptions, Selection};
use agentvfs::{NewTask, Result, Store, Task};

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
    ["a", "gone", "other"].iter().for_each(|name| put(&project, name, b"old\n"));
    let store = Store::open(&place.path().join("store")).unwrap();
    let task = store.project(&project).unwrap().new_task(&NewTask::default()).unwrap();
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
fn what_nobody_touched_is_replaced_without_having_been_read() {
    let scene = unread();
    scene.apply().unwrap();
    assert_eq!(std::fs::read_to_string(scene.project().join("a")).unwrap(), "task\n");
    assert!(!scene.project().join("gone").exists());
}

#[test]
fn what_the_user_changed_first_is_a_conflict_whoever_reads_it_later() {
    let scene = unread();
    put(&scene.project(), "a", b"user\n");
    put(&scene.project(), "gone", b"user\n");
    let expected = ["/gone removed-there", "/a contents"];
    assert_eq!(conflicts_of(&scene.apply().unwrap_err()), expected);
    let base = scene.task.vault().reader_at(scene.task.base().unwrap()).unwrap();
    ["a", "gone"].iter().for_each(|name| drop(base.read(&path(name))));
    scene.store.objects().commit_kept().unwrap();
    assert_eq!(conflicts_of(&scene.apply().unwrap_err()).len(), 2);
    assert_eq!(std::fs::read_to_string(scene.project().join("a")).unwrap(), "user\n");
}
