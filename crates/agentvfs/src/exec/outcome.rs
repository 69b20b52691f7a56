//! The outcome of a run, as values. [`Envelope`] is the same in the form for programs.

use std::path::PathBuf;
use std::time::Duration;

use avfs_core::SnapshotId;
use avfs_exec::launch::{CommandEnd, LaunchOutcome, StopReason};
use avfs_exec::limits::{LimitsBy, ReachedLimit, RunUsage};
use avfs_exec::network::Refusal;
use avfs_exec::output::CapturedOutput;
use avfs_exec::policy::PolicyDecision;
use avfs_exec::session::{TurnAnswer, TurnEnd};
use avfs_exec::{Capabilities, LaunchError};

use super::changes::ChangedFile;
use super::envelope::{Envelope, ErrorBody, RefusalBody, RequestBody, ResultBody};
use super::workspace::AfterRun;
use crate::approvals::ApprovalId;
use crate::error::{Error, Hint};
use crate::name::CheckpointName;

/// Everything that is known of a run, however far it came.
#[derive(Clone, Debug)]
pub struct RunOutcome {
    /// The id of the run.
    pub run: String,
    /// The name of the vault.
    pub vault: String,
    /// The session that it ran in.
    pub turn: Option<SessionTurn>,
    /// What the policy decided; `None` if the run did not come so far.
    pub decision: Option<PolicyDecision>,
    /// Under which a person can allow it, or has.
    pub approval: Option<ApprovalId>,
    /// Its grants; none if it was not allowed to run.
    pub granted: Option<Capabilities>,
    /// The isolation around the command.
    pub isolation: Option<String>,
    /// Where the command saw the workspace.
    pub place: Option<String>,
    /// The checkpoint before it.
    pub checkpoint: RunCheckpoint,
    /// The command itself, once it has ended.
    pub process: Option<ProcessOutcome>,
    /// What it changed.
    pub changed_files: Vec<ChangedFile>,
    /// The state before.
    pub before: Option<SnapshotId>,
    /// The state after.
    pub after: Option<SnapshotId>,
    /// The hash at the end of the audit log.
    pub audit_head: Option<String>,
}

/// Additional results of a run in a session.
#[derive(Clone, Debug)]
pub struct SessionTurn {
    /// The id of the session.
    pub session: String,
    /// Whether the session ended with it.
    pub is_over: bool,
    /// The changes since the previous command, by background jobs or from outside.
    pub background: Option<Vec<ChangedFile>>,
}

/// The checkpoint before a run, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunCheckpoint {
    /// There is one.
    Taken {
        /// The state.
        snapshot: SnapshotId,
        /// Its name.
        name: CheckpointName,
    },
    /// There is none.
    Skipped {
        /// Why, in a few words.
        because: &'static str,
    },
}

/// How a command ended, its output and its resource usage.
#[derive(Clone, Debug)]
pub struct ProcessOutcome {
    /// How the command ended.
    pub end: CommandEnd,
    /// Why it was ended early.
    pub stopped: Option<StopReason>,
    /// Standard output, as far as it is kept.
    pub stdout: CapturedOutput,
    /// Standard error, as far as it is kept.
    pub stderr: CapturedOutput,
    /// How long it ran.
    pub duration: Duration,
    /// What it used.
    pub usage: RunUsage,
    /// How limits were enforced. Per-process limits do not report when they are reached.
    pub limits_by: LimitsBy,
    /// The limits that it came up against.
    pub limits_hit: Vec<ReachedLimit>,
    /// Requests that the proxy refused.
    pub refusals: Vec<Refusal>,
}

impl ProcessOutcome {
    /// The status that a shell would show: that of the command, 128 plus the signal, 126 or 127 if it did not
    /// start.
    pub fn status(&self) -> i32 {
        self.end.status()
    }

    /// Whether it was ended by its time limit.
    pub fn timed_out(&self) -> bool {
        self.stopped == Some(StopReason::Timeout)
    }

    /// Whether the program existed, and could be executed.
    pub fn has_started(&self) -> bool {
        !matches!(self.end, CommandEnd::NotStarted { .. })
    }

    /// It exited with 0, and was not ended before its time.
    pub fn is_success(&self) -> bool {
        self.end == CommandEnd::Exited(0) && !self.timed_out()
    }

    /// For a command that is not a program.
    pub(crate) fn not_started(end: CommandEnd) -> ProcessOutcome {
        ProcessOutcome {
            end,
            stopped: None,
            stdout: CapturedOutput::default(),
            stderr: CapturedOutput::default(),
            duration: Duration::ZERO,
            usage: RunUsage::default(),
            limits_by: LimitsBy::Rlimits,
            limits_hit: Vec::new(),
            refusals: Vec::new(),
        }
    }

