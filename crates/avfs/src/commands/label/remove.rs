//! `avfs label remove`: one label less.

use agentvfs::rules::Label;
use anyhow::Result;
use avfs_core::TreePath;

use super::label;
use super::set::relabel;
use crate::args::vault_path;
use crate::context::Context;
use crate::exit::ExitStatus;

/// Take labels away from a file or directory
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs label remove drafts/letter.md private")]
pub struct RemoveArgs {
    #[arg(value_parser = vault_path())]
    path: TreePath,

    #[arg(value_name = "LABEL", required = true, value_parser = label)]
    labels: Vec<Label>,
}

pub fn run(context: &mut Context<'_>, args: &RemoveArgs) -> Result<ExitStatus> {
    relabel(context, "unlabel", &args.path, |had| {
        had.iter().filter(|label| !args.labels.contains(label)).cloned().collect()
    })
}
