//! `avfs label set`: one label more.

use agentvfs::rules::{Label, Labels};
use anyhow::Result;
use avfs_core::TreePath;
use serde::Serialize;

use super::label;
use crate::args::vault_path;
use crate::change::{Changed, ChangedBody, describe};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::json::PathField;

/// Give labels to a file or directory, beside those that it has
#[derive(Debug, clap::Args)]
#[command(after_help = "A label holds for everything below a directory, and follows it when it is moved,
forked, merged and restored. Mounts obey at once.

Examples:
  avfs label set drafts/letter.md private
  avfs label set customers private gdpr")]
pub struct SetArgs {
    #[arg(value_parser = vault_path())]
    path: TreePath,

    #[arg(value_name = "LABEL", required = true, value_parser = label)]
    labels: Vec<Label>,
}

/// What a path has after a change of its labels.
#[derive(Serialize)]
pub struct LabelledBody {
    #[serde(flatten)]
    path: PathField,
    labels: Vec<String>,
    #[serde(flatten)]
    changed: ChangedBody,
}

impl LabelledBody {
    pub fn new(path: &TreePath, labels: &Labels, changed: &Changed) -> LabelledBody {
        LabelledBody { path: path.into(), labels: names(labels), changed: changed.body() }
    }
}

pub fn names(labels: &Labels) -> Vec<String> {
    labels.iter().map(Label::to_string).collect()
}

pub fn run(context: &mut Context<'_>, args: &SetArgs) -> Result<ExitStatus> {
    let more: Labels = args.labels.iter().cloned().collect();
    relabel(context, "label", &args.path, |had| had.union(&more))
}

/// Gives other labels to what is at a path, and tells which it has then.
pub fn relabel(
    context: &mut Context<'_>,
    action: &str,
    path: &TreePath,
    edit: impl Fn(&Labels) -> Labels,
) -> Result<ExitStatus> {
    let (labels, changed) = context.change(action, &describe([path]), |open| {
        let had = open.labels(path)?;
        let labels = edit(&had);
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
