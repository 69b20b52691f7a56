//! The network of one run, as seen from outside of the sandbox: its proxy, the addresses of this machine that
//! it reaches, and its ports that this machine reaches. All sockets inside were created by the stage; no code
//! of the gateway runs inside.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use super::forward::both_ways;
use super::listening::ListeningAddresses;
use super::proxy::NetworkProxy;
use super::publish::PublishedPort;
use super::reach::{ListedHosts, dial};
use super::refusals::Refusals;
use avfs_inside::{ask_for_socket, receive_listeners};

mod inner;

pub(crate) use inner::InnerPorts;
pub use inner::{HostsNotChanged, PortConnection};

/// Simultaneous connections; more are refused.
const MOST_CONNECTIONS: usize = 256;

/// The gateway of a run. It ends with the run.
pub(crate) struct Gateway {
    shared: Arc<GatewayShared>,
    published: Vec<PublishedPort>,
    thread: Option<JoinHandle<()>>,
}

/// The network settings of a run.
pub(crate) struct NetworkSetting {
    pub(super) reach: ListedHosts,
    pub(super) listening: ListeningAddresses,
    pub(super) published: Vec<PublishedPort>,
    pub(super) refusals: Arc<Refusals>,
}

struct GatewayShared {
    proxy: NetworkProxy,
    listening: ListeningAddresses,
    sandbox: SandboxLoopback,
    refusals: Arc<Refusals>,
    over: AtomicBool,
    /// Readable once the run has ended.
    ended: OwnedFd,
    /// The channel to the stage, closed when the run has ended.
    stage: OwnedFd,
    /// The listeners inside, closed when the run has ended.
    listeners: Mutex<Vec<TcpListener>>,
    /// Both ends of each connection, cut when the run has ended.
    connections: Mutex<BTreeMap<u64, Vec<TcpStream>>>,
    number: Mutex<u64>,
}

/// The purpose of a connection.
#[derive(Clone)]
enum ConnectionPurpose {
    Proxy,
    /// To the first of these addresses that answers.
    Local(Vec<SocketAddr>),
    /// From outside, to this port inside.
    Published(u16),
}

/// The sandbox's own loopback.
pub(super) struct SandboxLoopback {
    /// Over which sockets are requested, one at a time.
    channel: Mutex<OwnedFd>,
}

impl SandboxLoopback {
    /// Connects to a server inside.
    pub(super) fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let socket = ask_for_socket(address, lock(&self.channel).as_fd())?;
        rustix::net::connect(&socket, &address)?;
        Ok(socket.into())
    }

    /// Connects to a port, in whichever address family it listens.
    fn connect_port(&self, port: u16) -> io::Result<TcpStream> {
        self.connect((Ipv4Addr::LOCALHOST, port).into())
            .or_else(|_| self.connect((Ipv6Addr::LOCALHOST, port).into()))
    }
}

impl Gateway {
    /// Waits in a thread for the sockets that the stage sends over `from`, and serves them.
    pub(crate) fn start(setting: NetworkSetting, from: OwnedFd) -> io::Result<Self> {
        let NetworkSetting {
            reach,
            listening,
            published,
            refusals,
        } = setting;
        let proxy = NetworkProxy::new(reach, listening.proxy.port(), Arc::clone(&refusals));
        let shared = Arc::new(GatewayShared {
            proxy,
            listening,
            sandbox: SandboxLoopback {
                channel: Mutex::new(from.try_clone()?),
            },
            refusals,
            over: AtomicBool::new(false),
            ended: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            stage: from.try_clone()?,
            listeners: Mutex::default(),
            connections: Mutex::default(),
            number: Mutex::default(),
        });
        let (serving, open) = (Arc::clone(&shared), published.clone());
        let thread = std::thread::Builder::new()
            .name("gateway".to_owned())
            .spawn(move || serving.serve(&from, &open))?;
        Ok(Self {
            shared,
            published,
            thread: Some(thread),
        })
    }

    /// Ends it with its run: the ports of this machine are free again.
    pub(crate) fn finish(mut self) {
        self.stop();
        self.published.iter().for_each(PublishedPort::close);
    }

    fn stop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.shared.over.store(true, Ordering::SeqCst);
        // It fails only after 2^64 calls.
        rustix::io::write(&self.shared.ended, &1_u64.to_ne_bytes()).ok();
        // Not through the lock: a client may hold it while waiting for a socket.
        rustix::net::shutdown(&self.shared.stage, rustix::net::Shutdown::Both).ok();
        for listener in lock(&self.shared.listeners).iter() {
            rustix::net::shutdown(listener, rustix::net::Shutdown::Both).ok();
        }
        self.shared.cut();
        // A thread that panicked has reported what it could.
        thread.join().ok();
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.stop();
    }
}

