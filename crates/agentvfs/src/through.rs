//! A vault seen through rules: handles all of whose calls obey them, and the rules that a vault keeps itself.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use avfs_core::rules::{Origin, Preset, Rule, Rules};
use avfs_tree::{TreeReader, WorkTree};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::record::VaultRecord;
use crate::vault::Vault;

/// How much of a vault a handle shows.
#[derive(Clone, Default)]
pub(crate) enum Sight {
    #[default]
    Everything,
    Through(Rules),
    /// As the vault itself says, and another vault that is reached from it likewise.
    AsStored(Option<Rules>),
}

/// Lists of rules as records hold them, made ready to decide.
#[derive(Default)]
pub(crate) struct KnownRules(Mutex<HashMap<Vec<RuleRecord>, Rules>>);

impl KnownRules {
    /// How many lists are remembered.
    const MOST: usize = 64;

    fn get(&self, stored: &[RuleRecord]) -> Option<Rules> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(stored).cloned()
    }

    fn put(&self, stored: &[RuleRecord], rules: &Rules) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KnownRules::MOST {
            known.clear();
        }
        known.insert(stored.to_vec(), rules.clone());
    }
}

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
    pub fn list(rules: &[Rule]) -> Vec<RuleRecord> {
        let presets = Preset::ALL.map(|preset| (preset, preset.rules()));
        let mut left = rules;
        let mut list = Vec::new();
        while let Some((first, rest)) = left.split_first() {
            let whole = presets.iter().find(|(_, rules)| !rules.is_empty() && left.starts_with(rules));
            match whole {
                Some((preset, rules)) => {
                    let rule = format!("{PRESET}{}", preset.name());
                    list.push(RuleRecord { rule, origin: String::new() });
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
    fn read_all(&self) -> Option<Vec<Rule>> {
        match self.rule.strip_prefix(PRESET) {
            Some(name) => Some(name.parse::<Preset>().ok()?.rules()),
            None => Some(vec![self.read()?]),
        }
    }

    fn of(rule: &Rule) -> RuleRecord {
        RuleRecord { rule: rule.to_string(), origin: rule.origin.to_string() }
    }

    fn read(&self) -> Option<Rule> {
        Some(Rule::parse_stored(&self.rule).ok()?.with_origin(Origin::new(&self.origin)))
    }
}

/// How many rules the audit log tells one by one.
const TOLD: usize = 20;

fn described(rules: &[Rule]) -> String {
    let mut told: Vec<String> = rules.iter().take(TOLD).map(Rule::to_string).collect();
    if rules.len() > TOLD {
        told.push(format!("and {} more", rules.len() - TOLD));
    }
    told.join(" ")
}

impl Vault {
    /// The same vault as it is seen through rules. What is hidden does not exist for any call of this handle, and
    /// what is about the vault as a whole is refused.
    pub fn through(&self, rules: Rules) -> Vault {
        self.with_sight(Sight::Through(rules))
    }

    /// The same vault as it is seen through the rules that are stored with it, if there are any.
    pub fn through_stored(&self) -> Result<Vault> {
        let rules = self.stored_rules()?.map(Rules::new).transpose()?;
        Ok(self.with_sight(Sight::AsStored(rules)))
    }

    /// The same vault, all of it.
    pub fn unrestricted(&self) -> Vault {
        self.with_sight(Sight::Everything)
    }

    /// The rules that this handle obeys.
    pub fn rules(&self) -> Option<&Rules> {
        match self.sight() {
            Sight::Everything | Sight::AsStored(None) => None,
            Sight::Through(rules) | Sight::AsStored(Some(rules)) => Some(rules),
        }
    }

    /// Another vault, seen as this one is.
    pub(crate) fn likewise(&self, other: &Vault) -> Result<Vault> {
        match self.sight() {
            Sight::Everything => Ok(other.clone()),
            Sight::Through(rules) => Ok(other.through(rules.clone())),
            Sight::AsStored(_) => other.through_stored(),
        }
    }

    pub(crate) fn seen(&self, reader: TreeReader) -> TreeReader {
        match self.rules() {
            Some(rules) => reader.through(rules.clone()),
            None => reader,
        }
    }

    pub(crate) fn set_sight_of(&self, tree: &WorkTree) {
        if let Some(rules) = self.rules() {
            tree.set_rules(rules.clone());
        }
    }

    /// Refuses what cannot be done or told through rules.
    pub(crate) fn check_unrestricted(&self, action: &'static str) -> Result<()> {
        match self.rules() {
            Some(_) => Err(Error::NotThroughRules { vault: self.name()?.to_string(), action }),
            None => Ok(()),
        }
    }

    /// The rules that are stored with the vault.
    pub fn stored_rules(&self) -> Result<Option<Vec<Rule>>> {
        let record = self.record()?.0;
        record.rules.as_deref().map(|stored| self.read_rules(stored)).transpose()
    }

    /// Through which rules programs see the vault if nobody says others: those that are stored with it, or those that the
    /// task was made with.
    pub fn rules_for_programs(&self) -> Result<Option<Vec<Rule>>> {
        let record = self.record()?.0;
        let of_task = record.task.as_ref().and_then(|task| task.rules.as_deref());
        record.rules.as_deref().or(of_task).map(|stored| self.read_rules(stored)).transpose()
    }

    /// The rules that a record of this vault holds, made ready to decide.
    pub(crate) fn ready_rules(&self, stored: &[RuleRecord]) -> Result<Rules> {
        let known = self.store().known_rules();
        if let Some(rules) = known.get(stored) {
            return Ok(rules);
        }
        let rules = Rules::new(self.read_rules(stored)?)?;
        known.put(stored, &rules);
        Ok(rules)
    }

    /// The rules that a record of this vault holds.
    pub(crate) fn read_rules(&self, stored: &[RuleRecord]) -> Result<Vec<Rule>> {
        let rules: Option<Vec<Vec<Rule>>> = stored.iter().map(RuleRecord::read_all).collect();
        rules.map(|rules| rules.concat()).ok_or_else(|| Error::DamagedRecord {
            key: crate::record::key::vault(self.id()),
            reason: "a rule is not a rule".into(),
        })
    }

    /// Stores rules with the vault, through which it is then seen where nobody says otherwise; `None` takes them
    /// away. Mounts that are there keep theirs.
    pub fn store_rules(&self, rules: Option<&[Rule]>) -> Result<()> {
        self.check_unrestricted("storing rules")?;
        // What cannot be decided by is never stored.
        rules.map(|rules| Rules::new(rules.to_vec())).transpose()?;
        let stored = rules.map(|rules| rules.iter().map(RuleRecord::of).collect::<Vec<_>>());
        let detail = rules.map_or("none".to_owned(), described);
        self.update("rules", &detail, |record: &mut VaultRecord, _| {
            record.rules = stored.clone();
            Ok(())
        })
    }
}
