//! Taking an apply back.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use agentvfs::apply::{Application, AppliedAction, ApplyId, ApplyOptions, OnConflict, Selection};

use crate::scene::{Scene, conflicts_of, options, path, survey, survey_contents};

fn busy_scene() -> Scene {
    let scene = Scene::new(&[("a", "old"), ("gone", "x"), ("dir/only", "x"), ("run", "x")]);
    let run = scene.project.join("run");
    std::fs::set_permissions(&run, std::fs::Permissions::from_mode(0o604)).unwrap();
    scene.task_writes("a", "new");
    scene.task_writes("made/b", "b");
    scene.task_removes("gone");
    scene.task_removes("dir");
    scene.task_does(|open| open.set_mode(&path("run"), 0o755).unwrap());
    scene
}

#[test]
fn everything_comes_back_as_it_was() {
    let scene = busy_scene();
    let inode = scene.project.join("a").metadata().unwrap().ino();
    let before = survey_contents(&scene.project);
    let id = scene.apply().unwrap().id.unwrap();
    assert_ne!(survey_contents(&scene.project), before);
    let undone = scene.store.undo_apply(id, false).unwrap();
    assert_eq!(survey_contents(&scene.project), before);
    assert_eq!(
        scene.project.join("a").metadata().unwrap().ino(),
        inode,
        "the very same file"
    );
    assert!(
        undone
            .files
            .iter()
            .any(|file| file.path == path("gone") && file.action == AppliedAction::Added)
    );
    let again = scene.store.undo_apply(id, false).unwrap_err();
    assert_eq!(again.code(), "apply-gone");
    assert_eq!(scene.store.applies().get(id).unwrap().undone, undone.id);
    assert!(scene.store.applies().last(|_| true).unwrap().is_none());
    scene.apply().unwrap();
    assert_eq!(scene.read("a"), "new");
}

#[test]
fn apply_after_an_undo_does_the_same_as_the_first_one() {
    let project = tempfile::tempdir().unwrap();
    let files = [
        ("gone", "x"),
        ("dir/deep/one", "1"),
        ("dir/two", "2"),
        ("from", "a text that is known by what it says\n"),
        ("moved/below", "another one that is known\n"),
        ("run", "x"),
    ];
    for (target, at) in [("gone", "pointer"), ("run", "turned")] {
        std::os::unix::fs::symlink(target, project.path().join(at)).unwrap();
    }
    let scene = Scene::with_project(project.path(), &files);
    scene.task_removes("gone");
    scene.task_removes("dir");
    scene.task_removes("pointer");
    scene.task_removes("turned");
    scene.task_does(|open| {
        open.rename(&path("from"), &path("to")).unwrap();
        open.rename(&path("moved"), &path("elsewhere")).unwrap();
        open.set_mode(&path("run"), 0o755).unwrap();
        open.symlink(b"to", &path("turned")).unwrap();
    });
    let before = survey_contents(&scene.project);
    let first = scene.apply().unwrap();
    let applied = survey_contents(&scene.project);
    assert_ne!(applied, before);
    let mut last = first.id.unwrap();
    for _ in 0..3 {
        scene.store.undo_apply(last, false).unwrap();
        assert_eq!(survey_contents(&scene.project), before);
        let again = scene.apply().unwrap();
        assert_eq!(again.files, first.files);
        assert_eq!(survey_contents(&scene.project), applied);
        last = again.id.unwrap();
    }
}

#[test]
fn taking_an_undo_back_does_the_apply_again() {
    let scene = busy_scene();
    let anywhere = |_: &std::path::Path| true;
    let (undoable, redoable) = (
        || {
            scene
                .store
                .applies()
                .last(anywhere)
                .unwrap()
                .map(|record| record.id.0)
        },
        || {
            scene
                .store
                .applies()
                .last_undone(anywhere)
                .unwrap()
                .map(|record| record.id.0)
        },
    );
    let before = survey_contents(&scene.project);
    scene.apply().unwrap();
    let applied = survey_contents(&scene.project);
    assert_eq!((undoable(), redoable()), (Some(1), None));
    scene.store.undo_apply(ApplyId(1), false).unwrap();
    assert_eq!((undoable(), redoable()), (None, Some(2)));
    scene.store.undo_apply(ApplyId(2), false).unwrap();
    assert_eq!(survey_contents(&scene.project), applied);
    assert_eq!(
        scene.store.applies().get(ApplyId(3)).unwrap().redoes,
        Some(ApplyId(1))
    );
    assert_eq!((undoable(), redoable()), (Some(3), None));
    scene.store.undo_apply(ApplyId(3), false).unwrap();
    assert_eq!(survey_contents(&scene.project), before);
    assert_eq!((undoable(), redoable()), (None, Some(4)));
    scene.apply().unwrap();
    assert_eq!(
        (undoable(), redoable()),
        (Some(5), None),
        "a new apply ends what can be redone"
    );
    assert_eq!(scene.store.applies().last(|_| false).unwrap(), None, "elsewhere");
    let log = scene.store.audit(0, 100).unwrap();
    let log: Vec<&str> = log.iter().map(|entry| entry.action.as_str()).collect();
    assert_eq!(
        log[log.len() - 5..],
        ["apply", "undo-apply", "redo-apply", "undo-apply", "apply"]
    );
    let log = scene.store.audit(0, 100).unwrap();
    let numbers = log[log.len() - 5..]
        .iter()
        .map(|entry| entry.detail.split(':').next().unwrap());
    assert_eq!(
        numbers.collect::<Vec<_>>(),
        ["1", "1", "1", "1", "5"],
        "the number that the user knows"
    );
}

