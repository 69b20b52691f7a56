//! `avfs mv`: another place or name.

use avfs_core::TreePath;

use crate::args::vault_path;

/// Move or rename files and directories
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs mv draft.md final.md
  avfs mv a.txt b.txt archive/")]
pub struct MvArgs {
    #[arg(value_name = "FROM", required = true, value_parser = vault_path())]
    from: Vec<TreePath>,

    /// The new name, or a directory to move into
    #[arg(value_parser = vault_path())]
    to: TreePath,

    /// Refuse to replace something
    #[arg(short, long)]
    no_clobber: bool,
}
