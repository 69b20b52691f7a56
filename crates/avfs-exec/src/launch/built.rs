//! The life of a run around the program that builds its sandbox, whichever that is.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use rustix::net::SocketType;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::builder::BuilderTies;
use super::child::StartedChild;
use super::ending::{RunFacts, outcome, rlimits};
use super::pipes::{StageEnds, output_pipe, pipes, socket_pair};
use super::processes::ProcessTable;
use super::supervise::{KillTarget, WatchedRun, supervise};
use super::{Isolation, LaunchError, LaunchOutcome, LaunchRequest, Stdin};
use crate::limits::{ControlGroup, LimitsBy};
use crate::network::{Gateway, ListeningAddresses, NetworkSetting, proxy_variables};
use crate::plan::{Layout, SandboxPlan};
use avfs_inside::{SocketKinds, StageRole, StageSpec, StageWork, landlock_abi};

/// The first version of Landlock that separates abstract sockets.
const FIRST_WITH_SCOPES: u32 = 6;

/// Further descriptors of the child.
pub(super) struct ExtraDescriptors {
    pub(super) talk: OwnedFd,
    pub(super) info: OwnedFd,
    pub(super) network: Option<OwnedFd>,
}

/// A run whose sandbox a program of the system builds.
pub(super) struct BuiltRun<'r, 'p> {
    pub(super) run: LaunchRequest<'r>,
    pub(super) work: StageWork,
    pub(super) processes: Option<&'p ProcessTable>,
    pub(super) tree: Layout,
    pub(super) group: Option<ControlGroup>,
    pub(super) entrances: Vec<OwnedFd>,
    pub(super) ties: &'p BuilderTies,
    /// What builds the sandbox, for messages.
    pub(super) name: &'p str,
}

/// What a run waits for.
#[derive(Debug)]
pub(super) enum BuilderProcess {
    /// A child that builds the sandbox, or the stage itself, and ends after everything in the sandbox.
    Child(StartedChild),
    /// The first process of a sandbox that somebody else has built. Its end is the end of all others.
    First(OwnedFd),
}

impl BuilderProcess {
    /// A pidfd and not the number: it cannot come to mean another process, and it can be polled.
    pub(super) fn pidfd(&self) -> io::Result<OwnedFd> {
        match self {
            BuilderProcess::Child(child) => Ok(pidfd_open(child.pid(), PidfdFlags::empty())?),
            BuilderProcess::First(first) => first.try_clone(),
        }
    }

    /// The number of our child.
    pub(super) fn child(&self) -> Option<Pid> {
        match self {
            BuilderProcess::Child(child) => Some(child.pid()),
            BuilderProcess::First(_) => None,
        }
    }

    /// Once it has ended.
    pub(super) fn reap(&mut self) -> io::Result<()> {
        match self {
            BuilderProcess::Child(child) => child.wait(),
            // Its parent does it.
            BuilderProcess::First(_) => Ok(()),
        }
    }
}

/// Carries out a run in a sandbox that `start` has a program build, and that `isolation` describes afterwards.
pub(super) fn run_built<A>(
    built: BuiltRun<'_, '_>,
    start: impl FnOnce(&StageEnds, ExtraDescriptors) -> Result<(BuilderProcess, A), LaunchError>,
    isolation: impl FnOnce(A) -> Result<Isolation, LaunchError>,
) -> Result<LaunchOutcome, LaunchError> {
    let BuiltRun {
        mut run,
        work,
        processes,
        tree,
        group,
        entrances,
        ties,
        name,
    } = built;
    // Only the first run of a launcher with a group is shown live.
    if let Some(group) = &group {
        ties.gauge().get_or_init(|| group.gauge().clone());
    }
    let refusals = ties.refusals();
    let (plan, stdin) = (run.plan, std::mem::replace(&mut run.stdin, Stdin::Nothing));
    let system = LaunchError::system;
    let (outer, inner, talk) = pipes(stdin, entrances).map_err(system("making pipes"))?;
    let (info, inner_info) = output_pipe().map_err(system("making pipes"))?;
    // A run that shares the host's network needs no proxy: there is nothing to refuse.
    let listening = (!plan.network.is_host()).then(|| ListeningAddresses::of(plan.network.hosts()));
    let setting = listening
        .clone()
        .map(|listening| NetworkSetting::of(plan, listening, Arc::clone(&refusals)));
    let (gateway, network) = setting
        .map(gateway)
        .transpose()
        .map_err(system("starting the proxy"))?
        .unzip();
    if let Some(gateway) = &gateway {
        ties.ports().lead_to(gateway);
    }
    let extra = ExtraDescriptors {
        talk,
        info: inner_info,
        network,
    };
    let (builder, asked) = start(&inner, extra)?;
    // The child has its copies. With ours open, the end of a stream would never be seen.
    drop(inner);
    // May take long: it prepares the workspace while the sandbox is built around it.
    let wanted = run.is_wanted();
    // The time of the run begins here: preparing the workspace does not count against its timeout.
    let since = Instant::now();
    let LaunchRequest {
        cancel,
        events,
        outlets,
        ..
    } = run;
    let by = group.as_ref().map_or(LimitsBy::Rlimits, ControlGroup::by);
    let limits = &plan.limits;
    let watched = WatchedRun {
        builder,
        servers: ties.servers(),
        outer,
        info: Some(info),
        group: group.as_ref(),
        limits,
        cancel,
        events,
        outlets,
        since,
        wanted,
        killing: KillTarget::First,
        refusals: Some(&refusals),
        spec: spec_of(plan, work, tree, by, listening.as_ref()),
        processes,
    };
    let ended = supervise(watched).map_err(system("watching the run"))?;
    if !wanted {
        return Err(LaunchError::Withdrawn);
    }
    let isolation = isolation(asked)?;
    // Before the refusals are taken: connections that are still open may add to them.
    gateway.map(Gateway::finish).unwrap_or_default();
    let refusals = refusals.take();
    outcome(
        plan,
        ended,
        RunFacts {
            since,
            isolation,
            group,
            refusals,
            name,
        },
    )
}

fn spec_of(
    plan: &SandboxPlan,
    work: StageWork,
    tree: Layout,
    by: LimitsBy,
    listening: Option<&ListeningAddresses>,
) -> StageSpec {
    // In the host's network namespace, abstract Unix sockets lead to services of the host. A kernel that
    // cannot separate them leaves only socket pairs.
    let sockets = if plan.network.is_host() && landlock_abi() < FIRST_WITH_SCOPES {
        SocketKinds::Internet
    } else {
        SocketKinds::All
    };
    StageSpec {
        standing: StageRole::Init,
        work,
        env: environment_of(plan, listening),
        cwd: plan.cwd.clone(),
        access: tree.access,
        sockets,
        listens: listening.map(ListeningAddresses::addresses).unwrap_or_default(),
        // In a user namespace of its own, the stage is the only other process.
        rlimits: rlimits(plan, by, || 1),
    }
}

fn environment_of(plan: &SandboxPlan, listening: Option<&ListeningAddresses>) -> Vec<(OsString, OsString)> {
    let proxy = listening.map(proxy_variables).unwrap_or_default();
    plan.env.iter().cloned().chain(proxy).collect()
}

/// The gateway that serves the network of a run, and the descriptor for the stage.
fn gateway(setting: NetworkSetting) -> io::Result<(Gateway, OwnedFd)> {
    let (outer, inner) = socket_pair(SocketType::SEQPACKET)?;
    Ok((Gateway::start(setting, outer)?, inner))
}
