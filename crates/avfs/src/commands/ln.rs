//! `avfs ln`: symbolic and hard links.

use std::ffi::OsString;

use avfs_core::TreePath;

use crate::args::vault_path;

/// Make a link
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs ln -s releases/4 current
  avfs ln data.bin same-data.bin")]
pub struct LnArgs {
    /// What the link points to: any text with -s, else a file of the vault
    target: OsString,

    #[arg(value_parser = vault_path())]
    name: TreePath,

    /// A symbolic link; otherwise a second name for the same file
    #[arg(short, long)]
    symbolic: bool,
}
