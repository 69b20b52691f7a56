//! Which hosts a list allows.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use super::block::AddressBlock;

/// The name of a program's own machine.
pub(super) const LOCALHOST: &str = "localhost";

/// One entry of a list of hosts: a name, `*.` and a name, an address, or a block of addresses; and a port, or any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRule {
    pattern: HostPattern,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum HostPattern {
    Name(String),
    /// Every name below this one, but not itself.
    Below(String),
    Address(IpAddr),
    Block(AddressBlock),
}

/// A text that is not a valid host of a list.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a host: {expected}")]
pub struct BadHostRule {
    text: String,
    expected: String,
}

const EXPECTED: &str =
    "expected NAME, *.NAME, an address or a block such as 10.1.0.0/16, and :PORT if only one is meant";

impl HostRule {
    /// Whether a connection to `name` at `port` is listed.
    pub(crate) fn allows_name(&self, name: &str, port: u16) -> bool {
        let named = match &self.pattern {
            HostPattern::Name(own) => own == name,
            HostPattern::Below(parent) => name
                .strip_suffix(parent.as_str())
                .is_some_and(|rest| rest.ends_with('.')),
            HostPattern::Address(_) | HostPattern::Block(_) => false,
        };
        named && self.allows_port(port)
    }

    /// Whether an address is listed, directly or by a block, and not by a name.
    pub(crate) fn allows_address(&self, address: IpAddr, port: u16) -> bool {
        let in_block = match &self.pattern {
            HostPattern::Block(block) => block.allows(address.to_canonical()),
            HostPattern::Address(_) | HostPattern::Name(_) | HostPattern::Below(_) => false,
        };
        (in_block && self.allows_port(port)) || self.names_address(address, port)
    }

    /// Whether this exact address is listed. `localhost:PORT` is the same as its addresses.
    pub(crate) fn names_address(&self, address: IpAddr, port: u16) -> bool {
        let address = address.to_canonical();
        let listed = match &self.pattern {
            HostPattern::Address(own) => *own == address,
            HostPattern::Name(name) => {
                name == LOCALHOST && self.port.is_some() && LOOPBACK.contains(&address)
            }
            HostPattern::Block(_) | HostPattern::Below(_) => false,
        };
        listed && self.allows_port(port)
    }

    /// Whether everything that `other` lists is listed by this too. A block never covers an address that is
    /// listed directly: that may be an address of this machine, which no block includes.
    pub(crate) fn covers(&self, other: &HostRule) -> bool {
        let named = match (&self.pattern, &other.pattern) {
            (HostPattern::Below(parent), HostPattern::Name(name) | HostPattern::Below(name)) => {
                let is_below = name
                    .strip_suffix(parent.as_str())
                    .is_some_and(|rest| rest.ends_with('.'));
                is_below || self.pattern == other.pattern
            }
            (own, asked) => own == asked,
        };
        named && (self.port.is_none() || self.port == other.port)
    }

    fn allows_port(&self, port: u16) -> bool {
        self.port.is_none_or(|own| own == port)
    }

    /// The addresses of this machine that it lists, with the port; `None` if it lists other hosts or all
    /// ports.
    pub(crate) fn local(&self) -> Option<(Vec<IpAddr>, u16)> {
        let addresses = match &self.pattern {
            HostPattern::Address(address) if address.is_loopback() => vec![*address],
            HostPattern::Name(name) if name == LOCALHOST => LOOPBACK.to_vec(),
            HostPattern::Name(_)
            | HostPattern::Below(_)
            | HostPattern::Address(_)
            | HostPattern::Block(_) => return None,
        };
        Some((addresses, self.port?))
    }

    /// Whether it means this machine without a port. Programs bypass the proxy for these addresses, and not
    /// every port can be forwarded.
    pub fn lacks_port(&self) -> bool {
        let is_direct = match &self.pattern {
            HostPattern::Name(name) => name == LOCALHOST,
            HostPattern::Address(address) => LOOPBACK.contains(address),
            HostPattern::Below(_) | HostPattern::Block(_) => false,
        };
        is_direct && self.port.is_none()
    }
}

/// The addresses of `localhost`.
const LOOPBACK: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

impl FromStr for HostRule {
    type Err = BadHostRule;

    fn from_str(text: &str) -> Result<Self, BadHostRule> {
        let wrong = |expected: &str| BadHostRule {
            text: text.to_owned(),
            expected: expected.to_owned(),
        };
        let bad = || wrong(EXPECTED);
        if text.contains('/') {
            let (block, port) = AddressBlock::parse_with_port(text).map_err(|reason| wrong(&reason))?;
            return Ok(Self {
                pattern: HostPattern::Block(block),
                port,
            });
        }
        let (host, port) = split_port(text).ok_or_else(bad)?;
        if let Ok(address) = host.parse::<IpAddr>().map(|address| address.to_canonical()) {
            if address.is_unspecified() {
                return Err(wrong(
                    "it is no address that one can connect to; this machine is 127.0.0.1",
                ));
            }
            return Ok(Self {
                pattern: HostPattern::Address(address),
                port,
            });
        }
        let pattern = match host.strip_prefix("*.") {
            Some(parent) => normal_name(parent).map(HostPattern::Below),
            None => normal_name(host).map(HostPattern::Name),
        };
        Ok(Self {
            pattern: pattern.ok_or_else(bad)?,
            port,
        })
    }
}

