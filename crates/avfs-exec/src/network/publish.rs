//! Ports inside a sandbox that are reached from this machine.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use super::rule::{port_of, split_port};

/// `PORT`, `HOSTPORT:PORT` or `ADDRESS:HOSTPORT:PORT`: where this machine listens for a port inside. Without an address,
/// nobody but this machine reaches it; host port 0 is any that is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Publish {
    at: SocketAddr,
    port: u16,
}

/// A text that says nothing to publish.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no port to publish: expected PORT, HOSTPORT:PORT or ADDRESS:HOSTPORT:PORT")]
pub struct BadPublish {
    text: String,
}

impl Publish {
    /// Takes the port of this machine, before anything runs.
    pub fn open(&self) -> io::Result<Published> {
        let listener = TcpListener::bind(self.at)?;
        let at = listener.local_addr()?;
        Ok(Published { listener: Arc::new(Mutex::new(Some(Arc::new(listener)))), at, asked: *self })
    }

    /// What is asked for without taking the port: nobody will be let in.
    pub fn unopened(&self) -> Published {
        Published { listener: Arc::new(Mutex::new(None)), at: self.at, asked: *self }
    }

    /// Whether a grant of this grants `asked`: any port of this machine, if it is granted as 0.
    pub(crate) fn covers(&self, asked: &Publish) -> bool {
        let same_port = self.at.port() == 0 || self.at.port() == asked.at.port();
        self.port == asked.port && self.at.ip() == asked.at.ip() && same_port
    }

    /// Where it would be.
    pub fn at(&self) -> SocketAddr {
        self.at
    }

    /// The port inside.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for Publish {
    type Err = BadPublish;

    fn from_str(text: &str) -> Result<Self, BadPublish> {
        let bad = || BadPublish { text: text.to_owned() };
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

impl fmt::Display for Publish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.at, self.port)
    }
}

/// A port of this machine that is taken for one inside. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Published {
    listener: Arc<Mutex<Option<Arc<TcpListener>>>>,
    at: SocketAddr,
    asked: Publish,
}

impl Published {
    pub fn asked(&self) -> Publish {
        self.asked
    }

    pub fn at(&self) -> SocketAddr {
        self.at
    }

    /// The port inside.
    pub fn port(&self) -> u16 {
        self.asked.port
    }

    pub(super) fn listener(&self) -> Option<Arc<TcpListener>> {
        self.listener.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives the port back, however many clones there are.
    pub(super) fn close(&self) {
        *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl PartialEq for Published {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.listener, &other.listener)
    }
}

impl Eq for Published {}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, at: &str, port: u16) {
        let publish: Publish = text.parse().unwrap();
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
    fn what_is_no_port_is_refused() {
        for text in
            ["", "0", "x", "70000", "8080:", ":80", "8080:0", "example.com:80:80", "1:2:3", "8080:80/udp"]
        {
            assert!(text.parse::<Publish>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_port_is_taken_until_it_is_closed() {
        let published = "0:80".parse::<Publish>().unwrap().open().unwrap();
        let again = Publish { at: published.at(), port: 80 };
        assert_eq!(again.open().unwrap_err().kind(), io::ErrorKind::AddrInUse);
        published.clone().close();
        assert!(again.open().is_ok());
    }
}
