//! Files that the task moved are the same files under another name.

use std::os::unix::fs::MetadataExt;

use agentvfs::apply::{Plan, Selection};

use avfs_testkit::SmallDisk;

use crate::scene::{Scene, options, path, survey_contents};

const LINES: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n";

fn deeds(plan: &Plan) -> Vec<String> {
    let from = |from: &agentvfs::TreePath| format!(" from {from}");
    let line = |file: &agentvfs::apply::AppliedFile| {
        format!(
            "{} {}{}",
            file.path,
            file.action.as_str(),
            file.from.as_ref().map(from).unwrap_or_default()
        )
    };
    plan.files.iter().map(line).collect()
}

fn inode(scene: &Scene, at: &str) -> u64 {
    scene.project.join(at).symlink_metadata().unwrap().ino()
}

fn task_moves(scene: &Scene, from: &str, to: &str) {
    scene.task_does(|open| {
        if let Some((parent, _)) = path(to).split_last() {
            open.make_directory(&parent, true).unwrap();
        }
        open.rename(&path(from), &path(to)).unwrap();
    });
}

#[test]
fn a_file_keeps_its_number_and_its_other_names() {
    let scene = Scene::new(&[("a", "text"), ("stays", "x")]);
    let outside = scene.place().join("outside");
    std::fs::hard_link(scene.project.join("a"), &outside).unwrap();
    let (number, before) = (inode(&scene, "a"), survey_contents(&scene.project));
    task_moves(&scene, "a", "new/b");
    let plan = scene.plan();
    assert_eq!(deeds(&plan), ["/new directory-added", "/new/b renamed from /a"]);
    let id = plan.carry_out().unwrap().id.unwrap();
    assert!(!scene.has("a"));
    assert_eq!(inode(&scene, "new/b"), number);
    assert_eq!(
        std::fs::metadata(&outside).unwrap().nlink(),
        2,
        "no other name refers to it"
    );
    let undone = scene.store.undo_apply(id, false).unwrap();
    assert_eq!(undone.files.len(), 2);
    assert_eq!(
        (survey_contents(&scene.project), inode(&scene, "a")),
        (before, number)
    );
}

#[test]
fn changes_of_the_user_go_along() {
    let scene = Scene::new(&[("a", LINES)]);
    task_moves(&scene, "a", "b");
    scene.user_writes("a", "mine\n");
    let number = inode(&scene, "a");
    let plan = scene.plan();
    assert_eq!(deeds(&plan), ["/b renamed from /a"]);
    plan.carry_out().unwrap();
    assert_eq!((scene.read("b"), inode(&scene, "b")), ("mine\n".into(), number));
}

#[test]
fn changes_of_both_sides_are_merged_under_the_new_name() {
    let scene = Scene::new(&[("a", LINES)]);
    scene.task_writes("a", &LINES.replace("2\n", "two\n"));
    task_moves(&scene, "a", "b");
    scene.user_writes("a", &LINES.replace("9\n", "nine\n"));
    let before = survey_contents(&scene.project);
    let plan = scene.plan();
    assert_eq!(deeds(&plan), ["/b renamed from /a", "/b merged"]);
    let id = plan.carry_out().unwrap().id.unwrap();
    assert_eq!(
        scene.read("b"),
        LINES.replace("2\n", "two\n").replace("9\n", "nine\n")
    );
    assert!(!scene.has("a"));
    scene.store.undo_apply(id, false).unwrap();
    assert_eq!(survey_contents(&scene.project), before);
}

#[test]
fn unmerged_change_of_a_moved_file_is_the_conflict_that_it_is_without_a_move() {
    let scene = Scene::new(&[("a", LINES)]);
    scene.task_writes("a", &LINES.replace("5\n", "task\n"));
    task_moves(&scene, "a", "b");
    scene.user_writes("a", &LINES.replace("5\n", "user\n"));
    let plan = scene.plan();
    assert_eq!(
        plan.conflicts
            .iter()
            .map(|conflict| conflict.path.to_string())
            .collect::<Vec<_>>(),
        ["/a"]
    );
}

