//! Full disks and unwritable directories: everything is unchanged, and the error says why.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use agentvfs::apply::{ApplyWatch, Moment};
use avfs_testkit::SmallDisk;
use rustix::fs::FallocateFlags;

use crate::scene::{Scene, survey_files};

#[test]
fn a_full_disk_changes_nothing() {
    SmallDisk::with("disks::a_full_disk_changes_nothing", 1 << 20, |disk| {
        let scene = Scene::with_project(&disk.join("project"), &[("a", "old"), ("gone", "x")]);
        scene.task_writes("a", "new");
        scene.task_removes("gone");
        scene.task_writes("large", &"x".repeat(4 << 20));
        let before = survey_files(&scene.project);
        let error = scene.apply().unwrap_err();
        assert_eq!(error.code(), "disk-full", "{error}");
        assert_eq!(survey_files(&scene.project), before);
        assert!(
            scene.store.applies().recover().unwrap().is_empty(),
            "nothing is left to do"
        );
        scene.task_writes("large", "small");
        scene.apply().unwrap();
        assert_eq!(
            (scene.read("a"), scene.read("large")),
            ("new".into(), "small".into())
        );
    });
}

/// However little is left on the disk of the store: an apply is there with its record, or it changed nothing.
#[test]
fn a_full_disk_of_the_store_changes_nothing() {
    SmallDisk::with(
        "disks::a_full_disk_of_the_store_changes_nothing",
        24 << 20,
        |disk| {
            let place = tempfile::tempdir().unwrap();
            let project = place.path().join("project");
            let scene = Scene::with_store_below(disk, &project, &[("a", "old"), ("gone", "x")]);
            scene.task_writes("a", "new");
            scene.task_removes("gone");
            let before = survey_files(&scene.project);
            let mut refused = 0;
            for room in (0..256).map(|pages| pages << 14) {
                let plan = scene.plan();
                fill(disk, room);
                let applied = plan.carry_out();
                std::fs::remove_file(disk.join("ballast")).unwrap();
                assert!(scene.store.applies().recover().unwrap().is_empty(), "{room}");
                match applied {
                    Ok(applied) => {
                        assert_eq!((scene.read("a"), scene.has("gone")), ("new".into(), false));
                        scene.store.undo_apply(applied.id.unwrap(), false).unwrap();
                        assert!(refused > 0, "the disk was never full");
                        return;
                    }
                    Err(error) => {
                        assert_eq!(error.code(), "disk-full", "{room}: {error}");
                        assert_eq!(survey_files(&scene.project), before, "{room}: {error}");
                        assert!(scene.store.applies().last(|_| true).unwrap().is_none());
                        refused += 1;
                    }
                }
            }
            panic!("it never fits");
        },
    );
}

/// Fills a disk when everything is done but the record.
struct Filler<'a>(&'a Path);

impl ApplyWatch for Filler<'_> {
    fn passed(&self, moment: Moment) {
        if moment == Moment::Done {
            fill(self.0, 0);
        }
    }
}

#[test]
fn an_apply_that_cannot_be_recorded_is_rolled_back() {
    SmallDisk::with(
        "disks::an_apply_that_cannot_be_recorded_is_rolled_back",
        24 << 20,
        |disk| {
            let place = tempfile::tempdir().unwrap();
            let project = place.path().join("project");
            let scene = Scene::with_store_below(disk, &project, &[("a", "old"), ("gone", "x")]);
            scene.task_writes("a", "new");
            scene.task_writes("more/b", "new");
            scene.task_removes("gone");
            let before = survey_files(&scene.project);
            let error = scene.plan().carry_out_watched(&Filler(disk)).unwrap_err();
            assert_eq!(error.code(), "disk-full", "{error}");
            assert_eq!(survey_files(&scene.project), before, "{error}");
            std::fs::remove_file(disk.join("ballast")).unwrap();
            assert!(scene.store.applies().recover().unwrap().is_empty());
            assert!(scene.store.applies().last(|_| true).unwrap().is_none());
            let id = scene.apply().unwrap().id.unwrap();
            assert_eq!(scene.read("more/b"), "new");
            scene.store.undo_apply(id, false).unwrap();
            assert_eq!(scene.read("a"), "old");
        },
    );
}

#[test]
fn a_copy_that_does_not_fit_names_the_disk_of_the_store() {
    SmallDisk::with(
        "disks::a_copy_that_does_not_fit_names_the_disk_of_the_store",
        24 << 20,
        |disk| {
            let place = tempfile::tempdir().unwrap();
            let project = place.path().join("project");
            let large = "x".repeat(6 << 20);
            let scene = Scene::with_store_below(disk, &project, &[("large", &large)]);
            scene.task_removes("large");
            let before = survey_files(&scene.project);
            let plan = scene.plan();
            fill(disk, 4 << 20);
            let error = plan.carry_out().unwrap_err();
            assert_eq!(error.code(), "disk-full", "{error}");
            assert!(error.to_string().contains("/applies/pending/"), "{error}");
            assert_eq!(survey_files(&scene.project), before);
        },
    );
}

/// Leaves this many bytes free, in a file `ballast`.
fn fill(disk: &Path, room: u64) {
    let ballast = File::create(disk.join("ballast")).unwrap();
    let stat = rustix::fs::statvfs(disk).unwrap();
    let size = (stat.f_bavail * stat.f_frsize).saturating_sub(room);
    rustix::fs::fallocate(&ballast, FallocateFlags::empty(), 0, size).unwrap();
}

#[test]
fn a_directory_that_refuses_changes_nothing() {
    if rustix::process::geteuid().is_root() {
        return run_as_nobody("disks::a_directory_that_refuses_changes_nothing");
    }
    let scene = Scene::new(&[("a", "old"), ("locked/b", "old")]);
    scene.task_writes("a", "new");
    scene.task_writes("locked/b", "new");
    let locked = scene.project.join("locked");
    let set_mode = |mode| std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(mode)).unwrap();
    set_mode(0o555);
    let before = survey_files(&scene.project);
    let error = scene.apply().unwrap_err();
    assert_eq!(error.code(), "host-denied", "{error}");
    assert_eq!(survey_files(&scene.project), before);
    assert!(scene.store.applies().recover().unwrap().is_empty());
    set_mode(0o755);
    let id = scene.apply().unwrap().id.unwrap();
    assert_eq!(
        (scene.read("a"), scene.read("locked/b")),
        ("new".into(), "new".into())
    );
    scene.store.undo_apply(id, false).unwrap();
    assert_eq!(
        (scene.read("a"), scene.read("locked/b")),
        ("old".into(), "old".into())
    );
}

/// Root is never refused: the test runs again as another user, from a directory that this user can read.
fn run_as_nobody(test: &str) {
    let place = tempfile::tempdir().unwrap();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = place.path().join("test");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let mut command = std::process::Command::new("runuser");
    command
        .args(["-u", "nobody", "--"])
        .arg(&program)
        .args([test, "--exact", "--nocapture"]);
    let output = command.env("TMPDIR", "/tmp").current_dir("/").output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("1 passed"),
        "the test is named {test}"
    );
}
