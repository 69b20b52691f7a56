//! Path rules as people write them: files, single lines and presets, refused with the place of a mistake.

mod file;
#[cfg(test)]
mod tests;

pub use avfs_core::rules::{
    BadRules, Level, OverruledBecause, OverruledRule, Pattern, Preset, Rule, RuleExplanation, RuleOrigin,
    RuleState, RuleSubject, Rules,
};
pub use avfs_core::{BadLabel, Label, Labels};
pub use file::RuleFile;

use avfs_core::rules::BadRule;

pub use crate::error::RuleFault;
use crate::error::{Error, Result, RulesError};
use crate::name::closest;
use crate::toml_text::is_first_of_char;

impl RuleFault {
    fn new(place: impl ToString, reason: impl ToString) -> RuleFault {
        RuleFault {
            place: place.to_string(),
            reason: reason.to_string(),
            hint: None,
        }
    }

    fn of_rule(place: impl ToString, bad: &BadRule) -> RuleFault {
        let hint = match bad {
            BadRule::Level { fault, .. } => similar_level(&fault.0),
            BadRule::NoLevel | BadRule::Priority { .. } | BadRule::Label { .. } | BadRule::Pattern(_) => None,
        };
        // Its position is given as a column.
        let reason = match bad {
            BadRule::Pattern(bad) => bad.reason.to_string(),
            bad => bad.to_string(),
        };
        RuleFault {
            hint,
            ..RuleFault::new(place, reason)
        }
    }
}

fn did_you_mean(name: String) -> String {
    format!("did you mean '{name}'?")
}

fn similar_level(written: &str) -> Option<String> {
    closest(written, Level::ALL.iter().map(|level| level.as_str())).map(did_you_mean)
}

/// The rules of tasks for which the user gave none.
pub fn usual() -> Vec<Rule> {
    Preset::Development.rules()
}

/// A preset by its name. `place` is the position of the name.
pub fn preset(place: &str, name: &str) -> Result<Preset> {
    name.parse().map_err(|bad: avfs_core::rules::BadPreset| {
        let similar = closest(name, Preset::ALL.iter().map(|preset| preset.name()));
        let all = || format!("there are {}", Preset::ALL.map(Preset::name).join(", "));
        let hint = Some(similar.map_or_else(all, did_you_mean));
        Error::Rules(RulesError::Fault(RuleFault {
            hint,
            ..RuleFault::new(place, bad)
        }))
    })
}

/// A rule in its one-line notation: `PATTERN=LEVEL` or `PATTERN=LEVEL@PRIORITY`. `place` is its position.
pub fn line(place: &str, text: &str) -> Result<Rule> {
    let fault = |bad: BadRule| {
        let column = 1 + text
            .bytes()
            .take(bad.position())
            .filter(|byte| is_first_of_char(*byte))
            .count();
        Error::Rules(RulesError::Fault(RuleFault::of_rule(
            format!("{place}:{column}"),
            &bad,
        )))
    };
    Ok(Rule::parse(text)
        .map_err(fault)?
        .with_origin(RuleOrigin::new(place)))
}

/// The rules of several lines, each `PATTERN=LEVEL`.
pub fn lines(texts: &[&str]) -> Result<Vec<Rule>> {
    texts.iter().map(|text| line("rules", text)).collect()
}

/// A possible unintended effect of a rule, in words for its author.
pub fn note_on(rule: &Rule) -> Option<String> {
    let written = rule.pattern()?.as_str();
    let name = written
        .strip_suffix("/**")
        .or(written.strip_suffix('/'))
        .unwrap_or(written);
    let is_name_only = !name.is_empty() && !name.contains('/') && !written.starts_with("**");
    is_name_only.then(|| {
        format!("'{written}' means the one at the root; '**/{written}' is about every one, at any depth")
    })
}
