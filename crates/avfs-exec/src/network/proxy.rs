//! The proxy of one run: outside of the sandbox, on a listening socket that was made inside of it.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::address::is_public;
use super::forward::both_ways;
use super::request::{Host, LONGEST_HEAD, Request, Wants, parse};
use super::rule::HostRule;
use crate::inside::receive_listener;

const CONNECT_PATIENCE: Duration = Duration::from_secs(20);

/// How long a client may take to say what it wants.
const HEAD_PATIENCE: Duration = Duration::from_secs(60);

/// Connections at one time; more are turned away.
const MOST_CONNECTIONS: usize = 256;

/// Different refusals that are listed; the rest is only counted with the last one of its kind.
const MOST_REFUSALS: usize = 100;

/// Something that the proxy did not let through, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// `HOST:PORT`, or nothing if the request did not name one.
    pub target: String,
    pub because: RefusedBecause,
    pub count: u64,
}

/// Why the proxy did not let something through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RefusedBecause {
    HostNotListed,
    /// The name is listed, but leads to this machine or its neighbours; or the address is such a one itself.
    PrivateAddress,
    BadRequest,
    ResolveFailed,
    ConnectFailed,
    TooManyConnections,
}

impl RefusedBecause {
    /// A word for programs, which stays as it is.
    pub fn code(self) -> &'static str {
        match self {
            Self::HostNotListed => "host_not_listed",
            Self::PrivateAddress => "private_address",
            Self::BadRequest => "bad_request",
            Self::ResolveFailed => "resolve_failed",
            Self::ConnectFailed => "connect_failed",
            Self::TooManyConnections => "too_many_connections",
        }
    }

    fn status(self) -> &'static str {
        match self {
            Self::HostNotListed | Self::PrivateAddress => "403 Forbidden",
            Self::BadRequest => "400 Bad Request",
            Self::ResolveFailed | Self::ConnectFailed => "502 Bad Gateway",
            Self::TooManyConnections => "503 Service Unavailable",
        }
    }
}

/// A running proxy. It ends with its run.
pub(crate) struct Proxy {
    shared: Arc<Shared>,
    /// The other end of where the listening socket comes from: closing it ends the waiting for one.
    waiting: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    hosts: Vec<HostRule>,
    over: AtomicBool,
    listener: Mutex<Option<TcpListener>>,
    /// Both ends of each, to be cut when the run is over.
    connections: Mutex<BTreeMap<u64, Vec<TcpStream>>>,
    refusals: Mutex<Vec<Refusal>>,
}

