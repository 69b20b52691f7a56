//! `avfs sync`: newer changes of the directory in a task.

use agentvfs::git::RefName;
use agentvfs::{ConflictPolicy, MarkerStyle, MergeOptions, MergeReport, RepositoryOutcome, Task};
use anyhow::Result;

use super::merge::tell;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::progress::Progress;

/// Merge changes from the project's directory into a task
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Merges as `avfs merge` does, even while the task runs: text line by line, with a
conflict where both sides changed the same lines. `avfs resolve` resolves conflicts.

Examples:
  avfs sync task-1
  avfs sync task-1 --dry-run"
)]
pub struct SyncArgs {
    /// The task [default: the one that commands work on here]
    #[arg(value_name = "TASK")]
    task: Option<String>,

    /// Show what would happen, and change nothing
    #[arg(short = 'n', long)]
    dry_run: bool,

    /// How to handle conflicts: 'ours' is the task, 'theirs' is the directory
    #[arg(long, value_name = "HOW", value_enum, default_value_t)]
    conflicts: SyncConflicts,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum SyncConflicts {
    /// Leave them open, with conflict markers in text files
    #[default]
    Mark,
    /// Where both sides changed the same, keep what the task has; also 'task'
    #[value(alias = "task")]
    Ours,
    /// Where both sides changed the same, take what the directory has; also 'directory'
    #[value(alias = "directory")]
    Theirs,
}

impl From<SyncConflicts> for ConflictPolicy {
    fn from(arg: SyncConflicts) -> ConflictPolicy {
        match arg {
            SyncConflicts::Mark => ConflictPolicy::Mark,
            SyncConflicts::Ours => ConflictPolicy::Ours,
            SyncConflicts::Theirs => ConflictPolicy::Theirs,
        }
    }
}

pub fn run(context: &mut Context<'_>, args: &SyncArgs) -> Result<ExitStatus> {
    let mut task = context.task(args.task.as_deref())?;
    let options = MergeOptions {
        dry_run: args.dry_run,
        conflicts: args.conflicts.into(),
        style: MarkerStyle::default(),
    };
    let waiting = Progress::if_slow(context.out, "merging");
    let mut report = task.sync(&options)?;
    drop(waiting);
    leave_own_out(&task, &mut report);
    tell(context, "sync", task.vault(), &report, args.dry_run)
}

/// Omits commits that came from the task: the branch that was made of them is not reported as a change of the
/// directory.
fn leave_own_out(task: &Task, report: &mut MergeReport) {
    // If a repository cannot be examined, everything is reported.
    let own = task.git().unmoved_branches().unwrap_or_default();
    let ends: Vec<String> = own
        .iter()
        .map(|branch| format!("/directory/{}", branch.short()))
        .collect();
    let is_own = |name: &RefName| ends.iter().any(|end| name.as_bytes().ends_with(end.as_bytes()));
    report
        .repositories
        .retain_mut(|merged| match &mut merged.outcome {
            RepositoryOutcome::Ours { refs } if refs.iter().any(is_own) => {
                refs.retain(|name| !is_own(name));
                !refs.is_empty()
            }
            RepositoryOutcome::Ours { .. } | RepositoryOutcome::Theirs => true,
        });
}
