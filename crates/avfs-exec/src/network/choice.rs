//! The user's choice of the network of a run: `none`, `host`, hosts, or additions to the default.

use std::str::FromStr;

use super::groups::{HostGroup, groups};
use super::rule::HostRule;
use crate::plan::Network;

/// One `--net`: words with commas between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkChoice {
    /// The original text, for messages.
    text: String,
    /// Replaces the default; `None` if all words have a `+`.
    instead: Option<Network>,
    /// Adds to the default.
    added: Vec<HostRule>,
}

/// A word that is not a valid choice.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadChoice(String);

impl NetworkChoice {
    /// The combination of all choices: they add up, and the default applies unless one of them replaces it.
    pub fn all(choices: &[NetworkChoice], usual: Network) -> Network {
        let mut said = choices.iter().filter_map(|choice| choice.instead.clone());
        let first = said.next().unwrap_or(usual);
        let together = said.fold(first, add);
        let added = choices
            .iter()
            .flat_map(|choice| choice.added.iter().cloned())
            .collect();
        add(together, Network::Hosts(added))
    }

    /// The original text.
    pub fn text(&self) -> &str {
        &self.text
    }
}

fn add(one: Network, other: Network) -> Network {
    if one.is_host() || other.is_host() {
        return Network::Host;
    }
    let mut all: Vec<HostRule> = Vec::new();
    for host in one.hosts().iter().chain(other.hosts()) {
        if !all.contains(host) {
            all.push(host.clone());
        }
    }
    if all.is_empty() {
        Network::None
    } else {
        Network::Hosts(all)
    }
}

impl FromStr for NetworkChoice {
    type Err = BadChoice;

    fn from_str(text: &str) -> Result<Self, BadChoice> {
        let mut choice = Self {
            text: text.to_owned(),
            instead: None,
            added: Vec::new(),
        };
        if text.trim().is_empty() {
            choice.instead = Some(Network::None);
            return Ok(choice);
        }
        for word in text.split(',').map(str::trim) {
            match word.strip_prefix('+') {
                Some("none" | "host") => {
                    let word = &word[1..];
                    return Err(BadChoice(format!(
                        "'{word}' is no host to add; write it without the plus"
                    )));
                }
                Some(name) => choice.added.extend(added(name)?),
                None => {
                    let network = match word {
                        "none" => Network::None,
                        "host" => Network::Host,
                        name => Network::Hosts(hosts(name)?),
                    };
                    choice.instead = Some(match choice.instead.take() {
                        Some(before) => together(before, network)?,
                        None => network,
                    });
                }
            }
        }
        Ok(choice)
    }
}

/// Within one choice, `none` and `host` stand alone: combined with a host, one of the two would be a mistake.
fn together(one: Network, other: Network) -> Result<Network, BadChoice> {
    match (&one, &other) {
        (Network::Hosts(_), Network::Hosts(_)) => Ok(add(one, other)),
        _ => Err(BadChoice(
            "'none' and 'host' stand alone, not in a list of hosts".to_owned(),
        )),
    }
}

/// A single added word is a group far more often than a host.
fn added(name: &str) -> Result<Vec<HostRule>, BadChoice> {
    if is_word(name) && HostGroup::named(name).is_none() && near_group(name).is_none() {
        return Err(BadChoice(format!(
            "there is no group '{name}'; there are {}, and a host of that name is written '{name}.'",
            HostGroup::names()
        )));
    }
    hosts(name)
}

fn is_word(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// The hosts of a group, or one host.
fn hosts(name: &str) -> Result<Vec<HostRule>, BadChoice> {
    if let Some(group) = HostGroup::named(name) {
        return Ok(group.hosts.clone());
    }
    if let Some(near) = near_group(name) {
        return Err(BadChoice(format!(
            "there is no group '{name}'; did you mean '{near}'? A host of that name is written '{name}.'"
        )));
    }
    let rule: HostRule = name
        .parse()
        .map_err(|error: super::rule::BadHostRule| BadChoice(error.to_string()))?;
    match rule.trouble() {
        Some(trouble) => Err(BadChoice(trouble)),
        None => Ok(vec![rule]),
    }
}

/// A similar group that may have been meant: hosts rarely have single-word names.
fn near_group(name: &str) -> Option<&'static str> {
    let is_word = is_word(name);
    let scored = groups().iter().map(|group| {
        (
            strsim::damerau_levenshtein(&name.to_ascii_lowercase(), &group.name),
            group.name.as_str(),
        )
    });
    let near = scored
        .filter(|(distance, group)| is_word && *distance <= group.len() / 3)
        .min();
    near.map(|(_, group)| group)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(choices: &[&str], usual: Network) -> String {
        let choices: Vec<NetworkChoice> = choices.iter().map(|text| text.parse().unwrap()).collect();
        match NetworkChoice::all(&choices, usual) {
            Network::None => "none".to_owned(),
            Network::Host => "host".to_owned(),
            Network::Hosts(hosts) => hosts
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(" "),
        }
    }

    fn usual() -> Network {
        Network::Hosts(vec!["usual.example".parse().unwrap()])
    }

    #[test]
    fn a_plus_adds_to_what_a_run_has_and_a_list_replaces_it() {
        assert_eq!(all(&[], usual()), "usual.example");
        assert_eq!(all(&["a.example"], usual()), "a.example");
        assert_eq!(all(&["+a.example"], usual()), "usual.example a.example");
        assert_eq!(
            all(&["+pypi"], usual()),
            "usual.example pypi.org files.pythonhosted.org"
        );
        assert_eq!(all(&["pypi"], usual()), "pypi.org files.pythonhosted.org");
        assert_eq!(all(&["a.example,+b.example"], usual()), "a.example b.example");
        assert_eq!(all(&["none"], usual()), "none");
        assert_eq!(all(&[""], usual()), "none");
        assert_eq!(
            all(&["+10.1.0.0/16,+127.0.0.1:11434"], Network::None),
            "10.1.0.0/16 127.0.0.1:11434"
        );
    }

    #[test]
    fn several_choices_add_up() {
        assert_eq!(
            all(&["+a.example", "+b.example"], usual()),
            "usual.example a.example b.example"
        );
        assert_eq!(all(&["a.example", "b.example"], usual()), "a.example b.example");
        assert_eq!(all(&["none", "+a.example"], usual()), "a.example");
        assert_eq!(all(&["a.example", "host"], usual()), "host");
        assert_eq!(all(&["+a.example", "+a.example"], Network::None), "a.example");
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let error = text.parse::<NetworkChoice>().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn likely_mistakes_are_reported() {
        check("+crate", "did you mean 'crates'?");
        check("+none", "write it without the plus");
        check("+nosuchgroup", "there is no group 'nosuchgroup'");
        assert!("+nosuchgroup.".parse::<NetworkChoice>().is_ok());
        check("none,a.example", "stand alone");
        check("a.example,", "is not a host");
        check("+127.0.0.1", "say which port");
        check("+localhost:80", "below 1024");
        check("https://a.example", "expected a block");
        assert!("+crate.".parse::<NetworkChoice>().is_ok());
    }
}