impl Proxy {
    /// Waits in a thread for the socket that the stage sends over `from`, and serves it.
    pub(crate) fn start(hosts: Vec<HostRule>, from: OwnedFd) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            hosts,
            over: AtomicBool::new(false),
            listener: Mutex::new(None),
            connections: Mutex::new(BTreeMap::new()),
            refusals: Mutex::new(Vec::new()),
        });
        let waiting = from.try_clone()?;
        let serving = Arc::clone(&shared);
        let thread =
            std::thread::Builder::new().name("proxy".to_owned()).spawn(move || serving.serve(&from))?;
        Ok(Self { shared, waiting, thread: Some(thread) })
    }

    /// Ends it, and tells what it refused.
    pub(crate) fn finish(mut self) -> Vec<Refusal> {
        self.stop();
        std::mem::take(&mut lock(&self.shared.refusals))
    }

    fn stop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.shared.over.store(true, Ordering::SeqCst);
        rustix::net::shutdown(&self.waiting, rustix::net::Shutdown::Both).ok();
        if let Some(listener) = &*lock(&self.shared.listener) {
            rustix::net::shutdown(listener, rustix::net::Shutdown::Both).ok();
        }
        self.shared.cut();
        // A proxy that panicked has told what it could.
        thread.join().ok();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn serve(self: &Arc<Self>, from: &OwnedFd) {
        let Ok(Some(listener)) = receive_listener(from) else { return };
        let Ok(kept) = listener.try_clone() else { return };
        *lock(&self.listener) = Some(kept);
        let mut number = 0;
        while !self.over.load(Ordering::SeqCst) {
            let Ok((client, _)) = listener.accept() else { break };
            number += 1;
            self.take(client, number);
        }
        // Nobody waits for the threads of clients: one may be looking up a name for a long time yet.
        self.cut();
    }

    fn cut(&self) {
        for connection in lock(&self.connections).values().flatten() {
            connection.shutdown(Shutdown::Both).ok();
        }
    }

    /// Serves a client in a thread of its own.
    fn take(self: &Arc<Self>, client: TcpStream, number: u64) {
        if !self.enter(&client, number) {
            return self.refuse(&client, "", RefusedBecause::TooManyConnections);
        }
        let own = Arc::clone(self);
        let serve = move || {
            own.serve_client(&client, number);
            lock(&own.connections).remove(&number);
        };
        // Without a thread, the client is let go.
        if std::thread::Builder::new().name("proxy-client".to_owned()).spawn(serve).is_err() {
            lock(&self.connections).remove(&number);
        }
    }

    /// Answers whether there is room for one more.
    fn enter(&self, client: &TcpStream, number: u64) -> bool {
        let mut connections = lock(&self.connections);
        let known = client.try_clone().ok().filter(|_| connections.len() < MOST_CONNECTIONS);
        known.is_some_and(|known| connections.insert(number, vec![known]).is_none())
    }

    fn serve_client(&self, client: &TcpStream, number: u64) {
        let (head, rest) = read_head(client);
        // Connected, and never said a word.
        if head.is_empty() {
            return;
        }
        let Some(request) = parse(&head) else {
            return self.refuse(client, "", RefusedBecause::BadRequest);
        };
        let target = format!("{}:{}", request.host, request.port);
        match self.connect(&request) {
            // Whoever breaks it off need not be told.
            Ok(server) => {
                drop(self.join(number, &server).and_then(|()| converse(client, &server, &request, &rest)))
            }
            Err(because) => self.refuse(client, &target, because),
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

    /// Connects to a listed host. The addresses that were checked are the ones that are used.
    fn connect(&self, request: &Request) -> Result<TcpStream, RefusedBecause> {
        let addresses = self.addresses(&request.host, request.port)?;
        let mut open = addresses.iter().map(|address| TcpStream::connect_timeout(address, CONNECT_PATIENCE));
        open.find_map(Result::ok).ok_or(RefusedBecause::ConnectFailed)
    }

    fn addresses(&self, host: &Host, port: u16) -> Result<Vec<SocketAddr>, RefusedBecause> {
        let listed = |address: IpAddr| self.hosts.iter().any(|rule| rule.allows_address(address, port));
        match host {
            Host::Address(address) if listed(*address) => Ok(vec![SocketAddr::new(*address, port)]),
            Host::Address(address) if is_public(*address) => Err(RefusedBecause::HostNotListed),
            Host::Address(_) => Err(RefusedBecause::PrivateAddress),
            Host::Name(name) => {
                if !self.hosts.iter().any(|rule| rule.allows_name(name, port)) {
                    return Err(RefusedBecause::HostNotListed);
                }
                let found =
                    (name.as_str(), port).to_socket_addrs().map_err(|_| RefusedBecause::ResolveFailed)?;
                allowed(found.collect(), |address| is_public(address) || listed(address))
            }
        }
    }

    fn refuse(&self, client: &TcpStream, target: &str, because: RefusedBecause) {
        self.note(target, because);
        let (status, code) = (because.status(), because.code());
        let body = format!("refused by the sandbox: {code} {target}\n");
        let answer = format!(
            "HTTP/1.1 {status}\r\nX-Refused: {code}\r\nConnection: close\r\nContent-Type: text/plain\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        // A client that has gone does not want to know.
        let mut out = client;
        out.write_all(answer.as_bytes()).ok();
        client.shutdown(Shutdown::Write).ok();
    }

    fn note(&self, target: &str, because: RefusedBecause) {
        let mut refusals = lock(&self.refusals);
        let full = refusals.len() >= MOST_REFUSALS;
        let same = |known: &&mut Refusal| known.because == because && (known.target == target || full);
        match refusals.iter_mut().rev().find(same) {
            Some(known) => known.count += 1,
            None if full => {}
            None => refusals.push(Refusal { target: target.to_owned(), because, count: 1 }),
        }
    }
}

fn allowed(found: Vec<SocketAddr>, may: impl Fn(IpAddr) -> bool) -> Result<Vec<SocketAddr>, RefusedBecause> {
    if found.is_empty() {
        return Err(RefusedBecause::ResolveFailed);
    }
    let kept: Vec<SocketAddr> = found.into_iter().filter(|address| may(address.ip())).collect();
    if kept.is_empty() { Err(RefusedBecause::PrivateAddress) } else { Ok(kept) }
}

fn converse(client: &TcpStream, server: &TcpStream, request: &Request, rest: &[u8]) -> io::Result<()> {
    let (mut to_client, mut to_server) = (client, server);
    match &request.wants {
        Wants::Tunnel => to_client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?,
        Wants::Page { head } => to_server.write_all(head)?,
    }
    to_server.write_all(rest)?;
    both_ways(client, server)
}

/// The head of a request with its empty line, and what came with it. Less, if no more came.
fn read_head(client: &TcpStream) -> (Vec<u8>, Vec<u8>) {
    // Without a timeout, a client that waits only keeps itself waiting.
    client.set_read_timeout(Some(HEAD_PATIENCE)).ok();
    let mut head = Vec::new();
    let mut buffer = [0_u8; 4096];
    let mut from = client;
    loop {
        if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            let rest = head.split_off(end + 4);
            client.set_read_timeout(None).ok();
            return (head, rest);
        }
        match from.read(&mut buffer) {
            Ok(count) if count > 0 && head.len() <= LONGEST_HEAD => head.extend_from_slice(&buffer[..count]),
            Ok(_) | Err(_) => return (head, Vec::new()),
        }
    }
}

/// What a panicking thread left is still a list.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
