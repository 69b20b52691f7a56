//! A list of rules as a record holds it.

use avfs_core::rules::{Preset, Rule, RuleOrigin};
use serde::{Deserialize, Serialize};

/// A rule as the record of a vault holds it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct RuleRecord {
    rule: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    origin: String,
}

/// What stands before the name of a preset in the place of all its rules. No pattern has a colon there.
const PRESET: &str = "preset:";

impl RuleRecord {
    /// A list of rules. A preset that is in it as a whole is kept by its name: it has hundreds of them.
    pub(crate) fn list(rules: &[Rule]) -> Vec<RuleRecord> {
        let presets = Preset::ALL.map(|preset| (preset, preset.rules()));
        let mut left = rules;
        let mut list = Vec::new();
        while let Some((first, rest)) = left.split_first() {
            let whole = presets
                .iter()
                .find(|(_, rules)| !rules.is_empty() && left.starts_with(rules));
            match whole {
                Some((preset, rules)) => {
                    let rule = format!("{PRESET}{}", preset.name());
                    list.push(RuleRecord {
                        rule,
                        origin: String::new(),
                    });
                    left = &left[rules.len()..];
                }
                None => {
                    list.push(RuleRecord::of(first));
                    left = rest;
                }
            }
        }
        list
    }

    /// What [`RuleRecord::list`] made a record of.
    pub(crate) fn read_all(&self) -> Option<Vec<Rule>> {
        match self.rule.strip_prefix(PRESET) {
            Some(name) => Some(name.parse::<Preset>().ok()?.rules()),
            None => Some(vec![self.read()?]),
        }
    }

    pub(crate) fn of(rule: &Rule) -> RuleRecord {
        RuleRecord {
            rule: rule.to_string(),
            origin: rule.origin.to_string(),
        }
    }

    fn read(&self) -> Option<Rule> {
        Some(
            Rule::parse_stored(&self.rule)
                .ok()?
                .with_origin(RuleOrigin::new(&self.origin)),
        )
    }
}
