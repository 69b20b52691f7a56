//! Decides where connections lead. Everything that a run reaches outside of itself is decided here.

use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use super::address::is_public;
use super::refusals::RefusedBecause;
use super::request::{ProxyRequest, RequestHost, RequestedService};
use super::rule::{HostRule, LOCALHOST};
use super::this_machine::is_this_machine;
use super::upstream::{ProxyServer, Upstream};

const CONNECT_PATIENCE: Duration = Duration::from_secs(20);

/// The listed hosts, and the route to them.
pub(super) struct ListedHosts {
    hosts: Vec<HostRule>,
    upstream: Upstream,
    /// Recognises this machine's own addresses.
    is_own: fn(IpAddr) -> bool,
}

/// An open connection.
pub(super) enum ReachedHost {
    Server(TcpStream),
    /// To another proxy, to which nothing has been sent yet.
    Page(TcpStream, ProxyServer),
    /// Through another proxy, with the bytes that the server has already sent.
    Tunnel(TcpStream, Vec<u8>),
}

/// Why there is no connection, and what would have to be listed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RefusedConnection {
    pub(super) because: RefusedBecause,
    pub(super) allow: Option<String>,
}

impl From<RefusedBecause> for RefusedConnection {
    fn from(because: RefusedBecause) -> Self {
        Self { because, allow: None }
    }
}

impl ReachedHost {
    pub(super) fn stream(&self) -> &TcpStream {
        match self {
            Self::Server(stream) | Self::Page(stream, _) | Self::Tunnel(stream, _) => stream,
        }
    }
}

impl ListedHosts {
    pub(super) fn new(hosts: Vec<HostRule>, upstream: Upstream) -> Self {
        Self {
            hosts,
            upstream,
            is_own: is_this_machine,
        }
    }

    /// Other hosts, by the same route.
    pub(super) fn with(&self, hosts: Vec<HostRule>) -> Self {
        Self {
            hosts,
            upstream: self.upstream.clone(),
            is_own: self.is_own,
        }
    }

    /// Connects to a listed host. The addresses that were checked are the ones that are used, unless another
    /// proxy is in between, which looks names up itself.
    pub(super) fn connect(&self, request: &ProxyRequest) -> Result<ReachedHost, RefusedConnection> {
        let ProxyRequest { host, port, .. } = request;
        let is_local = match host {
            RequestHost::Address(address) => address.is_loopback(),
            RequestHost::Name(name) => name == LOCALHOST,
        };
        let found = self.addresses(host, *port);
        match self.upstream.server_for(request).filter(|_| !is_local) {
            // With another proxy, names need not be resolvable here.
            Some(server) => match found {
                Ok(_)
                | Err(RefusedConnection {
                    because: RefusedBecause::ResolveFailed,
                    ..
                }) => through(server, request),
                Err(refused) => Err(refused),
            },
            None => dial(&found?).map(ReachedHost::Server),
        }
    }

    fn addresses(&self, host: &RequestHost, port: u16) -> Result<Vec<SocketAddr>, RefusedConnection> {
        match host {
            RequestHost::Address(address) if self.lists(*address, port) => {
                Ok(vec![SocketAddr::new(*address, port)])
            }
            RequestHost::Address(address) => Err(RefusedConnection {
                because: if self.is_open(*address) {
                    RefusedBecause::HostNotListed
                } else {
                    RefusedBecause::PrivateAddress
                },
                allow: allow_address(*address, port),
            }),
            RequestHost::Name(name) => {
                let is_listed = self.hosts.iter().any(|rule| rule.allows_name(name, port));
                if !is_listed {
                    return Err(RefusedConnection {
                        because: RefusedBecause::HostNotListed,
                        allow: Some(allow_name(name, port)),
                    });
                }
                let found = (name.as_str(), port)
                    .to_socket_addrs()
                    .map_err(|_| RefusedBecause::ResolveFailed)?;
                self.allowed(found.collect())
            }
        }
    }

