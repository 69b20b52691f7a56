//! Sessions: a shell that stays, in the sandbox, on a vault that is mounted for as long.
//!
//! One process hosts a session ([`SessionHost`]) and answers others at a socket in the session's directory
//! below the store ([`SessionClient`]). The view, the network and the limits are those of its start; each
//! command is classified, decided on, recorded in the audit log and answered by an
//! [`Envelope`](crate::exec::Envelope), as in a separate run. Every command has the grants of the session: a
//! command that can change files counts as one that does, whatever its words are. A command that needs an
//! approval does not run in the shell, which the agent controls, but in a separate sandbox, with the values
//! that the person saw.
//!
//! Nothing survives the host: its end, for any reason, is the end of the sandbox, and the next process
//! removes the leftovers of a killed one from the store.

mod client;
mod frames;
mod held;
mod host;
mod live;
mod record;
mod values;

use std::time::Duration;

use avfs_exec::LaunchError;
use avfs_exec::classify::Command;

pub use client::{SessionAnswer, SessionClient};
pub use held::{HeldSession, VaultSessions};
pub use host::{SessionHost, SessionStopper};
pub use record::{Activity, SessionRecord, SessionState, StoreSessions};

use crate::error::Error;
pub use crate::exec::SessionRequest;
use crate::exec::{ErrorBody, RunError};

/// How long a session lives without a command.
pub const IDLE: Duration = Duration::from_secs(30 * 60);

/// One command for a session.
#[derive(Clone, Debug)]
pub struct SessionCommand {
    /// The command.
    pub command: Command,
    /// `None`: as the session has it.
    pub timeout: Option<Duration>,
    /// Its input; `None`: empty.
    pub stdin: Option<Vec<u8>>,
    /// Whether to wait while another command runs, instead of failing.
    pub wait: bool,
}

impl SessionCommand {
    /// A command without input and time limit, which does not wait.
    pub fn new(command: Command) -> SessionCommand {
        SessionCommand {
            command,
            timeout: None,
            stdin: None,
            wait: false,
        }
    }
}

/// Why a session did not start.
#[derive(Debug, thiserror::Error)]
pub enum SessionStartError {
    /// A call of the library failed.
    #[error(transparent)]
    Library(#[from] Error),
    /// The sandbox could not be made, or the shell not be started in it.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The request was not granted, or needs an approval.
    #[error("{}", .0.message)]
    Refused(ErrorBody),
}

impl From<RunError> for SessionStartError {
    fn from(error: RunError) -> SessionStartError {
        match error {
            RunError::Library(error) => SessionStartError::Library(error),
            RunError::Launch(error) => SessionStartError::Launch(error),
            RunError::Refused(_) | RunError::PermitGone => SessionStartError::Refused(error.body()),
        }
    }
}
