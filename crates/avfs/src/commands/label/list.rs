//! `avfs label list`: the entries with labels.

use agentvfs::query::walk::{EntryWalk, WalkSelection};
use anyhow::Result;
use serde::Serialize;

use super::set::names;
use crate::args::{AtArg, PathArg, path_arg};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::json::PathField;

/// List labeled files and directories at and below a path
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Only the owner of the vault sees labels; they are never shown through rules. avfs itself
sets `system:fresh-repository` on repositories that were created in a view since the
vault's base.

Examples:
  avfs label list
  avfs label list customers --at before-upgrade"
)]
pub struct LabelListArgs {
    /// The path to start at
    #[arg(value_parser = path_arg(), default_value = "/")]
    path: PathArg,

    #[command(flatten)]
    at: AtArg,
}

#[derive(Serialize)]
struct LabelListBody {
    entries: Vec<LabelEntryBody>,
}

#[derive(Serialize)]
struct LabelEntryBody {
    #[serde(flatten)]
    path: PathField,
    labels: Vec<String>,
}

pub fn run(context: &mut Context<'_>, args: &LabelListArgs) -> Result<ExitStatus> {
    let path = context.path(&args.path)?;
    let view = context.view(&args.at)?;
    let everything = WalkSelection::everything();
    let walk = EntryWalk::new(&view.reader, &path, &everything).map_err(|error| view.fail(error))?;
    let mut entries = Vec::new();
    for visit in walk {
        let visit = visit.map_err(|error| view.fail(error))?;
        let labels = &visit.found.entry.meta.labels;
        if labels.is_empty() {
            continue;
        }
        let labels = names(labels);
        if context.out.is_json() {
            entries.push(LabelEntryBody {
                path: (&visit.path).into(),
                labels,
            })
        } else {
            context
                .out
                .line(format_args!("{}  {}", visit.path, labels.join(" ")))?
        }
    }
    if context.out.is_json() {
        context.out.object("labels", &LabelListBody { entries })?;
    }
    Ok(ExitStatus::Success)
}
