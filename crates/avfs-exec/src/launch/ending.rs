//! From the observations of a run to its outcome.

use std::os::fd::OwnedFd;
use std::time::Instant;

use super::error::LaunchHint;
use super::supervise::ObservedEnd;
use super::{CommandEnd, Isolation, LaunchError, LaunchOutcome, StopReason};
use crate::limits::{ControlGroup, LimitsBy, ReachedLimit};
use crate::network::Refusal;
use crate::plan::{RunLimits, SandboxPlan};
use avfs_inside::{ProcessLimits, StageReport};

/// Information about a run beside its observation.
pub(super) struct RunFacts<'a> {
    pub(super) since: Instant,
    pub(super) isolation: Isolation,
    pub(super) group: Option<ControlGroup>,
    pub(super) refusals: Vec<Refusal>,
    /// What has built the sandbox.
    pub(super) name: &'a str,
}

pub(super) fn outcome(
    plan: &SandboxPlan,
    mut ended: ObservedEnd,
    told: RunFacts<'_>,
) -> Result<LaunchOutcome, LaunchError> {
    if let Some(error) = ended.not_limited.take() {
        return Err(LaunchError::Limits(error));
    }
    let end = end_of(plan, &ended, told.name)?;
    let group = told.group.as_ref();
    let mut limits_hit = group.map(|group| group.gauge().hit()).unwrap_or_default();
    let out_of_time =
        ended.stopped == Some(StopReason::CpuTime) || end == CommandEnd::Signaled(libc::SIGXCPU);
    limits_hit.extend(out_of_time.then_some(ReachedLimit::CpuTime));
    Ok(LaunchOutcome {
        end,
        stopped: ended.stopped,
        stdout: ended.stdout,
        stderr: ended.stderr,
        usage: group.map(|group| group.gauge().usage()).unwrap_or_default(),
        duration: told.since.elapsed(),
        isolation: told.isolation,
        limits_by: group.map_or(LimitsBy::Rlimits, ControlGroup::by),
        limits_hit,
        refusals: told.refusals,
    })
}

/// How the command ended, or why it never began.
fn end_of(plan: &SandboxPlan, ended: &ObservedEnd, builder: &str) -> Result<CommandEnd, LaunchError> {
    let cannot = |reason: String| LaunchError::CannotIsolate {
        reason,
        hint: LaunchHint::CheckMachine,
    };
    match &ended.report {
        Some(StageReport::Exited { code }) => Ok(CommandEnd::Exited(*code)),
        Some(StageReport::Signaled { signal }) => Ok(CommandEnd::Signaled(*signal)),
        Some(StageReport::NotStarted { errno }) => Ok(CommandEnd::NotStarted { errno: *errno }),
        Some(StageReport::NoDirectory) => Err(LaunchError::NoDirectory {
            path: plan.cwd.clone(),
        }),
        // Stopped before it began.
        Some(StageReport::NotConfined { .. }) if ended.stopped.is_some() => {
            Ok(CommandEnd::Signaled(libc::SIGTERM))
        }
        Some(StageReport::NotConfined { reason }) => Err(cannot(reason.clone())),
        // Killed with everything else: by us, or because memory ran out.
        Some(StageReport::Started | StageReport::Process(_) | StageReport::Paused) | None
            if ended.started || ended.stopped.is_some() =>
        {
            Ok(CommandEnd::Signaled(libc::SIGKILL))
        }
        Some(StageReport::Started | StageReport::Process(_) | StageReport::Paused) | None => Err(
            LaunchError::builder_said(builder, &String::from_utf8_lossy(&ended.talk.bytes())),
        ),
    }
}

/// Creates the group of a run, and opens the files to enter it.
pub(super) fn group_for(limits: &RunLimits) -> Result<(Option<ControlGroup>, Vec<OwnedFd>), LaunchError> {
    let group = ControlGroup::new(limits).map_err(LaunchError::Limits)?;
    let entrances = group
        .as_ref()
        .map_or(Ok(Vec::new()), ControlGroup::entrances)
        .map_err(LaunchError::Limits)?;
    Ok((group, entrances))
}

/// Limits of single processes, used where nothing limits the run as a whole. `beside` is the number of other
/// processes that count as well.
pub(super) fn rlimits(plan: &SandboxPlan, by: LimitsBy, beside: impl FnOnce() -> u64) -> ProcessLimits {
    let limits = &plan.limits;
    let alone = by == LimitsBy::Rlimits;
    ProcessLimits {
        // The group is checked periodically, and its limit is reached first: it also counts ended processes.
        cpu_seconds: limits
            .cpu_seconds
            .map(|seconds| if alone { seconds } else { seconds.saturating_add(2) }),
        processes: limits
            .pids
            .filter(|_| alone)
            .map(|count| count.saturating_add(beside())),
        data: limits.memory.filter(|_| alone),
    }
}
