//! The state of a run, in JSON and in words.

use agentvfs::Task;
use agentvfs::task_run::{EndReason, RunRecord};
use serde::Serialize;

use crate::exit::ExitStatus;
use crate::time::show_rfc3339;

/// A run of a task, in JSON.
#[derive(Serialize)]
pub struct RunStateBody {
    pub task: String,
    pub run: String,
    pub command: String,
    /// `running`, or why it ended.
    pub state: &'static str,
    pub since: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Whether its terminal can be attached to, and whether it continues without the terminal from which it
    /// was started.
    pub terminal: bool,
    pub detached: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
}

impl From<&RunRecord> for RunStateBody {
    fn from(record: &RunRecord) -> RunStateBody {
        let end = record.end.as_ref();
        RunStateBody {
            task: record.task.clone(),
            run: record.id.clone(),
            command: record.command.clone(),
            state: end.map_or("running", |end| end.reason.as_str()),
            since: show_rfc3339(record.since),
            ended: end.and_then(|end| end.at).map(show_rfc3339),
            exit_code: end.and_then(|end| end.status),
            message: end.and_then(|end| end.message.clone()),
            terminal: record.has_terminal,
            detached: record.is_detached,
            pid: end.is_none().then_some(record.pid),
        }
    }
}

/// The beginning of a sentence about a run of a task: which one it is, if there are several.
pub(super) fn subject(task: &Task, record: &RunRecord) -> String {
    match task.runs().list() {
        Ok(runs) if runs.len() > 1 => format!("run {}", record.id),
        Ok(_) | Err(_) => "it".to_owned(),
    }
}

/// How it ended, as the rest of a sentence that begins with the task.
pub(super) fn in_words(record: &RunRecord) -> String {
    let Some(end) = &record.end else {
        return "is still running".to_owned();
    };
    let status = end
        .status
        .map(|status| format!(" with status {status}"))
        .unwrap_or_default();
    let note = end
        .message
        .as_ref()
        .map(|note| format!(": {note}"))
        .unwrap_or_default();
    match end.reason {
        EndReason::Exited => format!("ended{status}{note}"),
        EndReason::Stopped => format!("was stopped{note}"),
        EndReason::TimeLimit => format!("was ended because it took longer than it may{note}"),
        EndReason::MemoryLimit => format!("was killed because it used more memory than it may{note}"),
        EndReason::CpuLimit => format!("was ended because it used up its processor time{note}"),
        EndReason::Failed => format!("could not be run to its end{note}"),
        EndReason::Abnormal => {
            "ended abnormally: the process that supervised it was killed; what it wrote until then is kept"
                .to_owned()
        }
    }
}

/// The status that `avfs run` would have ended with.
pub(super) fn status(record: &RunRecord) -> ExitStatus {
    let Some(end) = &record.end else {
        return ExitStatus::TimedOut;
    };
    match (end.reason, end.status) {
        (EndReason::TimeLimit, _) => ExitStatus::TimedOut,
        (EndReason::Failed | EndReason::Abnormal, _) | (_, None) => ExitStatus::Refused,
        (_, Some(status)) => ExitStatus::OfCommand(u8::try_from(status).unwrap_or(u8::MAX)),
    }
}
