//! Runs without namespaces, for systems that have neither bubblewrap nor user namespaces: Landlock, a filter of system
//! calls and limits around a plain directory of the host. Weaker than bubblewrap: see `docs/security.md`.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::time::Instant;

use tempfile::TempDir;

use super::built::BuilderProcess;
use super::child::{ChildStart, is_root};
use super::ending::{RunFacts, group_for, outcome, rlimits};
use super::pipes::{StageEnds, pipes};
use super::supervise::{KillTarget, WatchedRun, supervise};
use super::{InnerProgram, Isolation, LaunchError, LaunchHint, LaunchOutcome, LaunchRequest, Launcher};
use crate::limits::{ControlGroup, LimitsBy, stale};
use crate::plan::{Network, SandboxPlan, UNPRIVILEGED, WORKSPACE, host_access};
use avfs_inside::{PathAccess, SocketKinds, StageRole, StageSpec, StageWork, landlock_abi};

/// With older versions, signals reach every process of the same user, and no filter can distinguish a process
/// of the run from others.
const FIRST_WITH_SCOPES: u32 = 6;

/// Runs commands under Landlock alone. The workspace is at its own path, because there is no other tree.
#[derive(Debug)]
pub struct Landlocked {
    inside: InnerProgram,
}

impl Landlocked {
    /// Landlock around the command; `inside` sets it up.
    pub fn new(inside: InnerProgram) -> Self {
        Self { inside }
    }

    fn start(&self, inner: &StageEnds, talk: OwnedFd) -> io::Result<ChildStart> {
        // By its descriptor, because the user of the run may not be able to reach its path.
        let program = File::open(&self.inside.program)?;
        let mut arguments = self.inside.arguments.clone();
        arguments.push(inner.descriptors(None).argument().into());
        Ok(ChildStart {
            program: format!("/proc/self/fd/{}", program.as_raw_fd()).into(),
            arguments,
            keep: inner.numbers(),
            held: vec![program.into()],
            talk,
            staged: None,
            // It must outlive its launcher for a moment, to end the processes that it has started.
            dies_with_parent: false,
            renumbered_from: None,
        })
    }
}

impl Launcher for Landlocked {
    fn launch(&self, mut run: LaunchRequest<'_>) -> Result<LaunchOutcome, LaunchError> {
        let system = LaunchError::system;
        run.plan.check()?;
        if !run.is_wanted() {
            return Err(LaunchError::Withdrawn);
        }
        let LaunchRequest {
            plan,
            stdin,
            cancel,
            events,
            outlets,
            ..
        } = run;
        let since = Instant::now();
        let abi = usable_abi(plan)?;
        let private = PrivateDirectories::new().map_err(system("making private directories"))?;
        let (group, entrances) = group_for(&plan.limits)?;
        let (outer, inner, talk) = pipes(stdin, entrances).map_err(system("making pipes"))?;
        let start = self
            .start(&inner, talk)
            .map_err(system("opening our own program"))?;
        let child = start.spawn().map_err(system("starting our own program"))?;
        drop(inner);
        let by = group.as_ref().map_or(LimitsBy::Rlimits, ControlGroup::by);
        let (limits, group_ref) = (&plan.limits, group.as_ref());
        let killing = KillTarget::Stage;
        let spec = spec_of(plan, &private, by);
        let watched = WatchedRun {
            builder: BuilderProcess::Child(child),
            servers: &[],
            outer,
            info: None,
            group: group_ref,
            limits,
            cancel,
            events,
            outlets,
            since,
            wanted: true,
            killing,
            refusals: None,
            spec,
            processes: None,
        };
        let ended = supervise(watched).map_err(system("watching the run"))?;
        let isolation = Isolation::Landlock { abi };
        outcome(
            plan,
            ended,
            RunFacts {
                since,
                isolation,
                group,
                refusals: Vec::new(),
                name: "avfs-inside",
            },
        )
    }
}

fn usable_abi(plan: &SandboxPlan) -> Result<u32, LaunchError> {
    let cannot = |reason: &str, hint| {
        Err(LaunchError::CannotIsolate {
            reason: reason.to_owned(),
            hint,
        })
    };
    if let Network::Hosts(_) = plan.network {
        return cannot(
            "without a network of its own, a run cannot be kept to a list of hosts",
            LaunchHint::UseBubblewrap,
        );
    }
    if !plan.published.is_empty() {
        return cannot(
            "without a network of its own, a run has no ports to publish",
            LaunchHint::UseBubblewrap,
        );
    }
    check_abi(landlock_abi())
}

fn check_abi(abi: u32) -> Result<u32, LaunchError> {
    let cannot = |reason: String, hint| Err(LaunchError::CannotIsolate { reason, hint });
    match abi {
        abi if abi >= FIRST_WITH_SCOPES => Ok(abi),
        0 => cannot(
            "this kernel has no Landlock".to_owned(),
            LaunchHint::EnableLandlock,
        ),
        abi => cannot(
            format!(
                "Landlock is too old here (interface {abi}): signals would reach other processes of the user"
            ),
            LaunchHint::UpdateKernel,
        ),
    }
}

