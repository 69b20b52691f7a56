//! A vault seen through rules: handles whose calls all obey them, and the rules that are stored with a vault.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use avfs_core::rules::{Rule, Rules};
use avfs_tree::{TreeReader, WorkTree};

use crate::error::{Error, Result, RulesError, StorageError};
use crate::record::VaultRecord;
use crate::rule_record::RuleRecord;
use crate::vault::Vault;

/// How much of a vault a handle shows.
#[derive(Clone, Default)]
pub(crate) enum VaultVisibility {
    #[default]
    Everything,
    Through(Rules),
    /// As the vault itself specifies, and the same for another vault that is reached from it.
    AsStored(Option<Rules>),
}

/// Lists of rules as records hold them, made ready to decide.
#[derive(Default)]
pub(crate) struct KnownRules(Mutex<HashMap<Vec<RuleRecord>, Rules>>);

impl KnownRules {
    /// How many lists are cached.
    const MOST: usize = 64;

    fn get(&self, stored: &[RuleRecord]) -> Option<Rules> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(stored)
            .cloned()
    }

    fn put(&self, stored: &[RuleRecord], rules: &Rules) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KnownRules::MOST {
            known.clear();
        }
        known.insert(stored.to_vec(), rules.clone());
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
    /// The same vault, seen through rules. Hidden entries do not exist for any call of this handle,
    /// and calls about the vault as a whole are refused.
    pub fn through(&self, rules: Rules) -> Vault {
        self.with_sight(VaultVisibility::Through(rules))
    }

    /// The same vault, seen through the rules that are stored with it, if there are any.
    pub fn through_stored(&self) -> Result<Vault> {
        let rules = self.stored_rules()?.map(Rules::shared).transpose()?;
        Ok(self.with_sight(VaultVisibility::AsStored(rules)))
    }

    /// The same vault, all of it.
    pub fn unrestricted(&self) -> Vault {
        self.with_sight(VaultVisibility::Everything)
    }

    /// The rules that this handle obeys.
    pub fn rules(&self) -> Option<&Rules> {
        match self.sight() {
            VaultVisibility::Everything | VaultVisibility::AsStored(None) => None,
            VaultVisibility::Through(rules) | VaultVisibility::AsStored(Some(rules)) => Some(rules),
        }
    }

    /// Another vault, seen as this one is.
    pub(crate) fn likewise(&self, other: &Vault) -> Result<Vault> {
        match self.sight() {
            VaultVisibility::Everything => Ok(other.clone()),
            VaultVisibility::Through(rules) => Ok(other.through(rules.clone())),
            VaultVisibility::AsStored(_) => other.through_stored(),
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

    /// Refuses calls that are impossible through rules.
    pub(crate) fn check_unrestricted(&self, action: &'static str) -> Result<()> {
        match self.rules() {
            Some(_) => Err(Error::Rules(RulesError::WholeVault {
                vault: self.name()?.to_string(),
                action,
            })),
            None => Ok(()),
        }
    }

    /// The rules that are stored with the vault.
    pub fn stored_rules(&self) -> Result<Option<Vec<Rule>>> {
        let record = self.record()?.0;
        record
            .rules
            .as_deref()
            .map(|stored| self.read_rules(stored))
            .transpose()
    }

    /// The default rules through which programs see the vault: those that are stored with it, or those with
    /// which the task was made that it is or was forked from. In the vault of a project, these are the usual rules of
    /// tasks.
    pub fn rules_for_programs(&self) -> Result<Option<Vec<Rule>>> {
        let record = self.record()?.0;
        let of_task = record.task.as_ref().and_then(|task| task.rules.as_deref());
        record
            .rules
            .as_deref()
            .or(of_task)
            .or(record.program_rules.as_deref())
            .map(|stored| self.read_rules(stored))
            .transpose()
    }

    /// The rules that a record of this vault holds, made ready to decide.
    pub(crate) fn ready_rules(&self, stored: &[RuleRecord]) -> Result<Rules> {
        let known = self.store().known_rules();
        if let Some(rules) = known.get(stored) {
            return Ok(rules);
        }
        let rules = Rules::shared(self.read_rules(stored)?)?;
        known.put(stored, &rules);
        Ok(rules)
    }

    /// The rules that a record of this vault holds.
    pub(crate) fn read_rules(&self, stored: &[RuleRecord]) -> Result<Vec<Rule>> {
        let rules: Option<Vec<Vec<Rule>>> = stored.iter().map(RuleRecord::read_all).collect();
        rules.map(|rules| rules.concat()).ok_or_else(|| {
            Error::Storage(StorageError::DamagedRecord {
                key: crate::record::key::vault(self.id()),
                reason: "a rule is not a rule".into(),
            })
        })
    }

    /// Stores rules with the vault, through which it is then seen by default; `None` removes them. Existing
    /// mounts keep theirs.
    pub fn store_rules(&self, rules: Option<&[Rule]>) -> Result<()> {
        self.check_unrestricted("storing rules")?;
        // Invalid rules are never stored.
        rules.map(|rules| Rules::shared(rules.to_vec())).transpose()?;
        let stored = rules.map(|rules| rules.iter().map(RuleRecord::of).collect::<Vec<_>>());
        let detail = rules.map_or("none".to_owned(), described);
        self.update("rules", &detail, |record: &mut VaultRecord, _| {
            record.rules = stored.clone();
            Ok(())
        })
    }
}
