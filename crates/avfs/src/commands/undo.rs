//! `avfs undo`: undo the last change.

mod apply;
pub mod last;

use std::num::NonZeroUsize;

use agentvfs::apply::ApplyId;
use agentvfs::{Error, HistoryEntry, Restored, Vault};
use anyhow::Result;
use serde::Serialize;

pub use self::apply::{Direction, turn_around};

use self::last::Step;
use crate::context::Context;
use crate::escape::printable_line;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::versions::{EntryBody, Names, count};

/// Undo the last change here; again, the one before it
#[derive(Debug, clap::Args)]
#[command(after_help = "The last change is the last apply to this directory, or the last change of the vault
that commands work on here (`avfs status` shows both), whichever is later. With
--vault it is the last change of that vault. Nothing outside of this directory
and that vault is changed unless it is named. `avfs redo` goes forward again.
If the last thing was `avfs apply --commits` or `--branch`, nothing is undone, and
what removes the branch is told.

Ends with status 1 if there were fewer changes than asked for.

Files that were changed since an apply are conflicts: then nothing is undone,
or with --force everything else.

Examples:
  avfs undo
  avfs undo --vault web --steps 3
  avfs undo --apply               the last apply to this directory
  avfs undo --force               the last apply, but for files that were changed since
  avfs undo --apply 12 --force    the apply with this number, wherever it was")]
pub struct UndoArgs {
    /// How many changes of a vault
    #[arg(short, long, value_name = "N", default_value = "1")]
    steps: NonZeroUsize,

    /// Undo an apply: the one with this number, or the last one to this directory
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "last", conflicts_with = "steps")]
    apply: Option<String>,

    /// Undo everything of an apply but what was changed since
    #[arg(long, conflicts_with = "steps")]
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
        Some("last") => apply::last_here(context, Direction::Undo)?,
        Some(id) => context.task_store()?.apply_in_force(ApplyId::parse(id)?)?.id,
        None => match last::next_undo(context)? {
            Step::Change { .. } if args.force => return Err(no_apply("undo").into()),
            Step::Change { vault, .. } => return undo_changes(context, &vault, args.steps),
            Step::Apply(record) if args.steps.get() == 1 => record.id,
            Step::Apply(record) => {
                let id = context.store()?.first_apply(&record)?;
                return Err(not_several(&id).into());
            }
        },
    };
    turn_around(context, id, args.force, Direction::Undo)
}

/// Applies are undone one at a time: each may have conflicts of its own.
pub fn not_several(id: &ApplyId) -> Failure {
    let text = format!("the last thing done here was apply {id}, which is undone or redone by itself");
    Failure::new("usage", ExitStatus::BadInput, text).hint(Some("leave --steps out".to_owned()))
}

/// Nothing stands in the way of undoing a change of a vault.
pub fn no_apply(verb: &str) -> Failure {
    let text = format!("--force is for applies, and the next thing to {verb} here is a change of a vault");
    let hint = format!("leave --force out; `avfs status` shows what {verb} would do");
    Failure::new("usage", ExitStatus::BadInput, text).hint(Some(hint))
}

fn undo_changes(context: &mut Context<'_>, vault: &Vault, steps: NonZeroUsize) -> Result<ExitStatus> {
    let mut done: Vec<(HistoryEntry, Restored)> = Vec::new();
    while done.len() < steps.get() {
        match vault.undo() {
            Err(Error::NothingToUndo { .. } | Error::HistoryThinned { .. }) if !done.is_empty() => break,
            outcome => done.push(outcome?),
        }
    }
    match context.out.is_json() {
        true => report_json(context, vault, &done)?,
        false => report(context, vault, &done)?,
    }
    if done.len() < steps.get() {
        context.out.warn(format_args!("only {} could be undone", count(done.len() as u64, "change")));
        return Ok(ExitStatus::No);
    }
    Ok(ExitStatus::Success)
}

fn report(context: &mut Context<'_>, vault: &Vault, done: &[(HistoryEntry, Restored)]) -> Result<()> {
    let name = vault.name()?;
    for (entry, restored) in done {
        let action = printable_line(entry.action.as_bytes());
        let paths = count(restored.changed, "path");
        context.out.talk(format_args!("undid {} in vault '{name}': {action} ({paths})", entry.seq));
    }
    let again = context.undo_command(vault)?.replacen("undo", "redo", 1);
    context.out.talk(format_args!("`{again}` does it again"));
    Ok(())
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
