//! Which hosts a list allows.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// One entry of a list of hosts: a name, `*.` and a name, or an address; and a port, or any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRule {
    pattern: Pattern,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    Name(String),
    /// Every name below this one, but not itself.
    Below(String),
    Address(IpAddr),
}

/// A text that is no host of a list.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a host: expected NAME, *.NAME or an address, and :PORT if only one is meant")]
pub struct BadHostRule {
    text: String,
}

impl HostRule {
    /// Whether a connection to `name` at `port` is listed.
    pub(crate) fn allows_name(&self, name: &str, port: u16) -> bool {
        let named = match &self.pattern {
            Pattern::Name(own) => own == name,
            Pattern::Below(parent) => {
                name.strip_suffix(parent.as_str()).is_some_and(|rest| rest.ends_with('.'))
            }
            Pattern::Address(_) => false,
        };
        named && self.allows_port(port)
    }

    /// Whether this very address is listed, as itself and not by a name.
    pub(crate) fn allows_address(&self, address: IpAddr, port: u16) -> bool {
        self.pattern == Pattern::Address(address.to_canonical()) && self.allows_port(port)
    }

    fn allows_port(&self, port: u16) -> bool {
        self.port.is_none_or(|own| own == port)
    }
}

impl FromStr for HostRule {
    type Err = BadHostRule;

    fn from_str(text: &str) -> Result<Self, BadHostRule> {
        let bad = || BadHostRule { text: text.to_owned() };
        let (host, port) = split_port(text).ok_or_else(bad)?;
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(Self { pattern: Pattern::Address(address.to_canonical()), port });
        }
        let pattern = match host.strip_prefix("*.") {
            Some(parent) => normal_name(parent).map(Pattern::Below),
            None => normal_name(host).map(Pattern::Name),
        };
        Ok(Self { pattern: pattern.ok_or_else(bad)?, port })
    }
}

impl fmt::Display for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.pattern, self.port) {
            (Pattern::Address(IpAddr::V6(address)), Some(_)) => write!(f, "[{address}]")?,
            (Pattern::Address(address), _) => write!(f, "{address}")?,
            (Pattern::Name(name), _) => f.write_str(name)?,
            (Pattern::Below(parent), _) => write!(f, "*.{parent}")?,
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

fn port_of(text: &str) -> Option<u16> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| digits && *port != 0)
}

/// A name in small letters without the dot at its end, if it is one. Names of digits only would be taken for
/// addresses by some resolvers (`0x7f.1`, `2130706433`), so they are none.
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
    fn what_is_no_host_is_refused() {
        for text in [
            "", "*", "*.", "a b", "a/b", "x:0", "x:99999", "x:+1", "http://x", "1.2.3", "0x7f.1", "a..b",
            "[::1",
        ] {
            assert!(text.parse::<HostRule>().is_err(), "{text:?}");
        }
    }
}
