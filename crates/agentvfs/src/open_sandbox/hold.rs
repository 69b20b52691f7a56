//! An open sandbox as a whole: it is stopped for a while, measured, reached at its ports, and given another network.

use std::io;
use std::net::TcpStream;
use std::sync::PoisonError;
use std::time::Duration;

use avfs_exec::limits::{MemoryNow, RunUsage};
use avfs_exec::network::PortConnection;
use avfs_exec::processes::ProcessError;
use avfs_exec::{Capabilities, Network, ProcessSandbox};

use super::{OpenSandbox, over};
use crate::exec::{ErrorBody, RunSpec};
use crate::session::{SessionRequest, SessionStartError};

impl OpenSandbox {
    /// Stops every process in it, whatever session it is in, until [`OpenSandbox::resume`]. Commands that are started
    /// meanwhile run.
    pub fn pause(&self) -> Result<(), ProcessError> {
        self.processes()?.pause()
    }

    /// Has every stopped process go on.
    pub fn resume(&self) -> Result<(), ProcessError> {
        self.processes()?.resume()
    }

    /// The resources that all processes together have used so far.
    pub fn usage(&self) -> RunUsage {
        self.processes().map(ProcessSandbox::usage).unwrap_or_default()
    }

    /// The memory that all processes together use now; `None` where the system does not count it.
    pub fn memory(&self) -> Option<MemoryNow> {
        self.processes().ok()?.memory()
    }

    /// Connects to a port inside. The connection is cut when the sandbox ends; their number is bounded, and each counts
    /// until the second value is dropped.
    pub fn connect(&self, port: u16) -> io::Result<(TcpStream, PortConnection)> {
        let processes = self.processes().map_err(|_| io::ErrorKind::NotConnected)?;
        processes.connect(port)
    }

    /// Gives it another network from now on, for the processes that run as well. Whatever of it the policy does not grant
    /// has to be approved first. Connections that exist remain.
    pub fn set_network(&self, network: Network) -> Result<(), SessionStartError> {
        let hosts = match &network {
            Network::None => Vec::new(),
            Network::Hosts(hosts) => hosts.clone(),
            Network::Host => {
                return Err(fixed(
                    "the network of this machine can only be given when it is opened",
                ));
            }
        };
        let request = SessionRequest {
            exec: RunSpec {
                network,
                ..self.spec.clone()
            },
            idle: Duration::ZERO,
        };
        let granted = self.vault.sessions().granted_for_good(&request)?;
        let processes = self.processes.as_ref().ok_or_else(|| over(&self.vault))?;
        // Under the lock, so that of two callers the last one is believed.
        let mut place = self.granted.write().unwrap_or_else(PoisonError::into_inner);
        processes
            .set_hosts(hosts)
            .map_err(|error| fixed(&error.to_string()))?;
        *place = granted;
        Ok(())
    }

    /// The grants of the sandbox, and of every command in it.
    pub(super) fn granted(&self) -> Capabilities {
        let place = self.granted.read().unwrap_or_else(PoisonError::into_inner);
        place.clone()
    }

    fn processes(&self) -> Result<&ProcessSandbox, ProcessError> {
        self.processes.as_ref().ok_or(ProcessError::SandboxEnded)
    }
}

fn fixed(why: &str) -> SessionStartError {
    SessionStartError::Refused(ErrorBody {
        code: "network_fixed".to_owned(),
        message: why.to_owned(),
        hint: None,
    })
}
