//! Projects and their tasks: made from a directory, kept until they are discarded, and never written back by themselves.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;

use agentvfs::apply::{Application, ApplyOptions, OnConflict, Plan, Selection};
use agentvfs::{
    CheckpointName, ClashDetail, MergeOptions, NewTask, Resolution, Store, TaskName, TaskState, TreePath,
    Version, WriteMode,
};
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
    let (parent, _) = path(at).split_last().unwrap();
    if !parent.is_root() {
        open.make_directory(&parent, true).unwrap();
    }
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
    let below = fixture
        .store
        .projects()
        .find(&fixture.root().join("src/deep"))
        .unwrap()
        .unwrap();
    assert_eq!(below.root(), fixture.root());
    assert!(
        fixture
            .store
            .projects()
            .find(fixture.directory.path())
            .unwrap()
            .is_none()
    );
}

#[test]
fn a_project_begins_at_its_repository() {
    let fixture = Fixture::new();
    let deep = fixture.root().join("src/deep");
    assert_eq!(fixture.store.projects().root_of(&deep).unwrap(), deep);
    fs::create_dir(fixture.root().join(".git")).unwrap();
    assert_eq!(fixture.store.projects().root_of(&deep).unwrap(), fixture.root());
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
    assert_eq!(
        fs::read_to_string(fixture.root().join("src/main.rs")).unwrap(),
        "fn main() {}\n"
    );
    assert_eq!(fixture.task(None).name().as_str(), "task-2");
}

#[test]
fn a_slip_in_the_name_of_a_task_finds_its_vault() {
    let fixture = Fixture::new();
    fixture.task(Some("fix-login"));
    let similar = |name: &str| match fixture.store.vault(name).err().unwrap() {
        agentvfs::Error::Vault(agentvfs::error::VaultError::Unknown { similar, .. }) => similar,
        other => panic!("{other}"),
    };
    assert_eq!(similar("fix-logi").as_deref(), Some("web-app/fix-login"));
    assert_eq!(similar("web-ap").as_deref(), Some("web-app"));
    assert_eq!(similar("zzz"), None);
}

#[test]
fn tasks_are_found_by_name_and_by_project() {
    let fixture = Fixture::new();
    fixture.task(Some("one"));
    fixture.task(Some("two"));
    let project = fixture.store.project(&fixture.root()).unwrap();
    let names: Vec<String> = project
        .tasks()
        .unwrap()
        .iter()
        .map(|task| task.name().to_string())
        .collect();
    assert_eq!(names, ["one", "two"]);
    assert_eq!(fixture.store.task("web-app/two").unwrap().command(), "make");
    assert_eq!(fixture.store.task("web-app").err().unwrap().code(), "not-a-task");
    let twice = NewTask {
        name: Some(TaskName::new("two").unwrap()),
        ..NewTask::default()
    };
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
    assert!(fixture.store.tasks().list().unwrap().is_empty());
}

#[test]
fn a_file_of_the_directory_has_the_version_that_a_write_expects() {
    let fixture = Fixture::new();
    let task = fixture.task(None);
    let at = path("/src/main.rs");
    let version = Version::of_file(&task.vault().reader().unwrap(), &at).unwrap();
    assert_eq!(version, Version::of_bytes(b"fn main() {}\n"));
    let open = task.vault().begin().unwrap();
    open.write(&at, &mut &b"changed"[..], WriteMode::Replace, Some(&version))
        .unwrap();
}

#[test]
fn base_of_a_task_survives_garbage_collection() {
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
    let new = NewTask {
        rules: Some(rules.clone()),
        ..NewTask::default()
    };
    let task = fixture
        .store
        .project(&fixture.root())
        .unwrap()
        .new_task(&new)
        .unwrap();
    let kept = fixture
        .store
        .task(task.vault_name().as_str())
        .unwrap()
        .rules()
        .unwrap()
        .unwrap();
    let text = |rules: &[Rule]| rules.iter().map(Rule::to_string).collect::<Vec<_>>();
    // Files that tools of the host run are guarded when they are applied: in the task they may be written.
    let given = rules.len();
    rules.retain(|rule| !Preset::is_about_project_files_run(rule));
    assert!(rules.len() < given);
    assert_eq!(text(kept.list()), text(&rules));
}

