//! `avfs checkpoint restore`: back to a state that was kept.

use std::collections::BTreeSet;

use agentvfs::{Revision, Vault};
use anyhow::Result;
use avfs_core::TreePath;

use crate::args::vault_path;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::versions::{detail, report_restored};

/// Go back to a checkpoint; the present state is saved first
#[derive(Debug, clap::Args)]
#[command(after_help = "`avfs undo` takes a restore back.

Examples:
  avfs checkpoint restore before-upgrade
  avfs checkpoint restore before-upgrade --path Cargo.toml --path src")]
pub struct RestoreArgs {
    /// A checkpoint or the beginning of a snapshot's id
    name: String,

    /// Only this file or directory; can be repeated
    #[arg(long = "path", value_name = "PATH", value_parser = vault_path())]
    paths: Vec<TreePath>,
}

pub fn run(context: &mut Context<'_>, args: &RestoreArgs) -> Result<ExitStatus> {
    let vault = context.vault()?;
    let from = vault.revision(&args.name)?;
    let detail = detail(&args.name, &args.paths);
    let done = match args.paths.as_slice() {
        // Through rules, what they hide stays as it is.
        [] if vault.rules().is_some() => {
            vault.restore_paths(&from, &top_level(&vault, &from)?, "restore", &detail)?
        }
        [] => vault.restore(&from, &detail)?,
        paths => vault.restore_paths(&from, paths, "restore", &detail)?,
    };
    report_restored(context, &vault, &args.name, &done)
}

/// Everything that is at the root, in either state.
fn top_level(vault: &Vault, from: &Revision) -> Result<Vec<TreePath>> {
    let mut names = BTreeSet::new();
    for reader in [from.reader()?, vault.reader()?] {
        for entry in reader.list(&TreePath::root())? {
            names.insert(TreePath::root().join(&entry?.0));
        }
    }
    Ok(names.into_iter().collect())
}
