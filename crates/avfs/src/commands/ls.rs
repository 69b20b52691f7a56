//! `avfs ls`: the entries of a directory.

use avfs_core::TreePath;

use crate::args::{AtArg, vault_path};

/// List files
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs ls -l src
  avfs ls -R --at before-upgrade")]
pub struct LsArgs {
    /// What to list [default: the root]
    #[arg(value_name = "PATH", value_parser = vault_path())]
    paths: Vec<TreePath>,

    /// One line each: mode, links, owner, size, time, name
    #[arg(short, long)]
    long: bool,

    /// Also names that begin with a dot
    #[arg(short, long)]
    all: bool,

    /// Everything below, too
    #[arg(short = 'R', long)]
    recursive: bool,

    #[command(flatten)]
    at: AtArg,
}