/// What programs read of a vault.
fn programs_read(vault: &agentvfs::Vault, at: &str) -> Option<Vec<u8>> {
    let rules = vault.rules_for_programs().unwrap().unwrap();
    let seen = vault.through(agentvfs::rules::Rules::shared(rules).unwrap());
    seen.reader()
        .unwrap()
        .read(&path(at))
        .ok()
        .map(|bytes| bytes.to_vec())
}

#[test]
fn forks_of_tasks_and_of_projects_hide_from_programs_what_the_task_hides() {
    let fixture = Fixture::new();
    fs::write(fixture.root().join(".env"), "TOKEN=1\n").unwrap();
    let project = fixture.store.project(&fixture.root()).unwrap();
    let new = NewTask {
        rules: Some(agentvfs::rules::usual()),
        ..NewTask::default()
    };
    let task = project.new_task(&new).unwrap();
    let name = |name: &str| agentvfs::VaultName::new(name).unwrap();
    let fork = task.vault().fork(&[name("fork")]).unwrap().remove(0);
    let second = fork.fork(&[name("second")]).unwrap().remove(0);
    let of_project = project.vault().fork(&[name("of-project")]).unwrap().remove(0);
    for vault in [task.vault(), &fork, &second, &project.vault(), &of_project] {
        let which = vault.name().unwrap();
        assert_eq!(programs_read(vault, ".env"), None, "{which}");
        assert!(programs_read(vault, "src/main.rs").is_some(), "{which}");
        // The user sees all of it.
        let all = vault.through_stored().unwrap().reader().unwrap();
        assert_eq!(&all.read(&path(".env")).unwrap()[..], b"TOKEN=1\n", "{which}");
    }
}

#[test]
fn tasks_that_overwrote_the_same_unread_file_always_clash() {
    let fixture = Fixture::new();
    let tasks = [fixture.task(Some("one")), fixture.task(Some("two"))];
    tasks
        .iter()
        .for_each(|task| write(task, "/src/main.rs", task.name().as_str().as_bytes()));
    fs::write(fixture.root().join("src/main.rs"), "fn other() {}\n").unwrap();
    for detail in [ClashDetail::Paths, ClashDetail::Pairs] {
        let clashes = fixture.store.tasks().clashes(&tasks, detail).unwrap();
        let is_told = usize::from(detail == ClashDetail::Pairs);
        assert_eq!(
            (clashes[0].tasks.len(), clashes[1].tasks.len()),
            (is_told, is_told)
        );
        assert!(
            clashes
                .iter()
                .all(|clashes| clashes.paths == [path("/src/main.rs")]),
            "{clashes:?}"
        );
    }
    assert_eq!(
        tasks[0].merges().clashes_with_directory().unwrap(),
        [path("/src/main.rs")]
    );
}

/// The work of a task, and how many ignored files there are.
fn work(task: &agentvfs::Task) -> (Vec<String>, usize) {
    let changes = task.changes().unwrap();
    let files = changes
        .files
        .iter()
        .map(|file| format!("{} {}", file.status.letter(), file.path()))
        .collect();
    (files, changes.ignored_places.files())
}

fn plan(fixture: &Fixture, task: &agentvfs::Task, paths: &[&str]) -> Plan {
    let selection = Selection {
        paths: paths.iter().map(|at| path(at)).collect(),
        ..Selection::default()
    };
    let (base, head) = (task.base().unwrap(), task.head().unwrap());
    let options = ApplyOptions {
        task: Some(task.vault_name().clone()),
        ..ApplyOptions::default()
    };
    Application::plan(&fixture.store, base, head, &fixture.root(), &selection, &options).unwrap()
}

#[test]
fn ignored_files_are_no_work_and_a_task_of_nothing_else_is_unchanged() {
    let fixture = Fixture::new();
    fs::write(fixture.root().join(".gitignore"), "out/\n*.log\n").unwrap();
    let task = fixture.task(None);
    write(&task, "/out/deep/a.o", b"built");
    write(&task, "/src/run.log", b"ran");
    assert_eq!(work(&task), (vec![], 2));
    assert_eq!(task.state().unwrap(), TaskState::Unchanged);
    write(&task, "/src/new.rs", b"work");
    assert_eq!(work(&task), (vec!["A /src/new.rs".to_owned()], 2));
    let changes = task.changes().unwrap();
    let places: Vec<String> = changes
        .ignored_places
        .places()
        .map(|place| place.path.to_string())
        .collect();
    assert_eq!(places, ["/out", "/src/run.log"]);
    assert_eq!(task.changed_files().unwrap().len(), 1);
}

