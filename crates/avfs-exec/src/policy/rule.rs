//! Rules by the words that a command begins with.

use super::Action;
use crate::capability::NetworkGrant;
use crate::classify::{Classes, Part};

/// What is done with commands that begin with certain words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixRule {
    pub prefix: Vec<String>,
    /// The words are the whole command.
    pub exact: bool,
    /// The rule holds for commands that do nothing but this.
    pub classes: Option<Classes>,
    pub action: Action,
    /// What a run is granted of which every part has such a rule.
    pub network: NetworkGrant,
    pub reason: Option<String>,
    pub alternative: Option<String>,
    /// Where it is written.
    pub origin: Option<String>,
}

impl PrefixRule {
    pub(crate) fn new(prefix: impl IntoIterator<Item = impl Into<String>>, action: Action) -> PrefixRule {
        let prefix = prefix.into_iter().map(Into::into).collect();
        PrefixRule {
            prefix,
            exact: false,
            classes: None,
            action,
            network: NetworkGrant::NOTHING,
            reason: None,
            alternative: None,
            origin: None,
        }
    }

    /// The words of the part are those of the rule, all of them known before it runs.
    pub(crate) fn matches(&self, part: &Part) -> bool {
        let length = !self.exact || part.complete && part.prefix.len() == self.prefix.len();
        !part.firm && length && part.prefix.starts_with(&self.prefix) && self.covers(part)
    }

    /// The tool and subcommand are those of the rule, whatever path or flags stand between. Good enough to
    /// be stricter, not to be milder.
    pub(crate) fn matches_by_name(&self, part: &Part) -> bool {
        let named = |names: &Vec<String>| names.starts_with(&self.prefix);
        !self.exact && (named(&part.names) || part.also_named.iter().any(named)) && self.covers(part)
    }

    fn covers(&self, part: &Part) -> bool {
        self.classes.is_none_or(|most| part.classes.and(most) == most)
    }

    /// For messages.
    pub fn name(&self) -> String {
        let words = avfs_core::printable(self.prefix.join(" ").as_bytes());
        let kind = if self.exact { "exactly " } else { "" };
        match &self.origin {
            Some(origin) => format!("rule for {kind}'{words}' ({origin})"),
            None => format!("rule for {kind}'{words}'"),
        }
    }
}