    /// For a command in a session whose shell continues, or that ended with its shell.
    pub(crate) fn of_turn(answer: TurnAnswer) -> ProcessOutcome {
        let end = match &answer.end {
            TurnEnd::Status(status) => CommandEnd::Exited(*status),
            TurnEnd::Over(outcome) => outcome.end,
        };
        ProcessOutcome {
            end,
            stopped: answer.stopped,
            stdout: answer.stdout,
            stderr: answer.stderr,
            duration: answer.duration,
            usage: answer.usage,
            limits_by: answer.limits_by,
            limits_hit: answer.limits_hit,
            refusals: answer.refusals,
        }
    }
}

impl From<LaunchOutcome> for ProcessOutcome {
    fn from(outcome: LaunchOutcome) -> ProcessOutcome {
        ProcessOutcome {
            end: outcome.end,
            stopped: outcome.stopped,
            stdout: outcome.stdout,
            stderr: outcome.stderr,
            duration: outcome.duration,
            usage: outcome.usage,
            limits_by: outcome.limits_by,
            limits_hit: outcome.limits_hit,
            refusals: outcome.refusals,
        }
    }
}

impl RunOutcome {
    pub(crate) fn new(run: String, vault: String) -> RunOutcome {
        RunOutcome {
            run,
            vault,
            turn: None,
            decision: None,
            approval: None,
            granted: None,
            isolation: None,
            place: None,
            checkpoint: RunCheckpoint::Skipped {
                because: "nothing was run",
            },
            process: None,
            changed_files: Vec::new(),
            before: None,
            after: None,
            audit_head: None,
        }
    }

    pub(crate) fn in_session(self, session: &str) -> RunOutcome {
        RunOutcome {
            turn: Some(SessionTurn {
                session: session.to_owned(),
                is_over: false,
                background: None,
            }),
            ..self
        }
    }

    /// The command ran, was not ended before its time, and exited with 0.
    pub fn is_success(&self) -> bool {
        self.process.as_ref().is_some_and(ProcessOutcome::is_success)
    }
}

/// Why a run has no ordinary end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Refused by a policy or a person, or waiting for a person's answer.
    #[error("{}", .0.message)]
    Refused(Refused),
    /// The permit is no longer valid, because something changed or another run used it: decide again.
    #[error("the approval is no longer valid")]
    PermitGone,
    /// A call of the library failed.
    #[error(transparent)]
    Library(#[from] Error),
    /// The sandbox could not be made, or the command not be started in it.
    #[error(transparent)]
    Launch(#[from] LaunchError),
}

/// A run that may not begin.
#[derive(Clone, Debug)]
pub struct Refused {
    /// `approval_required`, `approval_denied`, `denied_by_policy`, or `session_busy`.
    pub code: &'static str,
    /// What is to be said about it.
    pub message: String,
    /// What the caller can do.
    pub hint: Option<Hint>,
}

impl RunError {
    /// The stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            RunError::Refused(refused) => refused.code,
            RunError::PermitGone => "approval_required",
            RunError::Library(error) => error.code().as_str(),
            RunError::Launch(error) => error.code(),
        }
    }

    /// Its code, message and remedy, for programs.
    pub fn body(&self) -> ErrorBody {
        match self {
            RunError::Refused(Refused { code, message, hint }) => ErrorBody {
                code: (*code).to_owned(),
                message: message.clone(),
                hint: hint.clone(),
            },
            RunError::PermitGone => ErrorBody {
                code: self.code().to_owned(),
                message: self.to_string(),
                hint: None,
            },
            RunError::Library(error) => error.into(),
            RunError::Launch(error) => error.into(),
        }
    }
}

/// A run that is over.
pub struct FinishedRun {
    /// The request as it was understood.
    pub request: RequestBody,
    /// Everything that is known of the run.
    pub outcome: RunOutcome,
    /// Why it has no ordinary end.
    pub error: Option<RunError>,
    /// The work that this process must continue after the run.
    pub after: AfterRun,
}

impl FinishedRun {
    /// The one answer for programs.
    pub fn envelope(&self) -> Envelope {
        let error = self.error.as_ref().map(RunError::body);
        Envelope::new(self.request.clone(), Some(ResultBody::of(&self.outcome)), error)
    }
}

/// How a program in a task ended.
#[derive(Clone, Debug)]
pub struct ProgramEnd {
    /// The id of the run.
    pub run: String,
    /// How the process ended.
    pub process: ProcessOutcome,
    /// The hash at the end of the audit log.
    pub audit_head: String,
    /// The state before.
    pub before: SnapshotId,
    /// The state after.
    pub after: SnapshotId,
    /// Files below the home that it changed for itself alone: its copies of them are gone.
    pub dropped: Vec<PathBuf>,
}

impl ProgramEnd {
    /// Its refused requests, for programs.
    pub fn refusals(&self) -> Vec<RefusalBody> {
        self.process.refusals.iter().map(RefusalBody::from).collect()
    }
}
