//! `avfs cp`: copies that share their contents.

use avfs_core::TreePath;

use crate::args::vault_path;

/// Copy files and directories
#[derive(Debug, clap::Args)]
#[command(after_help = "Contents are shared until one side changes: a copy of any size is fast and
takes no room.

Examples:
  avfs cp a.txt b.txt
  avfs cp -r src old-src")]
pub struct CpArgs {
    #[arg(value_name = "FROM", required = true, value_parser = vault_path())]
    from: Vec<TreePath>,

    /// The copy, or a directory to copy into
    #[arg(value_parser = vault_path())]
    to: TreePath,

    /// Directories with everything in them
    #[arg(short, long)]
    recursive: bool,
}
