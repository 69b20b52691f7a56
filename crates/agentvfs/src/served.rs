//! A vault that this process owns and serves to others.

mod keeper;
mod owner_service;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use avfs_fuse::mounting::UnmountMode;

use crate::control::{SocketServer, Unmounted};
use crate::error::{Error, Result};
use crate::open::{OpenVault, Saved};
use keeper::Keeper;
pub use keeper::{Log, Rhythm};
use owner_service::OwnerService;
pub use owner_service::{Host, NoMounts};

/// An open vault with a socket for other processes and a thread that takes snapshots. Ends when it is
/// dropped; [`ServedVault::close`] takes a last snapshot before.
pub struct ServedVault {
    // In the order in which they end: first no more connections are accepted, then periodic work stops.
    server: Option<SocketServer>,
    keeper: Option<Keeper>,
    owner_service: Arc<OwnerService>,
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
        let owner_service = Arc::new(OwnerService::new(Arc::clone(&open), host));
        let server = start_server(&open, &owner_service)?;
        let keeper = Some(Keeper::start(Arc::clone(&open), rhythm, log));
        Ok(ServedVault {
            server,
            keeper,
            owner_service,
            open,
        })
    }

    /// The vault.
    pub fn open(&self) -> &Arc<OpenVault> {
        &self.open
    }

    /// Mounts the vault, as others can ask for it.
    pub fn mount(&self, dir: &Path, options: &[String], connection: Option<OwnedFd>) -> Result<()> {
        self.owner_service.mount(dir, options, connection)
    }

    /// Takes a mount away.
    pub fn unmount(&self, dir: &Path, how: UnmountMode) -> Result<Unmounted> {
        self.owner_service.unmount(dir, how)
    }

    /// Waits until another process, or [`ServedVault::ask_to_stop`], asks for the end.
    pub fn await_stop(&self) {
        self.owner_service.await_stop();
    }

    /// Waits for the same, without keeping the vault open.
    pub fn stop_waiter(&self) -> StopWaiter {
        StopWaiter(Arc::clone(&self.owner_service))
    }

    /// Makes those who wait for the end go on.
    pub fn ask_to_stop(&self) {
        self.owner_service.ask_to_stop();
    }

    /// Takes a last snapshot and stops serving. The vault is free once no other process shares it. If there
    /// is no space for a snapshot, everything is durable in the journal, and the next process that opens the
    /// vault finds it there.
    pub fn close(mut self) -> Result<Option<Saved>> {
        // While other processes can still connect: later ones find everything stored.
        let saved = self.save_or_sync()?;
        self.server = None;
        self.keeper = None;
        Ok(self.save_or_sync()?.or(saved))
    }

    fn save_or_sync(&self) -> Result<Option<Saved>> {
        self.open.save("unmount", "").inspect_err(|_| {
            // Whether that succeeds or not, the error of the snapshot is reported.
            let _ = self.open.sync();
        })
    }
}

/// Waits until an owner is asked to end.
pub struct StopWaiter(Arc<OwnerService>);

impl StopWaiter {
    /// Waits until the end is asked for.
    pub fn wait(&self) {
        self.0.await_stop();
    }
}

/// A store on a read-only disk has no place for a socket, and others can share the vault without asking.
fn start_server(open: &OpenVault, owner_service: &Arc<OwnerService>) -> Result<Option<SocketServer>> {
    let store = open.vault().store();
    if store.is_read_only() {
        return Ok(None);
    }
    let directory = store.work().of_vault(open.vault().id())?;
    let owner_service = Arc::clone(owner_service);
    let answer = Arc::new(move |request, descriptor| owner_service.answer(request, descriptor));
    let server = SocketServer::start(&directory, open.vault().id(), answer);
    let failed = |source| Error::Host {
        action: "making the socket in",
        place: directory.display().to_string(),
        source,
    };
    Ok(Some(server.map_err(failed)?))
}
