//! `avfs stat`: everything known about entries.

use avfs_core::TreePath;

use crate::args::{AtArg, vault_path};

/// Show all attributes of files, with the version that `write --expect` takes
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs stat notes.txt
  avfs stat notes.txt --json | jq -r '.entries[0].version'")]
pub struct StatArgs {
    #[arg(value_name = "PATH", required = true, value_parser = vault_path())]
    paths: Vec<TreePath>,

    #[command(flatten)]
    at: AtArg,
}
