//! `avfs approvals rules`: what was permanently allowed in a vault.

use agentvfs::approvals::{AskedNetwork, SavedRule};
use anyhow::Result;
use serde::Serialize;

use super::body::ProgramBody;
use super::wrapped;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::time::show_rfc3339;

/// List the rules that were saved with a vault, or delete one
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A saved rule answers where the policy would ask. What the policy denies stays denied.

Examples:
  avfs approvals rules
  avfs approvals rules --forget 2"
)]
pub struct RulesArgs {
    /// Delete the rule with this number
    #[arg(long, value_name = "N")]
    forget: Option<usize>,
}

#[derive(Serialize)]
struct RulesBody {
    vault: String,
    rules: Vec<SavedRuleBody>,
    forgotten: Option<SavedRuleBody>,
}

#[derive(Serialize)]
struct SavedRuleBody {
    rule: String,
    network: AskedNetwork,
    approval: String,
    by: String,
    time: String,
    /// Whether it is still valid: rules of older versions do not record where their programs were.
    holds: bool,
    /// Whether it applies to one command as a whole.
    whole: bool,
    programs: Vec<ProgramBody>,
}

impl From<&SavedRule> for SavedRuleBody {
    fn from(saved: &SavedRule) -> SavedRuleBody {
        SavedRuleBody {
            rule: saved.rule.clone(),
            network: saved.network.clone(),
            approval: saved.approval.to_string(),
            by: saved.by.clone(),
            time: show_rfc3339(saved.time),
            holds: saved.holds_for.is_some(),
            whole: saved
                .holds_for
                .as_ref()
                .is_some_and(|holds_for| holds_for.command.is_some()),
            programs: saved
                .holds_for
                .iter()
                .flat_map(|holds_for| &holds_for.programs)
                .map(ProgramBody::of)
                .collect(),
        }
    }
}

pub fn run(context: &mut Context<'_>, args: &RulesArgs) -> Result<ExitStatus> {
    let vault = context.vault()?;
    let forgotten = args
        .forget
        .map(|number| vault.approvals().forget_saved_rule(number))
        .transpose()?;
    let rules = vault.approvals().saved_rules()?;
    if context.out.is_json() {
        let body = RulesBody {
            vault: vault.name()?.to_string(),
            rules: rules.iter().map(SavedRuleBody::from).collect(),
            forgotten: forgotten.as_ref().map(SavedRuleBody::from),
        };
        context.out.object("approval-rules", &body)?;
        return Ok(ExitStatus::Success);
    }
    if let Some(gone) = forgotten {
        context.out.talk(format_args!("forgotten: {}", gone.name()));
        return Ok(ExitStatus::Success);
    }
    for (number, saved) in (1..).zip(&rules) {
        let network = match &saved.network {
            AskedNetwork::None => "none".to_owned(),
            AskedNetwork::Host => "host".to_owned(),
            AskedNetwork::Hosts(hosts) => hosts.join(","),
        };
        let kind = match &saved.holds_for {
            None => ", of an older version: a new approval is needed",
            Some(holds_for) if holds_for.command.is_some() => ", in its whole line",
            Some(_) => "",
        };
        context.out.line(format_args!(
            "{number}  {}{kind}, network {network}, {}",
            wrapped::visible(&saved.name()),
            saved.approval
        ))?;
    }
    if rules.is_empty() {
        context.out.talk("no rule was saved");
    }
    Ok(ExitStatus::Success)
}
