//! The meaning of names in a directory: the nearest project, its tasks by their own names, those of others in
//! full.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use agentvfs::{Error, NewTask, Store, Task, TaskName, VaultName};
use tempfile::TempDir;

struct Fixture {
    place: TempDir,
    store: Store,
}

impl Fixture {
    fn new() -> Fixture {
        let place = TempDir::new().unwrap();
        let store = Store::open(&place.path().join("store")).unwrap();
        Fixture { place, store }
    }

    fn directory(&self, name: &str) -> PathBuf {
        let directory = self.place.path().canonicalize().unwrap().join(name);
        fs::create_dir_all(&directory).unwrap();
        directory
    }

    fn task(&self, directory: &Path, name: &str) -> Task {
        let new = NewTask {
            name: Some(TaskName::new(name).unwrap()),
            ..NewTask::default()
        };
        self.store.project(directory).unwrap().new_task(&new).unwrap()
    }

    fn found(&self, directory: &Path, name: &str) -> String {
        told(self.store.projects().here(directory).unwrap().task(name))
    }

    fn only(&self, directory: &Path) -> String {
        told(self.store.projects().here(directory).unwrap().only_task())
    }
}

/// The full name of a task, or the code of the error.
fn told(found: Result<Task, Error>) -> String {
    found.map_or_else(
        |error| error.code().to_string(),
        |task| task.vault_name().to_string(),
    )
}

#[test]
fn two_projects_can_have_tasks_of_the_same_name() {
    let fixture = Fixture::new();
    let (web, api) = (fixture.directory("web"), fixture.directory("api/src"));
    fixture.task(&web, "fix");
    fixture.task(api.parent().unwrap(), "fix");
    assert_eq!(
        (fixture.found(&web, "fix"), fixture.found(&api, "fix")),
        ("web/fix".into(), "api/fix".into())
    );
    assert_eq!(fixture.found(&web, "api/fix"), "api/fix");
    let elsewhere = fixture.directory("elsewhere");
    assert_eq!(fixture.found(&elsewhere, "fix"), "task-elsewhere");
    fixture.task(&web, "other");
    assert_eq!(
        fixture.found(&elsewhere, "other"),
        "web/other",
        "outside of projects, one that is unique is enough"
    );
    assert_eq!(
        fixture.found(&api, "other"),
        "task-elsewhere",
        "in a project, others are named in full"
    );
    assert_eq!(fixture.found(&web, "fxi"), "unknown-task");
}

#[test]
fn projects_whose_directories_are_called_alike_have_tasks_of_the_same_name() {
    let fixture = Fixture::new();
    let (one, other) = (fixture.directory("one/web"), fixture.directory("other/web"));
    fixture.task(&one, "fix");
    fixture.task(&other, "fix");
    assert_eq!(
        (fixture.found(&one, "fix"), fixture.found(&other, "fix")),
        ("web/fix".into(), "web-2/fix".into())
    );
}

#[test]
fn the_name_of_a_task_can_be_left_out_if_its_project_has_one() {
    let fixture = Fixture::new();
    let (web, below) = (fixture.directory("web"), fixture.directory("web/src"));
    assert_eq!(fixture.only(&web), "no-project");
    fixture.store.project(&web).unwrap();
    assert_eq!(fixture.only(&below), "no-task");
    fixture.task(&web, "fix");
    assert_eq!(fixture.only(&below), "web/fix");
    fixture.task(&web, "other");
    assert_eq!(fixture.only(&web), "several-tasks");
}

#[test]
fn a_vault_is_found_by_the_own_name_of_a_task_unless_a_vault_is_called_so() {
    let fixture = Fixture::new();
    let web = fixture.directory("web");
    let task = fixture.task(&web, "fix");
    let here = fixture.store.projects().here(&web).unwrap();
    assert_eq!(here.vault("fix").unwrap().id(), task.vault().id());
    let vault = fixture
        .store
        .create_vault(&VaultName::new("fix").unwrap())
        .unwrap();
    assert_eq!(here.vault("fix").unwrap().id(), vault.id());
    assert_eq!(here.task("fix").unwrap().vault().id(), task.vault().id());
    assert_eq!(here.vault("nothing").err().unwrap().code(), "unknown-vault");
}

#[test]
fn a_revision_names_a_task_of_the_same_project_by_its_own_name() {
    let fixture = Fixture::new();
    let web = fixture.directory("web");
    let (fix, other) = (fixture.task(&web, "fix"), fixture.task(&web, "other"));
    for text in ["other:", "other", "web/other:", "web/other"] {
        assert_eq!(
            fix.vault().revision(text).unwrap().vault.id(),
            other.vault().id(),
            "{text}"
        );
    }
}

#[test]
fn a_renamed_project_takes_its_tasks_along() {
    let fixture = Fixture::new();
    let web = fixture.directory("web");
    let task = fixture.task(&web, "fix");
    fixture.store.use_vault("web/fix").unwrap();
    fixture
        .store
        .vault("web")
        .unwrap()
        .rename(&VaultName::new("site").unwrap())
        .unwrap();
    assert_eq!(fixture.found(&web, "fix"), "site/fix");
    assert_eq!(
        fixture.store.current_vault().unwrap().as_deref(),
        Some("site/fix")
    );
    task.vault().rename(&VaultName::new("login").unwrap()).unwrap();
    assert_eq!(fixture.only(&web), "site/login");
}

#[test]
fn a_repository_is_nearer_than_a_known_project_around_it() {
    let fixture = Fixture::new();
    let (around, inner) = (fixture.directory("around"), fixture.directory("around/inner/src"));
    fixture.task(&around, "fix");
    assert_eq!(fixture.store.projects().root_of(&inner).unwrap(), around);
    let repository = inner.parent().unwrap();
    fs::create_dir(repository.join(".git")).unwrap();
    assert_eq!(fixture.store.projects().root_of(&inner).unwrap(), repository);
    assert!(fixture.store.projects().find(&inner).unwrap().is_none());
    assert_eq!(fixture.only(&inner), "no-project");
}

#[test]
fn a_submodule_belongs_to_the_known_project_around_it() {
    let fixture = Fixture::new();
    let (around, inner) = (fixture.directory("around"), fixture.directory("around/inner/src"));
    fs::create_dir(around.join(".git")).unwrap();
    let submodule = inner.parent().unwrap();
    fs::write(submodule.join(".git"), "gitdir: ../.git/modules/inner\n").unwrap();
    assert_eq!(fixture.store.projects().root_of(&inner).unwrap(), submodule);
    fixture.task(&around, "fix");
    assert_eq!(fixture.only(&inner), "around/fix");
    // A worktree is a repository of its own, wherever it is.
    fs::write(
        submodule.join(".git"),
        format!("gitdir: {}/.git/worktrees/inner\n", around.display()),
    )
    .unwrap();
    assert_eq!(fixture.only(&inner), "no-project");
}
