//! Errors in a policy file.

use std::path::{Path, PathBuf};

use avfs_core::printable;

use crate::text_position::line_and_column;

/// A policy file that cannot be used, with the position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}:{column}: {wrong}", printable(file.as_os_str().as_encoded_bytes()))]
pub struct PolicyError {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1 on.
    pub line: usize,
    /// The column, from 1 on.
    pub column: usize,
    /// What is wrong there.
    pub wrong: PolicyProblem,
}

/// What is wrong in a policy file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyProblem {
    /// It is not TOML; the text says why.
    #[error("{0}")]
    Syntax(String),
    /// A key has no meaning.
    #[error("unknown key '{}'", printable(name.as_bytes()))]
    UnknownKey {
        /// The key.
        name: String,
        /// A key with a similar name.
        suggestion: Option<&'static str>,
        /// The keys that are possible there.
        known: &'static [&'static str],
    },
    /// A class does not exist.
    #[error("unknown class '{}'", printable(name.as_bytes()))]
    UnknownClass {
        /// The name.
        name: String,
        /// A class with a similar name.
        suggestion: Option<&'static str>,
    },
    /// An action does not exist.
    #[error("unknown action '{}'", printable(name.as_bytes()))]
    UnknownAction {
        /// The name.
        name: String,
        /// An action with a similar name.
        suggestion: Option<&'static str>,
    },
    /// A value is of the wrong type.
    #[error("'{key}' should be {expected}")]
    Kind {
        /// The key.
        key: String,
        /// The right type.
        expected: &'static str,
    },
    /// A key is missing.
    #[error("'{key}' is missing")]
    Missing {
        /// The key.
        key: &'static str,
    },
    /// A list of hosts or ports cannot be read.
    #[error("'{key}': {reason}")]
    Network {
        /// The key.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A rule grants a network to commands that it does not allow.
    #[error("only a rule that allows can grant a network")]
    GrantWithoutLeave,
    /// A rule has no words.
    #[error("a rule needs at least one word")]
    EmptyPrefix,
    /// An example in the file is decided in another way than it says.
    #[error("the command '{}' gets {found}, not {expected}: {because}", printable(command.as_bytes()))]
    Example {
        /// The command.
        command: String,
        /// The action that it gets.
        found: &'static str,
        /// The action that the file says.
        expected: &'static str,
        /// What decided.
        because: String,
    },
}

impl PolicyError {
    /// `offset` is the position of the error in the text.
    pub(super) fn at(file: &Path, text: &str, offset: usize, wrong: PolicyProblem) -> PolicyError {
        let (line, column) = line_and_column(text, offset);
        PolicyError {
            file: file.to_owned(),
            line,
            column,
            wrong,
        }
    }

    /// Stable, for programs.
    pub fn code(&self) -> &'static str {
        match self.wrong {
            PolicyProblem::Syntax(_) => "policy-syntax",
            PolicyProblem::UnknownKey { .. } => "policy-unknown-key",
            PolicyProblem::UnknownClass { .. }
            | PolicyProblem::UnknownAction { .. }
            | PolicyProblem::Kind { .. }
            | PolicyProblem::Missing { .. }
            | PolicyProblem::Network { .. }
            | PolicyProblem::GrantWithoutLeave
            | PolicyProblem::EmptyPrefix => "policy-bad-value",
            PolicyProblem::Example { .. } => "policy-example",
        }
    }

    /// What to write instead, if that is known.
    pub fn hint(&self) -> Option<String> {
        match &self.wrong {
            PolicyProblem::UnknownKey {
                suggestion: Some(name),
                ..
            }
            | PolicyProblem::UnknownClass {
                suggestion: Some(name),
                ..
            }
            | PolicyProblem::UnknownAction {
                suggestion: Some(name),
                ..
            } => Some(format!("did you mean '{name}'?")),
            PolicyProblem::UnknownKey { known, .. } => Some(format!("the keys are {}", known.join(", "))),
            PolicyProblem::UnknownClass { .. } => Some(
                "the classes are read_only, mutating, destructive, networked, host_escape_risk".to_owned(),
            ),
            PolicyProblem::UnknownAction { .. } => {
                Some("the actions are allow, checkpoint, ask, deny".to_owned())
            }
            PolicyProblem::EmptyPrefix => {
                Some("to say what happens to every command, use [classes]".to_owned())
            }
            PolicyProblem::Example { .. } => Some("change the example, or the rule that decides".to_owned()),
            PolicyProblem::GrantWithoutLeave => Some("use action = \"allow\" or \"checkpoint\"".to_owned()),
            PolicyProblem::Network { .. }
            | PolicyProblem::Syntax(_)
            | PolicyProblem::Kind { .. }
            | PolicyProblem::Missing { .. } => None,
        }
    }
}
