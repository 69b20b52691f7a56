//! Workspaces that the user of a run owns, and runs in them.

use std::fs::{File, Permissions};
use std::io::Read;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use avfs_exec::launch::{CommandEnd, InnerProgram, LaunchRequest};
use avfs_exec::plan::UNPRIVILEGED;
use avfs_exec::{
    Bubblewrap, Cancel, Landlocked, LaunchError, LaunchOutcome, Launcher, RunEvent, SandboxPlan, Stdin,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tempfile::TempDir;

/// The program that is our own inside.
pub const STAGE: &str = env!("CARGO_BIN_EXE_self-launching");

/// Long enough for a busy machine.
pub const PATIENCE: Timespec = Timespec {
    tv_sec: 60,
    tv_nsec: 0,
};

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A directory for runs, below one that only we can enter.
pub struct Workspace {
    outer: TempDir,
}

impl Workspace {
    pub fn new() -> Self {
        let own = Self {
            outer: tempfile::tempdir().unwrap(),
        };
        std::fs::set_permissions(own.outer.path(), Permissions::from_mode(0o700)).unwrap();
        std::fs::create_dir(own.path()).unwrap();
        own.give(&own.path());
        own
    }

    /// A workspace that the user of a run can reach by its path.
    pub fn reachable() -> Self {
        let own = Self::new();
        std::fs::set_permissions(own.outer.path(), Permissions::from_mode(0o755)).unwrap();
        own
    }

    pub fn path(&self) -> PathBuf {
        self.outer.path().join("w")
    }

    /// A directory beside it, which runs do not see.
    pub fn outside(&self) -> &Path {
        self.outer.path()
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap()
    }

    pub fn write(&self, name: &str, contents: &str) {
        std::fs::write(self.path().join(name), contents).unwrap();
        self.give(&self.path().join(name));
    }

    pub fn plan(&self, command: &[&str]) -> SandboxPlan {
        SandboxPlan::new(self.path(), command)
    }

    pub fn shell(&self, script: &str) -> SandboxPlan {
        self.plan(&["sh", "-c", script])
    }

    /// A pipe in the workspace, and its reading end: it shows whether any process still holds the other end.
    pub fn fifo(&self, name: &str) -> File {
        let path = self.path().join(name);
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        self.give(&path);
        File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)
            .unwrap()
    }

    fn give(&self, path: &Path) {
        if is_root() {
            chown(path, Some(UNPRIVILEGED), Some(UNPRIVILEGED)).unwrap();
        }
    }
}

/// Whether a process has a pipe open for writing. Only valid after one has opened it.
pub fn is_held(mut fifo: &File) -> bool {
    let mut byte = [0_u8; 64];
    loop {
        match fifo.read(&mut byte) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
        }
    }
}

/// Waits until no process has a pipe open for writing.
pub fn wait_until_free(fifo: &File) {
    while is_held(fifo) {
        let mut fds = [PollFd::new(fifo, PollFlags::IN)];
        assert!(
            poll(&mut fds, Some(&PATIENCE)).unwrap() > 0,
            "a process still has the pipe open"
        );
    }
}

pub fn bubblewrap() -> Bubblewrap {
    Bubblewrap::new(InnerProgram::new(STAGE))
}

pub fn landlocked() -> Landlocked {
    Landlocked::new(InnerProgram::new(STAGE))
}

pub fn launch_by(launcher: &dyn Launcher, plan: &SandboxPlan) -> Result<LaunchOutcome, LaunchError> {
    launcher.launch(LaunchRequest::new(
        plan,
        Stdin::Nothing,
        &Cancel::new().unwrap(),
        &mut |_| (),
    ))
}

pub fn launch(plan: &SandboxPlan) -> LaunchOutcome {
    launch_by(&bubblewrap(), plan).unwrap()
}

pub fn launch_with(plan: &SandboxPlan, stdin: Stdin, events: &mut dyn FnMut(RunEvent<'_>)) -> LaunchOutcome {
    bubblewrap()
        .launch(LaunchRequest::new(plan, stdin, &Cancel::new().unwrap(), events))
        .unwrap()
}

/// Launches, and cancels as soon as the command has printed something.
pub fn launch_and_cancel(launcher: &dyn Launcher, plan: &SandboxPlan) -> LaunchOutcome {
    let cancel = Cancel::new().unwrap();
    let mut events = |event: RunEvent<'_>| {
        if let RunEvent::Stdout(_) = event {
            cancel.cancel();
        }
    };
    launcher
        .launch(LaunchRequest::new(plan, Stdin::Nothing, &cancel, &mut events))
        .unwrap()
}

/// Runs a script in a fresh sandbox.
pub fn run(script: &str) -> LaunchOutcome {
    launch(&Workspace::new().shell(script))
}

pub fn stdout(outcome: &LaunchOutcome) -> String {
    String::from_utf8_lossy(&outcome.stdout.bytes()).into_owned()
}

pub fn stderr(outcome: &LaunchOutcome) -> String {
    String::from_utf8_lossy(&outcome.stderr.bytes()).into_owned()
}

/// The output of a plan that must succeed.
#[track_caller]
pub fn prints_of(plan: &SandboxPlan) -> String {
    let outcome = launch(plan);
    assert_eq!(
        outcome.end,
        CommandEnd::Exited(0),
        "{:?}: {}{}",
        plan.command,
        stdout(&outcome),
        stderr(&outcome)
    );
    stdout(&outcome)
}

/// The output of a script that must succeed.
#[track_caller]
pub fn prints(script: &str) -> String {
    prints_of(&Workspace::new().shell(script))
}

/// The same script without a sandbox, as a control: it must succeed.
#[track_caller]
pub fn outside(script: &str) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new("sh").args(["-c", script]).output().unwrap();
    assert!(
        status.success(),
        "outside, {script}: {}",
        String::from_utf8_lossy(&stderr)
    );
    String::from_utf8_lossy(&stdout).into_owned()
}