#[test]
fn ignored_files_are_counted_alike_wherever_they_are_told_of() {
    let fixture = Fixture::new();
    fs::write(fixture.root().join(".gitignore"), "out/\n").unwrap();
    fs::create_dir(fixture.root().join("out")).unwrap();
    for name in ["a", "b", "c"] {
        fs::write(fixture.root().join("out").join(name), format!("built {name}")).unwrap();
    }
    let task = fixture.task(None);
    let open = task.vault().begin().unwrap();
    let _ = ["/out/a", "/out/b", "/out/c"].map(|at| open.read(&path(at)).unwrap());
    open.rename(&path("/out/a"), &path("/out/moved")).unwrap();
    open.write_bytes(&path("/out/b"), b"built b").unwrap();
    open.write_bytes(&path("/out/c"), b"built again").unwrap();
    open.write_bytes(&path("/src/new.rs"), b"work").unwrap();
    open.commit("work", "").unwrap();
    assert_eq!(
        work(&task),
        (vec!["A /src/new.rs".to_owned()], 2),
        "one was moved, one built again"
    );
    assert_eq!(
        plan(&fixture, &task, &[]).ignored,
        task.changes().unwrap().ignored_places
    );
}

#[test]
fn ignored_files_are_neither_applied_nor_in_conflict_unless_they_are_named() {
    let fixture = Fixture::new();
    fs::write(fixture.root().join(".gitignore"), "out/\n").unwrap();
    fs::create_dir(fixture.root().join("out")).unwrap();
    fs::write(fixture.root().join("out/a.o"), "before").unwrap();
    let task = fixture.task(None);
    write(&task, "/out/a.o", b"of the task");
    write(&task, "/out/b.o", b"of the task");
    write(&task, "/only/__pycache__/x.pyc", b"of the task");
    write(&task, "/src/main.rs", b"fn main() { work() }\n");
    fs::write(fixture.root().join("out/a.o"), "of the user").unwrap();
    fs::write(fixture.root().join("out/b.o"), "of the user").unwrap();
    assert_eq!(task.merges().clashes_with_directory().unwrap(), []);
    let whole = plan(&fixture, &task, &[]);
    assert_eq!((whole.conflicts.len(), whole.ignored.files()), (0, 3));
    let files: Vec<String> = whole.files.iter().map(|file| file.path.to_string()).collect();
    assert_eq!(files, ["/src/main.rs"]);
    let named = plan(&fixture, &task, &["/out/b.o"]);
    assert_eq!((named.conflicts.len(), named.ignored.files()), (1, 0));
    whole.carry_out().unwrap();
    assert_eq!(
        fs::read_to_string(fixture.root().join("out/a.o")).unwrap(),
        "of the user"
    );
    task.note_applied(Some(task.head().unwrap()), "").unwrap();
    let task = fixture.store.task(task.vault_name().as_str()).unwrap();
    write(&task, "/out/c.o", b"built again");
    assert_eq!(
        task.state().unwrap(),
        TaskState::Applied,
        "tests that run again undo nothing"
    );
}

#[test]
fn a_file_that_is_written_with_the_same_bytes_is_unchanged_whatever_the_user_does_to_it() {
    let fixture = Fixture::new();
    fs::write(fixture.root().join("logo"), [0, 159, 146, 150]).unwrap();
    let tasks = [fixture.task(Some("one")), fixture.task(Some("two"))];
    // As a mount does before it writes over a file.
    let reader = tasks[0].vault().reader_at(tasks[0].base().unwrap()).unwrap();
    let _ = ["/src/main.rs", "/logo"].map(|at| reader.read(&path(at)).unwrap());
    write(&tasks[0], "/src/main.rs", b"fn main() {}\n");
    write(&tasks[0], "/logo", &[0, 159, 146, 150]);
    write(&tasks[1], "/logo", b"\0other");
    assert_eq!(work(&tasks[0]), (vec![], 0));
    assert_eq!(tasks[0].state().unwrap(), TaskState::Unchanged);
    let clashes = fixture.store.tasks().clashes(&tasks, ClashDetail::Paths).unwrap();
    assert!(
        clashes.iter().all(|clashes| clashes.paths.is_empty()),
        "{clashes:?}"
    );
    fs::remove_file(fixture.root().join("src/main.rs")).unwrap();
    fs::write(fixture.root().join("logo"), "\0new").unwrap();
    assert_eq!(tasks[0].merges().clashes_with_directory().unwrap(), []);
    let plan = plan(&fixture, &tasks[0], &[]);
    assert_eq!((plan.conflicts.len(), plan.files.len()), (0, 0));
    let mut task = tasks[0].clone();
    let report = task.sync(&MergeOptions::default()).unwrap();
    assert_eq!(report.conflicts.len(), 0, "{:?}", report.conflicts);
}

