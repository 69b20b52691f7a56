//! `avfs label list`: what has labels.

use agentvfs::query::walk::{Selection, Walk};
use anyhow::Result;
use avfs_core::TreePath;
use serde::Serialize;

use super::set::names;
use crate::args::{AtArg, vault_path};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::json::PathField;

/// List what has labels, at and below a path
#[derive(Debug, clap::Args)]
#[command(after_help = "Labels are told to whoever owns the vault, and never through rules.
`system:fresh-repository` is given by avfs itself, to repositories that were made
in a view since the vault's base.

Examples:
  avfs label list
  avfs label list customers --at before-upgrade")]
pub struct ListArgs {
    #[arg(value_parser = vault_path(), default_value = "/")]
    path: TreePath,

    #[command(flatten)]
    at: AtArg,
}

#[derive(Serialize)]
struct ListBody {
    entries: Vec<EntryBody>,
}

#[derive(Serialize)]
struct EntryBody {
    #[serde(flatten)]
    path: PathField,
    labels: Vec<String>,
}

pub fn run(context: &mut Context<'_>, args: &ListArgs) -> Result<ExitStatus> {
    let view = context.view(&args.at)?;
    let everything = Selection::everything();
    let walk = Walk::new(&view.reader, &args.path, &everything).map_err(|error| view.fail(error))?;
    let mut entries = Vec::new();
    for visit in walk {
        let visit = visit.map_err(|error| view.fail(error))?;
        let labels = &visit.found.entry.meta.labels;
        if labels.is_empty() {
            continue;
        }
        let labels = names(labels);
        match context.out.is_json() {
            true => entries.push(EntryBody { path: (&visit.path).into(), labels }),
            false => context.out.line(format_args!("{}  {}", visit.path, labels.join(" ")))?,
        }
    }
    if context.out.is_json() {
        context.out.object("labels", &ListBody { entries })?;
    }
    Ok(ExitStatus::Success)
}
