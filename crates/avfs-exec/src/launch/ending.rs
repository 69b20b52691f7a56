//! From what was watched to what is told.

use std::os::fd::OwnedFd;
use std::time::Instant;

use super::error::SEE_DOCTOR;
use super::supervise::Ended;
use super::{End, Isolation, LaunchError, Outcome, Stop};
use crate::inside::{Report, Rlimits};
use crate::limits::{Group, Limit, LimitsBy};
use crate::network::Refusal;
use crate::plan::{Limits, Plan};

/// What is known about a run beside what was watched.
pub(super) struct Told {
    pub(super) since: Instant,
    pub(super) isolation: Isolation,
    pub(super) group: Option<Group>,
    pub(super) refusals: Vec<Refusal>,
}

pub(super) fn outcome(plan: &Plan, mut ended: Ended, told: Told) -> Result<Outcome, LaunchError> {
    if let Some(error) = ended.not_limited.take() {
        return Err(LaunchError::Limits(error));
    }
    let end = end_of(plan, &ended)?;
    let group = told.group.as_ref();
    let mut limits_hit = group.map(|group| group.gauge().hit()).unwrap_or_default();
    let out_of_time = ended.stopped == Some(Stop::CpuTime) || end == End::Signaled(libc::SIGXCPU);
    limits_hit.extend(out_of_time.then_some(Limit::CpuTime));
    Ok(Outcome {
        end,
        stopped: ended.stopped,
        stdout: ended.stdout,
        stderr: ended.stderr,
        usage: group.map(|group| group.gauge().usage()).unwrap_or_default(),
        duration: told.since.elapsed(),
        isolation: told.isolation,
        limits_by: group.map_or(LimitsBy::Rlimits, Group::by),
        limits_hit,
        refusals: told.refusals,
    })
}

/// How the command ended, or why it never began.
fn end_of(plan: &Plan, ended: &Ended) -> Result<End, LaunchError> {
    let cannot = |reason: String| LaunchError::CannotIsolate { reason, hint: SEE_DOCTOR };
    match &ended.report {
        Some(Report::Exited { code }) => Ok(End::Exited(*code)),
        Some(Report::Signaled { signal }) => Ok(End::Signaled(*signal)),
        Some(Report::NotStarted { errno }) => Ok(End::NotStarted { errno: *errno }),
        Some(Report::NoDirectory) => Err(LaunchError::NoDirectory { path: plan.cwd.clone() }),
        // Stopped before it began.
        Some(Report::NotConfined { .. }) if ended.stopped.is_some() => Ok(End::Signaled(libc::SIGTERM)),
        Some(Report::NotConfined { reason }) => Err(cannot(reason.clone())),
        // Killed with everything else: by us, or because memory ran out.
        Some(Report::Started) | None if ended.started || ended.stopped.is_some() => {
            Ok(End::Signaled(libc::SIGKILL))
        }
        Some(Report::Started) | None => {
            Err(LaunchError::bubblewrap_said(&String::from_utf8_lossy(&ended.talk.bytes())))
        }
    }
}

/// Makes the group of a run, and opens the ways into it.
pub(super) fn group_for(limits: &Limits) -> Result<(Option<Group>, Vec<OwnedFd>), LaunchError> {
    let group = Group::new(limits).map_err(LaunchError::Limits)?;
    let entrances = group.as_ref().map_or(Ok(Vec::new()), Group::entrances).map_err(LaunchError::Limits)?;
    Ok((group, entrances))
}

/// Processes are limited by their own means where nothing limits the run. `beside` others count as well.
pub(super) fn rlimits(plan: &Plan, by: LimitsBy, beside: impl FnOnce() -> u64) -> Rlimits {
    let limits = &plan.limits;
    let alone = by == LimitsBy::Rlimits;
    Rlimits {
        // The group is looked at now and then, and goes first: it also counts what has ended.
        cpu_seconds: limits
            .cpu_seconds
            .map(|seconds| if alone { seconds } else { seconds.saturating_add(2) }),
        processes: limits.pids.filter(|_| alone).map(|count| count.saturating_add(beside())),
        data: limits.memory.filter(|_| alone),
    }
}
