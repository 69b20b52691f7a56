//! What this system offers for sandboxes, and what to do where it offers too little. For `avfs doctor`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::inside::landlock_abi;
use crate::launch;

mod container;
mod namespaces;
mod software;

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub name: &'static str,
    pub state: State,
    /// What was found, in a line.
    pub detail: String,
    /// What can be done, as text to read or commands to run.
    pub fix: Option<String>,
}

/// How good it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    Good,
    /// Runs work, but less well.
    Weak,
    /// Runs do not work.
    Missing,
}

/// What can only be found out by asking the kernel or running something. The rest is read from files below `root`.
#[derive(Clone, Debug)]
pub struct System {
    root: PathBuf,
    /// What `bwrap --version` says; nothing if there is no bubblewrap.
    bubblewrap: Option<String>,
    /// Whether a sandbox can be made, or what bubblewrap says instead.
    namespaces: Result<(), String>,
    landlock_abi: u32,
    is_root: bool,
}

impl System {
    /// This system. Starts bubblewrap twice.
    pub fn look() -> Self {
        let program = launch::find_bubblewrap();
        Self {
            root: PathBuf::from("/"),
            bubblewrap: version(program),
            namespaces: try_namespaces(program),
            landlock_abi: landlock_abi(),
            is_root: rustix::process::geteuid().is_root(),
        }
    }

    fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.root.join(path)).ok().map(|text| text.trim().to_owned())
    }

    fn has(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }
}

/// Everything that sandboxes and mounts need, the most important first.
pub fn checks(system: &System) -> Vec<Check> {
    let mut checks = vec![
        software::bubblewrap(system),
        namespaces::user_namespaces(system),
        software::seccomp(system),
        software::landlock(system),
        software::control_groups(system),
        software::fuse_device(system),
        software::fusermount(system),
    ];
    checks.extend(container::container(system));
    checks
}

impl Check {
    fn good(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, state: State::Good, detail: detail.into(), fix: None }
    }

    fn weak(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, state: State::Weak, detail: detail.into(), fix: Some(fix.into()) }
    }

    fn missing(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, state: State::Missing, detail: detail.into(), fix: Some(fix.into()) }
    }
}

fn version(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok()?;
    String::from_utf8_lossy(&output.stdout).split_whitespace().last().map(str::to_owned)
}

/// The namespaces of a run around the smallest command.
fn try_namespaces(program: &Path) -> Result<(), String> {
    let flags = [
        "--unshare-user",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-ipc",
        "--unshare-uts",
        "--die-with-parent",
    ];
    let mut command = Command::new(program);
    command.args(flags).args(["--ro-bind", "/", "/", "--proc", "/proc", "true"]);
    let output = command.output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(said) }
}

#[cfg(test)]
mod tests;
