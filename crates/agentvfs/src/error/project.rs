//! A directory that is not a project, or a project that does not exist.

use std::path::PathBuf;

use super::{ErrorCode, Hint};

/// Reasons that exclude a directory and everything in it from being a project.
const NOWHERE_BELOW: [&str; 2] = ["it is in the store", "its path is not UTF-8"];

#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    #[error("'{}' cannot be a project: {reason}", path.display())]
    Unsuitable { path: PathBuf, reason: &'static str },
    #[error(transparent)]
    Setup(#[from] SetupFault),
    #[error("the project {directory} has tasks with work that is nowhere else: {}", tasks.join(", "))]
    InUse { directory: String, tasks: Vec<String> },
    #[error("{directory} is not a known project")]
    Unknown { directory: String },
    #[error("the directory of project {directory} is missing")]
    Missing { directory: String },
    #[error("the directory of project {directory} is still there")]
    NotMoved { directory: String },
    #[error("{directory} is a project with tasks of its own")]
    Exists { directory: String },
    #[error("the project {directory} has running tasks: {}", tasks.join(", "))]
    Running { directory: String, tasks: Vec<String> },
    #[error("nothing shows that {new} is the project that was at {old}")]
    Unlike { old: String, new: String },
    #[error("{directory} belongs to no project")]
    NoneHere { directory: String },
}

impl ProjectError {
    pub fn code(&self) -> ErrorCode {
        match self {
            ProjectError::Unsuitable { .. } => ErrorCode::NotAProject,
            ProjectError::Setup(_) => ErrorCode::BadSetup,
            ProjectError::InUse { .. } => ErrorCode::ProjectInUse,
            ProjectError::Unknown { .. } => ErrorCode::UnknownProject,
            ProjectError::Missing { .. } => ErrorCode::ProjectMissing,
            ProjectError::NotMoved { .. } => ErrorCode::ProjectNotMoved,
            ProjectError::Exists { .. } => ErrorCode::ProjectExists,
            ProjectError::Running { .. } => ErrorCode::ProjectRunning,
            ProjectError::Unlike { .. } => ErrorCode::ProjectUnlike,
            ProjectError::NoneHere { .. } => ErrorCode::NoProject,
        }
    }

    pub fn hint(&self) -> Option<Hint> {
        let hint = match self {
            ProjectError::Unsuitable { reason, .. } if !NOWHERE_BELOW.contains(reason) => {
                Hint::UseDirectoryBelow
            }
            ProjectError::Unsuitable { .. } => return None,
            ProjectError::Setup(fault) => Hint::Note(fault.hint.clone()?),
            ProjectError::InUse { .. } => Hint::ApplyOrDiscardTasks,
            ProjectError::Unknown { .. } => Hint::ListProjects,
            ProjectError::Missing { directory } => Hint::MoveOrForgetProject {
                directory: directory.clone(),
            },
            ProjectError::NotMoved { .. } => Hint::MoveDirectoryFirst,
            ProjectError::Exists { .. } => Hint::ApplyOrDiscardItsTasks,
            ProjectError::Running { .. } => Hint::WaitForTasksOrStop,
            ProjectError::Unlike { .. } => Hint::ForceMove,
            ProjectError::NoneHere { .. } => Hint::NameTask,
        };
        Some(hint)
    }
}

/// A `[setup]` that cannot be used: where the mistake is and what it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct SetupFault {
    /// `FILE:LINE:COLUMN`.
    pub place: String,
    pub reason: String,
    pub hint: Option<String>,
}
