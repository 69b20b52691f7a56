//! `avfs checkpoint show`: one checkpoint and what it changed.

use agentvfs::patch::FileChange;
use agentvfs::{Checkpoint, SnapshotId, Totals, Vault};
use anyhow::Result;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::{CheckpointBody, totals};
use crate::commands::diff::{ChangeBody, compare, first_snapshot, print_list};
use crate::context::Context;
use crate::escape::printable_line;
use crate::exit::ExitStatus;
use crate::printer::{BOLD, Printer, YELLOW};
use crate::rule_args::RuleArgs;
use crate::size::HumanSize;
use crate::time::show_local;
use crate::versions::{count, short};

/// Show a checkpoint: its time, note and size, and what changed since the previous one
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs checkpoint show before-upgrade")]
pub struct CheckpointShowArgs {
    /// The checkpoint
    name: String,

    #[command(flatten)]
    pub rules: RuleArgs,
}

#[derive(Serialize)]
struct CheckpointShowBody {
    vault: String,
    #[serde(flatten)]
    checkpoint: CheckpointBody,
    since: Option<String>,
    since_snapshot: String,
    changes: Vec<ChangeBody>,
}

/// The state before: the previous checkpoint, or where the vault began.
struct PreviousState {
    name: Option<String>,
    snapshot: SnapshotId,
}

pub fn run(context: &mut Context<'_>, args: &CheckpointShowArgs) -> Result<ExitStatus> {
    let vault = context.vault()?;
    let checkpoint = vault.checkpoint(&args.name)?;
    let totals = totals(&vault, &checkpoint)?;
    let before = before(&vault, &checkpoint)?;
    let (old, new) = (
        vault.reader_at(before.snapshot)?,
        vault.reader_at(checkpoint.snapshot)?,
    );
    let changes = compare(&old, &new, &[])?;
    if context.out.is_json() {
        let body = CheckpointShowBody {
            vault: vault.name()?.to_string(),
            checkpoint: CheckpointBody::new(&checkpoint, totals),
            since: before.name,
            since_snapshot: before.snapshot.to_string(),
            changes: changes.iter().map(ChangeBody::new).collect(),
        };
        context.out.object("checkpoint", &body)?;
        return Ok(ExitStatus::Success);
    }
    print(context.out, &checkpoint, totals, &before, &changes)?;
    Ok(ExitStatus::Success)
}

fn before(vault: &Vault, checkpoint: &Checkpoint) -> Result<PreviousState> {
    let all = vault.checkpoints()?;
    let place = all
        .iter()
        .position(|other| other.name == checkpoint.name)
        .unwrap_or(0);
    match all[..place].last() {
        Some(previous) => Ok(PreviousState {
            name: Some(previous.name.to_string()),
            snapshot: previous.snapshot,
        }),
        None => {
            let base = vault.info()?.fork_base;
            Ok(PreviousState {
                name: None,
                snapshot: base.map_or_else(|| first_snapshot(vault), Ok)?,
            })
        }
    }
}

fn print(
    out: &mut Printer,
    checkpoint: &Checkpoint,
    totals: Option<Totals>,
    before: &PreviousState,
    changes: &[FileChange],
) -> Result<()> {
    let time = show_local(checkpoint.time, &TimeZone::system());
    let actor = printable_line(checkpoint.actor.as_bytes());
    let id = out.paint(YELLOW, short(checkpoint.snapshot));
    out.line(format_args!("{}  {id}", out.paint(BOLD, &checkpoint.name)))?;
    out.line(format_args!(
        "saved {time} by {actor}, entry {} of the history",
        checkpoint.seq
    ))?;
    if let Some(totals) = totals {
        out.line(format_args!(
            "{}, {}",
            count(totals.inodes, "file"),
            HumanSize(totals.bytes)
        ))?;
    }
    if let Some(message) = &checkpoint.message {
        out.line("")?;
        for line in message.lines() {
            out.line(format_args!("    {}", printable_line(line.as_bytes())))?;
        }
    }
    let since = before
        .name
        .clone()
        .unwrap_or_else(|| "the beginning of the vault".to_owned());
    out.line("")?;
    let number = changes.len() as u64;
    out.line(format_args!("{} changed since {since}", count(number, "file")))?;
    Ok(print_list(out, changes)?)
}
