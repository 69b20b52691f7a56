//! What can be wrong with a profile.

use std::io;
use std::path::{Path, PathBuf};

use avfs_core::printable;

/// A profile that cannot be used, with the place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}:{column}: {wrong}", printable(file.as_os_str().as_encoded_bytes()))]
pub struct ProfileError {
    pub file: PathBuf,
    pub line: usize,
    pub column: usize,
    pub wrong: WrongProfile,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrongProfile {
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    #[error("{0}")]
    Syntax(String),
    #[error("unknown key '{}'", printable(name.as_bytes()))]
    UnknownKey { name: String, suggestion: Option<&'static str>, known: &'static [&'static str] },
    #[error("'{key}' should be {expected}")]
    Kind { key: &'static str, expected: &'static str },
    #[error("'{}' does not lead to a place below the home", printable(.0.as_bytes()))]
    Outside(String),
    #[error("'{}' should be the name of one file", printable(.0.as_bytes()))]
    Several(String),
    #[error("'{}' is no name of a variable", printable(.0.as_bytes()))]
    Variable(String),
    /// A host or a pattern that is none, with the reason.
    #[error("'{}': {reason}", printable(text.as_bytes()))]
    Value { text: String, reason: String },
}

impl ProfileError {
    /// `offset` is where in the text it is wrong.
    pub(super) fn at(file: &Path, text: &str, offset: usize, wrong: WrongProfile) -> ProfileError {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        ProfileError {
            file: file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            wrong,
        }
    }

    pub(super) fn unreadable(file: &Path, error: &io::Error) -> ProfileError {
        ProfileError::at(file, "", 0, WrongProfile::Unreadable(error.to_string()))
    }

    /// Stable, for programs.
    pub fn code(&self) -> &'static str {
        match self.wrong {
            WrongProfile::Unreadable(_) | WrongProfile::Syntax(_) => "profile-syntax",
            WrongProfile::UnknownKey { .. } => "profile-unknown-key",
            WrongProfile::Kind { .. }
            | WrongProfile::Outside(_)
            | WrongProfile::Several(_)
            | WrongProfile::Variable(_)
            | WrongProfile::Value { .. } => "profile-bad-value",
        }
    }

    pub fn hint(&self) -> Option<String> {
        match &self.wrong {
            WrongProfile::UnknownKey { suggestion: Some(name), .. } => {
                Some(format!("did you mean '{name}'?"))
            }
            WrongProfile::UnknownKey { known, .. } => Some(format!("the keys are {}", known.join(", "))),
            WrongProfile::Unreadable(_)
            | WrongProfile::Syntax(_)
            | WrongProfile::Kind { .. }
            | WrongProfile::Outside(_)
            | WrongProfile::Several(_)
            | WrongProfile::Variable(_)
            | WrongProfile::Value { .. } => None,
        }
    }
}
