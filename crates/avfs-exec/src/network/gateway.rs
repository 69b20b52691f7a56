//! The network of one run, seen from outside of the sandbox: its proxy, the addresses of this machine that it reaches, and
//! the ports of it that this machine reaches. All sockets inside were made there; nothing of this runs inside.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use super::forward::both_ways;
use super::listening::Listening;
use super::proxy::Proxy;
use super::publish::Published;
use super::reach::{Reach, dial};
use super::refusals::Refusals;
use crate::inside::{ask_for_socket, receive_listeners};

/// Connections at one time; more are turned away.
const MOST_CONNECTIONS: usize = 256;

/// What serves a run. It ends with the run.
pub(crate) struct Gateway {
    shared: Arc<Shared>,
    published: Vec<Published>,
    thread: Option<JoinHandle<()>>,
}

/// What a run has of the network.
pub(crate) struct Setting {
    pub(super) reach: Reach,
    pub(super) listening: Listening,
    pub(super) published: Vec<Published>,
    pub(super) refusals: Arc<Refusals>,
}

struct Shared {
    proxy: Proxy,
    listening: Listening,
    sandbox: Sandbox,
    refusals: Arc<Refusals>,
    over: AtomicBool,
    /// Readable once it is over.
    ended: OwnedFd,
    /// The way to the stage, to be closed when the run is over.
    stage: OwnedFd,
    /// Those inside, to be closed when the run is over.
    listeners: Mutex<Vec<TcpListener>>,
    /// Both ends of each, to be cut when the run is over.
    connections: Mutex<BTreeMap<u64, Vec<TcpStream>>>,
    number: Mutex<u64>,
}

/// Who is connected.
#[derive(Clone)]
enum Client {
    Proxy,
    /// Wants the first of these that answers.
    Local(Vec<SocketAddr>),
    /// From outside, for this port inside.
    Published(u16),
}

/// The sandbox's own loopback.
pub(super) struct Sandbox {
    /// Over which sockets are asked for, one at a time.
    channel: Mutex<OwnedFd>,
}

impl Sandbox {
    /// Connects to what listens inside.
    pub(super) fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let socket = ask_for_socket(address, lock(&self.channel).as_fd())?;
        rustix::net::connect(&socket, &address)?;
        Ok(socket.into())
    }

    /// Connects to a port, in whichever family it is listened at.
    fn connect_port(&self, port: u16) -> io::Result<TcpStream> {
        self.connect((Ipv4Addr::LOCALHOST, port).into())
            .or_else(|_| self.connect((Ipv6Addr::LOCALHOST, port).into()))
    }
}

