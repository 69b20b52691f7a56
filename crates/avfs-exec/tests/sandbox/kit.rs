//! Workspaces that the user of a run owns, and runs in them.

use std::fs::{File, Permissions};
use std::io::Read;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use avfs_exec::launch::{End, Inside, Run};
use avfs_exec::plan::UNPRIVILEGED;
use avfs_exec::{Bubblewrap, Cancel, Event, Landlocked, LaunchError, Launcher, Outcome, Plan, Stdin};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tempfile::TempDir;

/// The program that is our own inside.
pub const STAGE: &str = env!("CARGO_BIN_EXE_avfs-inside");

/// Long enough for a machine that has much else to do.
pub const PATIENCE: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A directory for runs, below one that only we can enter.
pub struct Workspace {
    outer: TempDir,
}

impl Workspace {
    pub fn new() -> Self {
        let own = Self { outer: tempfile::tempdir().unwrap() };
        std::fs::set_permissions(own.outer.path(), Permissions::from_mode(0o700)).unwrap();
        std::fs::create_dir(own.path()).unwrap();
        own.give(&own.path());
        own
    }

    /// One that the user of a run can reach by its path.
    pub fn reachable() -> Self {
        let own = Self::new();
        std::fs::set_permissions(own.outer.path(), Permissions::from_mode(0o755)).unwrap();
        own
    }

    pub fn path(&self) -> PathBuf {
        self.outer.path().join("w")
    }

    /// A directory beside it, which no run sees.
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

    pub fn plan(&self, command: &[&str]) -> Plan {
        Plan::new(self.path(), command)
    }

    pub fn shell(&self, script: &str) -> Plan {
        self.plan(&["sh", "-c", script])
    }

    /// A pipe in the workspace, and its reading end. Processes that hold its other end are told from those that are gone.
    pub fn fifo(&self, name: &str) -> File {
        let path = self.path().join(name);
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        self.give(&path);
        File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path).unwrap()
    }

    fn give(&self, path: &Path) {
        if is_root() {
            chown(path, Some(UNPRIVILEGED), Some(UNPRIVILEGED)).unwrap();
        }
    }
}

/// Whether somebody has a pipe open for writing. Only after somebody had.
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

/// Waits until nobody has a pipe open for writing any more.
pub fn wait_until_free(fifo: &File) {
    while is_held(fifo) {
        let mut fds = [PollFd::new(fifo, PollFlags::IN)];
        assert!(poll(&mut fds, Some(&PATIENCE)).unwrap() > 0, "somebody still has the pipe open");
    }
}

pub fn bubblewrap() -> Bubblewrap {
    Bubblewrap::new(Inside::new(STAGE))
}

pub fn landlocked() -> Landlocked {
    Landlocked::new(Inside::new(STAGE))
}

pub fn launch_by(launcher: &dyn Launcher, plan: &Plan) -> Result<Outcome, LaunchError> {
    launcher.launch(Run::new(plan, Stdin::Nothing, &Cancel::new().unwrap(), &mut |_| ()))
}

pub fn launch(plan: &Plan) -> Outcome {
    launch_by(&bubblewrap(), plan).unwrap()
}

pub fn launch_with(plan: &Plan, stdin: Stdin, events: &mut dyn FnMut(Event<'_>)) -> Outcome {
    bubblewrap().launch(Run::new(plan, stdin, &Cancel::new().unwrap(), events)).unwrap()
}

/// Launches, and cancels as soon as the command has said something.
pub fn launch_and_cancel(launcher: &dyn Launcher, plan: &Plan) -> Outcome {
    let cancel = Cancel::new().unwrap();
    let mut events = |event: Event<'_>| {
        if let Event::Stdout(_) = event {
            cancel.cancel();
        }
    };
    launcher.launch(Run::new(plan, Stdin::Nothing, &cancel, &mut events)).unwrap()
}

/// Runs a script in a fresh sandbox.
pub fn run(script: &str) -> Outcome {
    launch(&Workspace::new().shell(script))
}

pub fn stdout(outcome: &Outcome) -> String {
    String::from_utf8_lossy(&outcome.stdout.bytes()).into_owned()
}

pub fn stderr(outcome: &Outcome) -> String {
    String::from_utf8_lossy(&outcome.stderr.bytes()).into_owned()
}

/// What a plan prints that has to succeed.
#[track_caller]
pub fn prints_of(plan: &Plan) -> String {
    let outcome = launch(plan);
    assert_eq!(outcome.end, End::Exited(0), "{:?}: {}{}", plan.command, stdout(&outcome), stderr(&outcome));
    stdout(&outcome)
}

/// What a script prints that has to succeed.
#[track_caller]
pub fn prints(script: &str) -> String {
    prints_of(&Workspace::new().shell(script))
}

/// The same script without a sandbox, as a control: it has to succeed.
#[track_caller]
pub fn outside(script: &str) -> String {
    let Output { status, stdout, stderr } = Command::new("sh").args(["-c", script]).output().unwrap();
    assert!(status.success(), "outside, {script}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8_lossy(&stdout).into_owned()
}
