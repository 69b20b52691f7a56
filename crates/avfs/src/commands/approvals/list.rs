//! `avfs approvals list`: requests that wait for an answer.

use agentvfs::approvals::{Approval, ApprovalState};
use anyhow::Result;
use serde::Serialize;

use super::body::ApprovalBody;
use super::{vault_name, wrapped};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::printer::HEADING;
use crate::time::Age;

/// List the approvals that wait for an answer, newest first
#[derive(Debug, clap::Args)]
#[command(
    visible_alias = "ls",
    after_help = "Lists the approvals of all vaults in the store. An approval that is not answered within
24 hours expires.

Examples:
  avfs approvals list
  avfs approvals list --all
  avfs approvals list --json | jq -r '.approvals[].id'"
)]
pub struct ApprovalsListArgs {
    /// Include approvals that were answered or used, or have expired
    #[arg(short, long)]
    all: bool,
}

/// How many rows a command may occupy in the list.
const ROWS: usize = 4;

#[derive(Serialize)]
struct ApprovalsListBody {
    approvals: Vec<ApprovalBody>,
}

pub fn run(context: &mut Context<'_>, args: &ApprovalsListArgs) -> Result<ExitStatus> {
    let store = context.store()?;
    store.approvals().clear_away_previews()?;
    let mut approvals = store.approvals().list()?;
    approvals.retain(|approval| args.all || approval.state == ApprovalState::Pending);
    if context.out.is_json() {
        let bodies = approvals
            .iter()
            .map(|approval| ApprovalBody::of(&store, approval));
        context.out.object(
            "approvals",
            &ApprovalsListBody {
                approvals: bodies.collect::<Result<_>>()?,
            },
        )?;
        return Ok(ExitStatus::Success);
    }
    if approvals.is_empty() {
        context.out.talk("nothing waits for an answer");
        return Ok(ExitStatus::Success);
    }
    let rows = approvals
        .iter()
        .map(|approval| Ok((vault_name(&store, approval)?, approval)));
    let rows = rows.collect::<Result<Vec<_>>>()?;
    show_table(context, &rows, store.now())?;
    Ok(ExitStatus::Success)
}

fn show_table(
    context: &mut Context<'_>,
    rows: &[(String, &Approval)],
    now: agentvfs::Timestamp,
) -> Result<()> {
    let out = &mut *context.out;
    let widest = |width: usize, text: &String| width.max(text.chars().count());
    let ids = rows
        .iter()
        .map(|(_, approval)| approval.id.to_string())
        .collect::<Vec<_>>();
    let id = ids.iter().fold(2, widest);
    let vault = rows.iter().map(|(vault, _)| vault).fold(5, widest);
    let heading = format!(
        "{:<id$}  {:<8}  {:<14}  {:<vault$}  COMMAND",
        "ID", "STATE", "AGE", "VAULT"
    );
    out.line(out.paint(HEADING, heading))?;
    for (name, approval) in rows {
        let age = Age {
            then: approval.created,
            now,
        }
        .to_string();
        let (state, command) = (approval.state.as_str(), approval.binding.command.shown());
        let before = id + vault + 30;
        let (rows, left) = wrapped::beginning(&command, wrapped::width().saturating_sub(before), ROWS);
        let mut rows = rows.into_iter();
        let first = rows.next().unwrap_or_default();
        out.line(format_args!(
            "{:<id$}  {state:<8}  {age:<14}  {name:<vault$}  {first}",
            approval.id
        ))?;
        rows.try_for_each(|row| out.line(format_args!("{:before$}{row}", "")))?;
        if left > 0 {
            let id = &approval.id;
            out.line(format_args!(
                "{:before$}… {left} characters more: avfs approvals show {id}",
                ""
            ))?;
        }
    }
    Ok(())
}
