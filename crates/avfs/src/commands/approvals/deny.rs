//! `avfs approvals deny`: keeps a command from running.

use anyhow::Result;

use super::body::ApprovalBody;
use super::{find, wrapped};
use crate::context::Context;
use crate::exit::ExitStatus;

/// Deny a request, or revoke an approval that was not used yet
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The same request is denied without asking again until the approval would have expired or the
vault changes.

Examples:
  avfs approvals deny a1-5f0c21d8
  avfs approvals deny a1-5f0c21d8 --reason 'use the mirror instead'"
)]
pub struct DenyArgs {
    /// The id of the approval
    #[arg(value_name = "ID")]
    id: String,
    /// Tell the requester this reason
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

pub fn run(context: &mut Context<'_>, args: &DenyArgs) -> Result<ExitStatus> {
    let (store, asked) = find(context, &args.id)?;
    let approval = store.deny(&asked.id, args.reason.as_deref())?;
    if context.out.is_json() {
        context
            .out
            .object("approval-denied", &ApprovalBody::of(&store, &approval)?)?;
        return Ok(ExitStatus::Success);
    }
    for row in wrapped::rows("denied", &approval.binding.command.shown(), wrapped::width()) {
        context.out.talk(row);
    }
    Ok(ExitStatus::Success)
}
