//! `avfs workspace rollback`: a workspace as it was.

use anyhow::Result;

use crate::context::Context;
use crate::exit::ExitStatus;
use crate::versions::{last_landmark, report_restored};

/// Take a workspace back to a checkpoint, or to its beginning
#[derive(Debug, clap::Args)]
#[command(after_help = "Without a checkpoint it is the last one, or the beginning if there is none.
`avfs undo --vault NAME` takes a rollback back.

Examples:
  avfs workspace rollback try
  avfs workspace rollback try works")]
pub struct RollbackArgs {
    #[arg(value_name = "NAME")]
    workspace: String,

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
