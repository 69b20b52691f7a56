//! One rule: what it is about and what it allows.

use std::fmt;
use std::sync::Arc;

use super::level::{BadLevel, Level};
use super::pattern::{BadPattern, Pattern};
use crate::label::{BadLabel, Label};

const LABEL_PREFIX: &str = "label:";

/// Where a rule comes from, in words: `preset development`, `avfs.toml:4`. Empty if nobody said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Origin(Arc<str>);

impl Origin {
    pub fn new(text: &str) -> Origin {
        Origin(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    Paths(Pattern),
    /// Entries that have the label, and everything below them.
    Label(Label),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Paths(pattern) if pattern.as_str().starts_with(LABEL_PREFIX) => write!(f, "/{pattern}"),
            Subject::Paths(pattern) => write!(f, "{pattern}"),
            Subject::Label(label) => write!(f, "{LABEL_PREFIX}{label}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub subject: Subject,
    pub level: Level,
    /// A rule with a higher one decides before all that have a lower one.
    pub priority: i32,
    pub origin: Origin,
}

/// Why a text is not a rule. Positions are bytes of the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRule {
    #[error("a rule is PATTERN=LEVEL, and this one has no '='")]
    NoLevel,
    #[error("{fault}")]
    Level { position: usize, fault: BadLevel },
    #[error("'{}' is not a priority: a whole number from {} to {}", crate::printable(text.as_bytes()), i32::MIN, i32::MAX)]
    Priority { position: usize, text: String },
    #[error("{fault}")]
    Label { position: usize, fault: BadLabel },
    #[error(transparent)]
    Pattern(#[from] BadPattern),
}

impl BadRule {
    /// The byte of the text where the fault shows.
    pub fn position(&self) -> usize {
        match self {
            BadRule::NoLevel => 0,
            BadRule::Level { position, .. }
            | BadRule::Priority { position, .. }
            | BadRule::Label { position, .. } => *position,
            BadRule::Pattern(bad) => bad.position,
        }
    }
}

impl Rule {
    /// About paths, with priority 0.
    pub fn new(pattern: Pattern, level: Level) -> Rule {
        Rule { subject: Subject::Paths(pattern), level, priority: 0, origin: Origin::default() }
    }

    /// Reads `PATTERN=LEVEL[@PRIORITY]` or `label:NAME=LEVEL[@PRIORITY]`. The last `=` separates.
    pub fn parse(text: &str) -> Result<Rule, BadRule> {
        Rule::read(text, Label::new)
    }

    /// Reads back what the program itself has written: labels of the system are allowed. Not for users' text.
    pub fn parse_stored(text: &str) -> Result<Rule, BadRule> {
        Rule::read(text, Label::from_stored)
    }

    fn read(text: &str, label: fn(&str) -> Result<Label, BadLabel>) -> Result<Rule, BadRule> {
        let (subject, rest) = text.rsplit_once('=').ok_or(BadRule::NoLevel)?;
        let position = subject.len() + 1;
        let (level, priority) = match rest.split_once('@') {
            Some((level, priority)) => (level, parse_priority(priority, position + level.len() + 1)?),
            None => (rest, 0),
        };
        let level = level.parse().map_err(|fault| BadRule::Level { position, fault })?;
        Ok(Rule { subject: parse_subject(subject, label)?, level, priority, origin: Origin::default() })
    }

    pub fn with_origin(self, origin: Origin) -> Rule {
        Rule { origin, ..self }
    }

    pub fn with_priority(self, priority: i32) -> Rule {
        Rule { priority, ..self }
    }

    pub fn pattern(&self) -> Option<&Pattern> {
        match &self.subject {
            Subject::Paths(pattern) => Some(pattern),
            Subject::Label(_) => None,
        }
    }

    pub fn label(&self) -> Option<&Label> {
        match &self.subject {
            Subject::Label(label) => Some(label),
            Subject::Paths(_) => None,
        }
    }
}

fn parse_subject(text: &str, label: fn(&str) -> Result<Label, BadLabel>) -> Result<Subject, BadRule> {
    match text.strip_prefix(LABEL_PREFIX) {
        Some(name) => match label(name) {
            Ok(label) => Ok(Subject::Label(label)),
            Err(fault) => Err(BadRule::Label { position: LABEL_PREFIX.len(), fault }),
        },
        None => Ok(Subject::Paths(Pattern::parse(text)?)),
    }
}

fn parse_priority(text: &str, position: usize) -> Result<i32, BadRule> {
    text.parse().map_err(|_| BadRule::Priority { position, text: text.to_owned() })
}

/// The text that [`Rule::parse`] reads back.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.subject, self.level)?;
        if self.priority != 0 {
            write!(f, "@{}", self.priority)?;
        }
        Ok(())
    }
}
