//! Why a run has no outcome.

use std::io;
use std::path::PathBuf;

use crate::limits::LimitError;
use crate::plan::PlanError;

/// What the user can do about a run that could not be isolated or limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LaunchHint {
    /// Bubblewrap is missing.
    InstallBubblewrap,
    /// Check what is missing on this machine.
    CheckMachine,
    /// Check what forbids user namespaces here.
    AllowNamespaces,
    /// Check which limits this machine offers.
    CheckLimits,
    /// The run needs a full sandbox, which Landlock alone does not provide.
    UseBubblewrap,
    /// The kernel was started without Landlock.
    EnableLandlock,
    /// Linux 6.12 or bubblewrap is needed.
    UpdateKernel,
    /// A container runtime is missing.
    InstallContainerRuntime,
    /// A daemon with the Engine API is needed.
    StartDaemon,
    /// A container has no system without an image.
    NameImage,
}

/// A run that did not take place. The command was not started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The plan itself cannot be executed.
    #[error(transparent)]
    Plan(PlanError),
    /// Bubblewrap is not there.
    #[error("bubblewrap is not installed: there is no {program:?}")]
    NoBubblewrap {
        /// Where it was expected.
        program: PathBuf,
    },
    /// No container runtime was found.
    #[error("no container runtime is installed in its usual place: looked for {wanted}")]
    NoRuntime {
        /// The names that were looked for.
        wanted: String,
    },
    /// The kernel or the system does not let us make the sandbox.
    #[error("the command cannot be isolated: {reason}")]
    CannotIsolate {
        /// What is missing or forbidden.
        reason: String,
        /// What the user can do about it.
        hint: LaunchHint,
    },
    /// The directory that should be the workspace cannot be opened.
    #[error("the workspace {path:?} cannot be used")]
    Workspace {
        /// The directory.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The working directory does not exist inside.
    #[error("there is no working directory {path:?} in the sandbox")]
    NoDirectory {
        /// Its path there.
        path: PathBuf,
    },
    /// The run was no longer wanted when the sandbox was ready.
    #[error("the run was withdrawn before it began")]
    Withdrawn,
    /// The limits could not be set.
    #[error("limits cannot be set")]
    Limits(#[source] LimitError),
    /// Another call of the system failed.
    #[error("{doing}")]
    System {
        /// What was attempted.
        doing: &'static str,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
}

impl LaunchError {
    /// A stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Plan(_) => "bad_plan",
            Self::NoBubblewrap { .. } | Self::NoRuntime { .. } | Self::CannotIsolate { .. } => {
                "cannot_isolate"
            }
            Self::Workspace { .. } => "workspace_unusable",
            Self::NoDirectory { .. } => "no_such_directory",
            Self::Withdrawn => "withdrawn",
            Self::Limits(_) => "limits_unavailable",
            Self::System { .. } => "system_error",
        }
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<LaunchHint> {
        match self {
            Self::NoBubblewrap { .. } => Some(LaunchHint::InstallBubblewrap),
            Self::NoRuntime { .. } => Some(LaunchHint::InstallContainerRuntime),
            Self::CannotIsolate { hint, .. } => Some(*hint),
            Self::Limits(_) => Some(LaunchHint::CheckLimits),
            Self::Plan(_)
            | Self::Workspace { .. }
            | Self::NoDirectory { .. }
            | Self::Withdrawn
            | Self::System { .. } => None,
        }
    }

    /// A call of the system that failed while `doing` something.
    pub fn system(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { doing, source }
    }

    /// Bubblewrap exists, and cannot be executed.
    pub(crate) fn no_start(source: io::Error) -> Self {
        Self::CannotIsolate {
            reason: format!("bubblewrap cannot be started: {source}"),
            hint: LaunchHint::CheckMachine,
        }
    }

    /// The message of the program that builds sandboxes before it gave up, with a remedy for the usual causes.
    pub(crate) fn builder_said(builder: &str, text: &str) -> Self {
        let reason = text.trim().to_owned();
        let reason = if reason.is_empty() {
            format!("{builder} ended without a word")
        } else {
            reason
        };
        let about_namespaces = ["namespace", "uid map", "Operation not permitted"];
        let hint = if about_namespaces.iter().any(|word| reason.contains(word)) {
            LaunchHint::AllowNamespaces
        } else {
            LaunchHint::CheckMachine
        };
        Self::CannotIsolate { reason, hint }
    }
}
