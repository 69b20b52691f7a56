//! `avfs checkpoint delete`: let a checkpoint go.

use anyhow::Result;
use serde_json::json;

use crate::context::Context;
use crate::exit::ExitStatus;
use crate::versions::short;

/// Delete checkpoints; the files of the vault do not change
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs checkpoint delete before-upgrade")]
pub struct CheckpointDeleteArgs {
    /// The checkpoints to delete
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
}

pub fn run(context: &mut Context<'_>, args: &CheckpointDeleteArgs) -> Result<ExitStatus> {
    let vault = context.vault()?;
    // All names are resolved first: if one is unknown, no checkpoint is deleted.
    let found = args
        .names
        .iter()
        .map(|name| vault.checkpoint(name))
        .collect::<Result<Vec<_>, _>>()?;
    let mut deleted = Vec::new();
    for checkpoint in found {
        // A name that was given twice is gone by now.
        if deleted.contains(&checkpoint.name.to_string()) {
            continue;
        }
        vault.delete_checkpoint(checkpoint.name.as_str())?;
        let snapshot = short(checkpoint.snapshot);
        context.out.talk(format_args!(
            "deleted checkpoint {} (snapshot {snapshot})",
            checkpoint.name
        ));
        deleted.push(checkpoint.name.to_string());
    }
    if context.out.is_json() {
        let body = json!({ "vault": vault.name()?.as_str(), "deleted": deleted });
        context.out.object("checkpoints-deleted", &body)?;
    }
    Ok(ExitStatus::Success)
}
