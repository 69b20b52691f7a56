//! Rules that come with the program.

use std::fmt;
use std::str::FromStr;

use super::level::Level;
use super::pattern::Pattern;
use super::rule::{Origin, Rule, Subject};
use crate::label::Label;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Preset {
    ReadOnly,
    FullAccess,
    ViewOnly,
    AgentSafe,
    Development,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no preset '{}'", crate::printable(.0.as_bytes()))]
pub struct BadPreset(pub String);

impl Preset {
    pub const ALL: [Preset; 5] =
        [Preset::ReadOnly, Preset::FullAccess, Preset::ViewOnly, Preset::AgentSafe, Preset::Development];

    pub fn name(self) -> &'static str {
        match self {
            Preset::ReadOnly => "read-only",
            Preset::FullAccess => "full-access",
            Preset::ViewOnly => "view-only",
            Preset::AgentSafe => "agent-safe",
            Preset::Development => "development",
        }
    }

    pub fn description(self) -> &'static str {
        match self {
            Preset::ReadOnly => "everything can be read, nothing written",
            Preset::FullAccess => "everything can be written",
            Preset::ViewOnly => "everything is listed, nothing can be opened",
            Preset::AgentSafe => {
                "everything but secrets can be read; /output, /tmp and what git keeps can be written"
            }
            Preset::Development => {
                "everything can be written but secrets, which are hidden, and files that tools of the host run"
            }
        }
    }

    pub fn rules(self) -> Vec<Rule> {
        let origin = Origin::new(&format!("preset {}", self.name()));
        let rules = match self {
            Preset::ReadOnly => vec![rule("/**", Level::Read)],
            Preset::FullAccess => vec![rule("/**", Level::Write)],
            Preset::ViewOnly => vec![rule("/**", Level::View)],
            Preset::AgentSafe => agent_safe(),
            Preset::Development => development(),
        };
        rules.into_iter().map(|rule| rule.with_origin(origin.clone())).collect()
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Preset {
    type Err = BadPreset;

    fn from_str(name: &str) -> Result<Preset, BadPreset> {
        let found = Preset::ALL.into_iter().find(|preset| preset.name() == name);
        found.ok_or_else(|| BadPreset(name.to_owned()))
    }
}

fn rule(pattern: &str, level: Level) -> Rule {
    Rule::new(Pattern::parse(pattern).expect("a pattern of a preset is tested"), level)
}

fn anywhere(pattern: &str, level: Level) -> Rule {
    rule(&format!("**/{pattern}"), level)
}

fn agent_safe() -> Vec<Rule> {
    vec![rule("/**", Level::Read), rule("/output/**", Level::Write), rule("/tmp/**", Level::Write)]
}

fn development() -> Vec<Rule> {
    vec![rule("/**", Level::Write), anywhere(".env*/", Level::None), fresh_repositories()]
}

fn fresh_repositories() -> Rule {
    let subject = Subject::Label(Label::fresh_repository());
    Rule { subject, level: Level::Write, priority: 1, origin: Origin::default() }
}