/// As `git checkout` of another branch and back does: it removes and creates files that nobody has read.
#[test]
fn an_unread_file_that_is_removed_and_created_with_the_same_bytes_is_unchanged() {
    let fixture = Fixture::new();
    let names = ["same", "other", "gone-since"];
    for name in names {
        fs::write(fixture.root().join(name), format!("{name} of the user")).unwrap();
    }
    fs::write(fixture.root().join("large"), vec![b'x'; 5 << 20]).unwrap();
    let task = fixture.task(None);
    let open = task.vault().begin().unwrap();
    for name in ["same", "other", "gone-since", "large"] {
        open.remove(&path(name), false).unwrap();
    }
    open.write_bytes(&path("same"), b"same of the user").unwrap();
    open.write_bytes(&path("other"), b"other of a task").unwrap();
    open.write_bytes(&path("gone-since"), b"gone-since of the user")
        .unwrap();
    open.write_bytes(&path("large"), &vec![b'x'; 5 << 20]).unwrap();
    open.commit("write", "all").unwrap();
    fs::remove_file(fixture.root().join("gone-since")).unwrap();
    assert_eq!(
        work(&task).0,
        ["M /gone-since", "M /large", "M /other"],
        "what cannot be read, or only at a price, counts as changed"
    );
    assert_eq!(work(&task).0.len(), 3, "and so it does the next time");
}

#[test]
fn contents_that_sync_brings_are_newer_than_what_was_built_in_the_task() {
    let fixture = Fixture::new();
    fs::write(fixture.root().join("logo"), "as it is").unwrap();
    let mut task = fixture.task(None);
    let mtime = |task: &agentvfs::Task, at: &str| {
        let reader = task.vault().reader_at(task.head().unwrap()).unwrap();
        reader.find(&path(at)).unwrap().entry.meta.mtime
    };
    let reader = task.vault().reader_at(task.head().unwrap()).unwrap();
    let _ = ["/src/main.rs", "/logo"].map(|at| reader.read(&path(at)).unwrap());
    write(&task, "/built", b"");
    let before = mtime(&task, "/logo");
    let on_host = fs::File::create(fixture.root().join("src/main.rs")).unwrap();
    on_host.set_len(3).unwrap();
    on_host
        .set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000))
        .unwrap();
    task.sync(&MergeOptions::default()).unwrap();
    assert!(mtime(&task, "/src/main.rs") >= mtime(&task, "/built"));
    assert_eq!(mtime(&task, "/logo"), before, "an unchanged file keeps its time");
    assert_eq!(work(&task).0, ["A /built"], "other times are no work");
    assert!(task.merges().clashes_with_directory().unwrap().is_empty());
}

#[test]
fn sync_leaves_files_with_the_same_bytes_alone_and_counts_the_others() {
    let fixture = Fixture::new();
    fs::write(fixture.root().join("logo"), "as it is").unwrap();
    let mut task = fixture.task(None);
    let entry = |task: &agentvfs::Task, at: &str| {
        let reader = task.vault().reader_at(task.head().unwrap()).unwrap();
        reader.find(&path(at)).unwrap().entry
    };
    let reader = task.vault().reader_at(task.head().unwrap()).unwrap();
    let _ = ["/src/main.rs", "/logo"].map(|at| reader.read(&path(at)).unwrap());
    write(&task, "/built", b"");
    let before = entry(&task, "/logo").meta.mtime;
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
    fs::File::options()
        .write(true)
        .open(fixture.root().join("logo"))
        .unwrap()
        .set_modified(later)
        .unwrap();
    fs::write(fixture.root().join("src/new.rs"), "new").unwrap();
    for dry_run in [true, false] {
        let report = task
            .sync(&MergeOptions {
                dry_run,
                ..MergeOptions::default()
            })
            .unwrap();
        let changed: Vec<String> = report
            .changes
            .iter()
            .map(|change| change.path.to_string())
            .collect();
        assert_eq!(changed, ["/src/new.rs"]);
    }
    assert_eq!(
        entry(&task, "/logo").meta.mtime,
        before,
        "only its time is another in the directory"
    );
    assert_eq!(work(&task).0, ["A /built"]);
}

