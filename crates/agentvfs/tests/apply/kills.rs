//! A process that is killed at any moment leaves a state that the next one finishes or rolls back.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use agentvfs::apply::{Application, ApplyWatch, Moment, Recovery, Selection};
use agentvfs::{SnapshotId, Store};
use avfs_testkit::{SmallDisk, TestChild, acknowledge, child_task, crash, only_plain_renames};

use crate::scene::{Scene, options, path, survey, survey_files};

/// Crashes at a moment that is counted.
struct Executioner {
    left: AtomicUsize,
}

impl ApplyWatch for Executioner {
    fn passed(&self, _: Moment) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 0 {
            crash();
        }
    }
}

/// The child: applies, undoes or recovers, until it is killed.
#[test]
fn child_that_applies() {
    let Some((place, script)) = child_task() else {
        return;
    };
    let words: Vec<&str> = script.split(' ').collect();
    let (what, manner, moment) = (words[0], words[1], words[2].parse().unwrap());
    if manner == "plainly" {
        only_plain_renames();
    }
    let store = Store::open(&place.join("store")).unwrap();
    let watch = Executioner {
        left: AtomicUsize::new(moment),
    };
    match what {
        "apply" => {
            let base = snapshot(&store, "project");
            let head = snapshot(&store, "task");
            let (selection, options) = (Selection::default(), options());
            let plan =
                Application::plan(&store, base, head, Path::new(words[3]), &selection, &options).unwrap();
            let applied = plan.carry_out_watched(&watch).unwrap();
            assert_eq!(applied.in_two_steps, manner == "plainly");
            acknowledge("done");
        }
        "undo" => {
            let last = store.applies().last(|_| true).unwrap().unwrap();
            store
                .applies()
                .plan_undo(last.id)
                .unwrap()
                .carry_out_watched(false, &watch)
                .unwrap();
            acknowledge("done");
        }
        _ => acknowledge(recovered(&store)),
    }
}

/// The outcome of the one apply that was killed.
fn recovered(store: &Store) -> String {
    let recovered = store.applies().recover().unwrap();
    assert!(store.applies().recover().unwrap().is_empty());
    match recovered.as_slice() {
        [one] => match &one.outcome {
            Recovery::Finished => "finished".to_owned(),
            Recovery::TakenBack(kept) if kept.is_empty() => "taken back".to_owned(),
            other => format!("{other:?}"),
        },
        other => format!("{other:?}"),
    }
}

fn snapshot(store: &Store, vault: &str) -> SnapshotId {
    store.vault(vault).unwrap().head().unwrap()
}

fn scene(project: Option<&Path>) -> Scene {
    let files = [
        ("a", "old"),
        ("b", "old"),
        ("gone", "x"),
        ("dir/deep/only", "x"),
        ("kind", "x"),
        ("run", "x"),
        ("from/moved", "moved alone"),
        ("from/changed", "moved and changed"),
    ];
    let scene = match project {
        Some(project) => Scene::with_project(project, &files),
        None => Scene::new(&files),
    };
    scene.task_writes("a", "new");
    scene.task_writes("b", "newer");
    scene.task_writes("made/of/it", "fresh");
    scene.task_removes("gone");
    scene.task_removes("dir");
    scene.task_does(|open| {
        open.remove(&path("kind"), true).unwrap();
        open.make_directory(&path("kind"), true).unwrap();
        open.write_bytes(&path("kind/below"), b"now a directory").unwrap();
        open.set_mode(&path("run"), 0o755).unwrap();
        open.symlink(b"a", &path("link")).unwrap();
        open.rename(&path("from"), &path("made/to")).unwrap();
        open.write_bytes(&path("made/to/changed"), b"changed and moved")
            .unwrap();
    });
    scene
}

/// Runs the child with one more moment each time until it gets through; returns how many kills there were.
fn kill_at_every_moment(scene: &Scene, what: &str, manner: &str) -> usize {
    let before = survey_files(&scene.project);
    let start = |what: &str, moment: usize| {
        let script = format!("{what} {manner} {moment} {}", scene.project.display());
        TestChild::start("kills::child_that_applies", scene.place(), &script)
    };
    for moment in 0.. {
        let mut child = start(what, moment);
        if child.acknowledged().is_some() {
            child.finish();
            return moment;
        }
        let killed = child.kill();
        assert!(!killed.finished_before, "it ended without a word");
        let mut next = start("recover", 0);
        let outcome = next.acknowledged();
        next.finish();
        match outcome.as_deref() {
            // From here on there is nothing to do for this script.
            Some("finished") => return moment,
            Some("taken back") => assert_eq!(survey_files(&scene.project), before, "at moment {moment}"),
            other => panic!("at moment {moment}: {other:?}"),
        }
    }
    unreachable!("it gets through in the end")
}

fn all_moments(scene: &Scene, manner: &str) {
    let before = survey(&scene.project);
    let kills = kill_at_every_moment(scene, "apply", manner);
    assert!(kills > 30, "{kills} kills");
    assert_eq!(
        (scene.read("a"), scene.read("kind/below")),
        ("new".into(), "now a directory".into())
    );
    assert!(scene.plan().is_empty(), "everything was applied");
    let kills = kill_at_every_moment(scene, "undo", manner);
    assert!(kills > 30, "{kills} kills");
    let times_aside = |survey: std::collections::BTreeMap<_, crate::scene::Kept>| {
        survey
            .into_iter()
            .map(|(path, kept)| (path, (kept.mode, kept.bytes)))
            .collect::<Vec<_>>()
    };
    assert_eq!(times_aside(survey(&scene.project)), times_aside(before));
}

#[test]
fn apply_killed_at_any_moment_is_finished_or_rolled_back() {
    all_moments(&scene(None), "atomically");
}

#[test]
fn the_same_where_nothing_can_be_exchanged_at_once() {
    all_moments(&scene(None), "plainly");
}

#[test]
fn the_same_where_the_store_is_on_another_file_system() {
    SmallDisk::with(
        "kills::the_same_where_the_store_is_on_another_file_system",
        4 << 20,
        |disk| all_moments(&scene(Some(&disk.join("project"))), "atomically"),
    );
}
