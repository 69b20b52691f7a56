//! The sockets that listen inside a sandbox while their other end is outside: the proxy, and the listed
//! addresses of this machine. So programs without proxy support reach a service of this machine at its own
//! address.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::rule::HostRule;

/// Where programs find the proxy, unless a listed service of this machine uses that address.
const PROXY_PORT: u16 = 3128;

/// Lower ports cannot be listened at without privileges, which nothing inside has.
const FIRST_PORT: u16 = 1024;

/// The addresses, beginning with the proxy's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListeningAddresses {
    pub(super) proxy: SocketAddr,
    pub(super) locals: Vec<LocalAddress>,
}

/// An address inside, and the addresses of this machine that it stands for; the first one that answers is
/// used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LocalAddress {
    pub(super) inside: SocketAddr,
    pub(super) outside: Vec<SocketAddr>,
}

impl ListeningAddresses {
    pub(crate) fn of(hosts: &[HostRule]) -> Self {
        let mut locals: Vec<LocalAddress> = Vec::new();
        for (addresses, port) in hosts.iter().filter_map(HostRule::local) {
            let at = |address: &IpAddr| SocketAddr::new(*address, port);
            let outside: Vec<SocketAddr> = addresses.iter().map(at).collect();
            for inside in outside.clone() {
                if !locals.iter().any(|known| known.inside == inside) {
                    locals.push(LocalAddress {
                        inside,
                        outside: outside.clone(),
                    });
                }
            }
        }
        let is_free = |port: &u16| !locals.iter().any(|local| local.inside.port() == *port);
        let port = (PROXY_PORT..u16::MAX).find(is_free).unwrap_or(PROXY_PORT);
        Self {
            proxy: (Ipv4Addr::LOCALHOST, port).into(),
            locals,
        }
    }

    /// In the order in which the sockets are created.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        std::iter::once(self.proxy)
            .chain(self.locals.iter().map(|local| local.inside))
            .collect()
    }
}

impl HostRule {
    /// Why a listed address cannot be reached, if so.
    pub fn trouble(&self) -> Option<String> {
        if self.lacks_port() {
            return Some(format!("{self} is this machine: say which port, {self}:PORT"));
        }
        let (_, port) = self.local().filter(|(_, port)| *port < FIRST_PORT)?;
        Some(format!(
            "port {port} of this machine cannot be reached from inside, because it is below {FIRST_PORT}; \
             runs with the network of this machine reach it"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listening(hosts: &[&str]) -> ListeningAddresses {
        ListeningAddresses::of(&hosts.iter().map(|host| host.parse().unwrap()).collect::<Vec<_>>())
    }

    fn addresses(hosts: &[&str]) -> Vec<String> {
        listening(hosts)
            .addresses()
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn addresses_of_this_machine_are_listened_at_with_their_own_ports() {
        assert_eq!(addresses(&[]), ["127.0.0.1:3128"]);
        assert_eq!(
            addresses(&["example.com", "10.0.0.1:80", "127.0.0.2"]),
            ["127.0.0.1:3128"]
        );
        assert_eq!(
            addresses(&["127.0.0.1:11434", "localhost:8080", "[::1]:8080"]),
            [
                "127.0.0.1:3128",
                "127.0.0.1:11434",
                "127.0.0.1:8080",
                "[::1]:8080"
            ]
        );
    }

    #[test]
    fn the_proxy_gives_way_to_what_is_listed() {
        assert_eq!(addresses(&["127.0.0.1:3128", "[::1]:3129"])[0], "127.0.0.1:3130");
    }

    #[test]
    fn localhost_is_whichever_address_answers() {
        let locals = listening(&["localhost:8080"]).locals;
        assert!(locals.iter().all(|local| local.outside.len() == 2), "{locals:?}");
    }

    #[test]
    fn unreachable_address_is_reported() {
        let trouble = |text: &str| text.parse::<HostRule>().unwrap().trouble();
        assert_eq!(trouble("localhost:8080"), None);
        assert_eq!(trouble("example.com"), None);
        assert_eq!(
            trouble("127.0.0.1").unwrap(),
            "127.0.0.1 is this machine: say which port, 127.0.0.1:PORT"
        );
        assert!(trouble("localhost:80").unwrap().contains("below 1024"));
    }
}
