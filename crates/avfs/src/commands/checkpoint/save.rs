//! `avfs checkpoint save`: keep the present state.

use agentvfs::error::HistoryError;
use agentvfs::{Checkpoint, CheckpointName, Error, Vault};
use anyhow::Result;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::{CheckpointBody, totals};
use crate::conflicts::warn_of_open;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::size::HumanSize;
use crate::time::show_compact;
use crate::versions::short;

/// Save the current state under a name
#[derive(Debug, clap::Args)]
#[command(after_help = "Prints the name of the checkpoint.

Examples:
  avfs checkpoint save before-upgrade
  avfs checkpoint save -m 'all tests pass'")]
pub struct CheckpointSaveArgs {
    /// The name of the checkpoint [default: the date and time, as in cp-20260517-153012]
    name: Option<String>,

    /// A note about it
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
}

#[derive(Serialize)]
struct SavedCheckpointBody {
    vault: String,
    #[serde(flatten)]
    checkpoint: CheckpointBody,
    /// The number of open conflicts in it.
    conflicts: u64,
}

pub fn run(context: &mut Context<'_>, args: &CheckpointSaveArgs) -> Result<ExitStatus> {
    let vault = context.vault()?;
    save(context, &vault, args)
}

/// Keeps the present state of a vault.
pub fn save(context: &mut Context<'_>, vault: &Vault, args: &CheckpointSaveArgs) -> Result<ExitStatus> {
    let message = args.message.as_deref();
    let saved = match &args.name {
        Some(name) => vault.save_checkpoint(&CheckpointName::new(name)?, message)?,
        None => save_by_time(vault, message)?,
    };
    let totals = totals(vault, &saved)?;
    if context.out.is_json() {
        let checkpoint = CheckpointBody::new(&saved, totals);
        let info = vault.info()?;
        let body = SavedCheckpointBody {
            vault: info.name.to_string(),
            checkpoint,
            conflicts: info.conflicts,
        };
        context.out.object("checkpoint", &body)?;
        return Ok(ExitStatus::Success);
    }
    context.out.line(&saved.name)?;
    let snapshot = short(saved.snapshot);
    // In a project, files that have not been read yet are not counted.
    match totals.filter(|_| vault.own_path().is_ok_and(|path| path.is_none())) {
        Some(totals) => {
            let (entries, bytes) = (totals.inodes, HumanSize(totals.bytes));
            context.out.talk(format_args!(
                "kept snapshot {snapshot}: {bytes} in {entries} files and directories"
            ));
        }
        None => context.out.talk(format_args!("kept snapshot {snapshot}")),
    }
    warn_of_open(context.out, vault)?;
    Ok(ExitStatus::Success)
}

/// Several checkpoints of one second get numbers.
fn save_by_time(vault: &Vault, message: Option<&str>) -> Result<Checkpoint> {
    let base = format!("cp-{}", show_compact(vault.store().now(), &TimeZone::system()));
    let mut name = base.clone();
    for number in 2.. {
        match vault.save_checkpoint(&CheckpointName::new(&name)?, message) {
            Err(Error::History(HistoryError::CheckpointExists { .. })) => name = format!("{base}-{number}"),
            outcome => return Ok(outcome?),
        }
    }
    unreachable!("numbers do not end")
}
