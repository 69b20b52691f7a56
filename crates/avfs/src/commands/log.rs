//! `avfs log`: the history of a vault or of one path.

use avfs_core::TreePath;

use crate::args::vault_path;

/// Show the history of the vault, or of one file
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs log -n 10
  avfs log src/main.rs
  avfs log --graph")]
pub struct LogArgs {
    /// Only snapshots that changed this path
    #[arg(value_parser = vault_path())]
    path: Option<TreePath>,

    /// Draw the forks and merges of all vaults of the store
    #[arg(long, conflicts_with = "path")]
    graph: bool,

    /// At most this many
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<usize>,
}
