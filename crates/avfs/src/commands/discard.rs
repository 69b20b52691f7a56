//! `avfs discard`: throw tasks away.

use agentvfs::Task;
use anyhow::Result;
use serde::Serialize;

use super::workspace::{is_workspace, mounted_at};
use avfs_core::shell_word;

use crate::confirm::confirm;
use crate::context::Context;
use crate::escape::printable_path;
use crate::exit::ExitStatus;
use crate::failure::Failure;

/// Delete tasks with everything in them
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Asks first if a task holds work that is not in its directory. Refuses to delete a task
that is still running, unless --force is given.

Examples:
  avfs discard task-1
  avfs discard attempt-2 attempt-3 --yes"
)]
pub struct DiscardArgs {
    /// The tasks [default: the one that commands work on here]
    #[arg(value_name = "TASK")]
    tasks: Vec<String>,

    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,

    /// Delete tasks even while something uses them
    #[arg(long)]
    force: bool,
}

#[derive(Serialize)]
struct DiscardBody<'a> {
    tasks: &'a [String],
}

/// Why a task is not discarded without a question. A task that cannot be examined may hold anything.
fn held_work(task: &Task) -> Option<String> {
    match task.work().held() {
        Ok(held) => held.map(|held| held.to_string()),
        Err(error) => Some(format!("it cannot be inspected: {error}")),
    }
}

/// The sessions that are open in a task, in a sentence, and how to end them.
pub fn sessions_of(task: &Task, name: &str) -> Result<Option<(String, String)>> {
    let ids: Vec<String> = task
        .vault()
        .sessions()
        .list()?
        .into_iter()
        .map(|session| session.id)
        .collect();
    let all = ids.join(" ");
    Ok(match &ids[..] {
        [] => None,
        [_] => Some((
            format!("session {all} is open in task '{name}'"),
            format!("`avfs session stop {all}` ends it"),
        )),
        _ => Some((
            format!("sessions {} are open in task '{name}'", ids.join(", ")),
            format!("`avfs session stop {all}` ends them"),
        )),
    })
}

/// A running task is not discarded: if one of the tasks is running, none is discarded.
fn refuse_running(context: &mut Context<'_>, tasks: &[Task]) -> Result<()> {
    let here = context.here()?;
    let home = context.home()?.to_owned();
    for task in tasks {
        if !task.is_running()? {
            continue;
        }
        let name = here.name_of(task);
        let has_run = task.runs().last()?.is_some_and(|run| run.is_going_on());
        if let Some((text, stop)) = sessions_of(task, &name)? {
            let hint = format!("{stop}; `--force` throws the task away as it is used");
            return Err(Failure::new("vault-busy", ExitStatus::Busy, text)
                .hint(Some(hint))
                .into());
        }
        let (text, hint) = match mounted_at(task)? {
            _ if has_run => (
                format!("task '{name}' is running"),
                format!("`avfs task stop {name}` ends it; `--force` discards it anyway"),
            ),
            // A command has it, which is in the store.
            Some(dir) if dir.starts_with(&home) => (
                format!("task '{name}' is in use by a command"),
                "try again when it has ended; `--force` discards the task anyway".to_owned(),
            ),
            Some(dir) => {
                let unmount = if is_workspace(task) {
                    format!("avfs workspace stop {name}")
                } else {
                    format!("avfs unmount {}", shell_word(&dir.display().to_string()))
                };
                (
                    format!("task '{name}' is mounted at {}", printable_path(&dir)),
                    format!("`{unmount}` unmounts it; `--force` discards it anyway"),
                )
            }
            // The process that has it open is about to end.
            None => continue,
        };
        return Err(Failure::new("vault-busy", ExitStatus::Busy, text)
            .hint(Some(hint))
            .into());
    }
    Ok(())
}

pub fn run(context: &mut Context<'_>, args: &DiscardArgs) -> Result<ExitStatus> {
    // All of them are checked before the first one is discarded.
    let tasks = context.tasks(&args.tasks)?;
    if !args.force {
        refuse_running(context, &tasks)?;
    }
    let names: Vec<String> = tasks.iter().map(|task| task.name().to_string()).collect();
    let is_agreed = args.yes || args.force;
    let mut held = Vec::new();
    for task in &tasks {
        // A task that is discarded in any case need not be examined.
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
