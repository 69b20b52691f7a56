//! Saved approvals: the narrowest rule that would have allowed the command.

use std::path::Path;

use super::{Policy, PolicyAction, PolicyError, PrefixRule};
use crate::capability::{Capabilities, NetworkGrant};
use crate::classify::{Class, Classification, CommandPart};
use crate::network::HostRule;

impl Policy {
    /// The rules to save for a command that asks for no network.
    pub fn rules_to_save(&self, found: &Classification) -> Vec<PrefixRule> {
        self.rules_to_save_for(found, &Capabilities::of_words(found.classes))
    }

    /// The rules that an approval "for always" saves; none if some part cannot be saved as a rule, because
    /// the command would need approval again anyway. A network is saved with the rules of all parts: each of
    /// them has it.
    pub fn rules_to_save_for(&self, found: &Classification, asked: &Capabilities) -> Vec<PrefixRule> {
        let has_network = asked.has_network();
        let is_asked = |part: &&CommandPart| {
            has_network || self.verdict(part, asked).action == PolicyAction::RequireApproval
        };
        let network = NetworkGrant {
            network: asked.network.clone(),
            published: asked.published.clone(),
        };
        let rule = |part: &CommandPart| {
            Some(PrefixRule {
                network: network.clone(),
                ..rule_for(part)?
            })
        };
        let rules: Option<Vec<PrefixRule>> = found.parts.iter().filter(is_asked).map(rule).collect();
        let mut rules = rules.unwrap_or_default();
        rules.dedup();
        rules
    }
}

/// Never wider than what was approved: the whole command, or its beginning if its tool and subcommand are
/// known and nothing is removed. The beginning of a forced push would allow all of them.
fn rule_for(part: &CommandPart) -> Option<PrefixRule> {
    let subcommand_is_known = part.names.len() > 1 && part.prefix.len() >= part.names.len();
    let keeps = part.savable && !part.firm && !part.prefix.is_empty();
    let grave = part.classes.contains(Class::Destructive) || part.classes.contains(Class::HostEscapeRisk);
    if !keeps || !part.complete && (!subcommand_is_known || grave) {
        return None;
    }
    let mut rule = PrefixRule::new(part.prefix.clone(), PolicyAction::Allow);
    rule.exact = part.complete;
    rule.classes = Some(part.classes);
    Some(rule)
}

/// A policy file's text with more rules at its end; the existing text is unchanged.
pub fn append_rules(file: &Path, text: &str, rules: &[PrefixRule]) -> Result<String, PolicyError> {
    let mut whole = text.to_owned();
    if !whole.is_empty() && !whole.ends_with('\n') {
        whole.push('\n');
    }
    for rule in rules {
        let gap = if whole.is_empty() { "" } else { "\n" };
        whole.push_str(gap);
        whole.push_str(&rule.to_toml());
    }
    Policy::parse(file, &whole)?;
    Ok(whole)
}

impl PrefixRule {
    /// A section of a policy file.
    pub fn to_toml(&self) -> String {
        let words: Vec<String> = self.prefix.iter().map(|word| quoted(word)).collect();
        let mut text = format!("[[rules]]\nprefix = [{}]\n", words.join(", "));
        if self.exact {
            text.push_str("exact = true\n");
        }
        if let Some(classes) = self.classes {
            let names: Vec<String> = classes.iter().map(|class| quoted(class.as_str())).collect();
            text.push_str(&format!("classes = [{}]\n", names.join(", ")));
        }
        text.push_str(&format!("action = {}\n", quoted(self.action.word())));
        text.push_str(&grant_toml("network", &self.network));
        for (key, value) in [("reason", &self.reason), ("alternative", &self.alternative)] {
            text.extend(value.iter().map(|value| format!("{key} = {}\n", quoted(value))));
        }
        text
    }
}

/// The lines of a policy file that grant a network, with the hosts under `key`. Empty for none.
pub(super) fn grant_toml(key: &str, grant: &NetworkGrant) -> String {
    let list = |items: Vec<String>| {
        items
            .iter()
            .map(|item| quoted(item))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let mut text = String::new();
    if grant.network.is_host() {
        text.push_str(&format!("{key} = [\"host\"]\n"));
    } else if !grant.network.reaches_nothing() {
        let hosts = grant.network.hosts().iter().map(written).collect();
        text.push_str(&format!("{key} = [{}]\n", list(hosts)));
    }
    if !grant.published.is_empty() {
        let ports = grant.published.iter().map(ToString::to_string).collect();
        text.push_str(&format!("publish = [{}]\n", list(ports)));
    }
    text
}

/// A host in the syntax of a list of hosts. A name of one word gets a trailing dot, because it would
/// otherwise be read as a group of hosts, as `host` or as `none`.
fn written(host: &HostRule) -> String {
    let text = host.to_string();
    if text.contains(['.', ':', '/']) {
        text
    } else {
        format!("{text}.")
    }
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control.is_control() => quoted.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
