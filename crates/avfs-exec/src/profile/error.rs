//! Errors in a profile.

use std::io;
use std::path::{Path, PathBuf};

use avfs_core::printable;

use crate::text_position::line_and_column;

/// A profile that cannot be used, with the position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}:{column}: {wrong}", printable(file.as_os_str().as_encoded_bytes()))]
pub struct ProfileError {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1 on.
    pub line: usize,
    /// The column, from 1 on.
    pub column: usize,
    /// What is wrong there.
    pub wrong: WrongProfile,
}

/// What is wrong in a profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrongProfile {
    /// The file cannot be read; the text says why.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
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
    /// A value is of the wrong type.
    #[error("'{key}' should be {expected}")]
    Kind {
        /// The key.
        key: &'static str,
        /// The right type.
        expected: &'static str,
    },
    /// A path leads out of the home.
    #[error("'{}' does not lead to a place below the home", printable(.0.as_bytes()))]
    Outside(String),
    /// A path stands for several files, where one is needed.
    #[error("'{}' should be the name of one file", printable(.0.as_bytes()))]
    Several(String),
    /// A text is not the name of a variable.
    #[error("'{}' is no name of a variable", printable(.0.as_bytes()))]
    Variable(String),
    /// An invalid host or pattern, with the reason.
    #[error("'{}': {reason}", printable(text.as_bytes()))]
    Value {
        /// The value.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl ProfileError {
    /// `offset` is the position of the error in the text.
    pub(super) fn at(file: &Path, text: &str, offset: usize, wrong: WrongProfile) -> ProfileError {
        let (line, column) = line_and_column(text, offset);
        ProfileError {
            file: file.to_owned(),
            line,
            column,
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

    /// What to write instead, if that is known.
    pub fn hint(&self) -> Option<String> {
        match &self.wrong {
            WrongProfile::UnknownKey {
                suggestion: Some(name),
                ..
            } => Some(format!("did you mean '{name}'?")),
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