impl Gateway {
    /// Waits in a thread for the sockets that the stage sends over `from`, and serves them.
    pub(crate) fn start(setting: Setting, from: OwnedFd) -> io::Result<Self> {
        let Setting { reach, listening, published, refusals } = setting;
        let proxy = Proxy { reach, port: listening.proxy.port(), refusals: Arc::clone(&refusals) };
        let shared = Arc::new(Shared {
            proxy,
            listening,
            sandbox: Sandbox { channel: Mutex::new(from.try_clone()?) },
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
        Ok(Self { shared, published, thread: Some(thread) })
    }

    /// Ends it with its run: the ports of this machine are free again.
    pub(crate) fn finish(mut self) {
        self.stop();
        self.published.iter().for_each(Published::close);
    }

    fn stop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.shared.over.store(true, Ordering::SeqCst);
        // It fails only when it was called 2^64 times.
        rustix::io::write(&self.shared.ended, &1_u64.to_ne_bytes()).ok();
        // Not by the lock: a client may be waiting for a socket with it.
        rustix::net::shutdown(&self.shared.stage, rustix::net::Shutdown::Both).ok();
        for listener in lock(&self.shared.listeners).iter() {
            rustix::net::shutdown(listener, rustix::net::Shutdown::Both).ok();
        }
        self.shared.cut();
        // One that panicked has told what it could.
        thread.join().ok();
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn serve(self: &Arc<Self>, from: &OwnedFd, published: &[Published]) {
        let count = self.listening.addresses().len();
        let Ok(Some(listeners)) = receive_listeners(from, count) else { return };
        let locals = self.listening.locals.iter().map(|local| Client::Local(local.outside.clone()));
        let mut threads = Vec::new();
        for (listener, client) in listeners.into_iter().zip(std::iter::once(Client::Proxy).chain(locals)) {
            let Some(listener) = listener.filter(|listener| self.is_kept(listener)) else { continue };
            threads.extend(self.spawn("gateway-in", move |own| own.accept_from_inside(&listener, &client)));
        }
        for one in published {
            let (port, Some(listener)) = (one.port(), one.listener()) else { continue };
            threads.extend(self.spawn("gateway-out", move |own| own.accept_from_outside(&listener, port)));
        }
        for thread in threads {
            thread.join().ok();
        }
        // Nobody waits for the threads of clients: one may be looking up a name for a long time yet.
        self.cut();
    }

    /// Without a thread, what it would serve is not served.
    fn spawn(
        self: &Arc<Self>,
        name: &str,
        serve: impl FnOnce(&Arc<Self>) + Send + 'static,
    ) -> Option<JoinHandle<()>> {
        let own = Arc::clone(self);
        std::thread::Builder::new().name(name.to_owned()).spawn(move || serve(&own)).ok()
    }

    /// Notes a socket to be closed at the end, unless that has come.
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

    fn accept_from_inside(self: &Arc<Self>, listener: &TcpListener, client: &Client) {
        while !self.over.load(Ordering::SeqCst) {
            let Ok((stream, _)) = listener.accept() else { break };
            self.take(stream, client.clone());
        }
    }

    /// The socket belongs to whoever has published it, so it is not closed to end the waiting.
    fn accept_from_outside(self: &Arc<Self>, listener: &TcpListener, port: u16) {
        loop {
            let mut fds = [PollFd::new(listener, PollFlags::IN), PollFd::new(&self.ended, PollFlags::IN)];
            let waited = poll(&mut fds, None);
            if self.over.load(Ordering::SeqCst) || !fds[1].revents().is_empty() {
                return;
            }
            if waited.is_ok()
                && let Ok((stream, _)) = listener.accept()
            {
                self.take(stream, Client::Published(port));
            }
        }
    }

    fn cut(&self) {
        for connection in lock(&self.connections).values().flatten() {
            connection.shutdown(Shutdown::Both).ok();
        }
    }

    /// Serves a client in a thread of its own.
    fn take(self: &Arc<Self>, stream: TcpStream, client: Client) {
        let number = {
            let mut number = lock(&self.number);
            *number += 1;
            *number
        };
        if !self.enter(&stream, number) {
            return match client {
                Client::Proxy => self.proxy.turn_away(&stream),
                Client::Local(_) | Client::Published(_) => {}
            };
        }
        let serve = move |own: &Arc<Self>| {
            own.serve_client(&stream, client, number);
            lock(&own.connections).remove(&number);
        };
        // Without a thread, the client is let go.
        if self.spawn("gateway-client", serve).is_none() {
            lock(&self.connections).remove(&number);
        }
    }

    /// Answers whether there is room for one more.
    fn enter(&self, client: &TcpStream, number: u64) -> bool {
        let mut connections = lock(&self.connections);
        let known = client.try_clone().ok().filter(|_| connections.len() < MOST_CONNECTIONS);
        known.is_some_and(|known| connections.insert(number, vec![known]).is_none())
    }

    /// Whoever breaks a connection off need not be told.
    fn serve_client(&self, stream: &TcpStream, client: Client, number: u64) {
        let mut join = |server: &TcpStream| self.join(number, server);
        match client {
            Client::Proxy => self.proxy.serve(stream, &self.sandbox, &mut join),
            Client::Local(addresses) => match dial(&addresses) {
                Ok(server) => drop(join(&server).and_then(|()| both_ways(stream, &server))),
                Err(refused) => {
                    let target = addresses.first().map(ToString::to_string).unwrap_or_default();
                    self.refusals.note(&target, refused.because, None);
                }
            },
            Client::Published(port) => {
                let inside = self.sandbox.connect_port(port);
                drop(inside.and_then(|server| join(&server).and_then(|()| both_ways(stream, &server))));
            }
        }
    }

    /// Notes the second end of a connection, unless the run is over already.
    fn join(&self, number: u64, server: &TcpStream) -> io::Result<()> {
        let mut connections = lock(&self.connections);
        if self.over.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        connections.entry(number).or_default().push(server.try_clone()?);
        Ok(())
    }
}

/// What a panicking thread left is still a list.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
