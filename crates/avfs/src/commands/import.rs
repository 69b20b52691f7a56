//! `avfs import`: host files into a vault.

use std::path::PathBuf;

use avfs_core::TreePath;

use crate::args::vault_path;

/// Copy a directory or a tar archive of the host into the vault
#[derive(Debug, clap::Args)]
#[command(after_help = "Bytes, modes, times, symbolic and hard links, extended attributes and holes
are kept. A tar archive with a harmful entry (an absolute path, '..', a
device, a path through a link) is refused as a whole.

Examples:
  avfs import ~/src/web
  avfs import release.tar vendor/release
  git archive HEAD | avfs import - src")]
pub struct ImportArgs {
    /// Directory or tar file to read; '-' is a tar archive on standard input
    #[arg(value_name = "DIR|TAR", value_hint = clap::ValueHint::AnyPath)]
    source: PathBuf,

    /// Where to put it
    #[arg(value_parser = vault_path(), default_value = "/")]
    path: TreePath,
}
