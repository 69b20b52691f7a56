//! `avfs touch`: new empty files, and modification times.

use avfs_core::{Timestamp, TreePath};

use crate::args::{moment, vault_path};

/// Make empty files, or set the modification time of files
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs touch done
  avfs touch --time '2026-05-01 12:30' report.md")]
pub struct TouchArgs {
    #[arg(value_name = "PATH", required = true, value_parser = vault_path())]
    paths: Vec<TreePath>,

    /// The time to set [default: now]
    #[arg(short, long, value_parser = moment)]
    time: Option<Timestamp>,

    /// Do not make files
    #[arg(short = 'c', long)]
    no_create: bool,
}
