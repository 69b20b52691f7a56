//! Mount namespaces have copies of mounts, and keep them in use without being visible.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::ground::{Ground, is_mounted, is_running};

/// Set in a test that runs apart.
const APART: &str = "AVFS_TEST_APART";

/// Runs the test `name` again in a namespace of its own: others have no copies of its mounts, and it has none of theirs.
fn apart(name: &str, test: impl FnOnce()) {
    if std::env::var_os(APART).is_some() {
        return test();
    }
    let script = r#"umount --all --lazy --types fuse.avfs; exec "$@""#;
    let mut again = Command::new("unshare");
    again
        .args(["--mount", "--", "sh", "-c", script, "sh"])
        .arg(std::env::current_exe().unwrap());
    let status = again
        .args([name, "--exact", "--nocapture"])
        .env(APART, "1")
        .status()
        .unwrap();
    assert!(status.success(), "{name} failed in a namespace of its own");
}

/// A program that may have copies of everything that was mounted when it was started.
struct Elsewhere(Child);

impl Elsewhere {
    /// Returns when the program has reported that it is ready.
    fn start(command: &mut Command) -> Elsewhere {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
        assert!(
            lines.any(|line| line.unwrap().contains("there")),
            "it did not get there"
        );
        Elsewhere(child)
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// Says that it is there, and stays.
const STAYING: &str = "echo there; exec sleep 1000";

#[test]
fn an_unmount_does_not_wait_for_copies() {
    apart("namespaces::an_unmount_does_not_wait_for_copies", || {
        let ground = Ground::with_vault("work");
        let mount = ground.mount("work", "place");
        fs::write(mount.path("file"), "stored").unwrap();
        let elsewhere =
            Elsewhere::start(Command::new("unshare").args(["--mount", "--", "sh", "-c", STAYING]));
        let ended = ground.ended(&["unmount", &mount.dir.display().to_string()]);
        assert!(
            ended.status.success() && ended.err.contains("another namespace"),
            "{}",
            ended.err
        );
        assert!(!is_mounted(&mount.dir));
        assert_eq!(ground.avfs(&["mounts"]), "");
        assert_eq!(ground.avfs(&["cat", "file"]), "stored");
        assert!(is_running(mount.server), "who is there is served");
        drop(elsewhere);
        mount.await_server_end();
    });
}

#[test]
fn a_run_keeps_no_copy_of_other_mounts() {
    apart("namespaces::a_run_keeps_no_copy_of_other_mounts", || {
        let ground = Ground::with_vault("work");
        ground.avfs(&["vault", "create", "other"]);
        let mount = ground.mount("work", "place");
        let mut run = ground.command(&["--vault", "other", "exec", "--stream", "-c", STAYING]);
        let mut run = Elsewhere::start(&mut run);
        let ended = ground.ended(&["unmount", &mount.dir.display().to_string()]);
        assert!(
            ended.status.success() && !ended.err.contains("namespace"),
            "{}",
            ended.err
        );
        mount.await_server_end();
        assert!(run.0.try_wait().unwrap().is_none(), "it continues");
    });
}
