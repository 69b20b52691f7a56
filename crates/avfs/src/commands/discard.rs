//! `avfs discard`: throw tasks away.

use agentvfs::Task;
use anyhow::Result;
use serde::Serialize;

use super::workspace::mounted_at;
use crate::confirm::confirm;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::Failure;

/// Throw tasks away, with everything they hold
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Asks first if a task holds work that is not in its directory. A task that still runs is
refused, unless --force is given.

Examples:
  avfs discard task-1
  avfs discard attempt-2 attempt-3 --yes"
)]
pub struct DiscardArgs {
    /// The tasks [default: the only one of this project]
    #[arg(value_name = "TASK")]
    tasks: Vec<String>,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    /// Also tasks that something still uses
    #[arg(long)]
    force: bool,
}

#[derive(Serialize)]
struct DiscardBody<'a> {
    tasks: &'a [String],
}

/// Why a task is not thrown away without a question. One that cannot be looked at may hold anything.
fn held_work(task: &Task) -> Option<String> {
    match task.held_work() {
        Ok(held) => held.map(|held| held.to_string()),
        Err(error) => Some(format!("it cannot be looked at: {error}")),
    }
}

/// What still runs is not thrown away: nothing is, if one of the tasks does.
fn refuse_running(context: &mut Context<'_>, tasks: &[Task]) -> Result<()> {
    let here = context.here()?;
    let home = context.home()?.to_owned();
    for task in tasks {
        if !task.is_running()? {
            continue;
        }
        let name = here.name_of(task);
        let has_run = task.last_run()?.is_some_and(|run| run.is_going_on());
        let (text, hint) = match mounted_at(task)? {
            _ if has_run => (
                format!("task '{name}' is running"),
                format!("`avfs task stop {name}` ends it; `--force` throws it away as it runs"),
            ),
            // A command or a session has it, which are in the store.
            Some(dir) if dir.starts_with(&home) => (
                format!("task '{name}' is in use by a command or a session"),
                "try again when it has ended; `--force` throws the task away as it is used".to_owned(),
            ),
            Some(_) => (
                format!("task '{name}' is mounted"),
                format!("`avfs workspace stop {name}` unmounts it; `--force` throws it away as it is used"),
            ),
            // Whoever has it open is about to end.
            None => continue,
        };
        return Err(Failure::new("vault-busy", ExitStatus::Busy, text).hint(Some(hint)).into());
    }
    Ok(())
}

pub fn run(context: &mut Context<'_>, args: &DiscardArgs) -> Result<ExitStatus> {
    // All of them are known before the first one goes.
    let tasks = if args.tasks.is_empty() {
        vec![context.task(None)?]
    } else {
        let here = context.here()?;
        args.tasks.iter().map(|name| here.task(name)).collect::<Result<Vec<_>, _>>()?
    };
    if !args.force {
        refuse_running(context, &tasks)?;
    }
    let names: Vec<String> = tasks.iter().map(|task| task.name().to_string()).collect();
    let is_agreed = args.yes || args.force;
    let mut held = Vec::new();
    for task in &tasks {
        // Nothing has to be known of what goes in any case.
        if !is_agreed && let Some(reason) = held_work(task) {
            held.push(format!("'{}' ({reason})", task.name()));
        }
    }
    if !held.is_empty() {
        let question = format!("Throw away {}?", held.join(", "));
        if !confirm(context.out, question, is_agreed)? {
            return Ok(ExitStatus::No);
        }
    }
    for task in tasks {
        let name = task.name().to_string();
        task.discard(args.force)?;
        context.out.talk(format_args!("discarded task '{name}'"));
    }
    if context.out.is_json() {
        context.out.object("discard", &DiscardBody { tasks: &names })?;
    }
    Ok(ExitStatus::Success)
}
