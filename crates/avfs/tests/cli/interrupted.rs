//! An apply that was killed in the middle is put right by the next command about tasks, whichever it is.

use std::fs;
use std::path::PathBuf;

use agentvfs::apply::{Application, ApplyOptions, ApplyWatch, Moment, Selection};
use agentvfs::{NewTask, Store, TaskName, TreePath};
use avfs_testkit::{TestChild, child_task, crash};

use crate::sandbox::Sandbox;

/// Crashes in the middle of the directory.
struct EndsAt(Moment);

impl ApplyWatch for EndsAt {
    fn passed(&self, moment: Moment) {
        if moment == self.0 {
            crash();
        }
    }
}

#[test]
fn child_that_applies() {
    let Some((place, script)) = child_task() else {
        return;
    };
    let moment = if script == "moved" {
        Moment::Moved(1)
    } else {
        Moment::Done
    };
    let store = Store::open(&place).unwrap();
    let task = store.tasks().list().unwrap().remove(0);
    let (base, head) = (task.base().unwrap(), task.head().unwrap());
    let options = ApplyOptions {
        task: Some(task.vault_name().clone()),
        ..ApplyOptions::default()
    };
    let plan = Application::plan(&store, base, head, task.root(), &Selection::default(), &options).unwrap();
    plan.carry_out_watched(&EndsAt(moment)).unwrap();
}

/// A project with the tasks `fix` and `other`.
fn project(sandbox: &Sandbox) -> PathBuf {
    let root = sandbox.path("project");
    fs::write(root.join("a"), "old\n").unwrap();
    fs::write(root.join("b"), "old\n").unwrap();
    let project = Store::open(&sandbox.store()).unwrap().project(&root).unwrap();
    for (name, text) in [("fix", "new\n"), ("other", "another\n")] {
        let command = if name == "fix" {
            "workspace".to_owned()
        } else {
            String::new()
        };
        let new = NewTask {
            name: Some(TaskName::new(name).unwrap()),
            command,
            ..NewTask::default()
        };
        let open = project.new_task(&new).unwrap().vault().begin().unwrap();
        for file in ["a", "b"] {
            let path = TreePath::parse(file.as_bytes()).unwrap();
            assert_eq!(&open.read(&path).unwrap()[..], b"old\n");
            open.write_bytes(&path, text.as_bytes()).unwrap();
        }
        open.commit("edit", "").unwrap();
    }
    root
}

fn kill_an_apply(sandbox: &Sandbox, moment: &str) {
    let mut child = TestChild::start("interrupted::child_that_applies", &sandbox.store(), moment);
    assert_eq!(child.acknowledged(), None);
    assert!(!child.kill().finished_before, "it ended itself as a crash would");
}

/// Files of the project, including temporary ones beside them.
fn files(root: &std::path::Path) -> Vec<(String, String)> {
    let read = |entry: fs::DirEntry| {
        let text = fs::read_to_string(entry.path()).unwrap();
        (entry.file_name().into_string().unwrap(), text)
    };
    let entries = fs::read_dir(root).unwrap().map(Result::unwrap);
    let mut files: Vec<_> = entries.filter(|entry| entry.path().is_file()).map(read).collect();
    files.sort();
    files
}

#[test]
fn every_command_about_tasks_takes_it_back_and_says_so() {
    let lines = [
        "tasks",
        "tasks --all",
        "diff fix",
        "review fix --json",
        "apply fix --dry-run",
        "undo --apply",
        "discard fix --yes",
        "sync fix",
        "fork 1 --task fix",
        "compare fix other",
        "project setup show",
        "run -- true",
        "workspace list",
        "workspace status fix",
        "workspace checkpoint fix",
        "workspace stop fix",
        "prune",
        "prune --tasks --dry-run",
    ];
    for line in lines {
        let sandbox = Sandbox::new();
        let root = project(&sandbox);
        let before = files(&root);
        kill_an_apply(&sandbox, "moved");
        assert_ne!(files(&root), before, "it was half done");
        let told = sandbox.run(line);
        assert_eq!(files(&root), before, "{line}: {told}");
        let says = told.contains("warning: apply 1 was interrupted and has been rolled back\n");
        assert_eq!(says, !line.contains("--json"), "{line}: {told}");
        assert!(!sandbox.run(line).contains("interrupted"), "{line}");
    }
}

#[test]
fn one_that_was_all_but_recorded_is_finished() {
    let sandbox = Sandbox::new();
    let root = project(&sandbox);
    kill_an_apply(&sandbox, "done");
    let told = sandbox.run("tasks");
    assert!(
        told.contains("warning: apply 1 was interrupted when all was done\n"),
        "{told}"
    );
    assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "new\n");
    assert_eq!(sandbox.object("workspace status fix --json")["state"], "applied");
    sandbox.good("undo --apply");
    assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "old\n");
}
