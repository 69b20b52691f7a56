//! Disks that are full and directories that refuse: everything is as it was, and the error says why.

use std::os::unix::fs::PermissionsExt;

use avfs_testkit::SmallDisk;

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
        assert!(scene.store.recover_applies().unwrap().is_empty(), "nothing is left to do");
        scene.task_writes("large", "small");
        scene.apply().unwrap();
        assert_eq!((scene.read("a"), scene.read("large")), ("new".into(), "small".into()));
    });
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
    assert!(scene.store.recover_applies().unwrap().is_empty());
    set_mode(0o755);
    let id = scene.apply().unwrap().id.unwrap();
    assert_eq!((scene.read("a"), scene.read("locked/b")), ("new".into(), "new".into()));
    scene.store.undo_apply(id, false).unwrap();
    assert_eq!((scene.read("a"), scene.read("locked/b")), ("old".into(), "old".into()));
}

/// Nothing refuses root: the test runs again as somebody else, from where they can read it.
fn run_as_nobody(test: &str) {
    let place = tempfile::tempdir().unwrap();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = place.path().join("test");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let mut command = std::process::Command::new("runuser");
    command.args(["-u", "nobody", "--"]).arg(&program).args([test, "--exact", "--nocapture"]);
    let output = command.env("TMPDIR", "/tmp").current_dir("/").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "the test is named {test}");
}
