//! `avfs approvals allow`: lets a command run.

use std::path::PathBuf;

use agentvfs::approvals::{Allowance, SavePlace};
use anyhow::Result;
use serde::Serialize;

use super::body::{ApprovalBody, RuleBody};
use super::{find, wrapped};
use crate::context::Context;
use crate::exit::ExitStatus;

/// Let what is asked run: once, for a session, or always
#[derive(Debug, clap::Args)]
#[command(
    after_help = "--once (the default) holds for one run of exactly what `avfs approvals show` tells, on that state of
the vault. --session holds for the same request by the same principal, whatever the vault holds, for 8 hours.
--always saves a rule with the vault, which holds for runs that reach no other hosts; `avfs approvals rules
--forget N` takes it back. --rule saves other words of the command instead, down to its subcommand. --policy saves it at the end of a
policy file instead, with its network. Where a word of the command means a file of the vault, or a program that is not
known before it runs, only --once is possible.

Examples:
  avfs approvals allow a1-5f0c21d8
  avfs approvals allow a1-5f0c21d8 --session
  avfs approvals allow a1-5f0c21d8 --always
  avfs approvals allow a1-5f0c21d8 --always --rule 'git push origin'
  avfs approvals allow a1-5f0c21d8 --always --policy policy.toml"
)]
pub struct AllowArgs {
    #[arg(value_name = "ID")]
    id: String,
    /// For one run (the default)
    #[arg(long, group = "scope")]
    once: bool,
    /// For the same request, for 8 hours
    #[arg(long, group = "scope")]
    session: bool,
    /// Save the rule that `show` tells
    #[arg(long, group = "scope")]
    always: bool,
    /// Save these words instead; can be given for each part of the command
    #[arg(long, value_name = "WORDS", requires = "always")]
    rule: Vec<String>,
    /// Save it in this policy file
    #[arg(long, value_name = "FILE", requires = "always")]
    policy: Option<PathBuf>,
}

#[derive(Serialize)]
struct AllowedBody {
    #[serde(flatten)]
    approval: ApprovalBody,
    saved: Vec<RuleBody>,
}

impl AllowArgs {
    fn allowance(&self) -> Allowance {
        match (self.session, self.always) {
            (true, _) => Allowance::Session,
            (false, true) => Allowance::Always {
                edits: self.rule.clone(),
                place: self.policy.clone().map_or(SavePlace::Vault, SavePlace::File),
            },
            (false, false) => Allowance::Once,
        }
    }
}

pub fn run(context: &mut Context<'_>, args: &AllowArgs) -> Result<ExitStatus> {
    let (store, asked) = find(context, &args.id)?;
    let (approval, saved) = store.allow(&asked.id, &args.allowance())?;
    if context.out.is_json() {
        let saved = saved.iter().map(RuleBody::of).collect();
        let body = AllowedBody { approval: ApprovalBody::of(&store, &approval)?, saved };
        context.out.object("approval-allowed", &body)?;
        return Ok(ExitStatus::Success);
    }
    for row in wrapped::rows("allowed", &approval.binding.command.shown(), wrapped::width()) {
        context.out.talk(row);
    }
    for rule in saved {
        context.out.talk(format_args!("saved: {}", rule.name()));
    }
    Ok(ExitStatus::Success)
}
