//! From what was watched to what is told.

use std::time::Instant;

use super::supervise::Ended;
use super::{End, Isolation, LaunchError, Outcome};
use crate::inside::{Report, Rlimits};
use crate::limits::{Limit, LimitsBy, Usage};
use crate::network::Refusal;
use crate::plan::Plan;

const SEE_DOCTOR: &str = "run `avfs doctor` to see what is missing";

/// What is known about a run beside what was watched.
pub(super) struct Told {
    pub(super) since: Instant,
    pub(super) isolation: Isolation,
    pub(super) by: LimitsBy,
    pub(super) usage: Usage,
    pub(super) hit: Vec<Limit>,
    pub(super) refusals: Vec<Refusal>,
}

pub(super) fn outcome(plan: &Plan, ended: Ended, told: Told) -> Result<Outcome, LaunchError> {
    let end = end_of(plan, &ended)?;
    let mut limits_hit = told.hit;
    limits_hit.extend(&ended.hit_cpu);
    Ok(Outcome {
        end,
        stopped: ended.stopped,
        stdout: ended.stdout,
        stderr: ended.stderr,
        usage: told.usage,
        duration: told.since.elapsed(),
        isolation: told.isolation,
        limits_by: told.by,
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

/// Processes are limited by their own means where nothing limits the run.
pub(super) fn rlimits(plan: &Plan, by: LimitsBy) -> Rlimits {
    let limits = &plan.limits;
    let alone = by == LimitsBy::Rlimits;
    Rlimits {
        cpu_seconds: limits.cpu_seconds,
        processes: limits.pids.filter(|_| alone),
        data: limits.memory.filter(|_| alone),
    }
}
