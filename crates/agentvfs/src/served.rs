//! A vault that this process owns and serves to others.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use crate::control::{Desk, Host, Server, Unmounted};
use crate::error::{Error, Result};
use crate::keeper::{Keeper, Log, Rhythm};
use crate::mount::Unmount;
use crate::open::{OpenVault, Saved};
use crate::owner;

/// An open vault with a socket for other processes and a thread that takes snapshots. Ends when it is
/// dropped; [`ServedVault::close`] takes a last snapshot before.
pub struct ServedVault {
    // In the order in which they end: nobody is let in any more, then nothing is done by itself.
    server: Option<Server>,
    keeper: Option<Keeper>,
    desk: Arc<Desk>,
    open: Arc<OpenVault>,
}

impl ServedVault {
    /// Serves a vault that was opened with a journal. `log` hears of snapshots that failed; they are tried
    /// again.
    pub fn start(
        open: Arc<OpenVault>,
        host: Arc<dyn Host>,
        rhythm: Rhythm,
        log: Arc<Log>,
    ) -> Result<ServedVault> {
        let desk = Arc::new(Desk::new(Arc::clone(&open), host));
        let server = start_server(&open, &desk)?;
        let keeper = Some(Keeper::start(Arc::clone(&open), rhythm, log));
        Ok(ServedVault { server, keeper, desk, open })
    }

    pub fn open(&self) -> &Arc<OpenVault> {
        &self.open
    }

    /// Mounts the vault, as others can ask for it.
    pub fn mount(&self, dir: &Path, options: &[String], connection: Option<OwnedFd>) -> Result<()> {
        self.desk.mount(dir, options, connection)
    }

    pub fn unmount(&self, dir: &Path, how: Unmount) -> Result<Unmounted> {
        self.desk.unmount(dir, how)
    }

    /// Waits until another process, or [`ServedVault::ask_to_stop`], asks for the end.
    pub fn await_stop(&self) {
        self.desk.await_stop();
    }

    /// Waits for the same, without keeping the vault open.
    pub fn stop_waiter(&self) -> StopWaiter {
        StopWaiter(Arc::clone(&self.desk))
    }

    pub fn ask_to_stop(&self) {
        self.desk.ask_to_stop();
    }

    /// Takes a last snapshot and serves nobody any more. The vault is free once nobody shares it. If there is no room for
    /// a snapshot, everything is durable in the journal, and the next one to open the vault finds it there.
    pub fn close(mut self) -> Result<Option<Saved>> {
        // While others can still ask: those who come later find everything stored.
        let saved = self.save_or_sync()?;
        self.server = None;
        self.keeper = None;
        Ok(self.save_or_sync()?.or(saved))
    }

    fn save_or_sync(&self) -> Result<Option<Saved>> {
        self.open.save("unmount", "").inspect_err(|_| {
            // Whether that succeeds or not, it is the snapshot's failure that is told.
            let _ = self.open.sync();
        })
    }
}

/// Waits until somebody asks an owner for its end.
pub struct StopWaiter(Arc<Desk>);

impl StopWaiter {
    pub fn wait(&self) {
        self.0.await_stop();
    }
}

/// A store in memory has no place for a socket and nobody who could come. One that is read-only has no place for it
/// either, and others can share the vault without asking.
fn start_server(open: &OpenVault, desk: &Arc<Desk>) -> Result<Option<Server>> {
    let store = open.vault().store();
    let Some(home) = store.home().filter(|_| !store.is_read_only()) else { return Ok(None) };
    let directory = owner::work_directory(home, open.vault().id());
    let desk = Arc::clone(desk);
    let answer = Arc::new(move |request, descriptor| desk.answer(request, descriptor));
    let server = Server::start(&directory, open.vault().id(), answer);
    let failed = |source| Error::Host {
        action: "making the socket in",
        place: directory.display().to_string(),
        source,
    };
    Ok(Some(server.map_err(failed)?))
}
