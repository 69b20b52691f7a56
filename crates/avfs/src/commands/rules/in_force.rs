//! Which rules hold for a command with certain flags.

use agentvfs::Vault;
use agentvfs::rules::Rules;
use anyhow::Result;

use crate::context::Context;
use crate::rule_args::{Chosen, RuleArgs};

pub struct InForce {
    /// `None`: all of a vault is seen.
    pub rules: Option<Rules>,
    /// The chosen vault, if one is.
    pub vault: Option<Vault>,
}

impl InForce {
    pub fn find(context: &Context<'_>, flags: &RuleArgs) -> Result<InForce> {
        let chosen = context.rule_args(flags).read()?;
        let vault = context.vault_if_chosen()?;
        let rules = match (chosen, &vault) {
            (Chosen::These(rules), _) => Some(rules),
            (Chosen::Stored, Some(vault)) => vault.through_stored()?.rules().cloned(),
            (Chosen::Stored, None) | (Chosen::Everything, _) => None,
        };
        Ok(InForce { rules, vault })
    }
}
