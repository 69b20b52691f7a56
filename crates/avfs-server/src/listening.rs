//! Where clients reach the server.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use crate::agentfense::AgentfensePorts;
use crate::state;

/// Why a server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListeningError {
    /// Two servers of one store would each know only half of what runs.
    #[error("another server of this store runs")]
    Running,
    /// The place is something else.
    #[error("{} exists and is no socket", .0.display())]
    NoSocket(PathBuf),
    /// Others than those of this machine could connect there without a credential.
    #[error("{0} is not an address of the loopback interface")]
    NotLoopback(SocketAddr),
    /// No tenant can be called that.
    #[error("{0}")]
    Tenant(String),
    /// The machine.
    #[error("{action} {place}")]
    Host {
        /// What was done.
        action: &'static str,
        /// With what.
        place: String,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
}

/// A server that listens, and does not answer yet.
pub struct Listening {
    pub(crate) socket: UnixListener,
    pub(crate) tcp: Option<TcpListener>,
    pub(crate) ports: Option<AgentfensePorts>,
    place: PathBuf,
    /// Held as long as the server lives.
    _lock: std::fs::File,
}

impl Listening {
    /// Takes the place of the server of a store, its Unix socket, and an address if one is given. Who can connect to the
    /// socket is known by the kernel; at the address, every request needs a token.
    pub fn begin(
        home: &Path,
        socket: Option<&Path>,
        address: Option<SocketAddr>,
    ) -> Result<Listening, ListeningError> {
        let failed = |action: &'static str, place: &dyn std::fmt::Display| {
            let place = place.to_string();
            move |source| ListeningError::Host {
                action,
                place,
                source,
            }
        };
        let directory = state::directory(home).map_err(failed("making", &home.join("server").display()))?;
        let place = socket.map_or_else(|| directory.join("socket"), Path::to_owned);
        let lock = take_lock(&directory.join("lock"))?;
        remove_old(&place)?;
        let bound = UnixListener::bind(&place).and_then(|listener| {
            // Others are refused by the kernel, before anything of theirs is read.
            std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o600))?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        let socket = bound.map_err(failed("listening at", &place.display()))?;
        Ok(Listening {
            socket,
            tcp: address.map(listen).transpose()?,
            ports: None,
            place,
            _lock: lock,
        })
    }

    /// Also serves AgentFense's clients at ports of their own, without a credential.
    #[must_use]
    pub fn with_agentfense(mut self, ports: AgentfensePorts) -> Listening {
        self.ports = Some(ports);
        self
    }

    /// Where AgentFense's clients find gRPC and the gateway, with the ports that were taken.
    pub fn agentfense_addresses(&self) -> Option<[SocketAddr; 2]> {
        self.ports.as_ref().and_then(|ports| ports.addresses().ok())
    }

    /// The Unix socket.
    pub fn socket(&self) -> &Path {
        &self.place
    }

    /// The address, with the port that was taken.
    pub fn address(&self) -> Option<SocketAddr> {
        self.tcp.as_ref().and_then(|listener| listener.local_addr().ok())
    }
}

/// Listens at an address.
pub(crate) fn listen(address: SocketAddr) -> Result<TcpListener, ListeningError> {
    let bound = TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    bound.map_err(|source| ListeningError::Host {
        action: "listening at",
        place: address.to_string(),
        source,
    })
}

fn take_lock(place: &Path) -> Result<std::fs::File, ListeningError> {
    let failed = |source| ListeningError::Host {
        action: "locking",
        place: place.display().to_string(),
        source,
    };
    let mut options = std::fs::File::options();
    let lock = options
        .create(true)
        .truncate(false)
        .write(true)
        .open(place)
        .map_err(failed)?;
    match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(lock),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(ListeningError::Running),
        Err(error) => Err(failed(error.into())),
    }
}

/// Removes the socket of a server that is gone. One that answers, and anything else, stays.
fn remove_old(place: &Path) -> Result<(), ListeningError> {
    let Ok(found) = std::fs::symlink_metadata(place) else {
        return Ok(());
    };
    if !found.file_type().is_socket() {
        return Err(ListeningError::NoSocket(place.to_owned()));
    }
    if UnixStream::connect(place).is_ok() {
        return Err(ListeningError::Running);
    }
    std::fs::remove_file(place).map_err(|source| ListeningError::Host {
        action: "removing",
        place: place.display().to_string(),
        source,
    })
}

impl Drop for Listening {
    fn drop(&mut self) {
        // The next server removes it, if this one cannot.
        let _ = std::fs::remove_file(&self.place);
    }
}
