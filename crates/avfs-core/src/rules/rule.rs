//! One rule: which paths it matches and what it allows.

use std::fmt;
use std::sync::Arc;

use super::level::{BadLevel, Level};
use super::pattern::{BadPattern, Pattern};
use crate::label::{BadLabel, Label};

const LABEL_PREFIX: &str = "label:";

/// Where a rule comes from, in words: `preset development`, `avfs.toml:4`. Empty if unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RuleOrigin(Arc<str>);

impl RuleOrigin {
    /// An origin with this text.
    pub fn new(text: &str) -> RuleOrigin {
        RuleOrigin(text.into())
    }

    /// The origin as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RuleOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The entries that a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleSubject {
    /// Entries by their paths.
    Paths(Pattern),
    /// Entries that have the label, and everything below them.
    Label(Label),
}

impl fmt::Display for RuleSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleSubject::Paths(pattern) if pattern.as_str().starts_with(LABEL_PREFIX) => {
                write!(f, "/{pattern}")
            }
            RuleSubject::Paths(pattern) => write!(f, "{pattern}"),
            RuleSubject::Label(label) => write!(f, "{LABEL_PREFIX}{label}"),
        }
    }
}

/// One rule: the level that the entries of a subject have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The entries that it is about.
    pub subject: RuleSubject,
    /// What it allows there.
    pub level: Level,
    /// A rule with a higher priority wins over all with a lower one.
    pub priority: i32,
    /// Where it comes from, for explanations.
    pub origin: RuleOrigin,
}

/// Why a text is not a rule. Positions are byte offsets in the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRule {
    /// The text has no `=`.
    #[error("a rule is PATTERN=LEVEL, and this one has no '='")]
    NoLevel,
    /// The word after `=` is not a level.
    #[error("{fault}")]
    Level {
        /// Where that word begins.
        position: usize,
        /// The word.
        fault: BadLevel,
    },
    /// The priority is not a number.
    #[error("'{}' is not a priority: a whole number from {} to {}", crate::printable(text.as_bytes()), i32::MIN, i32::MAX)]
    Priority {
        /// Where it begins.
        position: usize,
        /// The text in its place.
        text: String,
    },
    /// The word after `label:` is not a label.
    #[error("{fault}")]
    Label {
        /// Where that word begins.
        position: usize,
        /// What is wrong with it.
        fault: BadLabel,
    },
    /// The text before `=` is not a pattern.
    #[error(transparent)]
    Pattern(#[from] BadPattern),
}

impl BadRule {
    /// The byte of the text at which the error is.
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
    /// A path rule with priority 0.
    pub fn new(pattern: Pattern, level: Level) -> Rule {
        Rule {
            subject: RuleSubject::Paths(pattern),
            level,
            priority: 0,
            origin: RuleOrigin::default(),
        }
    }

    /// Reads `PATTERN=LEVEL[@PRIORITY]` or `label:NAME=LEVEL[@PRIORITY]`. The last `=` separates.
    pub fn parse(text: &str) -> Result<Rule, BadRule> {
        Rule::read(text, Label::new)
    }

    /// Reads back text that the program itself has written: labels of the system are allowed. Not for text
    /// from users.
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
        let level = level
            .parse()
            .map_err(|fault| BadRule::Level { position, fault })?;
        Ok(Rule {
            subject: parse_subject(subject, label)?,
            level,
            priority,
            origin: RuleOrigin::default(),
        })
    }

    /// The same rule from another place.
    pub fn with_origin(self, origin: RuleOrigin) -> Rule {
        Rule { origin, ..self }
    }

    /// The same rule with another priority.
    pub fn with_priority(self, priority: i32) -> Rule {
        Rule { priority, ..self }
    }

    /// The pattern of a rule about paths.
    pub fn pattern(&self) -> Option<&Pattern> {
        match &self.subject {
            RuleSubject::Paths(pattern) => Some(pattern),
            RuleSubject::Label(_) => None,
        }
    }

    /// The label of a rule about labels.
    pub fn label(&self) -> Option<&Label> {
        match &self.subject {
            RuleSubject::Label(label) => Some(label),
            RuleSubject::Paths(_) => None,
        }
    }
}

fn parse_subject(text: &str, label: fn(&str) -> Result<Label, BadLabel>) -> Result<RuleSubject, BadRule> {
    match text.strip_prefix(LABEL_PREFIX) {
        Some(name) => match label(name) {
            Ok(label) => Ok(RuleSubject::Label(label)),
            Err(fault) => Err(BadRule::Label {
                position: LABEL_PREFIX.len(),
                fault,
            }),
        },
        None => Ok(RuleSubject::Paths(Pattern::parse(text)?)),
    }
}

fn parse_priority(text: &str, position: usize) -> Result<i32, BadRule> {
    text.parse().map_err(|_| BadRule::Priority {
        position,
        text: text.to_owned(),
    })
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
