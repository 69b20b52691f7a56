//! The capabilities that a run requests and is granted, as a value. They are decided before the words of the
//! command are considered, and independently: words can only restrict them.

use crate::classify::Classes;
use crate::network::{HostRule, PortPublication};
use crate::plan::Network;

/// What a run can do in addition to reading its workspace inside a sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The workspace can be written to.
    pub write: bool,
    /// The hosts that it reaches.
    pub network: Network,
    /// Ports inside that this machine, or others, can reach.
    pub published: Vec<PortPublication>,
}

impl Capabilities {
    /// The capabilities of a run that requests none.
    pub const READING: Capabilities = Capabilities {
        write: false,
        network: Network::None,
        published: Vec::new(),
    };

    /// The capabilities that a command requests without flags.
    pub(crate) fn of_words(classes: Classes) -> Capabilities {
        Capabilities {
            write: true,
            ..Capabilities::READING
        }
        .narrowed_by(classes)
    }

    /// The capabilities that remain for a command that, by its words, only reads: none that a misreading of
    /// the words could abuse.
    #[must_use]
    pub fn narrowed_by(self, classes: Classes) -> Capabilities {
        if classes.is_read_only() {
            Capabilities::READING
        } else {
            self
        }
    }

    /// Whether it can reach hosts, or be reached.
    pub fn has_network(&self) -> bool {
        !self.network.reaches_nothing() || !self.published.is_empty()
    }

    /// A description of its network for people. Empty without one.
    pub fn network_shown(&self) -> String {
        let mut parts = Vec::new();
        match &self.network {
            Network::Host => parts.push("reach everything that this machine reaches".to_owned()),
            network if network.reaches_nothing() => {}
            network => parts.push(format!("reach {}", joined(network.hosts()))),
        }
        if !self.published.is_empty() {
            parts.push(format!("publish {}", joined(&self.published)));
        }
        parts.join(" and ")
    }
}

fn joined(items: &[impl ToString]) -> String {
    items
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

/// A network that runs are granted without an approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkGrant {
    /// The hosts that are granted.
    pub network: Network,
    /// The ports at which it may be reached.
    pub published: Vec<PortPublication>,
}

impl NetworkGrant {
    /// No network at all.
    pub const NOTHING: NetworkGrant = NetworkGrant {
        network: Network::None,
        published: Vec::new(),
    };

    /// The part of `asked` that this does not grant.
    pub(crate) fn missing(&self, asked: &Capabilities) -> Capabilities {
        let published = asked
            .published
            .iter()
            .filter(|one| !self.published.iter().any(|own| own.covers(one)));
        Capabilities {
            write: false,
            network: self.network.missing(&asked.network),
            published: published.copied().collect(),
        }
    }

    /// Whether a run that asks for this needs nothing more.
    pub fn covers(&self, asked: &Capabilities) -> bool {
        !self.missing(asked).has_network()
    }
}

impl Network {
    /// Whether it is no network, or a list without hosts.
    pub fn reaches_nothing(&self) -> bool {
        !self.is_host() && self.hosts().is_empty()
    }

    /// Whether everything that `other` reaches is reached by this too.
    pub fn covers(&self, other: &Network) -> bool {
        self.missing(other).reaches_nothing()
    }

    /// The part of `other` that this does not reach.
    fn missing(&self, other: &Network) -> Network {
        if self.is_host() || other.reaches_nothing() {
            return Network::None;
        }
        if other.is_host() {
            return Network::Host;
        }
        let is_missing = |host: &&HostRule| !self.hosts().iter().any(|own| own.covers(host));
        Network::Hosts(other.hosts().iter().filter(is_missing).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::Class;

    fn hosts(list: &[&str]) -> Network {
        Network::Hosts(list.iter().map(|host| host.parse().unwrap()).collect())
    }

    #[track_caller]
    fn check(own: &[&str], asked: &str, expected: bool) {
        assert_eq!(hosts(own).covers(&hosts(&[asked])), expected, "{own:?} {asked}");
    }

    #[test]
    fn host_grants_cover_no_host_port_or_address_that_they_do_not_list() {
        check(&["a.example"], "a.example", true);
        check(&["a.example"], "A.example.", true);
        check(&["a.example"], "a.example:443", true);
        check(&["a.example:443"], "a.example", false);
        check(&["a.example:443"], "a.example:80", false);
        check(&["a.example"], "b.a.example", false);
        check(&["*.a.example"], "b.a.example", true);
        check(&["*.a.example"], "*.b.a.example", true);
        check(&["*.a.example"], "a.example", false);
        check(&["*.a.example"], "*.example", false);
        check(&["*.a.example"], "eva.example", false);
        check(&["10.1.0.0/16"], "10.1.0.0/16:80", true);
        check(&["10.1.0.0/16:80"], "10.1.0.0/16", false);
        // An address that is listed by itself may be one of this machine, which a block never includes.
        check(&["10.1.0.0/16"], "10.1.0.5", false);
        check(&["127.0.0.1:5432"], "127.0.0.1:5432", true);
        check(&["127.0.0.1:5432"], "127.0.0.1:5433", false);
        check(&["a.example", "b.example"], "b.example", true);
    }

    #[test]
    fn host_network_covers_everything_and_is_covered_by_nothing_else() {
        assert!(Network::Host.covers(&Network::Host) && Network::Host.covers(&hosts(&["a.example"])));
        assert!(!hosts(&["*.example"]).covers(&Network::Host) && !Network::None.covers(&Network::Host));
        assert!(Network::None.covers(&Network::None) && Network::None.covers(&hosts(&[])));
    }

    #[test]
    fn published_ports_are_granted_at_their_address_and_host_port_only() {
        let publish = |text: &str| text.parse::<PortPublication>().unwrap();
        let covers = |own: &str, asked: &str| {
            let asked = Capabilities {
                published: vec![publish(asked)],
                ..Capabilities::READING
            };
            NetworkGrant {
                published: vec![publish(own)],
                ..NetworkGrant::NOTHING
            }
            .covers(&asked)
        };
        assert!(covers("5173", "5173") && covers("5173", "127.0.0.1:5173:5173"));
        assert!(covers("0:5173", "8080:5173") && covers("0:5173", "0:5173"));
        assert!(!covers("5173", "0:5173") && !covers("5173", "5174"));
        assert!(!covers("0:5173", "0.0.0.0:5173:5173"));
    }

    #[test]
    fn reading_class_leaves_nothing_of_what_was_asked_for() {
        let asked = Capabilities {
            write: true,
            network: Network::Host,
            published: vec!["80".parse().unwrap()],
        };
        assert_eq!(
            asked.clone().narrowed_by(Classes::READ_ONLY),
            Capabilities::READING
        );
        assert_eq!(asked.clone().narrowed_by(Class::Mutating.into()), asked);
    }
}
