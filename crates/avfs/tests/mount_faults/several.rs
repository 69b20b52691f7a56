//! Several concurrent mounts, and the ways in which one ends.

use std::fs;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;

use crate::ground::{Ground, Mount, count_mounts, is_mounted, is_running, signal};
use crate::program::{LIMIT, await_that};

#[test]
fn two_vaults_and_their_mounts_are_apart() {
    let ground = Ground::with_vault("one");
    ground.avfs(&["vault", "create", "two"]);
    let mounts: Vec<Mount> = [("one", "1a"), ("two", "2a"), ("one", "1b"), ("two", "2b")]
        .map(|(vault, dir)| ground.mount(vault, dir))
        .into();
    assert_ne!(mounts[0].server, mounts[1].server);
    fs::write(mounts[0].path("file"), "of one").unwrap();
    fs::write(mounts[1].path("file"), "of two").unwrap();
    assert_eq!(fs::read_to_string(mounts[2].path("file")).unwrap(), "of one");
    assert_eq!(fs::read_to_string(mounts[3].path("file")).unwrap(), "of two");
    assert_eq!(
        ground.avfs(&["mounts"]).lines().count(),
        5,
        "a heading and four mounts"
    );
    fs::File::open(mounts[0].path("file"))
        .and_then(|file| file.sync_all())
        .unwrap();
    mounts[0].kill_server();
    // Only the dead ones go.
    assert_eq!(ground.avfs(&["mounts"]).lines().count(), 3);
    assert!(!is_mounted(&mounts[0].dir) && !is_mounted(&mounts[2].dir));
    assert_eq!(fs::read_to_string(mounts[3].path("file")).unwrap(), "of two");
    let again = ground.mount("one", "1a");
    assert_eq!(fs::read_to_string(again.path("file")).unwrap(), "of one");
}

#[test]
fn a_read_only_mount_shows_what_others_change_and_stays_so_when_it_is_remounted() {
    let ground = Ground::with_vault("one");
    ground.avfs(&["write", "file", "before"]);
    ground.avfs(&["checkpoint", "save", "then"]);
    let reading = ground.mount_with("one", "reading", &["--read-only"]);
    let past = ground.mount_with("one", "past", &["--at", "then"]);
    let working = ground.mount("one", "working");
    fs::write(working.path("file"), "after").unwrap();
    ground.avfs(&["write", "new", "by a command"]);
    assert_eq!(fs::read_to_string(reading.path("file")).unwrap(), "after");
    assert_eq!(fs::read_to_string(reading.path("new")).unwrap(), "by a command\n");
    assert_eq!(
        fs::read_to_string(past.path("file")).unwrap().trim_end(),
        "before"
    );
    assert!(!past.path("new").exists());
    for mount in [&reading, &past] {
        let remounted = Command::new("mount")
            .args(["-i", "-o", "remount,rw"])
            .arg(&mount.dir)
            .status()
            .unwrap();
        assert!(remounted.success());
        let refused = |result: std::io::Result<()>| {
            assert_eq!(result.unwrap_err().kind(), std::io::ErrorKind::ReadOnlyFilesystem);
        };
        refused(fs::write(mount.path("file"), "changed"));
        refused(fs::write(mount.path("another"), "made"));
        refused(fs::remove_file(mount.path("file")));
        refused(fs::rename(mount.path("file"), mount.path("elsewhere")));
        refused(fs::create_dir(mount.path("directory")));
        refused(fs::set_permissions(
            mount.path("file"),
            std::os::unix::fs::PermissionsExt::from_mode(0o600),
        ));
    }
    assert_eq!(fs::read_to_string(working.path("file")).unwrap(), "after");
}

#[test]
fn a_directory_is_mounted_on_once() {
    let ground = Ground::with_vault("one");
    ground.avfs(&["vault", "create", "two"]);
    let mount = ground.mount("one", "place");
    fs::write(mount.path("file"), "first").unwrap();
    let shown = mount.dir.display().to_string();
    for vault in ["one", "two"] {
        let ended = ground.ended(&["mount", vault, &shown]);
        assert!(!ended.status.success(), "{vault} is mounted over it");
        assert!(ended.err.contains("mounted"), "{}", ended.err);
        assert_eq!(count_mounts(&mount.dir), 1);
        assert_eq!(fs::read_to_string(mount.path("file")).unwrap(), "first");
        assert_eq!(ground.avfs(&["mounts"]).lines().count(), 2);
    }
    let server = mount.server;
    ground.unmount(mount);
    await_that("the server has ended", LIMIT, || !is_running(server));
}

/// A program that has its working directory somewhere.
struct Sitting(Child);

