//! `avfs label remove`: one label less.

use agentvfs::rules::Label;
use anyhow::Result;

use super::label;
use super::set::relabel;
use crate::args::{PathArg, path_arg};
use crate::context::Context;
use crate::exit::ExitStatus;

/// Remove labels from a file or directory
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs label remove drafts/letter.md private")]
pub struct LabelRemoveArgs {
    /// The file or directory
    #[arg(value_parser = path_arg())]
    path: PathArg,

    /// The labels to remove
    #[arg(value_name = "LABEL", required = true, value_parser = label)]
    labels: Vec<Label>,
}

pub fn run(context: &mut Context<'_>, args: &LabelRemoveArgs) -> Result<ExitStatus> {
    let path = context.path(&args.path)?;
    relabel(context, "unlabel", &path, |had| {
        had.iter()
            .filter(|label| !args.labels.contains(label))
            .cloned()
            .collect()
    })
}
