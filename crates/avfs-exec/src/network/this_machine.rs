//! Recognises this machine's own addresses, whatever their range: a public address of an interface leads to
//! the same services as the loopback.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use super::address::carried;

/// Whether a connection to an address ends on this machine. Interfaces come and go, so the kernel is queried
/// each time.
pub(super) fn is_this_machine(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let is_own = |address: IpAddr| {
        address.is_loopback() || address.is_unspecified() || has(address, can_bind, is_source_of)
    };
    is_own(address) || carried(address).is_some_and(|inner| is_own(inner.into()))
}

/// Whether an interface has an address, determined by what can be done with it.
fn has(address: IpAddr, binds: impl Fn(IpAddr) -> bool, answers: impl Fn(IpAddr) -> bool) -> bool {
    // A documentation address, which no machine has.
    let nobodys = match address {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
    };
    if binds(nobodys) {
        // If `ip_nonlocal_bind` is set, every address can be bound.
        answers(address)
    } else {
        binds(address)
    }
}

/// Only own addresses can be bound.
fn can_bind(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// Packets to an own address have that address as their source. Nothing is sent.
fn is_source_of(address: IpAddr) -> bool {
    let any: IpAddr = if address.is_ipv4() {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    let socket = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    socket.is_ok_and(|own| own.ip() == address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_this_machine_is_known() {
        for own in [
            "127.0.0.1",
            "127.8.8.8",
            "0.0.0.0",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:0.0.0.0",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
        ] {
            assert!(is_this_machine(own.parse().unwrap()), "{own}");
        }
        for other in ["1.1.1.1", "192.0.2.1", "2606:4700::1111", "64:ff9b::101:101"] {
            assert!(!is_this_machine(other.parse().unwrap()), "{other}");
        }
    }

    #[test]
    fn addresses_of_interfaces_are_this_machine() {
        let text = std::fs::read_to_string("/proc/net/fib_trie").unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let own = lines.windows(2).filter(|pair| pair[1] == "/32 host LOCAL");
        let own: Vec<IpAddr> = own
            .filter_map(|pair| pair[0].strip_prefix("|-- ")?.parse().ok())
            .collect();
        assert!(!own.is_empty(), "{text}");
        for address in own {
            assert!(is_this_machine(address), "{address}");
        }
    }

    #[test]
    fn where_everything_can_be_bound_the_source_of_what_is_sent_tells() {
        let address: IpAddr = "203.0.113.9".parse().unwrap();
        assert!(!has(address, |_| true, |_| false));
        assert!(has(address, |_| true, |_| true));
        assert!(has(address, |asked| asked == address, |_| false));
        assert!(is_source_of(Ipv4Addr::LOCALHOST.into()));
    }
}
