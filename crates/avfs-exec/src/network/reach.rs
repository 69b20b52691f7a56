//! Where connections lead. Everything that a run reaches outside of itself is decided here.

use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use super::address::is_public;
use super::refusals::RefusedBecause;
use super::request::{Host, Request, Wants};
use super::rule::{HostRule, LOCALHOST};
use super::this_machine::is_this_machine;
use super::upstream::{Server, Upstream};

const CONNECT_PATIENCE: Duration = Duration::from_secs(20);

/// What is listed, and the way there.
pub(super) struct Reach {
    hosts: Vec<HostRule>,
    upstream: Upstream,
    /// Tells this machine's own addresses.
    is_own: fn(IpAddr) -> bool,
}

/// A connection that may be used.
pub(super) enum Reached {
    Server(TcpStream),
    /// To another proxy, which has been told nothing yet.
    Page(TcpStream, Server),
    /// Through another proxy, with what the server has said already.
    Tunnel(TcpStream, Vec<u8>),
}

/// Why there is no connection, and what would have to be listed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) because: RefusedBecause,
    pub(super) allow: Option<String>,
}

impl From<RefusedBecause> for Refused {
    fn from(because: RefusedBecause) -> Self {
        Self { because, allow: None }
    }
}

impl Reached {
    pub(super) fn stream(&self) -> &TcpStream {
        match self {
            Self::Server(stream) | Self::Page(stream, _) | Self::Tunnel(stream, _) => stream,
        }
    }
}

impl Reach {
    pub(super) fn new(hosts: Vec<HostRule>, upstream: Upstream) -> Self {
        Self { hosts, upstream, is_own: is_this_machine }
    }

    /// Connects to a listed host. The addresses that were checked are the ones that are used, unless another proxy is in
    /// between, which looks names up itself.
    pub(super) fn connect(&self, request: &Request) -> Result<Reached, Refused> {
        let Request { host, port, .. } = request;
        let is_local = match host {
            Host::Address(address) => address.is_loopback(),
            Host::Name(name) => name == LOCALHOST,
        };
        let found = self.addresses(host, *port);
        match self.upstream.server_for(request).filter(|_| !is_local) {
            // Where there is another proxy, names need not be known here.
            Some(server) => match found {
                Ok(_) | Err(Refused { because: RefusedBecause::ResolveFailed, .. }) => {
                    through(server, request)
                }
                Err(refused) => Err(refused),
            },
            None => dial(&found?).map(Reached::Server),
        }
    }

    fn addresses(&self, host: &Host, port: u16) -> Result<Vec<SocketAddr>, Refused> {
        match host {
            Host::Address(address) if self.lists(*address, port) => Ok(vec![SocketAddr::new(*address, port)]),
            Host::Address(address) => Err(Refused {
                because: match self.is_open(*address) {
                    true => RefusedBecause::HostNotListed,
                    false => RefusedBecause::PrivateAddress,
                },
                allow: allow_address(*address, port),
            }),
            Host::Name(name) => {
                let is_listed = self.hosts.iter().any(|rule| rule.allows_name(name, port));
                if !is_listed {
                    return Err(Refused {
                        because: RefusedBecause::HostNotListed,
                        allow: Some(allow_name(name, port)),
                    });
                }
                let found =
                    (name.as_str(), port).to_socket_addrs().map_err(|_| RefusedBecause::ResolveFailed)?;
                self.allowed(found.collect())
            }
        }
    }

