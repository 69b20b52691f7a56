//! What can be wrong with a policy file.

use std::path::{Path, PathBuf};

use avfs_core::printable;

/// A policy file that cannot be used, with the place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}:{column}: {wrong}", printable(file.as_os_str().as_encoded_bytes()))]
pub struct PolicyError {
    pub file: PathBuf,
    pub line: usize,
    pub column: usize,
    pub wrong: Wrong,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    #[error("{0}")]
    Syntax(String),
    #[error("unknown key '{}'", printable(name.as_bytes()))]
    UnknownKey { name: String, suggestion: Option<&'static str>, known: &'static [&'static str] },
    #[error("unknown class '{}'", printable(name.as_bytes()))]
    UnknownClass { name: String, suggestion: Option<&'static str> },
    #[error("unknown action '{}'", printable(name.as_bytes()))]
    UnknownAction { name: String, suggestion: Option<&'static str> },
    #[error("'{key}' should be {expected}")]
    Kind { key: String, expected: &'static str },
    #[error("'{key}' is missing")]
    Missing { key: &'static str },
    #[error("'{key}': {reason}")]
    Network { key: String, reason: String },
    #[error("only a rule that allows can grant a network")]
    GrantWithoutLeave,
    #[error("a rule needs at least one word")]
    EmptyPrefix,
    #[error("the command '{}' gets {found}, not {expected}: {because}", printable(command.as_bytes()))]
    Example { command: String, found: &'static str, expected: &'static str, because: String },
}

impl PolicyError {
    /// `offset` is where in the text it is wrong.
    pub(super) fn at(file: &Path, text: &str, offset: usize, wrong: Wrong) -> PolicyError {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        PolicyError {
            file: file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            wrong,
        }
    }

    /// Stable, for programs.
    pub fn code(&self) -> &'static str {
        match self.wrong {
            Wrong::Syntax(_) => "policy-syntax",
            Wrong::UnknownKey { .. } => "policy-unknown-key",
            Wrong::UnknownClass { .. }
            | Wrong::UnknownAction { .. }
            | Wrong::Kind { .. }
            | Wrong::Missing { .. }
            | Wrong::Network { .. }
            | Wrong::GrantWithoutLeave
            | Wrong::EmptyPrefix => "policy-bad-value",
            Wrong::Example { .. } => "policy-example",
        }
    }

    pub fn hint(&self) -> Option<String> {
        match &self.wrong {
            Wrong::UnknownKey { suggestion: Some(name), .. }
            | Wrong::UnknownClass { suggestion: Some(name), .. }
            | Wrong::UnknownAction { suggestion: Some(name), .. } => Some(format!("did you mean '{name}'?")),
            Wrong::UnknownKey { known, .. } => Some(format!("the keys are {}", known.join(", "))),
            Wrong::UnknownClass { .. } => Some(
                "the classes are read_only, mutating, destructive, networked, host_escape_risk".to_owned(),
            ),
            Wrong::UnknownAction { .. } => Some("the actions are allow, checkpoint, ask, deny".to_owned()),
            Wrong::EmptyPrefix => Some("to say what happens to every command, use [classes]".to_owned()),
            Wrong::Example { .. } => Some("change the example, or the rule that decides".to_owned()),
            Wrong::GrantWithoutLeave => Some("use action = \"allow\" or \"checkpoint\"".to_owned()),
            Wrong::Network { .. } | Wrong::Syntax(_) | Wrong::Kind { .. } | Wrong::Missing { .. } => None,
        }
    }
}
