//! `avfs revert`: single paths back to the last checkpoint.

use agentvfs::Error;
use anyhow::Result;
use avfs_core::TreePath;

use crate::args::vault_path;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::rule_args::RuleArgs;
use crate::versions::{detail, last_landmark, report_restored};

/// Take files and directories back to the last checkpoint
#[derive(Debug, clap::Args)]
#[command(after_help = "A fork without a checkpoint goes back to the state it was forked from.

Examples:
  avfs revert src/main.rs")]
pub struct RevertArgs {
    #[arg(value_name = "PATH", required = true, value_parser = vault_path())]
    paths: Vec<TreePath>,

    #[command(flatten)]
    pub rules: RuleArgs,
}

pub fn run(context: &mut Context<'_>, args: &RevertArgs) -> Result<ExitStatus> {
    let vault = context.vault()?;
    let Some(landmark) = last_landmark(&vault)? else {
        return Err(Error::NoCheckpoint { vault: vault.name()?.to_string() }.into());
    };
    let from = vault.revision(&landmark.revision())?;
    let done = vault.restore_paths(&from, &args.paths, "revert", &detail(&landmark, &args.paths))?;
    report_restored(context, &vault, &landmark.to_string(), &done)
}
