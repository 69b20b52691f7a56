//! `avfs revert`: single paths back to the last checkpoint.

use agentvfs::Error;
use agentvfs::error::HistoryError;
use anyhow::Result;

use crate::args::{PathArg, path_arg};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::rule_args::RuleArgs;
use crate::versions::{detail, last_landmark, report_restored};

/// Restore files and directories to the last checkpoint
#[derive(Debug, clap::Args)]
#[command(
    after_help = "In a fork without a checkpoint, they go back to the state that it was forked from.

Examples:
  avfs revert src/main.rs"
)]
pub struct RevertArgs {
    /// The files and directories to restore
    #[arg(value_name = "PATH", required = true, value_parser = path_arg())]
    paths: Vec<PathArg>,

    #[command(flatten)]
    pub rules: RuleArgs,
}

pub fn run(context: &mut Context<'_>, args: &RevertArgs) -> Result<ExitStatus> {
    let paths = context.paths(&args.paths)?;
    let vault = context.vault()?;
    let Some(landmark) = last_landmark(&vault)? else {
        return Err(Error::History(HistoryError::NoCheckpoint {
            vault: vault.name()?.to_string(),
        })
        .into());
    };
    let from = vault.revision(&landmark.revision())?;
    let done = vault.restore_paths(&from, &paths, "revert", &detail(&landmark, &paths))?;
    report_restored(context, &vault, &landmark.to_string(), &done)
}
