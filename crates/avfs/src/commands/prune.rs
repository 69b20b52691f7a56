//! `avfs prune`: thin out automatic snapshots.

mod applies;

use std::time::Duration;

use agentvfs::{Pruned, PrunedVault};
use anyhow::Result;
use serde::Serialize;

use crate::confirm::confirm;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::size::HumanSize;
use crate::time::parse_span;
use crate::versions::count;

/// Thin out automatic snapshots and checkpoints by the retention settings
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Checkpoints that you named stay; those that `avfs exec` saves before a command are thinned out
like snapshots: all of the last day stay, then one per hour, then one per day. Run `avfs gc`
afterwards to free the space.

With --tasks, removes the tasks of this project whose work is in their directory, and those that
changed nothing; it lists them first. To delete a task with work that is nowhere else, use
`avfs discard`. With --applies, removes what applies keep for undo. By itself, avfs keeps
the newest 50 of each directory, as long as they take less than 10 GiB and a tenth of the disk.

Examples:
  avfs prune --dry-run
  avfs prune --tasks
  avfs prune --applies --older 30d
  AVFS_RETENTION_ALL=1h avfs prune"
)]
pub struct PruneArgs {
    /// Show what would be removed, and change nothing
    #[arg(long)]
    dry_run: bool,

    /// Instead of snapshots, remove tasks whose work also exists elsewhere
    #[arg(long, group = "asked")]
    tasks: bool,

    /// With --tasks, include those of other projects
    #[arg(short, long, requires = "tasks")]
    all: bool,

    /// Remove what applies keep for undo, instead of snapshots
    #[arg(long, group = "asked")]
    applies: bool,

    /// Remove only what applies older than this keep, such as 12h or 30d
    #[arg(long, value_name = "AGE", value_parser = parse_span, requires = "applies")]
    older: Option<Duration>,

    /// Do not ask for confirmation
    #[arg(short, long, requires = "asked")]
    yes: bool,
}

#[derive(Serialize)]
struct PruneTasksBody {
    dry_run: bool,
    tasks: Vec<String>,
}

#[derive(Serialize)]
struct PruneBody {
    dry_run: bool,
    vaults: Vec<PruneVaultBody>,
    /// Bytes that only the remaining automatic snapshots hold, and the limit for them.
    held_bytes: u64,
    allowed_bytes: u64,
}

#[derive(Serialize)]
struct PruneVaultBody {
    name: String,
    removed: Vec<u64>,
    kept: u64,
    /// Checkpoints that runs saved by themselves.
    checkpoints: Vec<String>,
}

pub fn run(context: &mut Context<'_>, args: &PruneArgs) -> Result<ExitStatus> {
    if args.tasks {
        return prune_tasks(context, args);
    }
    if args.applies {
        return applies::run(context, args);
    }
    let pruned = context.task_store()?.prune(&context.retention(), args.dry_run)?;
    if context.out.is_json() {
        context.out.object("prune", &body(&pruned, args.dry_run))?;
    } else {
        report(context, &pruned, args.dry_run)?;
    }
    Ok(ExitStatus::Success)
}

fn prune_tasks(context: &mut Context<'_>, args: &PruneArgs) -> Result<ExitStatus> {
    let mut done = Vec::new();
    let here = context.here()?;
    let tasks = match here.project() {
        Some(project) if !args.all => project.tasks()?,
        Some(_) | None => context.store()?.tasks().list()?,
    };
    for task in tasks {
        // A task that cannot be examined stays.
        if task.work().held().is_ok_and(|held| held.is_none()) {
            done.push(task);
        }
    }
    let names: Vec<String> = done.iter().map(|task| task.vault_name().to_string()).collect();
    if !context.out.is_json() {
        names.iter().try_for_each(|name| context.out.line(name))?;
    }
    if !args.dry_run && !names.is_empty() {
        let question = format!("Throw away {}?", count(names.len() as u64, "task"));
        if !confirm(context.out, question, args.yes)? {
            return Ok(ExitStatus::No);
        }
        done.into_iter().try_for_each(|task| task.discard(false))?;
    }
    if context.out.is_json() {
        context.out.object(
            "prune-tasks",
            &PruneTasksBody {
                dry_run: args.dry_run,
                tasks: names,
            },
        )?;
    } else if names.is_empty() {
        context
            .out
            .talk("there is no applied or unchanged task to discard");
    }
    Ok(ExitStatus::Success)
}

fn body(pruned: &Pruned, dry_run: bool) -> PruneBody {
    let vaults = pruned.vaults.iter().map(|vault| PruneVaultBody {
        name: vault.name.to_string(),
        removed: vault.removed.clone(),
        kept: vault.kept,
        checkpoints: vault.checkpoints.iter().map(ToString::to_string).collect(),
    });
    let Pruned {
        held_bytes,
        allowed_bytes,
        ..
    } = *pruned;
    PruneBody {
        dry_run,
        vaults: vaults.collect(),
        held_bytes,
        allowed_bytes,
    }
}

fn report(context: &mut Context<'_>, pruned: &Pruned, dry_run: bool) -> Result<()> {
    let out = &mut *context.out;
    let verb = if dry_run { "would go" } else { "removed" };
    let stays = |vault: &&PrunedVault| vault.removed.is_empty() && vault.checkpoints.is_empty();
    for vault in pruned.vaults.iter().filter(|vault| !stays(vault)) {
        let gone = count(vault.removed.len() as u64, "snapshot");
        let checkpoints = match vault.checkpoints.len() {
            0 => String::new(),
            gone => format!("; {} of runs {verb}", count(gone as u64, "checkpoint")),
        };
        out.line(format_args!(
            "{}: {gone} {verb}, {} kept{checkpoints}",
            vault.name, vault.kept
        ))?;
    }
    if pruned.vaults.iter().all(|vault| stays(&vault)) {
        out.talk("all automatic snapshots stay");
    }
    let (held, allowed) = (HumanSize(pruned.held_bytes), HumanSize(pruned.allowed_bytes));
    out.talk(format_args!(
        "automatic snapshots use {held} of the {allowed} that they may use"
    ));
    Ok(())
}
