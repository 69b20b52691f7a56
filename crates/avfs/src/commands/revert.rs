//! `avfs revert`: single paths back to the last checkpoint.

use avfs_core::TreePath;

use crate::args::vault_path;

/// Take files and directories back to the last checkpoint
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs revert src/main.rs")]
pub struct RevertArgs {
    #[arg(value_name = "PATH", required = true, value_parser = vault_path())]
    paths: Vec<TreePath>,
}