    /// Those of the addresses of a listed name that may be used.
    fn allowed(&self, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, Refused> {
        let Some(first) = found.first().copied() else { return Err(RefusedBecause::ResolveFailed.into()) };
        let may =
            |address: &SocketAddr| self.is_open(address.ip()) || self.lists(address.ip(), address.port());
        let kept: Vec<SocketAddr> = found.into_iter().filter(may).collect();
        match kept.is_empty() {
            true => Err(Refused {
                because: RefusedBecause::PrivateAddress,
                allow: allow_address(first.ip(), first.port()),
            }),
            false => Ok(kept),
        }
    }

    /// Whether an address itself is listed. This machine is only ever listed by its very address, whatever range that is
    /// in.
    fn lists(&self, address: IpAddr, port: u16) -> bool {
        let is_own = (self.is_own)(address);
        self.hosts.iter().any(|rule| match is_own {
            true => rule.names_address(address, port),
            false => rule.allows_address(address, port),
        })
    }

    /// Whether a listed name may lead to an address.
    fn is_open(&self, address: IpAddr) -> bool {
        is_public(address) && !(self.is_own)(address)
    }
}

/// The first of these addresses that answers.
pub(super) fn dial(addresses: &[SocketAddr]) -> Result<TcpStream, Refused> {
    let mut open = addresses.iter().map(|address| TcpStream::connect_timeout(address, CONNECT_PATIENCE));
    open.find_map(Result::ok).ok_or_else(|| RefusedBecause::ConnectFailed.into())
}

fn through(server: &Server, request: &Request) -> Result<Reached, Refused> {
    let failed = |_| Refused::from(RefusedBecause::UpstreamRefused);
    let stream = server.connect().map_err(failed)?;
    match &request.wants {
        Wants::Page(_) => Ok(Reached::Page(stream, server.clone())),
        Wants::Tunnel => {
            let target = format!("{}:{}", request.host, request.port);
            let said = server.open_tunnel(&stream, &target).map_err(failed)?;
            let said = said.ok_or(RefusedBecause::UpstreamRefused)?;
            Ok(Reached::Tunnel(stream, said))
        }
    }
}

/// The ports that need not be said.
fn is_usual(port: u16) -> bool {
    matches!(port, 80 | 443)
}

fn allow_name(name: &str, port: u16) -> String {
    match is_usual(port) && name != LOCALHOST {
        true => format!("+{name}"),
        false => format!("+{name}:{port}"),
    }
}

/// Nobody is asked to open what clouds keep credentials behind.
fn allow_address(address: IpAddr, port: u16) -> Option<String> {
    let is_link = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    let shown = SocketAddr::new(address, port);
    match is_usual(port) && is_public(address) {
        _ if is_link || address.is_unspecified() || address.is_multicast() => None,
        true => Some(format!("+{address}")),
        false => Some(format!("+{shown}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine whose interfaces have a public address and one of a private network.
    fn reach(hosts: &[&str]) -> Reach {
        let is_own = |address: IpAddr| ["8.8.8.8", "10.0.0.5"].iter().any(|own| own.parse() == Ok(address));
        let hosts = hosts.iter().map(|host| host.parse().unwrap()).collect();
        Reach { is_own, ..Reach::new(hosts, Upstream::default()) }
    }

    #[track_caller]
    fn check(hosts: &[&str], address: &str, expected: Result<(), RefusedBecause>) {
        let found = reach(hosts).addresses(&Host::Address(address.parse().unwrap()), 443);
        assert_eq!(found.map(drop).map_err(|refused| refused.because), expected, "{hosts:?} {address}");
    }

    #[test]
    fn addresses_of_this_machines_interfaces_are_listed_one_by_one_or_not_at_all() {
        check(&["8.8.0.0/16"], "8.8.4.4", Ok(()));
        check(&["8.8.0.0/16"], "8.8.8.8", Err(RefusedBecause::PrivateAddress));
        check(&["0.0.0.0/0"], "8.8.8.8", Err(RefusedBecause::PrivateAddress));
        check(&["10.0.0.0/8"], "10.0.0.6", Ok(()));
        check(&["10.0.0.0/8"], "10.0.0.5", Err(RefusedBecause::PrivateAddress));
        check(&["8.8.8.8"], "8.8.8.8", Ok(()));
        check(&["10.0.0.5:443"], "10.0.0.5", Ok(()));
        check(&["10.0.0.5:80"], "10.0.0.5", Err(RefusedBecause::PrivateAddress));
    }

    #[test]
    fn a_listed_name_may_not_lead_to_an_interface_of_this_machine() {
        let found = |hosts: &[&str], found: &[&str]| {
            let found = found.iter().map(|address| format!("{address}:443").parse().unwrap()).collect();
            let kept = reach(hosts).allowed(found).map_err(|refused| refused.because)?;
            Ok(kept.iter().map(|address| address.ip().to_string()).collect::<Vec<_>>())
        };
        let private = Err(RefusedBecause::PrivateAddress);
        assert_eq!(found(&["a.example"], &["1.1.1.1", "8.8.8.8"]), Ok(vec!["1.1.1.1".to_owned()]));
        assert_eq!(found(&["a.example"], &["8.8.8.8"]), private);
        assert_eq!(found(&["a.example", "8.0.0.0/8"], &["8.8.8.8"]), private);
        assert_eq!(found(&["a.example", "8.8.8.8"], &["8.8.8.8"]), Ok(vec!["8.8.8.8".to_owned()]));
    }
}
