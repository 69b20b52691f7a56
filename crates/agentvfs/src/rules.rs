//! Path rules as people write them: files, single lines and presets, refused with the place of a mistake.

mod file;
#[cfg(test)]
mod tests;

pub use avfs_core::rules::{
    BadRules, Beaten, Explanation, Level, Origin, Pattern, Preset, Rule, Rules, Standing, Subject, Why,
};
pub use avfs_core::{BadLabel, Label, Labels};
pub use file::RuleFile;

use avfs_core::rules::BadRule;

use crate::error::{Error, Result};
use crate::name::closest;
use crate::toml_text::is_first_of_char;

/// Rules that cannot be used: where the mistake is and what it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct RuleFault {
    /// `FILE:LINE:COLUMN`, or the flag that holds it.
    pub place: String,
    pub reason: String,
    pub hint: Option<String>,
}

impl RuleFault {
    fn new(place: impl ToString, reason: impl ToString) -> RuleFault {
        RuleFault { place: place.to_string(), reason: reason.to_string(), hint: None }
    }

    fn of_rule(place: impl ToString, bad: &BadRule) -> RuleFault {
        let hint = match bad {
            BadRule::Level { fault, .. } => similar_level(&fault.0),
            BadRule::NoLevel | BadRule::Priority { .. } | BadRule::Label { .. } | BadRule::Pattern(_) => None,
        };
        // Its place is told by a column.
        let reason = match bad {
            BadRule::Pattern(bad) => bad.reason.to_string(),
            bad => bad.to_string(),
        };
        RuleFault { hint, ..RuleFault::new(place, reason) }
    }
}

fn did_you_mean(name: String) -> String {
    format!("did you mean '{name}'?")
}

fn similar_level(written: &str) -> Option<String> {
    closest(written, Level::ALL.iter().map(|level| level.as_str())).map(did_you_mean)
}

/// A preset by its name. `place` says where the name stands.
pub fn preset(place: &str, name: &str) -> Result<Preset> {
    name.parse().map_err(|bad: avfs_core::rules::BadPreset| {
        let similar = closest(name, Preset::ALL.iter().map(|preset| preset.name()));
        let all = || format!("there are {}", Preset::ALL.map(Preset::name).join(", "));
        let hint = Some(similar.map_or_else(all, did_you_mean));
        Error::RuleFault(RuleFault { hint, ..RuleFault::new(place, bad) })
    })
}

/// A rule as it is written in one line: `PATTERN=LEVEL` or `PATTERN=LEVEL@PRIORITY`. `place` says where it stands.
pub fn line(place: &str, text: &str) -> Result<Rule> {
    let fault = |bad: BadRule| {
        let column = 1 + text.bytes().take(bad.position()).filter(|byte| is_first_of_char(*byte)).count();
        Error::RuleFault(RuleFault::of_rule(format!("{place}:{column}"), &bad))
    };
    Ok(Rule::parse(text).map_err(fault)?.with_origin(Origin::new(place)))
}

/// What a rule may mean besides what it says, in words for whoever wrote it.
pub fn note_on(rule: &Rule) -> Option<String> {
    let written = rule.pattern()?.as_str();
    let name = written.strip_suffix("/**").or(written.strip_suffix('/')).unwrap_or(written);
    let is_name_only = !name.is_empty() && !name.contains('/') && !written.starts_with("**");
    is_name_only.then(|| {
        format!("'{written}' means the one at the root; '**/{written}' is about every one, at any depth")
    })
}
