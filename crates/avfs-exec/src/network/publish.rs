//! Ports inside a sandbox that this machine can reach.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use super::rule::{port_of, split_port};

/// `PORT`, `HOSTPORT:PORT` or `ADDRESS:HOSTPORT:PORT`: where this machine listens for a port inside. Without
/// an address, only this machine can reach it; host port 0 is any free port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortPublication {
    at: SocketAddr,
    port: u16,
}

/// A text that does not describe a port to publish.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a port to publish: expected PORT, HOSTPORT:PORT or ADDRESS:HOSTPORT:PORT")]
pub struct BadPublish {
    text: String,
}

impl PortPublication {
    /// Binds the port of this machine, before anything runs.
    pub fn open(&self) -> io::Result<PublishedPort> {
        let listener = TcpListener::bind(self.at)?;
        let at = listener.local_addr()?;
        Ok(PublishedPort {
            listener: Arc::new(Mutex::new(Some(Arc::new(listener)))),
            at,
            asked: *self,
        })
    }

    /// The same without binding the port: connections are impossible.
    pub fn unopened(&self) -> PublishedPort {
        PublishedPort {
            listener: Arc::new(Mutex::new(None)),
            at: self.at,
            asked: *self,
        }
    }

    /// Whether a grant of this grants `asked`: any port of this machine, if 0 is granted.
    pub(crate) fn covers(&self, asked: &PortPublication) -> bool {
        let same_port = self.at.port() == 0 || self.at.port() == asked.at.port();
        self.port == asked.port && self.at.ip() == asked.at.ip() && same_port
    }

    /// Its address on this machine.
    pub fn at(&self) -> SocketAddr {
        self.at
    }

    /// The port inside.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for PortPublication {
    type Err = BadPublish;

    fn from_str(text: &str) -> Result<Self, BadPublish> {
        let bad = || BadPublish {
            text: text.to_owned(),
        };
        let (before, port) = match text.rsplit_once(':') {
            Some((before, port)) => (Some(before), port),
            None => (None, text),
        };
        let port = port_of(port).ok_or_else(bad)?;
        let at = match before {
            None => (Ipv4Addr::LOCALHOST, port).into(),
            Some("0") => (Ipv4Addr::LOCALHOST, 0).into(),
            Some(before) => match port_of(before) {
                Some(host_port) => (Ipv4Addr::LOCALHOST, host_port).into(),
                None => address(before).ok_or_else(bad)?,
            },
        };
        Ok(Self { at, port })
    }
}

fn address(text: &str) -> Option<SocketAddr> {
    let (host, port) = match text.strip_suffix(":0") {
        Some(host) => (host.trim_start_matches('[').trim_end_matches(']'), Some(0)),
        None => split_port(text)?,
    };
    let address: IpAddr = match host {
        "localhost" => Ipv4Addr::LOCALHOST.into(),
        host => host.parse().ok()?,
    };
    Some(SocketAddr::new(address, port?))
}

impl fmt::Display for PortPublication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.at, self.port)
    }
}

/// A port of this machine that is bound for one inside. Clones share it.
#[derive(Clone, Debug)]
pub struct PublishedPort {
    listener: Arc<Mutex<Option<Arc<TcpListener>>>>,
    at: SocketAddr,
    asked: PortPublication,
}

impl PublishedPort {
    /// The port that was asked for.
    pub fn asked(&self) -> PortPublication {
        self.asked
    }

    /// Where it is reached: with port 0, the system has chosen one.
    pub fn at(&self) -> SocketAddr {
        self.at
    }

    /// The port inside.
    pub fn port(&self) -> u16 {
        self.asked.port
    }

    pub(super) fn listener(&self) -> Option<Arc<TcpListener>> {
        self.listener
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Closes the port, however many clones exist.
    pub(super) fn close(&self) {
        *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl PartialEq for PublishedPort {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.listener, &other.listener)
    }
}

impl Eq for PublishedPort {}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, at: &str, port: u16) {
        let publish: PortPublication = text.parse().unwrap();
        assert_eq!((publish.at().to_string().as_str(), publish.port()), (at, port));
    }

    #[test]
    fn without_an_address_only_this_machine_reaches_it() {
        check("5173", "127.0.0.1:5173", 5173);
        check("8080:5173", "127.0.0.1:8080", 5173);
        check("0:5173", "127.0.0.1:0", 5173);
        check("0.0.0.0:8080:5173", "0.0.0.0:8080", 5173);
        check("[::1]:8080:5173", "[::1]:8080", 5173);
        check("localhost:0:5173", "127.0.0.1:0", 5173);
    }

    #[test]
    fn invalid_port_is_refused() {
        for text in [
            "",
            "0",
            "x",
            "70000",
            "8080:",
            ":80",
            "8080:0",
            "example.com:80:80",
            "1:2:3",
            "8080:80/udp",
        ] {
            assert!(text.parse::<PortPublication>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_port_is_taken_until_it_is_closed() {
        let published = "0:80".parse::<PortPublication>().unwrap().open().unwrap();
        let again = PortPublication {
            at: published.at(),
            port: 80,
        };
        assert_eq!(again.open().unwrap_err().kind(), io::ErrorKind::AddrInUse);
        published.clone().close();
        assert!(again.open().is_ok());
    }
}
