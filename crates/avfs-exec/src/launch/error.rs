//! Why there is no outcome.

use std::io;
use std::path::PathBuf;

use crate::limits::LimitError;
use crate::plan::PlanError;

pub(super) const SEE_DOCTOR: &str = "run `avfs doctor` to see what is missing";

/// A run that did not take place. Nothing of the command has run.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error(transparent)]
    Plan(PlanError),
    #[error("bubblewrap is not installed: there is no {program:?}")]
    NoBubblewrap { program: PathBuf },
    /// The kernel or the system does not let us make the sandbox.
    #[error("the command cannot be isolated: {reason}")]
    CannotIsolate { reason: String, hint: &'static str },
    #[error("the workspace {path:?} cannot be used")]
    Workspace {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("there is no working directory {path:?} in the sandbox")]
    NoDirectory { path: PathBuf },
    /// It was not wanted any more when the sandbox was ready.
    #[error("the run was withdrawn before it began")]
    Withdrawn,
    #[error("limits cannot be set")]
    Limits(#[source] LimitError),
    #[error("{doing}")]
    System {
        doing: &'static str,
        #[source]
        source: io::Error,
    },
}

impl LaunchError {
    /// A word for programs, which stays as it is.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Plan(_) => "bad_plan",
            Self::NoBubblewrap { .. } | Self::CannotIsolate { .. } => "cannot_isolate",
            Self::Workspace { .. } => "workspace_unusable",
            Self::NoDirectory { .. } => "no_such_directory",
            Self::Withdrawn => "withdrawn",
            Self::Limits(_) => "limits_unavailable",
            Self::System { .. } => "system_error",
        }
    }

    /// What can be done about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoBubblewrap { .. } => Some(
                "install bubblewrap (Debian, Ubuntu: apt-get install bubblewrap; Fedora: dnf install bubblewrap; \
                 Arch: pacman -S bubblewrap), or run with --isolation landlock",
            ),
            Self::CannotIsolate { hint, .. } => Some(hint),
            Self::Limits(_) => Some("run `avfs doctor` to see which limits this system offers"),
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

    /// Bubblewrap is there, and is no program that we can run.
    pub(crate) fn no_start(source: io::Error) -> Self {
        Self::CannotIsolate { reason: format!("bubblewrap cannot be started: {source}"), hint: SEE_DOCTOR }
    }

    /// What bubblewrap said before it gave up, with the way out of the usual causes.
    pub(crate) fn bubblewrap_said(text: &str) -> Self {
        let reason = text.trim().to_owned();
        let reason = if reason.is_empty() { "bubblewrap ended without a word".to_owned() } else { reason };
        let about_namespaces = ["namespace", "uid map", "Operation not permitted"];
        let hint = if about_namespaces.iter().any(|word| reason.contains(word)) {
            "user namespaces are not available here: `avfs doctor` says what forbids them and how to allow them"
        } else {
            SEE_DOCTOR
        };
        Self::CannotIsolate { reason, hint }
    }
}
