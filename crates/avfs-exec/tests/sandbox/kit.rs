//! A workspace that the user of a run owns, and runs in it.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use avfs_exec::launch::{End, Inside, Run};
use avfs_exec::plan::UNPRIVILEGED;
use avfs_exec::{Bubblewrap, Cancel, Event, LaunchError, Launcher, Outcome, Plan, Stdin};
use tempfile::TempDir;

/// The program that is our own inside.
pub fn inside() -> Inside {
    Inside::new(env!("CARGO_BIN_EXE_avfs-inside"))
}

pub fn bubblewrap() -> Bubblewrap {
    Bubblewrap::new(inside())
}

/// A directory below one that nobody else can enter, as in a home of root.
pub fn workspace() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let own = directory.path().join("w");
    std::fs::create_dir(&own).unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&own, Some(UNPRIVILEGED), Some(UNPRIVILEGED)).unwrap();
    }
    directory
}

pub fn plan(workspace: &TempDir, command: &[&str]) -> Plan {
    Plan::new(workspace.path().join("w"), command)
}

pub fn shell(workspace: &TempDir, script: &str) -> Plan {
    plan(workspace, &["sh", "-c", script])
}

pub fn try_launch(plan: &Plan) -> Result<Outcome, LaunchError> {
    launch_with(plan, Stdin::Nothing, &mut |_| ())
}

pub fn launch_with(
    plan: &Plan,
    stdin: Stdin,
    events: &mut dyn FnMut(Event<'_>),
) -> Result<Outcome, LaunchError> {
    bubblewrap().launch(Run { plan, stdin, cancel: &Cancel::new().unwrap(), events })
}

pub fn launch(plan: &Plan) -> Outcome {
    try_launch(plan).unwrap()
}

/// Runs a script in a fresh sandbox.
pub fn run(script: &str) -> Outcome {
    launch(&shell(&workspace(), script))
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub fn stdout(outcome: &Outcome) -> String {
    text(&outcome.stdout.head)
}

pub fn stderr(outcome: &Outcome) -> String {
    text(&outcome.stderr.head)
}

/// What a script prints that has to succeed.
#[track_caller]
pub fn prints(script: &str) -> String {
    let outcome = run(script);
    assert_eq!(outcome.end, End::Exited(0), "{script}: {}{}", stdout(&outcome), stderr(&outcome));
    stdout(&outcome)
}

pub fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
