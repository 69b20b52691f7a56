//! `avfs tree`: directories as a picture.

use avfs_core::TreePath;

use crate::args::{AtArg, vault_path};

/// Draw a directory and what is below it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs tree -L 2
  avfs tree src --at before-upgrade")]
pub struct TreeArgs {
    #[arg(value_parser = vault_path(), default_value = "/")]
    path: TreePath,

    /// Only this many levels
    #[arg(short = 'L', long = "level", value_name = "N")]
    levels: Option<usize>,

    /// Also names that begin with a dot
    #[arg(short, long)]
    all: bool,

    #[command(flatten)]
    at: AtArg,
}