#[test]
fn sync_leaves_an_ignored_directory_that_the_task_changed_as_it_is() {
    let fixture = Fixture::new();
    fs::write(fixture.root().join(".gitignore"), "out/\ncache/\n").unwrap();
    for directory in ["out", "cache"] {
        fs::create_dir(fixture.root().join(directory)).unwrap();
        fs::write(fixture.root().join(directory).join("a"), "\0before").unwrap();
    }
    let mut task = fixture.task(None);
    write(&task, "/out/a", b"\0of the task");
    fs::write(fixture.root().join("out/a"), "\0of the user").unwrap();
    fs::write(fixture.root().join("out/b"), "\0of the user").unwrap();
    fs::write(fixture.root().join("cache/a"), "\0of the user").unwrap();
    let report = task.sync(&MergeOptions::default()).unwrap();
    assert_eq!(report.conflicts.len(), 0);
    let reader = task.vault().reader_at(task.head().unwrap()).unwrap();
    assert_eq!(reader.read(&path("/out/a")).unwrap(), &b"\0of the task"[..]);
    assert!(reader.find(&path("/out/b")).is_err());
    assert_eq!(reader.read(&path("/cache/a")).unwrap(), &b"\0of the user"[..]);
    assert_eq!(work(&task).0, Vec::<String>::new());
}

#[test]
fn huge_files_are_looked_at_and_not_read() {
    const HUGE: u64 = 1 << 42;
    let fixture = Fixture::new();
    let on_host = fs::File::create(fixture.root().join("disk.img")).unwrap();
    on_host.set_len(1 << 30).unwrap();
    let tasks = [fixture.task(Some("one")), fixture.task(Some("two"))];
    for (task, first) in tasks.iter().zip([b"one", b"two"]) {
        let open = task.vault().begin().unwrap();
        open.write_bytes(&path("/new.img"), first).unwrap();
        open.truncate(&path("/new.img"), HUGE).unwrap();
        open.remove(&path("/disk.img"), false).unwrap();
        open.commit("write", "").unwrap();
    }
    assert_eq!(
        work(&tasks[0]),
        (vec!["D /disk.img".to_owned(), "A /new.img".to_owned()], 0)
    );
    assert_eq!(tasks[0].merges().clashes_with_directory().unwrap(), []);
    let clashes = fixture.store.tasks().clashes(&tasks, ClashDetail::Paths).unwrap();
    assert_eq!(clashes[0].paths, [path("/new.img")]);
    let user = fs::File::create(fixture.root().join("new.img")).unwrap();
    user.set_len(HUGE).unwrap();
    assert_eq!(
        tasks[0].merges().clashes_with_directory().unwrap(),
        [path("/new.img")]
    );
}

fn apply(fixture: &Fixture, task: &agentvfs::Task) -> Option<agentvfs::apply::ApplyId> {
    plan(fixture, task, &[]).carry_out().unwrap().id
}

