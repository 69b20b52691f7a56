//! Rules by the words with which a command begins.

use super::PolicyAction;
use crate::capability::NetworkGrant;
use crate::classify::{Classes, CommandPart};

/// The action for commands that begin with certain words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixRule {
    /// The words.
    pub prefix: Vec<String>,
    /// The words are the whole command.
    pub exact: bool,
    /// The rule applies only to commands without other effects than these.
    pub classes: Option<Classes>,
    /// What happens with such commands.
    pub action: PolicyAction,
    /// The network that a run is granted if every part has such a rule.
    pub network: NetworkGrant,
    /// Why, for those who read the decision.
    pub reason: Option<String>,
    /// What to do instead.
    pub alternative: Option<String>,
    /// Its origin.
    pub origin: Option<String>,
}

impl PrefixRule {
    pub(crate) fn new(
        prefix: impl IntoIterator<Item = impl Into<String>>,
        action: PolicyAction,
    ) -> PrefixRule {
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

    /// The words of the part are those of the rule, and all of them are known before it runs.
    pub(crate) fn matches(&self, part: &CommandPart) -> bool {
        let length = !self.exact || part.complete && part.prefix.len() == self.prefix.len();
        !part.firm && length && part.prefix.starts_with(&self.prefix) && self.covers(part)
    }

    /// The tool and subcommand are those of the rule, whatever path or flags are in between. Enough to be
    /// stricter, not to be milder.
    pub(crate) fn matches_by_name(&self, part: &CommandPart) -> bool {
        let named = |names: &Vec<String>| names.starts_with(&self.prefix);
        !self.exact && (named(&part.names) || part.also_named.iter().any(named)) && self.covers(part)
    }

    fn covers(&self, part: &CommandPart) -> bool {
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
