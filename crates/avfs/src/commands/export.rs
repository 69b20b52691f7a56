//! `avfs export`: files of a vault to the host.

use std::path::PathBuf;

use avfs_core::TreePath;

use crate::args::{AtArg, vault_path};

/// Copy the vault, or a part of it, to a directory or a tar archive of the host
#[derive(Debug, clap::Args)]
#[command(
    allow_missing_positional = true,
    after_help = "A target that ends in .tar, or '-', is written as a tar archive.

Examples:
  avfs export /tmp/web
  avfs export dist dist.tar
  avfs export - --at v1 | tar t"
)]
pub struct ExportArgs {
    /// What to copy
    #[arg(value_parser = vault_path(), default_value = "/")]
    path: TreePath,

    /// Directory or tar file to write; '-' is a tar archive on standard output
    #[arg(value_name = "DIR|TAR", required = true, value_hint = clap::ValueHint::AnyPath)]
    target: PathBuf,

    /// Write into a directory that has files, or over a tar file
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    at: AtArg,
}
