//! `avfs checkpoint`: named states that a vault can be restored to.

mod delete;
mod list;
mod restore;
mod save;
mod show;

pub use save::{CheckpointSaveArgs, save};

use agentvfs::{Checkpoint, Totals, Vault};
use anyhow::Result;
use serde::Serialize;

use crate::context::Context;
use crate::exit::ExitStatus;
use crate::rule_args::RuleArgs;
use crate::time::show_rfc3339;

/// Save, list, restore and delete checkpoints
#[derive(Debug, clap::Subcommand)]
pub enum CheckpointCommand {
    Save(CheckpointSaveArgs),
    List(list::CheckpointListArgs),
    Show(show::CheckpointShowArgs),
    Restore(restore::CheckpointRestoreArgs),
    Delete(delete::CheckpointDeleteArgs),
}

impl CheckpointCommand {
    pub fn rule_args(&self) -> Option<&RuleArgs> {
        match self {
            CheckpointCommand::List(args) => Some(&args.rules),
            CheckpointCommand::Show(args) => Some(&args.rules),
            CheckpointCommand::Save(_) | CheckpointCommand::Restore(_) | CheckpointCommand::Delete(_) => None,
        }
    }
}

pub fn run(context: &mut Context<'_>, command: &CheckpointCommand) -> Result<ExitStatus> {
    match command {
        CheckpointCommand::Save(args) => save::run(context, args),
        CheckpointCommand::List(args) => list::run(context, args),
        CheckpointCommand::Show(args) => show::run(context, args),
        CheckpointCommand::Restore(args) => restore::run(context, args),
        CheckpointCommand::Delete(args) => delete::run(context, args),
    }
}

/// A checkpoint in JSON.
#[derive(Serialize)]
struct CheckpointBody {
    name: String,
    snapshot: String,
    seq: u64,
    time: String,
    actor: String,
    message: Option<String>,
    /// A run saved it: it is thinned out like an automatic snapshot.
    automatic: bool,
    /// Omitted if rules may hide something.
    files: Option<u64>,
    bytes: Option<u64>,
}

impl CheckpointBody {
    fn new(checkpoint: &Checkpoint, totals: Option<Totals>) -> CheckpointBody {
        CheckpointBody {
            name: checkpoint.name.to_string(),
            snapshot: checkpoint.snapshot.to_string(),
            seq: checkpoint.seq,
            time: show_rfc3339(checkpoint.time),
            actor: checkpoint.actor.clone(),
            message: checkpoint.message.clone(),
            automatic: checkpoint.automatic,
            files: totals.map(|totals| totals.inodes),
            bytes: totals.map(|totals| totals.bytes),
        }
    }
}

/// The totals of a snapshot, without walking it.
fn totals(vault: &Vault, checkpoint: &Checkpoint) -> Result<Option<Totals>> {
    Ok(vault.reader_at(checkpoint.snapshot)?.totals())
}
