//! `avfs checkout`: single paths from another state.

use avfs_core::TreePath;

use crate::args::vault_path;
use crate::revision::Revision;

/// Take files and directories from another state
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs checkout before-upgrade Cargo.lock
  avfs checkout web-fix: src/login.rs")]
pub struct CheckoutArgs {
    /// Where to take them from
    #[arg(value_name = "REV", value_parser = Revision::parse)]
    revision: Revision,

    #[arg(value_name = "PATH", required = true, value_parser = vault_path())]
    paths: Vec<TreePath>,
}
