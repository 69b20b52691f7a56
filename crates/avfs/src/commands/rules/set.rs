//! `avfs rules set`: rules that are stored with a vault.

use agentvfs::rules::Rules;
use anyhow::Result;
use serde::Serialize;

use super::{RuleBody, bodies};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::rule_args::{Chosen, RuleArgs};
use crate::versions::count;

/// Store rules with the vault, or take them away
#[derive(Debug, clap::Args)]
#[command(after_help = "Stored rules hold for mounts, runs and every command that takes the flags of rules,
where none of these is given. A fork starts with the rules of its parent. Mounts
that are there keep theirs: see `avfs rules apply`.

Examples:
  avfs rules set --preset agent-safe
  avfs rules set --rules avfs.toml --rule '/docs/**=write'
  avfs rules set --none")]
pub struct SetArgs {
    /// Take the stored rules away
    #[arg(long, conflicts_with_all = ["rule", "preset", "rules", "no_rules"])]
    none: bool,

    #[command(flatten)]
    pub rules: RuleArgs,
}

#[derive(Serialize)]
pub struct StoredBody {
    vault: String,
    /// None: nothing is stored, and all of the vault is seen.
    rules: Option<Vec<RuleBody>>,
}

impl StoredBody {
    pub fn new(vault: &agentvfs::Vault) -> Result<StoredBody> {
        let rules = vault.stored_rules()?;
        Ok(StoredBody { vault: vault.name()?.to_string(), rules: rules.as_deref().map(bodies) })
    }
}

pub fn run(context: &mut Context<'_>, args: &SetArgs) -> Result<ExitStatus> {
    let rules = match args.rules.read()? {
        _ if args.none => None,
        Chosen::These(rules) => Some(rules),
        Chosen::Everything => None,
        Chosen::Stored => return Err(nothing_named().into()),
    };
    let vault = context.whole_vault()?;
    vault.store_rules(rules.as_ref().map(Rules::list))?;
    if context.out.is_json() {
        context.out.object("rules-stored", &StoredBody::new(&vault)?)?;
        return Ok(ExitStatus::Success);
    }
    let name = vault.name()?;
    match rules {
        Some(rules) => {
            let rules = count(rules.list().len() as u64, "rule");
            context.out.talk(format_args!("vault '{name}' is seen through {rules} from now on"));
        }
        None => context.out.talk(format_args!("vault '{name}' has no rules")),
    }
    if !vault.mount_records()?.is_empty() {
        context.out.talk("its mounts keep their rules: `avfs rules apply DIR` changes them");
    }
    Ok(ExitStatus::Success)
}

fn nothing_named() -> Failure {
    Failure::new("usage", ExitStatus::BadInput, "no rules are named")
        .hint(Some("name some with --preset, --rules or --rule, or take them away with --none".to_owned()))
}