    /// The addresses of a listed name that may be used.
    fn allowed(&self, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, RefusedConnection> {
        let Some(first) = found.first().copied() else {
            return Err(RefusedBecause::ResolveFailed.into());
        };
        let may =
            |address: &SocketAddr| self.is_open(address.ip()) || self.lists(address.ip(), address.port());
        let kept: Vec<SocketAddr> = found.into_iter().filter(may).collect();
        if kept.is_empty() {
            Err(RefusedConnection {
                because: RefusedBecause::PrivateAddress,
                allow: allow_address(first.ip(), first.port()),
            })
        } else {
            Ok(kept)
        }
    }

    /// Whether an address itself is listed. This machine must always be listed by its exact address, whatever
    /// its range.
    fn lists(&self, address: IpAddr, port: u16) -> bool {
        let is_own = (self.is_own)(address);
        self.hosts.iter().any(|rule| {
            if is_own {
                rule.names_address(address, port)
            } else {
                rule.allows_address(address, port)
            }
        })
    }

    /// Whether a listed name may lead to an address.
    fn is_open(&self, address: IpAddr) -> bool {
        is_public(address) && !(self.is_own)(address)
    }
}

/// The first of these addresses that answers.
pub(super) fn dial(addresses: &[SocketAddr]) -> Result<TcpStream, RefusedConnection> {
    let mut open = addresses
        .iter()
        .map(|address| TcpStream::connect_timeout(address, CONNECT_PATIENCE));
    open.find_map(Result::ok)
        .ok_or_else(|| RefusedBecause::ConnectFailed.into())
}

fn through(server: &ProxyServer, request: &ProxyRequest) -> Result<ReachedHost, RefusedConnection> {
    let failed = |_| RefusedConnection::from(RefusedBecause::UpstreamRefused);
    let stream = server.connect().map_err(failed)?;
    match &request.wants {
        RequestedService::Page(_) => Ok(ReachedHost::Page(stream, server.clone())),
        RequestedService::Tunnel => {
            let target = format!("{}:{}", request.host, request.port);
            let said = server.open_tunnel(&stream, &target).map_err(failed)?;
            let said = said.ok_or(RefusedBecause::UpstreamRefused)?;
            Ok(ReachedHost::Tunnel(stream, said))
        }
    }
}

/// The ports that need not be specified.
fn is_usual(port: u16) -> bool {
    matches!(port, 80 | 443)
}

fn allow_name(name: &str, port: u16) -> String {
    if is_usual(port) && name != LOCALHOST {
        format!("+{name}")
    } else {
        format!("+{name}:{port}")
    }
}

/// Link-local addresses are never suggested: clouds keep credentials there.
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
    fn reach(hosts: &[&str]) -> ListedHosts {
        let is_own = |address: IpAddr| {
            ["8.8.8.8", "10.0.0.5"]
                .iter()
                .any(|own| own.parse() == Ok(address))
        };
        let hosts = hosts.iter().map(|host| host.parse().unwrap()).collect();
        ListedHosts {
            is_own,
            ..ListedHosts::new(hosts, Upstream::default())
        }
    }

    #[track_caller]
    fn check(hosts: &[&str], address: &str, expected: Result<(), RefusedBecause>) {
        let found = reach(hosts).addresses(&RequestHost::Address(address.parse().unwrap()), 443);
        assert_eq!(
            found.map(drop).map_err(|refused| refused.because),
            expected,
            "{hosts:?} {address}"
        );
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
            let found = found
                .iter()
                .map(|address| format!("{address}:443").parse().unwrap())
                .collect();
            let kept = reach(hosts).allowed(found).map_err(|refused| refused.because)?;
            Ok(kept
                .iter()
                .map(|address| address.ip().to_string())
                .collect::<Vec<_>>())
        };
        let private = Err(RefusedBecause::PrivateAddress);
        assert_eq!(
            found(&["a.example"], &["1.1.1.1", "8.8.8.8"]),
            Ok(vec!["1.1.1.1".to_owned()])
        );
        assert_eq!(found(&["a.example"], &["8.8.8.8"]), private);
        assert_eq!(found(&["a.example", "8.0.0.0/8"], &["8.8.8.8"]), private);
        assert_eq!(
            found(&["a.example", "8.8.8.8"], &["8.8.8.8"]),
            Ok(vec!["8.8.8.8".to_owned()])
        );
    }
}
