//! The proxy of a run: it speaks HTTP with programs inside, and connects to listed hosts.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::forward::{both_ways, one_request};
use super::gateway::SandboxLoopback;
use super::reach::{ListedHosts, ReachedHost, RefusedConnection};
use super::refusals::{Refusals, RefusedBecause, pause};
use super::request::{LONGEST_HEAD, ProxyRequest, RequestHost, RequestedService, parse};
use super::rule::{HostRule, LOCALHOST};

/// How long a client may take to send its request.
const HEAD_PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct NetworkProxy {
    /// Replaced as a whole: a request that is being served keeps the list that it began with.
    reach: RwLock<Arc<ListedHosts>>,
    /// Its own port inside.
    port: u16,
    refusals: Arc<Refusals>,
}

impl NetworkProxy {
    pub(super) fn new(reach: ListedHosts, port: u16, refusals: Arc<Refusals>) -> Self {
        Self {
            reach: RwLock::new(Arc::new(reach)),
            port,
            refusals,
        }
    }

    /// Reaches these hosts from now on.
    pub(super) fn set_hosts(&self, hosts: Vec<HostRule>) {
        let mut reach = self.reach.write().unwrap_or_else(PoisonError::into_inner);
        *reach = Arc::new(reach.with(hosts));
    }

    fn reach(&self) -> Arc<ListedHosts> {
        Arc::clone(&self.reach.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Serves one request. `join` is called with the other end before anything is sent there.
    pub(super) fn serve(
        &self,
        client: &TcpStream,
        sandbox: &SandboxLoopback,
        join: &mut dyn FnMut(&TcpStream) -> io::Result<()>,
    ) {
        let (head, rest) = read_head(client);
        // The client connected without sending anything.
        if head.is_empty() {
            return;
        }
        let Some(request) = parse(&head) else {
            return self.refuse(client, "", RefusedBecause::BadRequest.into());
        };
        let reached = self.reach().connect(&request).or_else(|refused| {
            // An address that is not of this machine may be the sandbox's own.
            let own = self
                .own_address(&request)
                .and_then(|address| sandbox.connect(address).ok());
            own.map(ReachedHost::Server).ok_or(refused)
        });
        match reached {
            // Errors of a broken connection are not reported.
            Ok(server) => {
                drop(join(server.stream()).and_then(|()| converse(client, &server, &request, &rest)))
            }
            Err(refused) => {
                self.refuse(client, &format!("{}:{}", request.host, request.port), refused);
            }
        }
    }

    /// The target of a request to the program's own machine: not every program knows to bypass the proxy for
    /// that.
    fn own_address(&self, request: &ProxyRequest) -> Option<SocketAddr> {
        let address = match &request.host {
            RequestHost::Address(address) if address.is_loopback() => *address,
            RequestHost::Address(address) if address.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            RequestHost::Name(name) if name == LOCALHOST || name.ends_with(".localhost") => {
                IpAddr::V4(Ipv4Addr::LOCALHOST)
            }
            RequestHost::Address(_) | RequestHost::Name(_) => return None,
        };
        (request.port != self.port).then(|| SocketAddr::new(address, request.port))
    }

    /// Refuses a client because there is no room.
    pub(super) fn turn_away(&self, client: &TcpStream) {
        self.refuse(client, "", RefusedBecause::TooManyConnections.into());
    }

    fn refuse(&self, client: &TcpStream, target: &str, refused: RefusedConnection) {
        let RefusedConnection { because, allow } = refused;
        let count = self.refusals.note(target, because, allow);
        if because != RefusedBecause::TooManyConnections {
            hold(client, pause(count));
        }
        let (status, code) = (because.status(), because.code());
        let body = format!("refused by the sandbox: {code} {target}\n");
        let answer = format!(
            "HTTP/1.1 {status}\r\nX-Refused: {code}\r\nConnection: close\r\nContent-Type: text/plain\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        // A client that is gone does not need the answer.
        let mut out = client;
        out.write_all(answer.as_bytes()).ok();
        client.shutdown(Shutdown::Write).ok();
    }
}

/// Delays a client that repeats a refused request, until it goes, or its run ends.
fn hold(client: &TcpStream, pause: Duration) {
    let Ok(timeout) = Timespec::try_from(pause) else {
        return;
    };
    if !pause.is_zero() {
        // An early answer does no harm.
        poll(&mut [PollFd::new(client, PollFlags::RDHUP)], Some(&timeout)).ok();
    }
}

fn converse(client: &TcpStream, server: &ReachedHost, request: &ProxyRequest, rest: &[u8]) -> io::Result<()> {
    let (mut to_client, mut to_server) = (client, server.stream());
    let page = match &request.wants {
        RequestedService::Page(page) => page,
        RequestedService::Tunnel => {
            to_client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
            if let ReachedHost::Tunnel(_, said) = server {
                to_client.write_all(said)?;
            }
            to_server.write_all(rest)?;
            return both_ways(client, server.stream());
        }
    };
    let head = match server {
        ReachedHost::Page(_, proxy) => page.for_proxy(&proxy.authorization()),
        ReachedHost::Server(_) | ReachedHost::Tunnel(..) => page.for_server(),
    };
    to_server.write_all(head.as_bytes())?;
    one_request(client, server.stream(), page.body, rest)
}

/// The head of a request including its empty line, and the bytes after it. Shorter if no more bytes came.
fn read_head(client: &TcpStream) -> (Vec<u8>, Vec<u8>) {
    // Without a timeout, a client that waits only delays itself.
    client.set_read_timeout(Some(HEAD_PATIENCE)).ok();
    let mut head = Vec::new();
    let mut buffer = [0_u8; 4096];
    let mut from = client;
    loop {
        if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            let rest = head.split_off(end + 4);
            // The timeout was for the head alone: a tunnel may be silent for as long as its ends like.
            client.set_read_timeout(None).ok();
            return (head, rest);
        }
        match from.read(&mut buffer) {
            Ok(count) if count > 0 && head.len() <= LONGEST_HEAD => head.extend_from_slice(&buffer[..count]),
            Ok(_) | Err(_) => return (head, Vec::new()),
        }
    }
}
