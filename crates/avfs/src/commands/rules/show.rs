//! `avfs rules show`: the rules that are stored with a vault.

use anyhow::Result;

use super::print_rules;
use super::set::StoredBody;
use crate::context::Context;
use crate::exit::ExitStatus;

/// Show the rules that are stored with the vault
#[derive(Debug, clap::Args)]
#[command(
    after_help = "For a task without stored rules, these are the rules with which it was made: programs
in it run with them, and so do programs in its forks. Programs in the vault of a
project run with the usual rules of tasks.

Examples:
  avfs rules show
  avfs rules show --vault web"
)]
pub struct RulesShowArgs {}

pub fn run(context: &mut Context<'_>, _args: &RulesShowArgs) -> Result<ExitStatus> {
    let vault = context.whole_vault()?;
    if context.out.is_json() {
        context.out.object("rules-stored", &StoredBody::new(&vault)?)?;
        return Ok(ExitStatus::Success);
    }
    let of_task = vault.stored_rules()?.is_none();
    match vault.rules_for_programs()? {
        Some(rules) => {
            if of_task {
                let name = vault.name()?;
                context.out.talk(format_args!(
                    "rules for programs in {name}; none are stored with it"
                ));
            }
            print_rules(context.out, &rules)?;
        }
        None => context
            .out
            .talk(format_args!("no rules are stored with vault '{}'", vault.name()?)),
    }
    Ok(ExitStatus::Success)
}
