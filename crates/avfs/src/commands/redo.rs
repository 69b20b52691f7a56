//! `avfs redo`: undo the last undo.

use std::num::NonZeroUsize;

use agentvfs::{Error, HistoryEntry, Restored, Vault};
use anyhow::Result;
use serde::Serialize;

use crate::commands::undo::last::{Step, next_redo};
use crate::commands::undo::{Direction, no_apply, not_several, turn_around};
use crate::context::Context;
use crate::escape::printable_line;
use crate::exit::ExitStatus;
use crate::versions::{EntryBody, Names, count};

/// Redo what the last undo here undid; again, the one before it
#[derive(Debug, clap::Args)]
#[command(after_help = "Works on what `avfs undo` works on here: the last apply to this directory that was
undone, or the last change of the vault that commands work on. A new change ends
what can be redone.

Ends with status 1 if there were fewer undos than asked for.

Examples:
  avfs redo
  avfs redo --vault web --steps 2
  avfs redo --force               an apply, but for files that were changed since")]
pub struct RedoArgs {
    /// How many changes of a vault
    #[arg(short, long, value_name = "N", default_value = "1")]
    steps: NonZeroUsize,

    /// Redo everything of an apply but what was changed since it was undone
    #[arg(long, conflicts_with = "steps")]
    force: bool,
}

#[derive(Serialize)]
struct RedoneBody {
    vault: String,
    /// The undos that were undone.
    redone: Vec<EntryBody>,
    /// The present state.
    snapshot: String,
    changed: u64,
}

pub fn run(context: &mut Context<'_>, args: &RedoArgs) -> Result<ExitStatus> {
    match next_redo(context)? {
        Step::Change { .. } if args.force => Err(no_apply("redo").into()),
        Step::Change { vault, .. } => redo_changes(context, &vault, args.steps),
        Step::Apply(record) if args.steps.get() == 1 => {
            turn_around(context, record.id, args.force, Direction::Redo)
        }
        Step::Apply(record) => {
            let id = context.store()?.first_apply(&record)?;
            Err(not_several(&id).into())
        }
    }
}

fn redo_changes(context: &mut Context<'_>, vault: &Vault, steps: NonZeroUsize) -> Result<ExitStatus> {
    let mut done: Vec<(HistoryEntry, Restored)> = Vec::new();
    while done.len() < steps.get() {
        match vault.redo() {
            Err(Error::NothingToRedo { .. } | Error::HistoryThinned { .. }) if !done.is_empty() => break,
            outcome => done.push(outcome?),
        }
    }
    let name = vault.name()?;
    if context.out.is_json() {
        let names = Names::of(&vault.checkpoints()?);
        let body = RedoneBody {
            vault: name.to_string(),
            redone: done.iter().map(|(entry, _)| EntryBody::new(entry, &names)).collect(),
            snapshot: vault.head()?.to_string(),
            changed: done.iter().map(|(_, restored)| restored.changed).sum(),
        };
        context.out.object("redone", &body)?;
    } else {
        for (entry, restored) in &done {
            let undo = printable_line(entry.action.as_bytes());
            let redone = undo.strip_prefix("undo ").unwrap_or(&undo);
            let paths = count(restored.changed, "path");
            context.out.talk(format_args!("redid {redone} in vault '{name}' ({paths})"));
        }
    }
    if done.len() < steps.get() {
        context.out.warn(format_args!("only {} could be redone", count(done.len() as u64, "change")));
        return Ok(ExitStatus::No);
    }
    Ok(ExitStatus::Success)
}
