//! A session that this process holds: for programs that embed the library.

use std::sync::Arc;
use std::thread::JoinHandle;

use avfs_exec::launch::InnerProgram;
use avfs_exec::{Cancel, RunEvent};

use super::{
    SessionAnswer, SessionClient, SessionCommand, SessionHost, SessionRequest, SessionStartError,
    SessionStopper,
};
use crate::error::{Error, Result};
use crate::exec::InnerDoor;
use crate::mount::Report;
use crate::vault::Vault;

/// A session hosted by a thread of this process. It ends when this is dropped; [`HeldSession::end`] reports
/// errors. Several threads can use it: their commands wait for one another if requested.
pub struct HeldSession {
    client: SessionClient,
    stopper: SessionStopper,
    hosting: Option<JoinHandle<Result<()>>>,
}

/// Shells in a vault that persist between commands.
#[derive(Clone, Copy)]
pub struct VaultSessions<'a> {
    pub(crate) vault: &'a Vault,
}

impl VaultSessions<'_> {
    /// Starts a session and holds it. `door` answers requests from inside.
    pub fn hold(
        &self,
        request: SessionRequest,
        inside: InnerProgram,
        door: Option<Arc<dyn InnerDoor + Send>>,
        report: Report,
    ) -> Result<HeldSession, SessionStartError> {
        let host = SessionHost::start(self.vault, request, inside, door, report)?;
        let client = self.vault.store().sessions().get(&host.record().id)?;
        let stopper = host.stopper();
        // The sandbox lives as long as the thread that made it, which is one of the host's own.
        let hosting = std::thread::Builder::new()
            .name("session-host".into())
            .spawn(move || host.serve());
        let hosting = hosting.map_err(|source| Error::Host {
            action: "starting",
            place: "the thread of a session".into(),
            source,
        })?;
        Ok(HeldSession {
            client,
            stopper,
            hosting: Some(hosting),
        })
    }
}

impl HeldSession {
    /// Its id.
    pub fn id(&self) -> &str {
        &self.client.record().id
    }

    /// Runs a command, and reports its output as it comes.
    pub fn exec(
        &self,
        command: &SessionCommand,
        events: &mut dyn FnMut(RunEvent<'_>),
    ) -> Result<SessionAnswer> {
        self.client.exec(command, events)
    }

    /// The same for a command that can be cancelled: [`SessionClient::exec_until`].
    pub fn exec_until(
        &self,
        command: &SessionCommand,
        cancel: &Cancel,
        events: &mut dyn FnMut(RunEvent<'_>),
    ) -> Result<SessionAnswer> {
        self.client.exec_until(command, cancel, events)
    }

    /// Ends the session and everything in it. Its changes are stored.
    pub fn end(mut self) -> Result<()> {
        self.stop()
    }

    fn stop(&mut self) -> Result<()> {
        let Some(hosting) = self.hosting.take() else {
            return Ok(());
        };
        self.stopper.stop();
        hosting
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for HeldSession {
    fn drop(&mut self) {
        // Errors cannot be reported; changes that could not be stored are in the journal.
        if let Some(hosting) = self.hosting.take() {
            self.stopper.stop();
            // The panic of a thread was reported where it happened.
            let _ = hosting.join();
        }
    }
}
