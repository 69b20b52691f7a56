//! `avfs sync`: newer changes of the directory in a task.

use agentvfs::{MarkerStyle, MergeOptions};
use anyhow::Result;

use super::merge::{ConflictsArg, tell};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::progress::Progress;

/// Bring what changed in the project's directory into a task
#[derive(Debug, clap::Args)]
#[command(after_help = "The same merge as `avfs merge`, also while the task runs: texts line by line, and
conflicts where both changed the same, which `avfs resolve` settles.

Examples:
  avfs sync task-1
  avfs sync task-1 --dry-run")]
pub struct SyncArgs {
    /// The task [default: the only one of this project]
    #[arg(value_name = "TASK")]
    task: Option<String>,

    /// Only tell what would happen
    #[arg(short = 'n', long)]
    dry_run: bool,

    /// What becomes of conflicts: 'ours' is the task, 'theirs' the directory
    #[arg(long, value_name = "HOW", value_enum, default_value_t)]
    conflicts: ConflictsArg,
}

pub fn run(context: &mut Context<'_>, args: &SyncArgs) -> Result<ExitStatus> {
    let mut task = context.task(args.task.as_deref())?;
    let options = MergeOptions {
        dry_run: args.dry_run,
        conflicts: args.conflicts.into(),
        style: MarkerStyle::default(),
    };
    let waiting = Progress::if_slow(context.out, "merging");
    let report = task.sync(&options)?;
    drop(waiting);
    tell(context, "sync", task.vault(), &report, args.dry_run)
}
