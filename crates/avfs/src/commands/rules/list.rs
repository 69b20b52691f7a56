//! `avfs rules list`: the rules that hold, and where they come from.

use agentvfs::rules::Rules;
use anyhow::Result;
use serde::Serialize;

use super::in_force::InForce;
use super::{ListedRuleBody, bodies, print_rules};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::rule_args::RuleArgs;

/// List the rules that apply with these flags, and where they come from
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Without flags, these are the rules that are stored with the vault; in a task, those
that programs run with; in a project without a chosen task, those of a new task.

Examples:
  avfs rules list
  avfs rules list --preset agent-safe --rule '/docs/**=write'"
)]
pub struct RulesListArgs {
    #[command(flatten)]
    pub rules: RuleArgs,
}

#[derive(Serialize)]
struct RulesListBody {
    /// Whether there are rules at all; without rules, everything can be written.
    restricted: bool,
    rules: Vec<ListedRuleBody>,
}

pub fn run(context: &mut Context<'_>, args: &RulesListArgs) -> Result<ExitStatus> {
    let InForce { rules, subject, .. } = InForce::find(context, &args.rules)?;
    subject.tell(context.out);
    if context.out.is_json() {
        let list = rules.as_ref().map(Rules::list).unwrap_or_default();
        let body = RulesListBody {
            restricted: rules.is_some(),
            rules: bodies(list),
        };
        context.out.object("rules-list", &body)?;
        return Ok(ExitStatus::Success);
    }
    match rules {
        Some(rules) if rules.list().is_empty() => {
            context.out.talk("the list is empty: nothing can be seen");
        }
        Some(rules) => print_rules(context.out, rules.list())?,
        None => context.out.talk("there are no rules: everything can be written"),
    }
    Ok(ExitStatus::Success)
}
