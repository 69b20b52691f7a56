//! Sessions: a shell that stays, in the sandbox, on a vault that is mounted for as long.
//!
//! One process hosts a session ([`SessionHost`]) and answers others at a socket in the session's directory below the
//! store ([`SessionClient`]). The view, the network and the limits are those of its start; each command is classed,
//! decided on, noted in the audit log and answered by an [`Envelope`](crate::exec::Envelope), as in a run of its own.
//! What a session was granted at its start, every command in it has: a command that can change files counts as one that
//! does, whatever its words are. A command that takes an approval does not run in the shell, which is the agent's, but in
//! a sandbox of its own, from the values that the person saw.
//!
//! Nothing survives the host: its end, however it comes, is the end of the sandbox, and what a killed one left in the
//! store is cleared away by whoever comes next.

mod client;
mod frames;
mod host;
mod live;
mod record;
mod values;

use std::time::Duration;

use avfs_exec::LaunchError;
use avfs_exec::classify::Command;

pub use client::{SessionAnswer, SessionClient};
pub use host::{SessionHost, SessionStopper};
pub use record::{Activity, SessionRecord, SessionState};

use crate::error::Error;
use crate::exec::{ErrorBody, ExecRequest};

/// How long a session lives without a command.
pub const IDLE: Duration = Duration::from_secs(30 * 60);

/// What a session is to be.
#[derive(Clone, Debug)]
pub struct SessionRequest {
    /// What all commands of the session have in common. Its own command and its input do not count.
    pub exec: ExecRequest,
    /// After so long without a command it ends.
    pub idle: Duration,
}

/// One command for a session.
#[derive(Clone, Debug)]
pub struct SessionCommand {
    pub command: Command,
    /// `None`: as the session has it.
    pub timeout: Option<Duration>,
    /// What it reads; `None`: nothing.
    pub stdin: Option<Vec<u8>>,
    /// While another command runs, wait for its end instead of being told so.
    pub wait: bool,
}

impl SessionCommand {
    pub fn new(command: Command) -> SessionCommand {
        SessionCommand { command, timeout: None, stdin: None, wait: false }
    }
}

/// Why a session did not start.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error(transparent)]
    Library(#[from] Error),
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// What it asks for was not granted, or has to be asked for.
    #[error("{}", .0.message)]
    Refused(ErrorBody),
}
