//! `avfs rules show`: the rules that are stored with a vault.

use anyhow::Result;

use super::print_rules;
use super::set::StoredBody;
use crate::context::Context;
use crate::exit::ExitStatus;

/// Show the rules that are stored with the vault
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs rules show
  avfs rules show --vault web")]
pub struct ShowArgs {}

pub fn run(context: &mut Context<'_>, _args: &ShowArgs) -> Result<ExitStatus> {
    let vault = context.whole_vault()?;
    if context.out.is_json() {
        context.out.object("rules-stored", &StoredBody::new(&vault)?)?;
        return Ok(ExitStatus::Success);
    }
    match vault.stored_rules()? {
        Some(rules) => print_rules(context.out, &rules)?,
        None => context.out.talk(format_args!("no rules are stored with vault '{}'", vault.name()?)),
    }
    Ok(ExitStatus::Success)
}
