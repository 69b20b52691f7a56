//! `avfs undo`: take the last change back.

mod apply;

use std::num::NonZeroUsize;

use agentvfs::apply::ApplyId;
use agentvfs::{Error, HistoryEntry, Restored, Vault};
use anyhow::Result;
use serde::Serialize;

use crate::context::Context;
use crate::escape::printable_line;
use crate::exit::ExitStatus;
use crate::versions::{EntryBody, Names, count};

/// Take the last change back; again, the one before it
#[derive(Debug, clap::Args)]
#[command(
    after_help = "An undo is an entry of the history like any other: `avfs checkpoint restore ID` of the
state before goes forward again. Ends with status 1 if there were fewer changes
than asked for.

In a directory to which a task was applied, and where no vault is named, the
apply is taken back if it was the last thing that was done. Files that were
changed since are conflicts: then nothing is taken back, or with --force
everything else.

Examples:
  avfs undo
  avfs undo --steps 3
  avfs undo --apply
  avfs undo --apply 12 --force"
)]
pub struct UndoArgs {
    /// How many changes
    #[arg(short, long, value_name = "N", default_value = "1")]
    steps: NonZeroUsize,

    /// Take an apply back: the one with this number, or the last one
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "last", conflicts_with = "steps")]
    apply: Option<String>,

    /// Take everything back but what was changed since
    #[arg(long, requires = "apply")]
    force: bool,
}

#[derive(Serialize)]
struct UndoneBody {
    vault: String,
    undone: Vec<EntryBody>,
    /// The present state.
    snapshot: String,
    changed: u64,
}

pub fn run(context: &mut Context<'_>, args: &UndoArgs) -> Result<ExitStatus> {
    let id = match args.apply.as_deref() {
        Some("last") => Some(apply::last(context)?),
        Some(id) => Some(ApplyId::parse(id)?),
        None if args.steps.get() == 1 => apply::last_thing_done_here(context)?,
        None => None,
    };
    if let Some(id) = id {
        return apply::take_back(context, id, args.force);
    }
    let vault = context.vault()?;
    let mut done: Vec<(HistoryEntry, Restored)> = Vec::new();
    while done.len() < args.steps.get() {
        match vault.undo() {
            Err(Error::NothingToUndo { .. } | Error::HistoryThinned { .. }) if !done.is_empty() => break,
            outcome => done.push(outcome?),
        }
    }
    match context.out.is_json() {
        true => report_json(context, &vault, &done)?,
        false => report(context, &done),
    }
    if done.len() < args.steps.get() {
        context.out.warn(format_args!("only {} could be undone", count(done.len() as u64, "change")));
        return Ok(ExitStatus::No);
    }
    Ok(ExitStatus::Success)
}

fn report(context: &mut Context<'_>, done: &[(HistoryEntry, Restored)]) {
    for (entry, restored) in done {
        let action = printable_line(entry.action.as_bytes());
        let paths = count(restored.changed, "path");
        context.out.talk(format_args!("took back {}: {action} ({paths})", entry.seq));
    }
}

fn report_json(context: &mut Context<'_>, vault: &Vault, done: &[(HistoryEntry, Restored)]) -> Result<()> {
    let names = Names::of(&vault.checkpoints()?);
    let body = UndoneBody {
        vault: vault.name()?.to_string(),
        undone: done.iter().map(|(entry, _)| EntryBody::new(entry, &names)).collect(),
        snapshot: vault.head()?.to_string(),
        changed: done.iter().map(|(_, restored)| restored.changed).sum(),
    };
    Ok(context.out.object("undone", &body)?)
}
