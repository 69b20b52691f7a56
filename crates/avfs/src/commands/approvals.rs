//! `avfs approvals`: requests of the exec boundary, and the answers.

mod allow;
mod body;
mod deny;
pub mod in_place;
mod list;
mod rules;
mod show;
mod wrapped;

use agentvfs::approvals::{Approval, ApprovalId};
use agentvfs::{Store, Vault};
use anyhow::Result;

use crate::context::Context;
use crate::exit::ExitStatus;

/// List, show, allow and deny the approvals that `avfs exec` requests
#[derive(Debug, clap::Subcommand)]
pub enum ApprovalsCommand {
    List(list::ApprovalsListArgs),
    Show(show::ApprovalsShowArgs),
    Allow(allow::ApprovalsAllowArgs),
    Deny(deny::DenyArgs),
    Rules(rules::RulesArgs),
}

pub fn run(context: &mut Context<'_>, command: &ApprovalsCommand) -> Result<ExitStatus> {
    match command {
        ApprovalsCommand::List(args) => list::run(context, args),
        ApprovalsCommand::Show(args) => show::run(context, args),
        ApprovalsCommand::Allow(args) => allow::run(context, args),
        ApprovalsCommand::Deny(args) => deny::run(context, args),
        ApprovalsCommand::Rules(args) => rules::run(context, args),
    }
}

/// The store, and the approval that is named in it.
fn find(context: &Context<'_>, id: &str) -> Result<(Store, Approval)> {
    let store = context.store()?;
    store.approvals().clear_away_previews()?;
    let approval = store.approval(&ApprovalId::parse(id)?)?;
    Ok((store, approval))
}

/// The name of a vault by its number.
fn vault_name(store: &Store, approval: &Approval) -> Result<String> {
    let vault: Vault = store.vault_by_id(approval.binding.vault);
    Ok(vault.name()?.to_string())
}