impl fmt::Display for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.pattern, self.port) {
            (HostPattern::Address(IpAddr::V6(address)), Some(_)) => write!(f, "[{address}]")?,
            (HostPattern::Address(address), _) => write!(f, "{address}")?,
            (HostPattern::Name(name), _) => f.write_str(name)?,
            (HostPattern::Below(parent), _) => write!(f, "*.{parent}")?,
            (HostPattern::Block(block), _) => write!(f, "{block}")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}
/// The host and the port of `HOST`, `HOST:PORT`, `[V6]:PORT` or `V6`.
pub(crate) fn split_port(text: &str) -> Option<(&str, Option<u16>)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, after) = rest.split_once(']')?;
        let port = match after.strip_prefix(':') {
            Some(port) => Some(port_of(port)?),
            None if after.is_empty() => None,
            None => return None,
        };
        return Some((host, port));
    }
    match text.split_once(':') {
        Some((_, rest)) if rest.contains(':') => Some((text, None)),
        Some((host, port)) => Some((host, Some(port_of(port)?))),
        None => Some((text, None)),
    }
}

pub(super) fn port_of(text: &str) -> Option<u16> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| digits && *port != 0)
}

/// A name in lower case without the trailing dot, if it is valid. Some resolvers treat numeric names as
/// addresses (`0x7f.1`, `2130706433`), so they are not valid.
pub(crate) fn normal_name(text: &str) -> Option<String> {
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let label = |label: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        !label.is_empty() && label.len() <= 63 && label.bytes().all(plain)
    };
    let last = name.rsplit('.').next().unwrap_or_default();
    let numeric = last.starts_with(|first: char| first.is_ascii_digit());
    (name.len() <= 253 && name.split('.').all(label) && !numeric).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(rule: &str, name: &str, port: u16) -> bool {
        rule.parse::<HostRule>().unwrap().allows_name(name, port)
    }

    #[test]
    fn names_ports_and_what_is_below() {
        assert!(allows("example.com", "example.com", 443));
        assert!(allows("Example.COM.", "example.com", 80));
        assert!(!allows("example.com", "www.example.com", 443));
        assert!(!allows("example.com:443", "example.com", 80));
        assert!(allows("*.example.com", "a.b.example.com", 443));
        assert!(!allows("*.example.com", "example.com", 443));
        assert!(!allows("*.example.com", "evilexample.com", 443));
        assert!(!allows("192.0.2.1", "192.0.2.1", 80));
    }

    #[test]
    fn addresses_are_listed_as_themselves() {
        let rule: HostRule = "127.0.0.1:8080".parse().unwrap();
        assert!(rule.allows_address("127.0.0.1".parse().unwrap(), 8080));
        assert!(rule.allows_address("::ffff:127.0.0.1".parse().unwrap(), 8080));
        assert!(!rule.allows_address("127.0.0.1".parse().unwrap(), 81));
        let rule: HostRule = "[::1]:80".parse().unwrap();
        assert!(rule.allows_address("::1".parse().unwrap(), 80));
        assert_eq!(rule.to_string(), "[::1]:80");
    }

    #[test]
    fn localhost_with_a_port_is_this_machine() {
        let rule: HostRule = "localhost:8080".parse().unwrap();
        for address in ["127.0.0.1", "::1"] {
            assert!(rule.allows_address(address.parse().unwrap(), 8080), "{address}");
            assert!(!rule.allows_address(address.parse().unwrap(), 81), "{address}");
        }
        assert!(!rule.allows_address("127.0.0.2".parse().unwrap(), 8080));
        assert_eq!(rule.local().unwrap().1, 8080);
        let anywhere: HostRule = "localhost".parse().unwrap();
        assert!(!anywhere.allows_address("127.0.0.1".parse().unwrap(), 8080));
        assert!(anywhere.lacks_port() && !rule.lacks_port());
    }

    #[test]
    fn a_block_lists_its_addresses_at_any_port_or_one() {
        let allows = |rule: &str, address: &str, port| {
            rule.parse::<HostRule>()
                .unwrap()
                .allows_address(address.parse().unwrap(), port)
        };
        assert!(allows("10.1.0.0/16", "10.1.2.3", 80));
        assert!(!allows("10.1.0.0/16", "10.2.2.3", 80));
        assert!(!allows("10.1.0.0/16:443", "10.1.2.3", 80));
        assert!(
            !"10.1.0.0/16"
                .parse::<HostRule>()
                .unwrap()
                .allows_name("10.1.2.3", 80)
        );
        assert_eq!(
            "10.1.0.0/16:443".parse::<HostRule>().unwrap().to_string(),
            "10.1.0.0/16:443"
        );
    }

    #[test]
    fn invalid_host_is_refused() {
        for text in [
            "",
            "*",
            "*.",
            "a b",
            "a/b",
            "x:0",
            "x:99999",
            "x:+1",
            "http://x",
            "1.2.3",
            "0x7f.1",
            "a..b",
            "[::1",
            "0.0.0.0:80",
            "[::ffff:0.0.0.0]:80",
            "10.1.0.0/33",
            "10.1.2.3/16",
            "a/8",
        ] {
            assert!(text.parse::<HostRule>().is_err(), "{text:?}");
        }
    }
}
