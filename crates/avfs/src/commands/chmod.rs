//! `avfs chmod`: permission bits.

use avfs_core::TreePath;

use crate::args::vault_path;

/// Change permission bits
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs chmod 755 run.sh
  avfs chmod u+x run.sh
  avfs chmod -R go-w src")]
pub struct ChmodArgs {
    /// Octal (755) or symbolic (u+x,go-w)
    mode: String,

    #[arg(value_name = "PATH", required = true, value_parser = vault_path())]
    paths: Vec<TreePath>,

    /// Everything below, too
    #[arg(short = 'R', long)]
    recursive: bool,
}