#[test]
fn later_changes_are_left_alone_and_stop_the_undo_unless_forced() {
    let scene = busy_scene();
    let id = scene.apply().unwrap().id.unwrap();
    scene.user_writes("a", "newer");
    scene.user_writes("made/mine", "precious");
    let applied = survey(&scene.project);
    let error = scene.store.undo_apply(id, false).unwrap_err();
    assert_eq!(conflicts_of(&error), ["/a changed-since", "/made changed-since"]);
    assert_eq!(survey(&scene.project), applied);
    scene.store.undo_apply(id, true).unwrap();
    assert_eq!(
        (scene.read("a"), scene.read("made/mine"), scene.read("gone")),
        ("newer".into(), "precious".into(), "x".into())
    );
    assert!(!scene.has("made/b"));
}

#[test]
fn an_apply_that_is_not_there_is_not_found() {
    let scene = busy_scene();
    assert_eq!(
        scene.store.undo_apply(ApplyId(7), false).unwrap_err().code(),
        "unknown-apply"
    );
    assert_eq!(ApplyId::parse("x").unwrap_err().code(), "unknown-apply");
}

#[test]
fn a_record_and_an_audit_entry_tell_of_it() {
    let scene = busy_scene();
    let id = scene.apply().unwrap().id.unwrap();
    let record = scene.store.applies().get(id).unwrap();
    assert_eq!(
        (record.snapshot, record.partial),
        (scene.task.head().unwrap(), false)
    );
    assert_eq!(record.directory(), scene.project.canonicalize().unwrap());
    assert_eq!(
        scene.store.applies().last(|_| true).unwrap().map(|last| last.id),
        Some(id)
    );
    let log = scene.store.audit(0, 100).unwrap();
    assert_eq!(log.last().map(|entry| entry.action.as_str()), Some("apply"));
    scene.store.undo_apply(id, false).unwrap();
    let log = scene.store.audit(0, 100).unwrap();
    assert_eq!(log.last().map(|entry| entry.action.as_str()), Some("undo-apply"));
}

#[test]
fn applies_to_other_directories_take_nothing_away_from_this_one() {
    let scene = busy_scene();
    let id = scene.apply().unwrap().id.unwrap();
    let other = scene.place().join("other");
    for round in 1..=52 {
        std::fs::create_dir_all(&other).unwrap();
        std::fs::write(other.join("a"), round.to_string()).unwrap();
        let options = ApplyOptions {
            conflicts: OnConflict::Theirs,
            ..options()
        };
        let selection = Selection {
            paths: vec![path("a")],
            ..Selection::default()
        };
        let head = scene.task.head().unwrap();
        let plan = Application::plan(&scene.store, scene.base, head, &other, &selection, &options).unwrap();
        plan.carry_out().unwrap();
    }
    let here = scene.project.canonicalize().unwrap();
    assert_eq!(
        scene
            .store
            .applies()
            .last(|at| at == here)
            .unwrap()
            .map(|record| record.id),
        Some(id)
    );
    assert_eq!(scene.store.applies().kept().unwrap().len(), 51);
    scene.store.undo_apply(id, false).unwrap();
    assert_eq!(scene.read("a"), "old");
}

#[test]
fn an_apply_whose_files_are_no_longer_kept_is_not_offered() {
    let scene = busy_scene();
    let id = scene.apply().unwrap().id.unwrap();
    let kept = scene.store.applies().kept().unwrap();
    assert_eq!((kept.len(), kept[0].id, kept[0].bytes > 0), (1, id, true));
    assert_eq!(
        scene.store.maintenance().stats().unwrap().apply_bytes,
        kept[0].bytes
    );
    scene.store.applies().forget(&[id]).unwrap();
    assert!(scene.store.applies().last(|_| true).unwrap().is_none());
    assert_eq!(
        scene.store.undo_apply(id, false).unwrap_err().code(),
        "apply-gone"
    );
    assert_eq!(scene.store.maintenance().stats().unwrap().applies, 0);
}

#[test]
fn undone_work_of_a_discarded_task_is_dropped_and_not_counted() {
    let scene = busy_scene();
    let id = scene.apply().unwrap().id.unwrap();
    let undo = scene.store.undo_apply(id, false).unwrap().id.unwrap();
    let folder = scene.place().join(format!("store/applies/{undo}"));
    assert!(folder.exists());
    assert_eq!(
        scene.store.maintenance().stats().unwrap().applies,
        1,
        "it can be done again"
    );
    // A process that is killed immediately leaves the data that it kept.
    let copy = scene.place().join("copy");
    let status = std::process::Command::new("cp")
        .arg("-a")
        .args([&folder, &copy])
        .status();
    assert!(status.unwrap().success());
    let store = scene.store.clone();
    scene.task.clone().delete(true).unwrap();
    assert!(!folder.exists());
    assert_eq!(store.maintenance().stats().unwrap().applies, 0);
    std::fs::rename(&copy, &folder).unwrap();
    let stats = store.maintenance().stats().unwrap();
    assert_eq!((stats.applies, stats.apply_bytes), (0, 0));
    store.collect_garbage(&mut |_| true).unwrap();
    assert!(!folder.exists());
}

#[test]
fn only_the_newest_are_kept() {
    let scene = Scene::new(&[("a", "0")]);
    let mut first = None;
    for round in 1..=60 {
        scene.task_writes("a", &round.to_string());
        scene.user_writes("a", "0");
        first = first.or(scene.apply().unwrap().id);
    }
    let kept = std::fs::read_dir(scene.place().join("store/applies"))
        .unwrap()
        .count();
    assert!(kept <= 52, "{kept} with the lock and the unfinished");
    assert_eq!(
        scene.store.undo_apply(first.unwrap(), false).unwrap_err().code(),
        "apply-gone"
    );
}
