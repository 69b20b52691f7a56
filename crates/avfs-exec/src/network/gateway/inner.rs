//! An open sandbox's network, as its owner uses it: connections to ports inside, and changes of the hosts that it reaches.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, OnceLock, Weak};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::super::rule::HostRule;
use super::{Gateway, GatewayShared, lock};
use avfs_inside::ask_for_socket;

/// How long a server inside may take to accept a connection: it is on the same machine.
const ACCEPTING: Timespec = Timespec {
    tv_sec: 5,
    tv_nsec: 0,
};

/// Shared between the launcher of a sandbox and its owner. Leads nowhere before the sandbox is there, and after its end.
#[derive(Default)]
pub(crate) struct InnerPorts(OnceLock<Weak<GatewayShared>>);

impl fmt::Debug for InnerPorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InnerPorts").finish_non_exhaustive()
    }
}

/// One connection to a port inside. Dropping it makes room for another one; its stream remains.
#[derive(Debug)]
pub struct PortConnection {
    number: u64,
    ports: Arc<InnerPorts>,
}

impl Drop for PortConnection {
    fn drop(&mut self) {
        if let Some(gateway) = self.ports.gateway() {
            lock(&gateway.connections).remove(&self.number);
        }
    }
}

/// Why the hosts of a sandbox were not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostsNotChanged {
    /// It shares the network of the host, or has ended.
    #[error("the sandbox has no network of its own any more")]
    NoNetwork,
    /// Addresses of this machine are listened at inside, from the start on.
    #[error("addresses of this machine can only be listed when a sandbox is opened")]
    ThisMachine,
}

impl InnerPorts {
    /// From now on it leads to this gateway.
    pub(crate) fn lead_to(&self, gateway: &Gateway) {
        self.0.get_or_init(|| Arc::downgrade(&gateway.shared));
    }

    fn gateway(&self) -> Option<Arc<GatewayShared>> {
        self.0.get().and_then(Weak::upgrade)
    }

    pub(crate) fn connect(self: &Arc<Self>, port: u16) -> io::Result<(TcpStream, PortConnection)> {
        let gateway = self.gateway().ok_or(io::ErrorKind::NotConnected)?;
        if gateway.is_own(port) {
            // Behind these is not the sandbox, but what it may reach.
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let connection = PortConnection {
            number: gateway.next_number(),
            ports: Arc::clone(self),
        };
        if !gateway.enter_with(Vec::new(), connection.number) {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        let stream = gateway
            .connect_soon((Ipv4Addr::LOCALHOST, port).into())
            .or_else(|_| gateway.connect_soon((Ipv6Addr::LOCALHOST, port).into()))?;
        gateway.join(connection.number, &stream)?;
        Ok((stream, connection))
    }

    pub(crate) fn set_hosts(&self, hosts: Vec<HostRule>) -> Result<(), HostsNotChanged> {
        let gateway = self.gateway().ok_or(HostsNotChanged::NoNetwork)?;
        let is_local = |rule: &HostRule| rule.local().is_some();
        if !gateway.listening.locals.is_empty() || hosts.iter().any(is_local) {
            return Err(HostsNotChanged::ThisMachine);
        }
        gateway.proxy.set_hosts(hosts);
        Ok(())
    }
}

impl GatewayShared {
    /// Whether a port inside is one of the gateway.
    fn is_own(&self, port: u16) -> bool {
        let addresses = self.listening.addresses();
        addresses.iter().any(|address| address.port() == port)
    }

    /// Connects to a server inside that accepts connections. A server that does not is not waited for long.
    fn connect_soon(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let socket = ask_for_socket(address, lock(&self.sandbox.channel).as_fd())?;
        rustix::io::ioctl_fionbio(&socket, true)?;
        match rustix::net::connect(&socket, &address) {
            Err(Errno::INPROGRESS) => {
                let mut fds = [PollFd::new(&socket, PollFlags::OUT)];
                if poll(&mut fds, Some(&ACCEPTING))? == 0 {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                rustix::net::sockopt::socket_error(&socket)??;
            }
            connected => connected?,
        }
        rustix::io::ioctl_fionbio(&socket, false)?;
        Ok(socket.into())
    }
}