fn spec_of(plan: &SandboxPlan, private: &PrivateDirectories, by: LimitsBy) -> StageSpec {
    let mut access = host_access(plan);
    access.extend([private.home(), private.tmp()].map(|path| (path, PathAccess::Write)));
    access.push((
        plan.workspace.clone(),
        if plan.read_only {
            PathAccess::Read
        } else {
            PathAccess::Write
        },
    ));
    StageSpec {
        standing: StageRole::Keeper,
        work: StageWork::Command(plan.command.clone()),
        env: environment_of(plan, private),
        cwd: on_host(plan, &plan.cwd),
        access,
        // Local sockets cannot be separated by their paths, so none are allowed.
        sockets: if plan.network.is_host() {
            SocketKinds::Internet
        } else {
            SocketKinds::Pairs
        },
        listens: Vec::new(),
        rlimits: rlimits(plan, by, threads_of_user),
    }
}

fn environment_of(plan: &SandboxPlan, private: &PrivateDirectories) -> Vec<(OsString, OsString)> {
    let mut env = plan.env.clone();
    env.push(("HOME".into(), private.home().into()));
    env.push(("TMPDIR".into(), private.tmp().into()));
    env
}

/// The number of running threads of the user of the run: the kernel limits all of them together.
fn threads_of_user() -> u64 {
    let user = if is_root() {
        UNPRIVILEGED
    } else {
        rustix::process::geteuid().as_raw()
    };
    let Ok(entries) = fs::read_dir("/proc") else {
        return 0;
    };
    let own = entries
        .flatten()
        .filter(|entry| entry.metadata().is_ok_and(|found| found.uid() == user));
    own.filter_map(|entry| threads_in(&fs::read_to_string(entry.path().join("status")).ok()?))
        .sum()
}

fn threads_in(status: &str) -> Option<u64> {
    status
        .lines()
        .find_map(|line| line.strip_prefix("Threads:")?.trim().parse().ok())
}

/// The path on the host for a path of the sandbox.
fn on_host(plan: &SandboxPlan, path: &Path) -> PathBuf {
    let below = |place: &Path| {
        path.strip_prefix(place)
            .ok()
            .map(|rest| plan.workspace.join(rest))
    };
    let also = plan.also_at.as_deref().and_then(below);
    below(Path::new(WORKSPACE))
        .or(also)
        .unwrap_or_else(|| path.to_owned())
}

/// Directories of a run on the host, which are removed with it.
struct PrivateDirectories {
    directory: TempDir,
}

impl PrivateDirectories {
    fn new() -> io::Result<Self> {
        remove_left_over(&std::env::temp_dir());
        let prefix = format!("{}.", stale::name());
        let own = Self {
            directory: tempfile::Builder::new().prefix(&prefix).tempdir()?,
        };
        let give = |path: &Path| {
            if is_root() {
                chown(path, Some(UNPRIVILEGED), Some(UNPRIVILEGED))
            } else {
                Ok(())
            }
        };
        for path in [own.home(), own.tmp()] {
            fs::DirBuilder::new().mode(0o700).create(&path)?;
            give(&path)?;
        }
        give(own.directory.path())?;
        Ok(own)
    }

    fn home(&self) -> PathBuf {
        self.directory.path().join("home")
    }

    fn tmp(&self) -> PathBuf {
        self.directory.path().join("tmp")
    }
}

/// Removes the leftovers of killed launchers of the same user.
fn remove_left_over(place: &Path) {
    let users = if is_root() {
        vec![0, UNPRIVILEGED]
    } else {
        vec![rustix::process::geteuid().as_raw()]
    };
    let Ok(entries) = fs::read_dir(place) else { return };
    for entry in entries.flatten() {
        let ours = entry
            .metadata()
            .is_ok_and(|found| found.is_dir() && users.contains(&found.uid()));
        if ours && entry.file_name().to_str().is_some_and(stale::is_left_over) {
            // Another process may have been faster.
            fs::remove_dir_all(entry.path()).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_of_dead_launchers_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let [dead, living, other] = [
            format!("avfs-run-{}-1-0.x", std::process::id()),
            format!("{}.y", stale::name()),
            "avfs-run-z".to_owned(),
        ]
        .map(|name| place.path().join(name));
        for directory in [&dead, &living, &other] {
            fs::create_dir_all(directory.join("home")).unwrap();
        }
        remove_left_over(place.path());
        assert!(!dead.exists() && living.exists() && other.exists());
    }

    #[test]
    fn paths_of_the_sandbox_are_found_on_the_host() {
        let plan = SandboxPlan {
            also_at: Some("/home/me/app".into()),
            ..SandboxPlan::new("/var/forks/7", ["true"])
        };
        for (inside, host) in [
            ("/workspace", "/var/forks/7"),
            ("/workspace/src", "/var/forks/7/src"),
            ("/home/me/app/src", "/var/forks/7/src"),
            ("/usr/share", "/usr/share"),
        ] {
            assert_eq!(on_host(&plan, Path::new(inside)), Path::new(host));
        }
    }

    #[test]
    fn a_kernel_that_does_not_keep_signals_apart_is_refused() {
        for old in 0..FIRST_WITH_SCOPES {
            let error = check_abi(old).unwrap_err();
            assert_eq!(error.code(), "cannot_isolate", "{error}");
        }
        assert!(check_abi(5).unwrap_err().to_string().contains("signals"));
        assert_eq!(check_abi(FIRST_WITH_SCOPES).unwrap(), FIRST_WITH_SCOPES);
    }

    #[test]
    fn threads_are_counted() {
        assert_eq!(threads_in("Name:\tx\nThreads:\t12\nSigQ:\t0/1\n"), Some(12));
        assert_eq!(threads_in("Name:\tx\n"), None);
    }
}
