//! No process outlives its run, however that ends.

use std::fs::File;
use std::io::Read;
use std::process::{Child, Command, Stdio};

use avfs_exec::launch::CommandEnd;

use crate::kit::{STAGE, Workspace, is_held, launch, wait_until_free};

/// Leaves processes behind that hold the pipe, in a session of their own, ignoring signals.
const LEAVE: &str = "trap '' HUP TERM INT; setsid nohup sleep 999 3>held >/dev/null 2>&1 & \
                     (setsid sh -c 'setsid sleep 999 3>held &' &); exec 3>held;";

#[test]
fn the_end_of_the_command_is_the_end_of_all() {
    let workspace = Workspace::new();
    let fifo = workspace.fifo("held");
    assert_eq!(
        launch(&workspace.shell(&format!("{LEAVE} exit 4"))).end,
        CommandEnd::Exited(4)
    );
    assert!(!is_held(&fifo));
}

fn start(launcher: &str, workspace: &Workspace, script: &str) -> Child {
    let mut command = Command::new(STAGE);
    command
        .arg(launcher)
        .arg(workspace.path())
        .args(["sh", "-c", script]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Starts a launcher, kills it when its command runs, and waits for the rest to disappear.
fn kill_launcher(launcher: &str, workspace: &Workspace) {
    let fifo: File = workspace.fifo("held");
    let mut child = start(launcher, workspace, &format!("{LEAVE} echo ready; sleep 999"));
    let mut said = [0_u8; 5];
    child.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
    assert_eq!(&said, b"ready");
    assert!(is_held(&fifo), "the control: no process holds the pipe");
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until_free(&fifo);
}

#[test]
fn the_end_of_the_launcher_is_the_end_of_all() {
    kill_launcher("bubblewrap", &Workspace::new());
}

#[test]
fn the_end_of_the_launcher_is_the_end_of_all_under_landlock_too() {
    kill_launcher("landlock", &Workspace::reachable());
}

#[test]
fn the_end_of_the_launcher_is_the_end_of_an_open_sandbox_too() {
    kill_launcher("processes", &Workspace::new());
}

#[test]
fn groups_of_killed_launchers_are_removed_by_the_next_run() {
    let workspace = Workspace::new();
    kill_launcher("bubblewrap", &workspace);
    let left = || {
        let found = Command::new("find")
            .args(["/sys/fs/cgroup", "-type", "d", "-name", "avfs-run-*"])
            .output()
            .unwrap();
        let text = String::from_utf8(found.stdout).unwrap();
        let pid = |line: &str| {
            line.rsplit_once("avfs-run-")?
                .1
                .split('-')
                .next()?
                .parse::<u32>()
                .ok()
        };
        let dead = |line: &&str| {
            pid(line).is_some_and(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists())
        };
        text.lines().filter(dead).count()
    };
    // The kernel takes a moment to empty the group; every run tries again.
    let mut tries = 0;
    loop {
        assert_eq!(launch(&workspace.plan(&["true"])).end, CommandEnd::Exited(0));
        tries += 1;
        if left() == 0 {
            break;
        }
        assert!(tries < 200, "groups of dead launchers stay");
    }
}
