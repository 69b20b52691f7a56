//! `avfs redo`: undo the last undo.

use std::num::NonZeroUsize;

use agentvfs::error::HistoryError;
use agentvfs::{Error, HistoryEntry, Restored, Vault};
use anyhow::Result;
use serde::Serialize;

use crate::commands::undo::last::{UndoStep, next_redo};
use crate::commands::undo::{Direction, no_apply, not_several, turn_around, words};
use crate::context::Context;
use crate::escape::printable_line;
use crate::exit::ExitStatus;
use crate::versions::{EntryNames, HistoryEntryBody, changed, count};

/// Redo what was last undone here; repeat to go further
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Works on the same things as `avfs undo`: the last apply to this directory that was undone,
or the last change of the vault that commands work on. After a new change, nothing can
be redone.

Exits with status 1 if there were fewer undos than you asked for.

Examples:
  avfs redo
  avfs redo --vault web --steps 2
  avfs redo --force               an apply, except for files that changed since"
)]
pub struct RedoArgs {
    /// Redo this many changes of a vault
    #[arg(short, long, value_name = "N", default_value = "1")]
    steps: NonZeroUsize,

    /// Redo an apply even if files have changed since, and leave those files alone
    #[arg(long, conflicts_with = "steps")]
    force: bool,
}

#[derive(Serialize)]
struct RedoneBody {
    vault: String,
    /// The undos that were undone.
    redone: Vec<HistoryEntryBody>,
    /// The present state.
    snapshot: String,
    changed: u64,
}

pub fn run(context: &mut Context<'_>, args: &RedoArgs) -> Result<ExitStatus> {
    match next_redo(context)? {
        UndoStep::Change { .. } if args.force => Err(no_apply("redo").into()),
        UndoStep::Change { vault, .. } => redo_changes(context, &vault, args.steps),
        UndoStep::Apply(record) if args.steps.get() == 1 => {
            turn_around(context, record.id, args.force, Direction::Redo)
        }
        UndoStep::Apply(record) => {
            let id = context.store()?.applies().first(&record)?;
            Err(not_several(&id).into())
        }
    }
}

fn redo_changes(context: &mut Context<'_>, vault: &Vault, steps: NonZeroUsize) -> Result<ExitStatus> {
    let mut done: Vec<(HistoryEntry, Restored)> = Vec::new();
    while done.len() < steps.get() {
        match vault.redo() {
            Err(
                Error::History(HistoryError::NothingToRedo { .. })
                | Error::History(HistoryError::Thinned { .. }),
            ) if !done.is_empty() => break,
            outcome => done.push(outcome?),
        }
    }
    let name = vault.name()?;
    if context.out.is_json() {
        let names = EntryNames::of(&vault.checkpoints()?);
        let body = RedoneBody {
            vault: name.to_string(),
            redone: done
                .iter()
                .map(|(entry, _)| HistoryEntryBody::new(entry, &names))
                .collect(),
            snapshot: vault.head()?.to_string(),
            changed: done.iter().map(|(_, restored)| restored.changed).sum(),
        };
        context.out.object("redone", &body)?;
    } else {
        for (entry, restored) in &done {
            let undo = printable_line(entry.action.as_bytes());
            let other = || undo.strip_prefix("undo ").unwrap_or(&undo).to_owned();
            let redone = words::of_undo(entry).unwrap_or_else(other);
            let changed = changed(restored);
            context
                .out
                .talk(format_args!("redid {redone} in vault '{name}' ({changed})"));
        }
    }
    if done.len() < steps.get() {
        context.out.warn(format_args!(
            "only {} could be redone",
            count(done.len() as u64, "change")
        ));
        return Ok(ExitStatus::No);
    }
    Ok(ExitStatus::Success)
}