#[test]
fn a_large_file_is_in_conflict_only_if_both_sides_have_another_version() {
    let fixture = Fixture::new();
    let file = fixture.root().join("data.bin");
    let large = vec![7_u8; 17 << 20];
    fs::write(&file, &large).unwrap();
    let touch = || {
        fs::File::options()
            .write(true)
            .open(&file)
            .unwrap()
            .set_modified(std::time::SystemTime::now())
            .unwrap()
    };
    let task = fixture.task(Some("one"));
    let reader = task.vault().reader_at(task.head().unwrap()).unwrap();
    let _ = reader.read(&path("/data.bin")).unwrap();
    let mut changed = large.clone();
    changed[1000] = 8;
    write(&task, "/data.bin", &changed);
    let conflicts = || task.merges().clashes_with_directory().unwrap();
    assert_eq!(conflicts(), []);
    touch();
    assert_eq!(conflicts(), [], "a time is no change");
    let id = apply(&fixture, &task).unwrap();
    assert_eq!(conflicts(), [], "as the apply left it");
    touch();
    assert_eq!(conflicts(), [], "the same as in the task");
    fixture.store.undo_apply(id, false).unwrap();
    assert_eq!(conflicts(), [], "as it was before");
    let mut other = large.clone();
    other[2000] = 9;
    fs::write(&file, &other).unwrap();
    assert_eq!(conflicts(), [path("/data.bin")]);
    fs::write(&file, "another size").unwrap();
    assert_eq!(conflicts(), [path("/data.bin")]);
}

#[test]
fn leftover_of_an_apply_of_a_huge_file_is_recognized_without_reading_it() {
    const HUGE: u64 = 257 << 20;
    let fixture = Fixture::new();
    let tasks = [fixture.task(Some("one")), fixture.task(Some("two"))];
    for (task, first) in tasks.iter().zip([b"one", b"two"]) {
        let open = task.vault().begin().unwrap();
        open.write_bytes(&path("/new.img"), first).unwrap();
        open.truncate(&path("/new.img"), HUGE).unwrap();
        open.commit("write", "").unwrap();
    }
    apply(&fixture, &tasks[0]).unwrap();
    assert_eq!(tasks[0].merges().clashes_with_directory().unwrap(), []);
    assert_eq!(
        tasks[1].merges().clashes_with_directory().unwrap(),
        [path("/new.img")]
    );
}

#[test]
fn a_task_whose_work_the_directory_has_already_is_applied() {
    let fixture = Fixture::new();
    let find = |name: &str| fixture.store.task(&format!("web-app/{name}")).unwrap();
    for name in ["one", "two"] {
        write(&fixture.task(Some(name)), "/src/main.rs", b"fn both() {}\n");
    }
    let id = apply(&fixture, &find("one")).unwrap();
    assert_eq!(find("two").state().unwrap(), TaskState::Unmerged);
    assert_eq!(apply(&fixture, &find("two")), None, "there is nothing to apply");
    assert_eq!(find("two").state().unwrap(), TaskState::Applied);
    fixture.store.undo_apply(id, false).unwrap();
    assert_eq!(find("one").state().unwrap(), TaskState::Unmerged);
    assert_eq!(
        find("two").state().unwrap(),
        TaskState::Unmerged,
        "the directory has it no more"
    );
}

#[test]
fn tasks_of_one_project_that_began_at_different_times_are_merged() {
    let fixture = Fixture::new();
    fs::write(fixture.root().join("list"), "1\n2\n3\n4\n5\n").unwrap();
    let one = fixture.task(Some("one"));
    let reader = one.vault().reader_at(one.base().unwrap()).unwrap();
    let _ = reader.read(&path("/list")).unwrap();
    write(&one, "/list", b"1\n2\n3\n4\nfive\n");
    write(&one, "/of-one", b"1");
    fs::write(fixture.root().join("list"), "one\n2\n3\n4\n5\n").unwrap();
    fs::write(fixture.root().join("of-user"), "").unwrap();
    let two = fixture.task(Some("two"));
    write(&two, "/of-two", b"2");
    let merge = || {
        two.vault()
            .merge(&[one.vault()], &MergeOptions::default())
            .unwrap()
    };
    let report = merge();
    assert_eq!(
        (report.conflicts.len(), report.sources[0].changed > 0),
        (0, true),
        "{report:?}"
    );
    let read = |at: &str| two.vault().begin().unwrap().read(&path(at)).unwrap();
    assert_eq!(read("/list"), &b"one\n2\n3\n4\nfive\n"[..]);
    assert_eq!(
        (read("/of-one"), read("/of-two")),
        (b"1"[..].into(), b"2"[..].into())
    );
    assert!(two.vault().begin().unwrap().exists(&path("/of-user")).unwrap());
    write(&one, "/more", b"more");
    let again = merge();
    assert_eq!(again.conflicts.len(), 0);
    assert_eq!(read("/more"), &b"more"[..]);
    assert!(merge().saved.is_none(), "nothing is merged twice");
    let elsewhere = fixture.store.project(&fixture.root().join("src")).unwrap();
    let other = elsewhere.new_task(&NewTask::default()).unwrap();
    let refused = two.vault().merge(&[other.vault()], &MergeOptions::default());
    assert_eq!(refused.err().unwrap().code(), "not-related");
}

