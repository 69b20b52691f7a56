//! `avfs workspace rollback`: restores an earlier state of a workspace.

use anyhow::Result;

use crate::context::Context;
use crate::exit::ExitStatus;
use crate::versions::{last_landmark, report_restored};

/// Restore a workspace to a checkpoint, or to its beginning
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Without CHECKPOINT, restores the last one, or the beginning if there is none.
`avfs undo --vault NAME` undoes a rollback.

Examples:
  avfs workspace rollback try
  avfs workspace rollback try works"
)]
pub struct RollbackArgs {
    /// The workspace
    #[arg(value_name = "NAME")]
    workspace: String,

    /// The checkpoint to restore
    checkpoint: Option<String>,
}

pub fn run(context: &mut Context<'_>, args: &RollbackArgs) -> Result<ExitStatus> {
    let task = context.task(Some(&args.workspace))?;
    let vault = task.vault();
    let to = match &args.checkpoint {
        Some(name) => name.clone(),
        None => match last_landmark(vault)? {
            Some(landmark) => landmark.revision(),
            None => task.base()?.to_string(),
        },
    };
    let done = vault.restore(&vault.revision(&to)?, &to)?;
    report_restored(context, vault, &to, &done)
}
