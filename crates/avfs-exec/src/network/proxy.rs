//! The proxy of a run: it speaks HTTP with programs inside, and connects to what is listed.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::forward::{both_ways, one_request};
use super::gateway::Sandbox;
use super::reach::{Reach, Reached, Refused};
use super::refusals::{Refusals, RefusedBecause, pause};
use super::request::{Host, LONGEST_HEAD, Request, Wants, parse};
use super::rule::LOCALHOST;

/// How long a client may take to say what it wants.
const HEAD_PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Proxy {
    pub(super) reach: Reach,
    /// Its own, inside.
    pub(super) port: u16,
    pub(super) refusals: Arc<Refusals>,
}

impl Proxy {
    /// Serves one request. `join` is told of the other end before anything goes there.
    pub(super) fn serve(
        &self,
        client: &TcpStream,
        sandbox: &Sandbox,
        join: &mut dyn FnMut(&TcpStream) -> io::Result<()>,
    ) {
        let (head, rest) = read_head(client);
        // Connected, and never said a word.
        if head.is_empty() {
            return;
        }
        let Some(request) = parse(&head) else {
            return self.refuse(client, "", RefusedBecause::BadRequest.into());
        };
        let reached = self.reach.connect(&request).or_else(|refused| {
            // What is not of this machine may be of the sandbox's own.
            let own = self.own_address(&request).and_then(|address| sandbox.connect(address).ok());
            own.map(Reached::Server).ok_or(refused)
        });
        match reached {
            // Whoever breaks it off need not be told.
            Ok(server) => {
                drop(join(server.stream()).and_then(|()| converse(client, &server, &request, &rest)))
            }
            Err(refused) => {
                self.refuse(client, &format!("{}:{}", request.host, request.port), refused);
            }
        }
    }

    /// Where a request leads that is for the machine that its program is on: not every program knows not to ask a proxy
    /// for that.
    fn own_address(&self, request: &Request) -> Option<SocketAddr> {
        let address = match &request.host {
            Host::Address(address) if address.is_loopback() => *address,
            Host::Address(address) if address.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            Host::Name(name) if name == LOCALHOST || name.ends_with(".localhost") => {
                IpAddr::V4(Ipv4Addr::LOCALHOST)
            }
            Host::Address(_) | Host::Name(_) => return None,
        };
        (request.port != self.port).then(|| SocketAddr::new(address, request.port))
    }

    /// For whom there is no room.
    pub(super) fn turn_away(&self, client: &TcpStream) {
        self.refuse(client, "", RefusedBecause::TooManyConnections.into());
    }

    fn refuse(&self, client: &TcpStream, target: &str, refused: Refused) {
        let Refused { because, allow } = refused;
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
        // A client that has gone does not want to know.
        let mut out = client;
        out.write_all(answer.as_bytes()).ok();
        client.shutdown(Shutdown::Write).ok();
    }
}

/// Keeps a client waiting that asks again and again, unless it goes, or its run ends.
fn hold(client: &TcpStream, pause: Duration) {
    let Ok(timeout) = Timespec::try_from(pause) else { return };
    if !pause.is_zero() {
        // An answer that comes early does no harm.
        poll(&mut [PollFd::new(client, PollFlags::RDHUP)], Some(&timeout)).ok();
    }
}

fn converse(client: &TcpStream, server: &Reached, request: &Request, rest: &[u8]) -> io::Result<()> {
    let (mut to_client, mut to_server) = (client, server.stream());
    let page = match &request.wants {
        Wants::Page(page) => page,
        Wants::Tunnel => {
            to_client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
            if let Reached::Tunnel(_, said) = server {
                to_client.write_all(said)?;
            }
            to_server.write_all(rest)?;
            return both_ways(client, server.stream());
        }
    };
    let head = match server {
        Reached::Page(_, proxy) => page.for_proxy(&proxy.authorization()),
        Reached::Server(_) | Reached::Tunnel(..) => page.for_server(),
    };
    to_server.write_all(head.as_bytes())?;
    one_request(client, server.stream(), page.body, rest)
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
