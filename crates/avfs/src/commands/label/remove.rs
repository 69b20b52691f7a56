//! `avfs label remove`: one label less.

use agentvfs::rules::{Label, Labels};
use anyhow::Result;
use avfs_core::TreePath;

use super::label;
use super::set::LabelledBody;
use crate::args::vault_path;
use crate::change::describe;
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
    let path = &args.path;
    let (labels, changed) = context.change("unlabel", &describe([path]), |open| {
        let had = open.labels(path)?;
        let labels: Labels = had.iter().filter(|label| !args.labels.contains(label)).cloned().collect();
        if labels != had {
            open.set_labels(path, labels.clone())?;
        }
        Ok(labels)
    })?;
    if context.out.is_json() {
        context.out.object("label", &LabelledBody::new(path, &labels, &changed))?;
    }
    Ok(ExitStatus::Success)
}
