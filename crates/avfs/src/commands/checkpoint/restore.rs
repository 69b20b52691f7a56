//! `avfs checkpoint restore`: back to a state that was kept.

use std::collections::BTreeSet;

use agentvfs::{Revision, Vault};
use anyhow::Result;
use avfs_core::TreePath;

use crate::args::{PathArg, path_arg};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::versions::{detail, report_restored};

/// Restore the vault to a checkpoint; the current state is saved first
#[derive(Debug, clap::Args)]
#[command(after_help = "`avfs undo` undoes a restore.

Examples:
  avfs checkpoint restore before-upgrade
  avfs checkpoint restore before-upgrade --path Cargo.toml --path src")]
pub struct CheckpointRestoreArgs {
    /// A checkpoint, or the first digits of a snapshot's id
    name: String,

    /// Restore only this file or directory; can be repeated
    #[arg(long = "path", value_name = "PATH", value_parser = path_arg())]
    paths: Vec<PathArg>,
}

pub fn run(context: &mut Context<'_>, args: &CheckpointRestoreArgs) -> Result<ExitStatus> {
    let paths = context.paths(&args.paths)?;
    let vault = context.vault()?;
    let from = vault.revision(&args.name)?;
    let detail = detail(&args.name, &paths);
    let done = match paths.as_slice() {
        // Through rules, hidden files stay unchanged.
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
