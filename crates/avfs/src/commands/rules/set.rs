//! `avfs rules set`: rules that are stored with a vault.

use agentvfs::rules::Rules;
use anyhow::Result;
use serde::Serialize;

use super::{ListedRuleBody, bodies};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::rule_args::{Chosen, RuleArgs, SHOW_THE_REST, hide_everything};
use crate::versions::count;

/// Store rules with the vault, or remove them
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Stored rules apply to mounts, runs and every command that accepts rule flags, unless such
a flag is given. A fork starts with the rules of its parent. Existing mounts keep their
rules; `avfs rules apply` changes them.

Examples:
  avfs rules set --preset agent-safe
  avfs rules set --rules avfs.toml --rule '/docs/**=write'
  avfs rules set --none"
)]
pub struct RulesSetArgs {
    /// Remove the stored rules
    #[arg(long, conflicts_with_all = ["rule", "preset", "rules", "no_rules"])]
    none: bool,

    #[command(flatten)]
    pub rules: RuleArgs,
}

#[derive(Serialize)]
pub struct StoredBody {
    vault: String,
    /// None: all of the vault is seen.
    rules: Option<Vec<ListedRuleBody>>,
    /// Whether they are stored with the vault. Others hold for programs only.
    stored: bool,
}

impl StoredBody {
    pub fn new(vault: &agentvfs::Vault) -> Result<StoredBody> {
        let stored = vault.stored_rules()?.is_some();
        let rules = vault.rules_for_programs()?;
        Ok(StoredBody {
            vault: vault.name()?.to_string(),
            rules: rules.as_deref().map(bodies),
            stored,
        })
    }
}

pub fn run(context: &mut Context<'_>, args: &RulesSetArgs) -> Result<ExitStatus> {
    let rules = match args.rules.read()? {
        _ if args.none => None,
        Chosen::These(rules) => Some(rules),
        Chosen::Everything => None,
        Chosen::Stored => return Err(nothing_named().into()),
    };
    let vault = context.whole_vault()?;
    vault.store_rules(rules.as_ref().map(Rules::list))?;
    if rules.as_ref().is_some_and(hide_everything) {
        context.out.warn(format_args!(
            "these rules allow nothing, so that all of the vault is hidden: {SHOW_THE_REST}"
        ));
    }
    if context.out.is_json() {
        context.out.object("rules-stored", &StoredBody::new(&vault)?)?;
        return Ok(ExitStatus::Success);
    }
    let name = vault.name()?;
    match rules {
        Some(rules) => {
            let rules = count(rules.list().len() as u64, "rule");
            context
                .out
                .talk(format_args!("vault '{name}' is seen through {rules} from now on"));
        }
        None => context.out.talk(format_args!("vault '{name}' has no rules")),
    }
    if !vault.mounts().list()?.is_empty() {
        context
            .out
            .talk("its mounts keep their rules: `avfs rules apply DIR` changes them");
    }
    Ok(ExitStatus::Success)
}

fn nothing_named() -> Failure {
    Failure::new("usage", ExitStatus::BadInput, "no rules are named").hint(Some(
        "name some with --preset, --rules or --rule, or take them away with --none".to_owned(),
    ))
}
