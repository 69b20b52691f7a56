//! `avfs checkpoint list`: the states that were kept.

use agentvfs::{Checkpoint, HistoryEntry, Vault};
use anyhow::Result;
use serde::Serialize;

use super::{CheckpointBody, totals};
use crate::context::Context;
use crate::escape::printable_line;
use crate::exit::ExitStatus;
use crate::printer::{FAINT, HEADING};
use crate::rule_args::RuleArgs;
use crate::time::Age;
use crate::versions::{EntryNames, HistoryEntryBody, short};

/// List the checkpoints, newest first
#[derive(Debug, clap::Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  avfs checkpoint list
  avfs checkpoint list --auto"
)]
pub struct CheckpointListArgs {
    /// Include automatic snapshots
    #[arg(long)]
    auto: bool,

    #[command(flatten)]
    pub rules: RuleArgs,
}

#[derive(Serialize)]
struct CheckpointListBody {
    vault: String,
    checkpoints: Vec<CheckpointBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    automatic: Option<Vec<HistoryEntryBody>>,
}

pub fn run(context: &mut Context<'_>, args: &CheckpointListArgs) -> Result<ExitStatus> {
    let vault = context.vault()?;
    let mut checkpoints = vault.checkpoints()?;
    checkpoints.reverse();
    let automatic = if args.auto {
        unnamed(&vault, &checkpoints)?
    } else {
        Vec::new()
    };
    if context.out.is_json() {
        let names = EntryNames::of(&[]);
        let bodies = checkpoints
            .iter()
            .map(|checkpoint| Ok(CheckpointBody::new(checkpoint, totals(&vault, checkpoint)?)));
        let body = CheckpointListBody {
            vault: vault.name()?.to_string(),
            checkpoints: bodies.collect::<Result<_>>()?,
            automatic: args.auto.then(|| {
                automatic
                    .iter()
                    .map(|entry| HistoryEntryBody::new(entry, &names))
                    .collect()
            }),
        };
        context.out.object("checkpoints", &body)?;
        return Ok(ExitStatus::Success);
    }
    show_table(context, &vault, &checkpoints, &automatic)?;
    Ok(ExitStatus::Success)
}

/// The entries of the history that no checkpoint names.
fn unnamed(vault: &Vault, checkpoints: &[Checkpoint]) -> Result<Vec<HistoryEntry>> {
    let names = EntryNames::of(checkpoints);
    let mut entries = Vec::new();
    vault.history().for_each_entry(|entry| {
        if names.at(entry.seq).is_empty() {
            entries.push(entry);
        }
        Ok(true)
    })?;
    Ok(entries)
}

struct CheckpointRow {
    seq: u64,
    name: String,
    snapshot: String,
    age: String,
    about: String,
}

fn show_table(
    context: &mut Context<'_>,
    vault: &Vault,
    checkpoints: &[Checkpoint],
    automatic: &[HistoryEntry],
) -> Result<()> {
    let out = &mut *context.out;
    if checkpoints.is_empty() && automatic.is_empty() {
        out.talk("there are no checkpoints yet: `avfs checkpoint save NAME` creates one");
        return Ok(());
    }
    let now = vault.store().now();
    let named = checkpoints.iter().map(|checkpoint| CheckpointRow {
        seq: checkpoint.seq,
        name: checkpoint.name.to_string(),
        snapshot: short(checkpoint.snapshot),
        age: Age {
            then: checkpoint.time,
            now,
        }
        .to_string(),
        about: printable_line(checkpoint.message.as_deref().unwrap_or_default().as_bytes()),
    });
    let unnamed = automatic.iter().map(|entry| CheckpointRow {
        seq: entry.seq,
        name: "-".to_owned(),
        snapshot: short(entry.snapshot),
        age: Age {
            then: entry.time,
            now,
        }
        .to_string(),
        about: printable_line(entry.action.as_bytes()),
    });
    let mut rows: Vec<CheckpointRow> = named.chain(unnamed).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.seq));
    let width = rows
        .iter()
        .map(|row| row.name.chars().count())
        .max()
        .unwrap_or(0)
        .max("NAME".len());
    let heading = format!("{:<width$}  {:<12}  {:<14}  ABOUT", "NAME", "SNAPSHOT", "AGE");
    out.line(out.paint(HEADING, heading))?;
    for CheckpointRow {
        name,
        snapshot,
        age,
        about,
        ..
    } in rows
    {
        let (snapshot, age) = (out.paint(FAINT, snapshot), format!("{age:<14}"));
        let line = format!("{name:<width$}  {snapshot}  {age}  {about}");
        out.line(line.trim_end())?;
    }
    Ok(())
}