impl Sitting {
    fn in_dir(mount: &Mount) -> Sitting {
        Sitting(
            Command::new("sleep")
                .arg("1000")
                .current_dir(&mount.dir)
                .spawn()
                .unwrap(),
        )
    }
}

impl Drop for Sitting {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

#[test]
fn a_mount_in_use_ends_only_by_force() {
    let ground = Ground::with_vault("work");
    let mount = ground.mount("work", "place");
    let shown = mount.dir.display().to_string();
    let sitting = Sitting::in_dir(&mount);
    let ended = ground.ended(&["unmount", &shown]);
    assert!(!ended.status.success());
    assert!(
        ended.err.contains("is in use") && ended.err.contains("--force"),
        "{}",
        ended.err
    );
    fs::write(mount.path("file"), "it lives on").unwrap();
    ground.avfs(&["unmount", &shown, "--force"]);
    assert!(!is_mounted(&mount.dir));
    let again = ground.mount("work", "place");
    assert_eq!(fs::read_to_string(again.path("file")).unwrap(), "it lives on");
    ground.unmount(again);
    drop(sitting);
    mount.await_server_end();
    ground.assert_sound();
}

#[test]
fn a_plain_umount_ends_the_server_and_stores_everything() {
    let ground = Ground::with_vault("work");
    let mount = ground.mount("work", "place");
    fs::write(mount.path("file"), "stored").unwrap();
    assert!(Command::new("umount").arg(&mount.dir).status().unwrap().success());
    mount.await_server_end();
    assert_eq!(ground.avfs(&["mounts"]), "");
    assert_eq!(ground.avfs(&["cat", "file"]), "stored");
    ground.unmount(ground.mount("work", "place"));
}

/// A mount that a process serves in the foreground.
fn in_foreground(ground: &Ground, vault: &str) -> (Mount, Child) {
    let dir = ground.path("place");
    fs::create_dir_all(&dir).unwrap();
    let guard = Mount::guarding(dir);
    let mut command = ground.command(&["mount", vault, "place", "--foreground"]);
    let child = command
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    await_that("it is mounted", LIMIT, || is_mounted(&guard.dir));
    (guard.served_by(child.id().into()), child)
}

#[test]
fn a_mount_in_the_foreground_ends_at_a_signal() {
    for ending in [Signal::INT, Signal::TERM, Signal::HUP] {
        let ground = Ground::with_vault("work");
        let (mount, mut child) = in_foreground(&ground, "work");
        fs::write(mount.path("file"), "stored").unwrap();
        signal(mount.server, ending);
        mount.await_server_end();
        assert!(child.wait().unwrap().success(), "{ending:?}");
        assert!(!is_mounted(&mount.dir), "{ending:?}");
        assert_eq!(ground.avfs(&["cat", "file"]), "stored");
        ground.assert_sound();
    }
}

#[test]
fn a_mount_in_the_background_ends_at_sigterm() {
    let ground = Ground::with_vault("work");
    let mount = ground.mount("work", "place");
    fs::write(mount.path("file"), "stored").unwrap();
    signal(mount.server, Signal::TERM);
    mount.await_server_end();
    assert!(!is_mounted(&mount.dir));
    assert_eq!(ground.avfs(&["cat", "file"]), "stored");
}

/// The server has a session of its own, so that nothing that is typed at a terminal reaches it.
#[test]
fn a_server_is_out_of_reach_of_the_terminal_that_started_it() {
    let ground = Ground::with_vault("work");
    let dir = ground.path("place");
    fs::create_dir(&dir).unwrap();
    let guard = Mount::guarding(dir);
    let binary = ground.command(&[]).get_program().display().to_string();
    // A shell with a terminal of its own starts the mount, and types of it: Ctrl-C, Ctrl-Z, and hanging up.
    let script = format!(
        "set -m; {binary} mount work place; \
         for what in INT TSTP QUIT HUP; do trap '' $what; kill -$what 0; done"
    );
    let mut terminal = Command::new("script");
    terminal
        .args(["-qec", &script, "/dev/null"])
        .current_dir(ground.path(""))
        .env("AVFS_HOME", ground.home());
    terminal
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    terminal.status().unwrap();
    await_that("it is mounted", LIMIT, || is_mounted(&guard.dir));
    fs::write(guard.path("file"), "served").unwrap();
    let listed: serde_json::Value = serde_json::from_str(&ground.avfs(&["mounts", "--json"])).unwrap();
    let mount = guard.served_by(listed["mounts"][0]["pid"].as_i64().unwrap());
    let session = rustix::process::getsid(rustix::process::Pid::from_raw(mount.server)).unwrap();
    assert_eq!(session.as_raw_pid(), mount.server, "it leads its own session");
    ground.unmount(mount);
}
