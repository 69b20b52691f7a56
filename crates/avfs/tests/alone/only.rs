//! A mount with `--alone` has no other mount, run or session beside it, and every command works on its vault.

use std::fs;

use crate::ground::{Ground, is_mounted};

/// The status and the code of a command that fails.
#[track_caller]
fn refused(ground: &Ground, words: &[&str]) -> (i32, String) {
    let ended = ground.ended(&[&["--json"], words].concat());
    let said: serde_json::Value = serde_json::from_slice(&ended.out)
        .unwrap_or_else(|_| panic!("{words:?}: {} {}", ended.status, ended.err));
    (
        ended.status.code().unwrap(),
        said["error"]["code"].as_str().unwrap_or_default().to_owned(),
    )
}

#[test]
fn nothing_else_is_mounted_beside_it_and_commands_work() {
    let ground = Ground::with_vault("work");
    ground.avfs(&["write", "file", "before"]);
    ground.avfs(&["checkpoint", "save", "start"]);
    let mount = ground.mount("work", "place");
    fs::create_dir(ground.path("other")).unwrap();
    let other = ground.path("other").display().to_string();
    let alone = (5, "mounted-alone".to_owned());
    assert_eq!(refused(&ground, &["mount", "work", &other]), alone);
    assert_eq!(refused(&ground, &["mount", "work", &other, "--alone"]), alone);
    assert_eq!(refused(&ground, &["mount", "work", &other, "--read-only"]), alone);
    assert!(
        !is_mounted(&ground.path("other")),
        "who was refused leaves nothing behind"
    );
    for words in [
        &["exec", "--vault", "work", "--", "true"][..],
        &["session", "start", "--vault", "work"],
    ] {
        assert_eq!(refused(&ground, words), alone, "{words:?}");
    }
    assert_eq!(fs::read_to_string(mount.path("file")).unwrap(), "before\n");
    ground.avfs(&["write", "file", "by a command"]);
    assert_eq!(fs::read_to_string(mount.path("file")).unwrap(), "by a command\n");
    fs::write(mount.path("new"), "by a program").unwrap();
    assert_eq!(ground.avfs(&["cat", "new"]), "by a program");
    assert!(ground.avfs(&["diff", "start"]).contains("new"));
    ground.avfs(&["checkpoint", "restore", "start"]);
    assert_eq!(fs::read_to_string(mount.path("file")).unwrap(), "before\n");
    assert!(!mount.path("new").exists());
    // The past is a tree of its own.
    let past = ground.mount_with("work", "past", &["--at", "start"]);
    assert_eq!(fs::read_to_string(past.path("file")).unwrap(), "before\n");
    ground.unmount(past);
    ground.unmount(mount);
    ground.unmount(ground.mount_with("work", "other", &[]));
}

#[test]
fn it_is_refused_beside_others_and_with_rules_that_are_asked_at_open() {
    let ground = Ground::with_vault("work");
    let mount = ground.mount_with("work", "place", &[]);
    fs::create_dir(ground.path("other")).unwrap();
    let other = ground.path("other").display().to_string();
    assert_eq!(
        refused(&ground, &["mount", "work", &other, "--alone"]),
        (5, "not-alone".into())
    );
    ground.unmount(mount);
    let rules = ["--rule", "/**=write", "--rule", "/docs/**=read"];
    let words = [&["mount", "work", &other, "--alone"][..], &rules].concat();
    assert_eq!(refused(&ground, &words), (2, "rule-needs-open".into()));
    assert!(!is_mounted(&ground.path("other")));
    assert_eq!(
        refused(&ground, &["mount", "work", &other, "--alone", "--at", "@"]).0,
        2
    );
}

#[test]
fn hidden_files_are_absent_and_stay_so_when_rules_change() {
    let ground = Ground::with_vault("work");
    ground.avfs(&["write", "secret", "hidden"]);
    ground.avfs(&["write", "open", "seen"]);
    let rules = ["--alone", "--rule", "/**=write", "--rule", "/secret=none"];
    let mount = ground.mount_with("work", "place", &rules);
    assert!(!mount.path("secret").exists());
    let opened = fs::File::open(mount.path("open")).unwrap();
    fs::write(mount.path("open"), "written").unwrap();
    let dir = mount.dir.display().to_string();
    let stricter = [
        "rules",
        "apply",
        &dir,
        "--rule",
        "/**=write",
        "--rule",
        "/open=read",
    ];
    assert_eq!(refused(&ground, &stricter), (2, "rule-needs-open".into()));
    ground.avfs(&[
        "rules",
        "apply",
        &dir,
        "--rule",
        "/**=write",
        "--rule",
        "/open=none",
    ]);
    assert!(!mount.path("open").exists());
    assert_eq!(fs::read_to_string(mount.path("secret")).unwrap(), "hidden\n");
    let read = std::io::read_to_string(opened);
    assert!(
        read.is_err(),
        "files that were opened before obey as well: {read:?}"
    );
}

#[test]
fn the_mounts_of_its_vault_are_free_again_when_its_server_is_killed() {
    let ground = Ground::with_vault("work");
    let mount = ground.mount("work", "place");
    fs::write(mount.path("file"), "synced").unwrap();
    fs::File::open(mount.path("file"))
        .and_then(|file| file.sync_all())
        .unwrap();
    mount.kill_server();
    let again = ground.mount_with("work", "place", &[]);
    assert_eq!(fs::read_to_string(again.path("file")).unwrap(), "synced");
}
