//! `avfs label set`: one label more.

use agentvfs::rules::{Label, Labels};
use anyhow::Result;
use avfs_core::TreePath;
use serde::Serialize;

use super::label;
use crate::args::{PathArg, path_arg};
use crate::change::{ChangeResult, ChangedBody, describe};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::json::PathField;

/// Add labels to a file or directory
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A label on a directory applies to everything below it, and stays with it when it is
moved, forked, merged or restored. Mounts follow immediately.

Examples:
  avfs label set drafts/letter.md private
  avfs label set customers private gdpr"
)]
pub struct LabelSetArgs {
    /// The file or directory
    #[arg(value_parser = path_arg())]
    path: PathArg,

    /// The labels to add
    #[arg(value_name = "LABEL", required = true, value_parser = label)]
    labels: Vec<Label>,
}

/// The labels of a path after a change.
#[derive(Serialize)]
pub struct LabelledBody {
    #[serde(flatten)]
    path: PathField,
    labels: Vec<String>,
    #[serde(flatten)]
    changed: ChangedBody,
}

impl LabelledBody {
    pub fn new(path: &TreePath, labels: &Labels, changed: &ChangeResult) -> LabelledBody {
        LabelledBody {
            path: path.into(),
            labels: names(labels),
            changed: changed.body(),
        }
    }
}

pub fn names(labels: &Labels) -> Vec<String> {
    labels.iter().map(Label::to_string).collect()
}

pub fn run(context: &mut Context<'_>, args: &LabelSetArgs) -> Result<ExitStatus> {
    let path = context.path(&args.path)?;
    let more: Labels = args.labels.iter().cloned().collect();
    relabel(context, "label", &path, |had| had.union(&more))
}

/// Changes the labels of the entry at a path, and returns the new ones.
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
        context
            .out
            .object("label", &LabelledBody::new(path, &labels, &changed))?;
    }
    Ok(ExitStatus::Success)
}
