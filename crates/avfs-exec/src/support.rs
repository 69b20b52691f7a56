//! What this system offers for sandboxes, and what to do if that is too little. For `avfs doctor`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::launch;
use avfs_inside::landlock_abi;

mod container;
mod namespaces;
mod software;

/// One checked property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SupportCheck {
    /// Its name.
    pub name: &'static str,
    /// How well it is supported.
    pub state: SupportState,
    /// The finding, in a line.
    pub detail: String,
    /// A remedy, as text to read or commands to run.
    pub fix: Option<String>,
}

/// How well the property is supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SupportState {
    /// As it should be.
    Good,
    /// Runs work, but less well.
    Weak,
    /// Runs do not work.
    Missing,
}

/// Properties that can only be determined by querying the kernel or running a program. The rest is read from
/// files below `root`.
#[derive(Clone, Debug)]
pub struct SystemProbe {
    root: PathBuf,
    /// The output of `bwrap --version`; `None` if bubblewrap is not installed.
    bubblewrap: Option<String>,
    /// Whether a sandbox can be created, or the error of bubblewrap.
    namespaces: Result<(), String>,
    /// The first container runtime that is installed, with its version.
    runtime: Option<String>,
    landlock_abi: u32,
    is_root: bool,
}

impl SystemProbe {
    /// This system. Starts bubblewrap twice, and a container runtime for its version.
    pub fn look() -> Self {
        let program = launch::find_bubblewrap();
        Self {
            root: PathBuf::from("/"),
            bubblewrap: version(program),
            namespaces: try_namespaces(program),
            runtime: runtime(),
            landlock_abi: landlock_abi(),
            is_root: rustix::process::geteuid().is_root(),
        }
    }

    fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.root.join(path))
            .ok()
            .map(|text| text.trim().to_owned())
    }

    fn has(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }
}

/// Everything that sandboxes and mounts need, the most important first.
pub fn checks(system: &SystemProbe) -> Vec<SupportCheck> {
    let mut checks = vec![
        software::bubblewrap(system),
        namespaces::user_namespaces(system),
        software::seccomp(system),
        software::landlock(system),
        software::control_groups(system),
        software::fuse_device(system),
        software::fusermount(system),
        software::container_runtime(system),
    ];
    checks.extend(container::container(system));
    checks
}

impl SupportCheck {
    fn good(name: &'static str, detail: impl Into<String>) -> Self {
        Self {
            name,
            state: SupportState::Good,
            detail: detail.into(),
            fix: None,
        }
    }

    fn weak(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            name,
            state: SupportState::Weak,
            detail: detail.into(),
            fix: Some(fix.into()),
        }
    }

    fn missing(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            name,
            state: SupportState::Missing,
            detail: detail.into(),
            fix: Some(fix.into()),
        }
    }
}

fn version(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok()?;
    String::from_utf8_lossy(&output.stdout)
        .split_whitespace()
        .last()
        .map(str::to_owned)
}

fn runtime() -> Option<String> {
    let found = launch::ContainerRuntime::find().ok()?;
    let output = Command::new(found.program()).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Some(text.lines().next().unwrap_or_default().replace(" version ", " "))
}

/// Creates the namespaces of a run around the smallest command.
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
    command
        .args(flags)
        .args(["--ro-bind", "/", "/", "--proc", "/proc", "true"]);
    let output = command.output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() {
        Ok(())
    } else {
        Err(said)
    }
}

#[cfg(test)]
mod tests;
