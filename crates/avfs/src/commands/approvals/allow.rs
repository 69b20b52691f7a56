//! `avfs approvals allow`: lets a command run.

use std::path::PathBuf;

use agentvfs::Store;
use agentvfs::approvals::{Allowance, Approval, SavePlace};
use anyhow::Result;
use serde::Serialize;

use super::body::{ApprovalBody, ApprovalsRuleBody};
use super::{find, wrapped};
use crate::context::Context;
use crate::exit::ExitStatus;

/// Allow a request: once, for 8 hours, or always
#[derive(Debug, clap::Args)]
#[command(
    after_help = "--once (the default) allows one run of exactly what `avfs approvals show` lists, on that state of the vault.
--session allows the same request by the same principal for 8 hours, whatever the state of the vault.
--always saves a rule with the vault, for runs that reach no other hosts; `avfs approvals rules --forget N`
removes it. --rule saves fewer words of the command, down to its subcommand. --policy appends the rule to a
policy file instead, with its network. If a word of the command refers to a file of the vault, or to a program
that is known only when it runs, only --once is possible.

Examples:
  avfs approvals allow a1-5f0c21d8
  avfs approvals allow a1-5f0c21d8 --session
  avfs approvals allow a1-5f0c21d8 --always
  avfs approvals allow a1-5f0c21d8 --always --rule 'git push origin'
  avfs approvals allow a1-5f0c21d8 --always --policy policy.toml"
)]
pub struct ApprovalsAllowArgs {
    /// The id of the approval
    #[arg(value_name = "ID")]
    id: String,
    /// Allow one run (the default)
    #[arg(long, group = "scope")]
    once: bool,
    /// Allow the same request for 8 hours
    #[arg(long, group = "scope")]
    session: bool,
    /// Save the rule that `avfs approvals show` prints
    #[arg(long, group = "scope")]
    always: bool,
    /// Save these words instead; can be repeated, once for each part of the command
    #[arg(long, value_name = "WORDS", requires = "always")]
    rule: Vec<String>,
    /// Save the rule in this policy file
    #[arg(long, value_name = "FILE", requires = "always")]
    policy: Option<PathBuf>,
}

#[derive(Serialize)]
struct AllowedBody {
    #[serde(flatten)]
    approval: ApprovalBody,
    saved: Vec<ApprovalsRuleBody>,
}

impl ApprovalsAllowArgs {
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

pub fn run(context: &mut Context<'_>, args: &ApprovalsAllowArgs) -> Result<ExitStatus> {
    let (store, asked) = find(context, &args.id)?;
    let allowance = args.allowance();
    let (approval, saved) = store.allow(&asked.id, &allowance)?;
    let has_moved = allowance == Allowance::Once && has_moved(&store, &approval);
    let status = if has_moved {
        ExitStatus::No
    } else {
        ExitStatus::Success
    };
    if has_moved {
        let id = &approval.id;
        context.out.warn(format_args!(
            "approval {id} no longer holds: the vault has changed since the request"
        ));
        context.out.talk("hint: run the command again: it asks again");
    }
    if context.out.is_json() {
        let saved = saved.iter().map(ApprovalsRuleBody::of).collect();
        let body = AllowedBody {
            approval: ApprovalBody::of(&store, &approval)?,
            saved,
        };
        context.out.object("approval-allowed", &body)?;
        return Ok(status);
    }
    if has_moved {
        return Ok(status);
    }
    for row in wrapped::rows("allowed", &approval.binding.command.shown(), wrapped::width()) {
        context.out.talk(row);
    }
    for rule in saved {
        context.out.talk(format_args!("saved: {}", rule.name()));
    }
    Ok(status)
}

/// Whether the vault has changed since the request. If it cannot be examined now, that is not reported.
fn has_moved(store: &Store, approval: &Approval) -> bool {
    let head = store.vault_by_id(approval.binding.vault).head();
    head.is_ok_and(|head| head != approval.binding.head)
}
