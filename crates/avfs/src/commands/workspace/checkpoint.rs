//! `avfs workspace checkpoint`: keep the present state of a workspace.

use anyhow::Result;

use crate::commands::checkpoint::{SaveArgs, save};
use crate::context::Context;
use crate::exit::ExitStatus;

/// Keep the present state of a workspace
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs workspace checkpoint try
  avfs workspace checkpoint try works -m 'all tests pass'")]
pub struct CheckpointArgs {
    #[arg(value_name = "NAME")]
    workspace: String,

    #[command(flatten)]
    checkpoint: SaveArgs,
}

pub fn run(context: &mut Context<'_>, args: &CheckpointArgs) -> Result<ExitStatus> {
    let task = context.task(Some(&args.workspace))?;
    save(context, task.vault(), &args.checkpoint)
}
