//! `avfs mkdir`: new directories.

use avfs_core::TreePath;

use crate::args::vault_path;

/// Make directories
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs mkdir -p src/commands")]
pub struct MkdirArgs {
    #[arg(value_name = "PATH", required = true, value_parser = vault_path())]
    paths: Vec<TreePath>,

    /// Make missing parents, and accept directories that exist
    #[arg(short, long)]
    parents: bool,
}
