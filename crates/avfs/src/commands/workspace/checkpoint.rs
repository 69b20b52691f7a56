//! `avfs workspace checkpoint`: keep the present state of a workspace.

use anyhow::Result;

use crate::commands::checkpoint::{CheckpointSaveArgs, save};
use crate::context::Context;
use crate::exit::ExitStatus;

/// Save the current state of a workspace as a checkpoint
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs workspace checkpoint try
  avfs workspace checkpoint try works -m 'all tests pass'")]
pub struct WorkspaceCheckpointArgs {
    /// The workspace
    #[arg(value_name = "NAME")]
    workspace: String,

    #[command(flatten)]
    checkpoint: CheckpointSaveArgs,
}

pub fn run(context: &mut Context<'_>, args: &WorkspaceCheckpointArgs) -> Result<ExitStatus> {
    let task = context.task(Some(&args.workspace))?;
    save(context, task.vault(), &args.checkpoint)
}
