//! `avfs conflicts`: conflicts that merges left open.

use agentvfs::OpenConflict;
use anyhow::Result;
use serde::Serialize;

use crate::conflicts::ConflictBody;
use crate::context::Context;
use crate::escape::printable;
use crate::exit::ExitStatus;
use crate::json::from_root;

/// List the conflicts that merges left open
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exits with status 1 if there are any. `avfs resolve PATH` resolves one.

Examples:
  avfs conflicts
  avfs conflicts --json | jq -r '.conflicts[].path'"
)]
pub struct ConflictsArgs {}

#[derive(Serialize)]
struct ConflictsBody {
    vault: String,
    conflicts: Vec<ConflictBody>,
}

pub fn run(context: &mut Context<'_>, _: &ConflictsArgs) -> Result<ExitStatus> {
    let vault = context.vault()?;
    let open = vault.conflicts()?;
    if context.out.is_json() {
        let conflicts = open.iter().map(ConflictBody::new).collect();
        context.out.object(
            "conflicts",
            &ConflictsBody {
                vault: vault.name()?.to_string(),
                conflicts,
            },
        )?;
    } else {
        for OpenConflict { conflict, from, .. } in &open {
            let path = printable(&from_root(&conflict.path));
            context.out.line(format_args!(
                "{:<15}  {path}  (merging {from})",
                conflict.kind.name()
            ))?;
        }
    }
    Ok(if open.is_empty() {
        ExitStatus::Success
    } else {
        ExitStatus::No
    })
}
