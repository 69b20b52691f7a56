//! `avfs checkpoint restore`: back to a state that was kept.

use avfs_core::TreePath;

use crate::args::vault_path;

/// Go back to a checkpoint; the present state is saved first
#[derive(Debug, clap::Args)]
#[command(after_help = "`avfs undo` takes a restore back.

Examples:
  avfs checkpoint restore before-upgrade
  avfs checkpoint restore before-upgrade --path Cargo.toml --path src")]
pub struct RestoreArgs {
    /// A checkpoint or the beginning of a snapshot's id
    name: String,

    /// Only this file or directory; can be repeated
    #[arg(long = "path", value_name = "PATH", value_parser = vault_path())]
    paths: Vec<TreePath>,
}
