//! Blocks of addresses: `10.1.0.0/16`.

use std::fmt;
use std::net::IpAddr;

use super::address::is_public;
use super::rule::port_of;

/// Addresses that begin with the same bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AddressBlock {
    first: IpAddr,
    bits: u32,
}

/// The ranges that private networks use. A block must lie within one of them to include private addresses: a
/// list of half the internet should not include this machine's neighbours.
const PRIVATE: [&str; 6] = [
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "100.64.0.0/10",
    "198.18.0.0/15",
    "fc00::/7",
];

impl AddressBlock {
    /// Parses `ADDRESS/BITS` or `ADDRESS/BITS:PORT`. The error describes the problem.
    pub(super) fn parse_with_port(text: &str) -> Result<(Self, Option<u16>), String> {
        const EXPECTED: &str = "expected a block such as 10.1.0.0/16, and :PORT if only one is meant";
        let split = text
            .split_once('/')
            .map(|(first, rest)| match rest.split_once(':') {
                Some((bits, port)) => (first, bits, port_of(port).map(Some)),
                None => (first, rest, Some(None)),
            });
        let Some((first, bits, Some(port))) = split else {
            return Err(EXPECTED.to_owned());
        };
        Ok((Self::of(first, bits).ok_or(EXPECTED)?.checked()?, port))
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let (first, bits) = text.split_once('/')?;
        Self::of(first, bits)?.checked().ok()
    }

    fn of(first: &str, bits: &str) -> Option<Self> {
        let first: IpAddr = first.parse().ok()?;
        let most = if first.is_ipv4() { 32 } else { 128 };
        let bits = bits.parse().ok().filter(|bits| *bits <= most)?;
        Some(Self { first, bits })
    }

    /// A block with bits set after its prefix is ambiguous: one address may be meant, or a block.
    fn checked(self) -> Result<Self, String> {
        let first = masked(self.first, self.bits);
        if first == self.first {
            Ok(self)
        } else {
            Err(format!("the block is {first}/{}", self.bits))
        }
    }

    pub(super) fn contains(&self, address: IpAddr) -> bool {
        self.first.is_ipv4() == address.is_ipv4() && masked(address, self.bits) == self.first
    }

    /// Whether it includes an address. This machine and its link (where clouds keep credentials) must always
    /// be listed one by one.
    pub(super) fn allows(&self, address: IpAddr) -> bool {
        let is_private = || {
            PRIVATE
                .iter()
                .filter_map(|range| Self::parse(range))
                .any(|one| one.covers(self))
        };
        self.contains(address) && (is_public(address) || is_private())
    }

    fn covers(&self, other: &AddressBlock) -> bool {
        self.bits <= other.bits && self.contains(other.first)
    }
}

impl fmt::Display for AddressBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.bits)
    }
}

fn masked(address: IpAddr, bits: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            IpAddr::V4((u32::from(address) & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            IpAddr::V6((u128::from(address) & mask).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(block: &str, address: &str) -> bool {
        AddressBlock::parse(block)
            .unwrap()
            .allows(address.parse().unwrap())
    }

    #[test]
    fn private_addresses_are_listed_by_private_blocks_only() {
        assert!(allows("10.1.0.0/16", "10.1.255.255"));
        assert!(allows("fd00::/8", "fd12::1"));
        assert!(allows("8.8.0.0/16", "8.8.4.4"));
        assert!(allows("0.0.0.0/0", "8.8.4.4"));
        assert!(allows("192.168.1.7/32", "192.168.1.7"));
        for (block, address) in [
            ("10.1.0.0/16", "10.2.0.1"),
            ("0.0.0.0/0", "10.1.2.3"),
            ("0.0.0.0/0", "127.0.0.1"),
            ("127.0.0.0/8", "127.0.0.1"),
            ("169.254.0.0/16", "169.254.169.254"),
            ("fe80::/10", "fe80::1"),
            ("::/0", "fd12::1"),
            ("8.0.0.0/6", "10.1.2.3"),
        ] {
            assert!(!allows(block, address), "{block} {address}");
        }
    }

    #[test]
    fn block_with_bits_after_its_prefix_is_refused_with_the_possible_meanings() {
        let error = |text: &str| AddressBlock::parse_with_port(text).unwrap_err();
        assert_eq!(error("10.1.2.3/16"), "the block is 10.1.0.0/16");
        assert!(error("10.1.0.0/33").starts_with("expected"));
        assert!(error("10.1.0.0/16:0").starts_with("expected"));
        assert_eq!(
            AddressBlock::parse_with_port("10.1.0.0/16:80").unwrap().1,
            Some(80)
        );
    }
}
