//! `avfs undo`: undo the last change.

mod apply;
pub mod last;
pub mod words;

use std::num::NonZeroUsize;

use agentvfs::apply::ApplyId;
use agentvfs::error::HistoryError;
use agentvfs::{Error, HistoryEntry, Restored, Vault};
use anyhow::Result;
use serde::Serialize;

pub use self::apply::{Direction, turn_around};

use self::last::UndoStep;
use crate::context::Context;
use crate::escape::printable_line;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::versions::{EntryNames, HistoryEntryBody, changed, count};

/// Undo the last change here; repeat to go further back
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The last change is the last apply to this directory or the last change of the vault that
commands work on here, whichever is later (`avfs status` shows it). With --vault, it is
the last change of that vault. In a project, and wherever something was applied, the
vault chosen with `avfs vault use` does not count. Nothing outside this directory and
that vault changes unless you name it. `avfs redo` goes forward again.
If the last change was `avfs apply --commits` or `--branch`, nothing is undone, and the
message says how to remove the branch.

Exits with status 1 if there were fewer changes than you asked for.

If files have changed since an apply, nothing is undone; with --force, everything except
those files is.

Examples:
  avfs undo
  avfs undo --vault web --steps 3
  avfs undo --apply               the last apply to this directory
  avfs undo --force               the last apply, except for files that changed since
  avfs undo --apply 12 --force    the apply with this number, wherever it was"
)]
pub struct UndoArgs {
    /// Undo this many changes of a vault
    #[arg(short, long, value_name = "N", default_value = "1")]
    steps: NonZeroUsize,

    /// Undo the apply with this number, or the last apply to this directory
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "last", conflicts_with = "steps")]
    apply: Option<String>,

    /// Undo an apply even if files have changed since, and leave those files alone
    #[arg(long, conflicts_with = "steps")]
    force: bool,
}

#[derive(Serialize)]
struct UndoneBody {
    vault: String,
    undone: Vec<HistoryEntryBody>,
    /// The present state.
    snapshot: String,
    changed: u64,
}

pub fn run(context: &mut Context<'_>, args: &UndoArgs) -> Result<ExitStatus> {
    let id = match args.apply.as_deref() {
        Some("last") => apply::last_here(context, Direction::Undo)?,
        Some(id) => context.task_store()?.applies().in_force(ApplyId::parse(id)?)?.id,
        None => match last::next_undo(context)? {
            UndoStep::Change { .. } if args.force => return Err(no_apply("undo").into()),
            UndoStep::Change { vault, .. } => return undo_changes(context, &vault, args.steps),
            UndoStep::Apply(record) if args.steps.get() == 1 => record.id,
            UndoStep::Apply(record) => {
                let id = context.store()?.applies().first(&record)?;
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

/// No apply prevents undoing a change of a vault.
pub fn no_apply(verb: &str) -> Failure {
    let text = format!("--force is for applies, and the next thing to {verb} here is a change of a vault");
    let hint = format!("leave --force out; `avfs status` shows what {verb} would do");
    Failure::new("usage", ExitStatus::BadInput, text).hint(Some(hint))
}

fn undo_changes(context: &mut Context<'_>, vault: &Vault, steps: NonZeroUsize) -> Result<ExitStatus> {
    let mut done: Vec<(HistoryEntry, Restored)> = Vec::new();
    while done.len() < steps.get() {
        match vault.undo() {
            Err(
                Error::History(HistoryError::NothingToUndo { .. })
                | Error::History(HistoryError::Thinned { .. }),
            ) if !done.is_empty() => break,
            outcome => done.push(outcome?),
        }
    }
    if context.out.is_json() {
        report_json(context, vault, &done)?
    } else {
        report(context, vault, &done)?
    }
    if done.len() < steps.get() {
        context.out.warn(format_args!(
            "only {} could be undone",
            count(done.len() as u64, "change")
        ));
        return Ok(ExitStatus::No);
    }
    Ok(ExitStatus::Success)
}

fn report(context: &mut Context<'_>, vault: &Vault, done: &[(HistoryEntry, Restored)]) -> Result<()> {
    let name = vault.name()?;
    for (entry, restored) in done {
        let changed = changed(restored);
        match words::of_entry(vault, entry)? {
            Some(run) => context
                .out
                .talk(format_args!("undid {run} in vault '{name}' ({changed})")),
            None => {
                let action = match entry.action.as_str() {
                    "mount automatic" => "saved automatically by the mount".into(),
                    action => printable_line(action.as_bytes()).to_string(),
                };
                context.out.talk(format_args!(
                    "undid change {} in vault '{name}': {action} ({changed})",
                    entry.seq
                ));
            }
        }
    }
    let again = context.undo_command(vault)?.replacen("undo", "redo", 1);
    context.out.talk(format_args!("`{again}` does it again"));
    Ok(())
}

fn report_json(context: &mut Context<'_>, vault: &Vault, done: &[(HistoryEntry, Restored)]) -> Result<()> {
    let names = EntryNames::of(&vault.checkpoints()?);
    let body = UndoneBody {
        vault: vault.name()?.to_string(),
        undone: done
            .iter()
            .map(|(entry, _)| HistoryEntryBody::new(entry, &names))
            .collect(),
        snapshot: vault.head()?.to_string(),
        changed: done.iter().map(|(_, restored)| restored.changed).sum(),
    };
    Ok(context.out.object("undone", &body)?)
}
