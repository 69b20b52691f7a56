//! `avfs rm`: remove entries.

use avfs_core::TreePath;

use crate::args::vault_path;

/// Remove files and directories
#[derive(Debug, clap::Args)]
#[command(after_help = "`avfs undo` brings them back.

Examples:
  avfs rm notes.txt
  avfs rm -r target")]
pub struct RmArgs {
    #[arg(value_name = "PATH", required = true, value_parser = vault_path())]
    paths: Vec<TreePath>,

    /// Directories with everything in them
    #[arg(short, long)]
    recursive: bool,

    /// Do not mind if something does not exist
    #[arg(short, long)]
    force: bool,
}
