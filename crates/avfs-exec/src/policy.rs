//! What is done with a command of some class: the policy, and the decision with the line that made it.

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
pub use error::{PolicyError, Wrong};
pub use rule::PrefixRule;
pub use save::append_rules;

/// What happens to a command. Later ones are stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    Allow,
    AllowWithCheckpoint,
    RequireApproval,
    Deny,
}

impl Action {
    pub const ALL: [Action; 4] =
        [Action::Allow, Action::AllowWithCheckpoint, Action::RequireApproval, Action::Deny];

    /// For programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Action::Allow => "allow",
            Action::AllowWithCheckpoint => "allow_with_checkpoint",
            Action::RequireApproval => "require_approval",
            Action::Deny => "deny",
        }
    }

    /// As a policy file says it.
    pub fn word(self) -> &'static str {
        match self {
            Action::Allow => "allow",
            Action::AllowWithCheckpoint => "checkpoint",
            Action::RequireApproval => "ask",
            Action::Deny => "deny",
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.as_str())
    }
}

impl Serialize for Action {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// What happens to one command, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    pub action: Action,
    pub class: Class,
    pub classes: Classes,
    /// The line of the policy that decided.
    pub rule: String,
    pub reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alternative: Option<String>,
}

/// What is to be done with each class, and rules for single commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    classes: [ClassLine; 5],
    network: NetworkLine,
    rules: Vec<PrefixRule>,
    /// Approvals that were kept: they answer where the policy would ask, and say nothing elsewhere.
    saved: Vec<PrefixRule>,
}

/// What is done with a class, and where that is written.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ClassLine {
    class: Class,
    action: Action,
    origin: String,
}

/// Which networks are granted to every run, what happens to a run that asks for more, and where that is written.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NetworkLine {
    granted: NetworkGrant,
    others: Action,
    origin: String,
}

const BUILT_IN: &str = "built-in";

impl Policy {
    /// What holds without a policy file.
    pub fn built_in() -> Policy {
        let action = |class| match class {
            Class::ReadOnly => Action::Allow,
            Class::Mutating | Class::Destructive => Action::AllowWithCheckpoint,
            Class::Networked | Class::HostEscapeRisk => Action::RequireApproval,
        };
        let line = |class| ClassLine { class, action: action(class), origin: BUILT_IN.to_owned() };
        let network = NetworkLine {
            granted: NetworkGrant::NOTHING,
            others: Action::RequireApproval,
            origin: BUILT_IN.to_owned(),
        };
        Policy { classes: Class::ALL.map(line), network, rules: Vec::new(), saved: Vec::new() }
    }

    /// Reads a policy file's text. `file` is for messages only.
    pub fn parse(file: &Path, text: &str) -> Result<Policy, PolicyError> {
        file::parse(file, text)
    }

    pub fn action_for(&self, class: Class) -> Action {
        self.class_line(class).action
    }

    pub fn rules(&self) -> &[PrefixRule] {
        &self.rules
    }

    /// The same policy, whose questions are answered by these rules where they hold. What it denies stays
    /// denied.
    #[must_use]
    pub fn with_saved(mut self, rules: impl IntoIterator<Item = PrefixRule>) -> Policy {
        self.saved.extend(rules);
        self
    }

    /// What the policy says, in one form whatever its file looks like and wherever it lies. Saved rules are
    /// no part of it.
    pub fn text(&self) -> String {
        let mut text = String::from("[classes]\n");
        for ClassLine { class, action, .. } in &self.classes {
            text.push_str(&format!("{class} = \"{}\"\n", action.word()));
        }
        text.push_str(&self.network_text());
        text.extend(self.rules.iter().map(|rule| format!("\n{}", rule.to_toml())));
        text
    }

    /// Nothing if it is the built-in one, so that a policy without networks stays what it was.
    fn network_text(&self) -> String {
        let NetworkLine { granted, others, .. } = &self.network;
        let built_in = Policy::built_in().network;
        if (granted, others) == (&built_in.granted, &built_in.others) {
            return String::new();
        }
        format!("\n[network]\n{}others = \"{}\"\n", save::grant_toml("allow", granted), others.word())
    }

    fn class_line(&self, class: Class) -> &ClassLine {
        self.classes.iter().find(|line| line.class == class).expect("a policy has a line for every class")
    }

    fn set_class(&mut self, class: Class, action: Action, origin: String) {
        let line = self.classes.iter_mut().find(|line| line.class == class);
        *line.expect("a policy has a line for every class") = ClassLine { class, action, origin };
    }
}

#[cfg(test)]
mod tests;
