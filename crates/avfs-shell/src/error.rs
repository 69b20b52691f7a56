//! Why a line was not run to its end.

use std::time::Duration;

/// What [`SandboxShell::exec`](crate::SandboxShell::exec) fails with. A command that fails is no error: it has a
/// status.
#[derive(Debug, thiserror::Error)]
pub enum ShellError {
    /// The line wrote more than the shell may.
    #[error("the output is larger than {limit} bytes")]
    OutputTooLarge {
        /// The limit.
        limit: usize,
    },
    /// The line took longer than the shell may.
    #[error("the commands took longer than {limit:?}")]
    Timeout {
        /// The limit.
        limit: Duration,
    },
    /// Another limit: loops, commands, depth, memory.
    #[error("{0}")]
    Limit(String),
    /// [`SandboxShell::canceller`](crate::SandboxShell::canceller) was used.
    #[error("the commands were cancelled")]
    Cancelled,
    /// The text has more than a shell reads.
    #[error("the working directory {0} does not exist")]
    NoDirectory(String),
    /// The interpreter itself failed.
    #[error("the shell failed: {0}")]
    Internal(String),
}

impl ShellError {
    /// A stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            ShellError::OutputTooLarge { .. } => "output-too-large",
            ShellError::Timeout { .. } => "timeout",
            ShellError::Limit(_) => "shell-limit",
            ShellError::Cancelled => "cancelled",
            ShellError::NoDirectory(_) => "not-found",
            ShellError::Internal(_) => "shell-failed",
        }
    }
}
