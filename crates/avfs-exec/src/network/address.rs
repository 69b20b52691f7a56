//! Private addresses: this machine, its neighbours, and networks that only insiders should reach.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address is public, as far as its number shows.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    let shared = first == 100 && second & 0xc0 == 64;
    let benchmark = first == 198 && second & 0xfe == 18;
    let protocols = (first, second, third) == (192, 0, 0);
    let relay = (first, second, third) == (192, 88, 99);
    !(first == 0
        || first >= 240
        || shared
        || benchmark
        || protocols
        || relay
        || address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation())
}

/// The IPv4 address that is embedded in an address: it leads to the same place.
pub(super) fn carried(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(address) = address else { return None };
    let embedded = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => Some(embedded(high, low)),
        _ => None,
    }
}

/// Public addresses are in 2000::/3.
fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(inner) = carried(address.into()) {
        return is_public_v4(inner);
    }
    let parts = address.segments();
    let teredo = parts[0] == 0x2001 && parts[1] == 0;
    let documentation = (parts[0] == 0x2001 && parts[1] == 0xdb8) || parts[0] == 0x3fff;
    parts[0] & 0xe000 == 0x2000 && !teredo && !documentation
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_public_and_what_is_not() {
        for public in [
            "1.1.1.1",
            "93.184.216.34",
            "2606:4700::1111",
            "64:ff9b::101:101",
            "::ffff:8.8.8.8",
        ] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        let private = [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "::",
            "::1",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001:db8::1",
            "::7f00:1",
        ];
        for private in private {
            assert!(!is_public(private.parse().unwrap()), "{private}");
        }
    }
}
