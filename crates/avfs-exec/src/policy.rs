//! The policy: what happens with a command of some class, and the decision with the rule that made it.

mod decide;
mod edit;
mod error;
mod file;
mod rule;
mod save;

use std::fmt;
use std::path::Path;

use serde::{Serialize, Serializer};

use crate::capability::NetworkGrant;
use crate::classify::{Class, Classes};

pub use edit::{BadEdit, edit_rules};
pub use error::{PolicyError, PolicyProblem};
pub use rule::PrefixRule;
pub use save::append_rules;

/// What happens with a command. Later values are stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyAction {
    /// The command runs.
    Allow,
    /// The command runs after a checkpoint.
    AllowWithCheckpoint,
    /// A person has to approve the command.
    RequireApproval,
    /// The command does not run.
    Deny,
}

impl PolicyAction {
    /// Every action, from the mildest to the strictest.
    pub const ALL: [PolicyAction; 4] = [
        PolicyAction::Allow,
        PolicyAction::AllowWithCheckpoint,
        PolicyAction::RequireApproval,
        PolicyAction::Deny,
    ];

    /// For programs.
    pub fn as_str(self) -> &'static str {
        match self {
            PolicyAction::Allow => "allow",
            PolicyAction::AllowWithCheckpoint => "allow_with_checkpoint",
            PolicyAction::RequireApproval => "require_approval",
            PolicyAction::Deny => "deny",
        }
    }

    /// The word in a policy file.
    pub fn word(self) -> &'static str {
        match self {
            PolicyAction::Allow => "allow",
            PolicyAction::AllowWithCheckpoint => "checkpoint",
            PolicyAction::RequireApproval => "ask",
            PolicyAction::Deny => "deny",
        }
    }
}

impl fmt::Display for PolicyAction {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.as_str())
    }
}

impl Serialize for PolicyAction {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// What happens with one command, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PolicyDecision {
    /// What happens.
    pub action: PolicyAction,
    /// The worst class of the command.
    pub class: Class,
    /// All classes of the command.
    pub classes: Classes,
    /// The line of the policy that decided.
    pub rule: String,
    /// Why, in a line.
    pub reason: String,
    /// What to do instead, if the policy says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alternative: Option<String>,
}

/// The action for each class, and rules for single commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    classes: [ClassLine; 5],
    network: NetworkLine,
    rules: Vec<PrefixRule>,
    /// Saved approvals: they answer where the policy would ask for one, and have no effect elsewhere.
    saved: Vec<PrefixRule>,
}

/// The action for a class, and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ClassLine {
    class: Class,
    action: PolicyAction,
    origin: String,
}

/// The networks that are granted to every run, the action for a run that requests more, and the origin.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NetworkLine {
    granted: NetworkGrant,
    others: PolicyAction,
    origin: String,
}

const BUILT_IN: &str = "built-in";

impl Policy {
    /// The policy that applies without a policy file.
    pub fn built_in() -> Policy {
        let action = |class| match class {
            Class::ReadOnly => PolicyAction::Allow,
            Class::Mutating | Class::Destructive => PolicyAction::AllowWithCheckpoint,
            Class::Networked | Class::HostEscapeRisk => PolicyAction::RequireApproval,
        };
        let line = |class| ClassLine {
            class,
            action: action(class),
            origin: BUILT_IN.to_owned(),
        };
        let network = NetworkLine {
            granted: NetworkGrant::NOTHING,
            others: PolicyAction::RequireApproval,
            origin: BUILT_IN.to_owned(),
        };
        Policy {
            classes: Class::ALL.map(line),
            network,
            rules: Vec::new(),
            saved: Vec::new(),
        }
    }

    /// Reads a policy file's text. `file` is for messages only.
    pub fn parse(file: &Path, text: &str) -> Result<Policy, PolicyError> {
        file::parse(file, text)
    }

    /// What happens with commands of a class, where no rule matches.
    pub fn action_for(&self, class: Class) -> PolicyAction {
        self.class_line(class).action
    }

    /// The rules, in their order.
    pub fn rules(&self) -> &[PrefixRule] {
        &self.rules
    }

    /// The same policy with these rules as answers where it would ask for approval. What it denies stays
    /// denied.
    #[must_use]
    pub fn with_saved(mut self, rules: impl IntoIterator<Item = PrefixRule>) -> Policy {
        self.saved.extend(rules);
        self
    }

    /// The policy in a canonical form, independent of the layout and path of its file. Saved rules are not
    /// included.
    pub fn text(&self) -> String {
        let mut text = String::from("[classes]\n");
        for ClassLine { class, action, .. } in &self.classes {
            text.push_str(&format!("{class} = \"{}\"\n", action.word()));
        }
        text.push_str(&self.network_text());
        text.extend(self.rules.iter().map(|rule| format!("\n{}", rule.to_toml())));
        text
    }

    /// Empty for the built-in one, so that a policy without networks keeps its text.
    fn network_text(&self) -> String {
        let NetworkLine { granted, others, .. } = &self.network;
        let built_in = Policy::built_in().network;
        if (granted, others) == (&built_in.granted, &built_in.others) {
            return String::new();
        }
        format!(
            "\n[network]\n{}others = \"{}\"\n",
            save::grant_toml("allow", granted),
            others.word()
        )
    }

    fn class_line(&self, class: Class) -> &ClassLine {
        self.classes
            .iter()
            .find(|line| line.class == class)
            .expect("a policy has a line for every class")
    }

    fn set_class(&mut self, class: Class, action: PolicyAction, origin: String) {
        let line = self.classes.iter_mut().find(|line| line.class == class);
        *line.expect("a policy has a line for every class") = ClassLine {
            class,
            action,
            origin,
        };
    }
}

#[cfg(test)]
mod tests;