/// The numbers from 1 to 40, line by line, with some of them replaced.
fn forty(replaced: &[(u32, &str)]) -> String {
    let line = |n: u32| match replaced.iter().find(|(number, _)| *number == n) {
        Some((_, text)) => format!("{text}\n"),
        None => format!("{n}\n"),
    };
    (1..=40).map(line).collect()
}

#[test]
fn a_conflict_of_a_sync_that_is_resolved_for_one_side_keeps_what_else_both_did() {
    for (resolution, line_7) in [(Resolution::Ours, "seven"), (Resolution::Theirs, "sieben")] {
        let fixture = Fixture::new();
        let file = fixture.root().join("long");
        fs::write(&file, forty(&[])).unwrap();
        let mut task = fixture.task(None);
        let reader = task.vault().reader_at(task.head().unwrap()).unwrap();
        assert_eq!(reader.read(&path("/long")).unwrap(), forty(&[]));
        write(&task, "/long", forty(&[(7, "seven"), (20, "zwanzig")]).as_bytes());
        fs::write(&file, forty(&[(7, "sieben"), (35, "MY EDIT")])).unwrap();
        let report = task.sync(&MergeOptions::default()).unwrap();
        assert!(report.conflicts[0].is_with_directory());
        task.vault().resolve(&path("/long"), &resolution).unwrap();
        task.apply(&ApplyOptions::default()).unwrap();
        let expected = forty(&[(7, line_7), (20, "zwanzig"), (35, "MY EDIT")]);
        assert_eq!(fs::read_to_string(&file).unwrap(), expected);
    }
}

#[test]
fn a_task_whose_side_was_taken_in_every_conflict_is_applied() {
    for (conflicts, state) in [
        (OnConflict::Theirs, TaskState::Applied),
        (OnConflict::Ours, TaskState::Unmerged),
    ] {
        let fixture = Fixture::new();
        let file = fixture.root().join("long");
        fs::write(&file, forty(&[])).unwrap();
        let task = fixture.task(None);
        let reader = task.vault().reader_at(task.head().unwrap()).unwrap();
        assert_eq!(reader.read(&path("/long")).unwrap(), forty(&[]));
        write(&task, "/long", forty(&[(7, "seven"), (20, "zwanzig")]).as_bytes());
        fs::write(&file, forty(&[(7, "sieben")])).unwrap();
        let options = ApplyOptions {
            conflicts,
            ..ApplyOptions::default()
        };
        task.apply(&options).unwrap();
        let task = fixture.store.task(task.vault_name().as_str()).unwrap();
        assert_eq!(task.state().unwrap(), state, "{conflicts:?}");
        assert_eq!(task.work().held().unwrap().is_none(), state == TaskState::Applied);
    }
}

#[test]
fn going_back_behind_a_sync_leaves_the_users_work_to_the_user() {
    let fixture = Fixture::new();
    let mut task = fixture.task(Some("one"));
    write(&task, "/new", b"of the task");
    let before = task
        .vault()
        .save_checkpoint(&CheckpointName::new("before").unwrap(), None)
        .unwrap();
    fs::write(fixture.root().join("mine"), "of the user").unwrap();
    fs::write(fixture.root().join("src/main.rs"), "fn mine() {}\n").unwrap();
    task.sync(&MergeOptions::default()).unwrap();
    let check = |what: &str| {
        fixture.store.collect_garbage(&mut |_| true).unwrap();
        let task = fixture.store.task("web-app/one").unwrap();
        assert_eq!(work(&task).0, ["A /new"], "{what}");
        let applied: Vec<String> = plan(&fixture, &task, &[])
            .files
            .iter()
            .map(|file| file.path.to_string())
            .collect();
        assert_eq!(applied, ["/new"], "{what}");
    };
    check("synced");
    task.vault().undo().unwrap();
    check("undone");
    task.vault().redo().unwrap();
    check("redone");
    let to = task.vault().revision(before.name.as_str()).unwrap();
    task.vault().restore(&to, "before").unwrap();
    check("restored");
}
