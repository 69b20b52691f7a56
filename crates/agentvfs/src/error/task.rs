//! A task that does not exist, is not the intended one, or is not running.

use std::io;

use super::{ErrorCode, Hint};

#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    #[error("'{name}' is a vault, and not a task")]
    NotATask { name: String },
    #[error("there is no task '{name}'")]
    Unknown { name: String, similar: Option<String> },
    #[error("there is no task '{name}' in this directory; there is {}", known.join(", "))]
    Elsewhere { name: String, known: Vec<String> },
    #[error("the project {directory} already has a task '{name}'")]
    Exists { directory: String, name: String },
    #[error("the project {directory} has no task")]
    NoneHere { directory: String },
    #[error("this project has several tasks: {}", names.join(", "))]
    Several { names: Vec<String> },
    #[error("nothing runs in task '{task}'")]
    NotRunning { task: String },
    #[error("the program in task '{task}' has no terminal")]
    NoTerminal { task: String },
    #[error("the process that supervises the run in task '{task}' does not answer")]
    SupervisorSilent {
        task: String,
        #[source]
        source: io::Error,
    },
}

impl TaskError {
    pub fn code(&self) -> ErrorCode {
        match self {
            TaskError::NotATask { .. } => ErrorCode::NotATask,
            TaskError::Unknown { .. } => ErrorCode::UnknownTask,
            TaskError::Elsewhere { .. } => ErrorCode::TaskElsewhere,
            TaskError::Exists { .. } => ErrorCode::TaskExists,
            TaskError::NoneHere { .. } => ErrorCode::NoTask,
            TaskError::Several { .. } => ErrorCode::SeveralTasks,
            TaskError::NotRunning { .. } => ErrorCode::NotRunning,
            TaskError::NoTerminal { .. } => ErrorCode::NoTerminalInside,
            TaskError::SupervisorSilent { .. } => ErrorCode::RunSilent,
        }
    }

    pub fn hint(&self) -> Option<Hint> {
        let hint = match self {
            TaskError::Unknown { similar, .. } => Hint::did_you_mean(similar).unwrap_or(Hint::ListTasks),
            TaskError::Elsewhere { .. } => Hint::NameTaskWithProject,
            TaskError::Exists { name, .. } => Hint::ContinueTask { task: name.clone() },
            TaskError::NoneHere { .. } => Hint::StartTask,
            TaskError::Several { .. } => Hint::ChooseTask,
            TaskError::NotRunning { task } => Hint::StartAnotherRun { task: task.clone() },
            TaskError::NoTerminal { task } => Hint::FollowOutput { task: task.clone() },
            TaskError::NotATask { .. } | TaskError::SupervisorSilent { .. } => return None,
        };
        Some(hint)
    }
}
