//! How a user names a state of a vault.

use std::fmt;

/// A state of a vault, as written: `@`, `CHECKPOINT`, `ID`, `VAULT:`, `VAULT:CHECKPOINT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisionArg {
    /// `None`: the vault that the command works on.
    pub vault: Option<String>,
    pub state: NamedState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedState {
    /// The current working tree.
    Present,
    /// A checkpoint, or the beginning of a snapshot's id.
    Named(String),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRevision {
    #[error("a revision cannot be empty: write '@' for the current state")]
    Empty,
    #[error("'{0}' has no vault before the colon")]
    NoVault(String),
    #[error("'{0}' has more than one colon")]
    Colons(String),
}

impl RevisionArg {
    pub fn parse(text: &str) -> Result<RevisionArg, BadRevision> {
        let state = |name: &str| match name {
            "" | "@" => NamedState::Present,
            name => NamedState::Named(name.to_owned()),
        };
        match text.split_once(':') {
            None if text.is_empty() => Err(BadRevision::Empty),
            None => Ok(RevisionArg {
                vault: None,
                state: state(text),
            }),
            Some(("", _)) => Err(BadRevision::NoVault(text.to_owned())),
            Some((_, rest)) if rest.contains(':') => Err(BadRevision::Colons(text.to_owned())),
            Some((vault, rest)) => Ok(RevisionArg {
                vault: Some(vault.to_owned()),
                state: state(rest),
            }),
        }
    }
}

impl fmt::Display for RevisionArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.vault, &self.state) {
            (None, NamedState::Present) => f.write_str("@"),
            (None, NamedState::Named(name)) => f.write_str(name),
            (Some(vault), NamedState::Present) => write!(f, "{vault}:"),
            (Some(vault), NamedState::Named(name)) => write!(f, "{vault}:{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_reads_back() {
        let cases = [
            ("@", "@"),
            ("before", "before"),
            ("web:", "web:"),
            ("web:@", "web:"),
            ("web:v1", "web:v1"),
        ];
        for (text, expected) in cases {
            assert_eq!(RevisionArg::parse(text).unwrap().to_string(), expected);
        }
        assert_eq!(RevisionArg::parse(""), Err(BadRevision::Empty));
        assert_eq!(
            RevisionArg::parse(":x"),
            Err(BadRevision::NoVault(":x".to_owned()))
        );
        assert_eq!(
            RevisionArg::parse("a:b:c"),
            Err(BadRevision::Colons("a:b:c".to_owned()))
        );
    }
}
