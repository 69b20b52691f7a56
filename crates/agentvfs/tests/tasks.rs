//! Projects and their tasks: made from a directory, kept until they are discarded, and never written back by themselves.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;

use agentvfs::{NewTask, Store, TaskName, TaskState, TreePath};
use tempfile::TempDir;

struct Fixture {
    directory: TempDir,
    store: Store,
}

impl Fixture {
    fn new() -> Fixture {
        let directory = TempDir::new().unwrap();
        let project = directory.path().join("web app");
        fs::create_dir_all(project.join("src/deep")).unwrap();
        fs::write(project.join("src/main.rs"), "fn main() {}\n").unwrap();
        let store = Store::open(&directory.path().join("store")).unwrap();
        Fixture { directory, store }
    }

    fn root(&self) -> std::path::PathBuf {
        self.directory.path().canonicalize().unwrap().join("web app")
    }

    fn task(&self, name: Option<&str>) -> agentvfs::Task {
        let new = NewTask {
            name: name.map(|name| TaskName::new(name).unwrap()),
            command: "make".into(),
            ..NewTask::default()
        };
        self.store.project(&self.root()).unwrap().new_task(&new).unwrap()
    }
}

fn path(text: &str) -> TreePath {
    TreePath::parse(text.as_bytes()).unwrap()
}

fn write(task: &agentvfs::Task, at: &str, bytes: &[u8]) {
    let open = task.vault().begin().unwrap();
    open.write_bytes(&path(at), bytes).unwrap();
    open.commit("write", at).unwrap();
}

#[test]
fn a_directory_is_one_project_however_often_it_is_asked_for() {
    let fixture = Fixture::new();
    let first = fixture.store.project(&fixture.root()).unwrap();
    let again = fixture.store.project(&fixture.root().join("src/..")).unwrap();
    assert_eq!(first.vault().id(), again.vault().id());
    assert_eq!(first.vault().name().unwrap().as_str(), "web-app");
    let below = fixture.store.find_project(&fixture.root().join("src/deep")).unwrap().unwrap();
    assert_eq!(below.root(), fixture.root());
    assert!(fixture.store.find_project(fixture.directory.path()).unwrap().is_none());
}

#[test]
fn a_project_begins_at_its_repository() {
    let fixture = Fixture::new();
    let deep = fixture.root().join("src/deep");
    assert_eq!(fixture.store.project_root(&deep).unwrap(), deep);
    fs::create_dir(fixture.root().join(".git")).unwrap();
    assert_eq!(fixture.store.project_root(&deep).unwrap(), fixture.root());
}

#[test]
fn the_root_of_the_system_and_the_store_are_no_projects() {
    let fixture = Fixture::new();
    let store = fixture.directory.path().join("store");
    for directory in [std::path::Path::new("/"), &store] {
        let refused = fixture.store.project(directory).err().unwrap();
        assert_eq!(refused.code(), "not-a-project", "{}", directory.display());
    }
}

#[test]
fn a_task_holds_the_directory_as_it_was_and_changes_nothing_in_it() {
    let fixture = Fixture::new();
    let task = fixture.task(None);
    assert_eq!(task.name().as_str(), "task-1");
    assert_eq!(task.state().unwrap(), TaskState::Unchanged);
    fs::write(fixture.root().join("later"), "").unwrap();
    write(&task, "/src/main.rs", b"fn main() { todo!() }\n");
    let changed = task.changed_files().unwrap();
    assert_eq!(changed.len(), 1);
    assert_eq!(changed[0].path.path, "/src/main.rs");
    assert_eq!(task.state().unwrap(), TaskState::Unmerged);
    assert_eq!(fs::read_to_string(fixture.root().join("src/main.rs")).unwrap(), "fn main() {}\n");
    assert_eq!(fixture.task(None).name().as_str(), "task-2");
}

#[test]
fn tasks_are_found_by_name_and_by_project() {
    let fixture = Fixture::new();
    fixture.task(Some("one"));
    fixture.task(Some("two"));
    let project = fixture.store.project(&fixture.root()).unwrap();
    let names: Vec<String> = project.tasks().unwrap().iter().map(|task| task.name().to_string()).collect();
    assert_eq!(names, ["one", "two"]);
    assert_eq!(fixture.store.task("web-app/two").unwrap().command(), "make");
    assert_eq!(fixture.store.task("web-app").err().unwrap().code(), "not-a-task");
    let twice = NewTask { name: Some(TaskName::new("two").unwrap()), ..NewTask::default() };
    assert_eq!(project.new_task(&twice).err().unwrap().code(), "task-exists");
}

#[test]
fn a_task_that_was_applied_says_so_until_it_is_changed_again() {
    let fixture = Fixture::new();
    let task = fixture.task(Some("one"));
    write(&task, "/new", b"1");
    task.note_applied(Some(task.head().unwrap()), "1 file").unwrap();
    let task = fixture.store.task("web-app/one").unwrap();
    assert_eq!(task.state().unwrap(), TaskState::Applied);
    write(&task, "/new", b"2");
    assert_eq!(task.state().unwrap(), TaskState::Unmerged);
    task.discard(false).unwrap();
    assert!(fixture.store.tasks().unwrap().is_empty());
}

#[test]
fn what_a_task_began_with_survives_a_collection() {
    let fixture = Fixture::new();
    let task = fixture.task(Some("one"));
    write(&task, "/src/main.rs", b"");
    fixture.task(Some("two"));
    fixture.store.collect_garbage(&mut |_| true).unwrap();
    let base = task.vault().reader_at(task.base().unwrap()).unwrap();
    assert_eq!(base.find(&path("/src/main.rs")).unwrap().entry.size(), 13);
}

#[test]
fn a_task_keeps_its_rules_a_preset_among_them() {
    use agentvfs::rules::{Preset, Rule, line};
    let fixture = Fixture::new();
    let mut rules = vec![line("test", "/docs/**=read").unwrap()];
    rules.extend(Preset::Development.rules());
    rules.push(line("test", "/.env=read@5").unwrap());
    let new = NewTask { rules: Some(rules.clone()), ..NewTask::default() };
    let task = fixture.store.project(&fixture.root()).unwrap().new_task(&new).unwrap();
    let kept = fixture.store.task(task.vault_name().as_str()).unwrap().rules().unwrap().unwrap();
    let text = |rules: &[Rule]| rules.iter().map(Rule::to_string).collect::<Vec<_>>();
    assert_eq!(text(kept.list()), text(&rules));
}

#[test]
fn tasks_that_wrote_over_what_nobody_read_clash_whatever_became_of_it() {
    let fixture = Fixture::new();
    let tasks = [fixture.task(Some("one")), fixture.task(Some("two"))];
    tasks.iter().for_each(|task| write(task, "/src/main.rs", task.name().as_str().as_bytes()));
    fs::write(fixture.root().join("src/main.rs"), "fn other() {}\n").unwrap();
    let clashes = fixture.store.clashes(&tasks).unwrap();
    assert_eq!((clashes[0].len(), clashes[1].len()), (1, 1));
    assert_eq!(clashes[0][0].paths, [path("/src/main.rs")]);
    assert_eq!(tasks[0].clashes_with_directory().unwrap(), [path("/src/main.rs")]);
}