#[test]
fn a_directory_that_was_moved_is_its_files_that_were_moved() {
    let scene = Scene::new(&[("old/a", "1"), ("old/deep/b", "2"), ("old/mode", "3")]);
    let (a, before) = (inode(&scene, "old/a"), survey_contents(&scene.project));
    task_moves(&scene, "old", "new");
    scene.task_does(|open| open.set_mode(&path("new/mode"), 0o755).unwrap());
    let id = scene.plan().carry_out().unwrap().id.unwrap();
    assert!(!scene.has("old"));
    assert_eq!(
        (scene.read("new/a"), scene.read("new/deep/b")),
        ("1".into(), "2".into())
    );
    assert_eq!(
        scene.project.join("new/mode").metadata().unwrap().mode() & 0o777,
        0o755
    );
    assert_eq!(inode(&scene, "new/a"), a);
    assert!(scene.plan().is_empty());
    scene.store.undo_apply(id, false).unwrap();
    assert_eq!(survey_contents(&scene.project), before);
}

#[test]
fn a_name_that_is_taken_or_in_the_way_is_no_move() {
    let scene = Scene::new(&[("a", "1"), ("d/x", "2")]);
    task_moves(&scene, "a", "b");
    scene.task_does(|open| {
        open.rename(&path("d/x"), &path("y")).unwrap();
        open.remove(&path("d"), true).unwrap();
        open.rename(&path("y"), &path("d")).unwrap();
    });
    scene.user_writes("b", "1");
    let plan = scene.plan();
    assert_eq!(
        deeds(&plan),
        ["/a removed", "/d directory-removed", "/d added", "/d/x removed"]
    );
    plan.carry_out().unwrap();
    assert_eq!((scene.read("b"), scene.read("d")), ("1".into(), "2".into()));
}

#[test]
fn a_part_of_a_move_is_no_move() {
    let scene = Scene::new(&[("a", "1")]);
    task_moves(&scene, "a", "b");
    let selection = Selection {
        paths: vec![path("b")],
        ..Selection::default()
    };
    let plan = scene.plan_with(&selection, &options()).unwrap();
    assert_eq!(deeds(&plan), ["/b added"]);
    plan.carry_out().unwrap();
    assert_eq!((scene.read("a"), scene.read("b")), ("1".into(), "1".into()));
}

#[test]
fn later_change_stays_under_its_new_name() {
    let scene = Scene::new(&[("a", "1"), ("c", "3")]);
    task_moves(&scene, "a", "b");
    scene.task_writes("c", "three");
    let id = scene.plan().carry_out().unwrap().id.unwrap();
    scene.user_writes("b", "mine");
    let error = scene.store.undo_apply(id, false).unwrap_err();
    assert_eq!(crate::scene::conflicts_of(&error), ["/b changed-since"]);
    scene.store.undo_apply(id, true).unwrap();
    assert_eq!((scene.read("b"), scene.read("c")), ("mine".into(), "3".into()));
}

#[test]
fn between_mounts_it_is_removed_and_added() {
    SmallDisk::with(
        "renames::between_mounts_it_is_removed_and_added",
        4 << 20,
        |disk| {
            let scene = Scene::with_project(&disk.join("project"), &[("a", "1"), ("inner/x", "2")]);
            let _mounted = Bound::new(&scene.project.join("inner"));
            task_moves(&scene, "a", "inner/a");
            let plan = scene.plan();
            assert_eq!(deeds(&plan), ["/a removed", "/inner/a added"]);
            plan.carry_out().unwrap();
            assert_eq!(scene.read("inner/a"), "1");
        },
    );
}

/// A directory that is mounted on itself.
struct Bound(std::path::PathBuf);

impl Bound {
    fn new(at: &std::path::Path) -> Bound {
        let mount = std::process::Command::new("mount")
            .arg("--bind")
            .args([at, at])
            .status();
        assert!(mount.unwrap().success());
        Bound(at.to_owned())
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        _ = std::process::Command::new("umount").arg(&self.0).status();
    }
}