impl GatewayShared {
    fn serve(self: &Arc<Self>, from: &OwnedFd, published: &[PublishedPort]) {
        let count = self.listening.addresses().len();
        let Ok(Some(listeners)) = receive_listeners(from, count) else {
            return;
        };
        let locals = self
            .listening
            .locals
            .iter()
            .map(|local| ConnectionPurpose::Local(local.outside.clone()));
        let mut threads = Vec::new();
        for (listener, client) in listeners
            .into_iter()
            .zip(std::iter::once(ConnectionPurpose::Proxy).chain(locals))
        {
            let Some(listener) = listener.filter(|listener| self.is_kept(listener)) else {
                continue;
            };
            threads.extend(self.spawn("gateway-in", move |own| {
                own.accept_from_inside(&listener, &client)
            }));
        }
        for one in published {
            let (port, Some(listener)) = (one.port(), one.listener()) else {
                continue;
            };
            threads.extend(self.spawn("gateway-out", move |own| own.accept_from_outside(&listener, port)));
        }
        for thread in threads {
            // A thread that panicked has dropped its connections; the others are still to be waited for.
            thread.join().ok();
        }
        // The threads of clients are not joined: one may take long to look up a name.
        self.cut();
    }

    /// If no thread can be started, the work is not done.
    fn spawn(
        self: &Arc<Self>,
        name: &str,
        serve: impl FnOnce(&Arc<Self>) + Send + 'static,
    ) -> Option<JoinHandle<()>> {
        let own = Arc::clone(self);
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || serve(&own))
            .ok()
    }

    /// Records a socket to be closed at the end, unless the end has come.
    fn is_kept(&self, listener: &TcpListener) -> bool {
        let mut listeners = lock(&self.listeners);
        match listener.try_clone() {
            Ok(kept) if !self.over.load(Ordering::SeqCst) => {
                listeners.push(kept);
                true
            }
            Ok(_) | Err(_) => false,
        }
    }

    fn accept_from_inside(self: &Arc<Self>, listener: &TcpListener, client: &ConnectionPurpose) {
        while !self.over.load(Ordering::SeqCst) {
            let Ok((stream, _)) = listener.accept() else { break };
            self.take(stream, client.clone());
        }
    }

    /// The socket belongs to the caller that has published the port, so it is not closed to end the waiting.
    fn accept_from_outside(self: &Arc<Self>, listener: &TcpListener, port: u16) {
        loop {
            let mut fds = [
                PollFd::new(listener, PollFlags::IN),
                PollFd::new(&self.ended, PollFlags::IN),
            ];
            let waited = poll(&mut fds, None);
            if self.over.load(Ordering::SeqCst) || !fds[1].revents().is_empty() {
                return;
            }
            if waited.is_ok()
                && let Ok((stream, _)) = listener.accept()
            {
                self.take(stream, ConnectionPurpose::Published(port));
            }
        }
    }

    fn cut(&self) {
        for connection in lock(&self.connections).values().flatten() {
            // A connection that its peer has closed is an error here, and is what was wanted.
            connection.shutdown(Shutdown::Both).ok();
        }
    }

    /// Serves a client in a separate thread.
    fn take(self: &Arc<Self>, stream: TcpStream, client: ConnectionPurpose) {
        let number = self.next_number();
        if !self.enter(&stream, number) {
            return match client {
                ConnectionPurpose::Proxy => self.proxy.turn_away(&stream),
                ConnectionPurpose::Local(_) | ConnectionPurpose::Published(_) => {}
            };
        }
        let serve = move |own: &Arc<Self>| {
            own.serve_client(&stream, client, number);
            lock(&own.connections).remove(&number);
        };
        // Without a thread, the client is dropped.
        if self.spawn("gateway-client", serve).is_none() {
            lock(&self.connections).remove(&number);
        }
    }

    /// Connections have numbers that are never reused.
    fn next_number(&self) -> u64 {
        let mut number = lock(&self.number);
        *number += 1;
        *number
    }

    /// Returns whether there is room for one more.
    fn enter(&self, client: &TcpStream, number: u64) -> bool {
        let known = client.try_clone();
        known.is_ok_and(|known| self.enter_with(vec![known], number))
    }

    fn enter_with(&self, known: Vec<TcpStream>, number: u64) -> bool {
        let mut connections = lock(&self.connections);
        connections.len() < MOST_CONNECTIONS && connections.insert(number, known).is_none()
    }

    /// Errors of a broken connection are not reported.
    fn serve_client(&self, stream: &TcpStream, client: ConnectionPurpose, number: u64) {
        let mut join = |server: &TcpStream| self.join(number, server);
        match client {
            ConnectionPurpose::Proxy => self.proxy.serve(stream, &self.sandbox, &mut join),
            ConnectionPurpose::Local(addresses) => match dial(&addresses) {
                Ok(server) => drop(join(&server).and_then(|()| both_ways(stream, &server))),
                Err(refused) => {
                    let target = addresses.first().map(ToString::to_string).unwrap_or_default();
                    self.refusals.note(&target, refused.because, None);
                }
            },
            ConnectionPurpose::Published(port) => {
                let inside = self.sandbox.connect_port(port);
                drop(inside.and_then(|server| join(&server).and_then(|()| both_ways(stream, &server))));
            }
        }
    }

    /// Records the second end of a connection, unless the run has ended already.
    fn join(&self, number: u64, server: &TcpStream) -> io::Result<()> {
        let mut connections = lock(&self.connections);
        if self.over.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        connections.entry(number).or_default().push(server.try_clone()?);
        Ok(())
    }
}

/// A list that a panicking thread left is still usable.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
