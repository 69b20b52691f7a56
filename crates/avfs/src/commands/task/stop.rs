//! `avfs task stop`.

use std::time::Duration;

use agentvfs::Task;
use agentvfs::error::TaskError;
use anyhow::Result;
use serde::Serialize;

use super::run_body::{RunStateBody, in_words, subject};
use super::runs_of;
use crate::commands::discard::sessions_of;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::time::span_or_seconds;

/// Stop the programs in tasks; the tasks and their work stay
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Sends SIGTERM to all processes of the program, kills those that are left after
--kill-after, and waits until their work is stored.

Examples:
  avfs task stop
  avfs task stop fix-login add-search
  avfs task stop --kill-after 0s fix-login"
)]
pub struct TaskStopArgs {
    /// The tasks [default: the one that commands work on here]
    #[arg(value_name = "TASK")]
    tasks: Vec<String>,
    /// Kill the program if it has not ended after this long; a bare number is seconds
    #[arg(long, value_name = "DURATION", value_parser = span_or_seconds, default_value = "5s")]
    kill_after: Duration,
    /// Select one of several runs in the task [default: one that is still running, or else the
    /// detached one that ended last, or else the newest]
    #[arg(long, value_name = "ID")]
    run: Option<String>,
}

#[derive(Serialize)]
struct StopBody {
    runs: Vec<RunStateBody>,
}

pub fn run(context: &mut Context<'_>, args: &TaskStopArgs) -> Result<ExitStatus> {
    let tasks = context.tasks(&args.tasks)?;
    refuse_sessions(&tasks)?;
    let runs = runs_of(&tasks, args.run.as_deref())?;
    // None is stopped if not all can be.
    if let Some(over) = runs.iter().find(|run| !run.is_going_on()) {
        return Err(agentvfs::Error::Task(TaskError::NotRunning {
            task: over.record().vault.clone(),
        })
        .into());
    }
    let mut bodies = Vec::new();
    for (run, task) in runs.iter().zip(&tasks) {
        let record = run.stop(args.kill_after)?;
        context.out.talk(format_args!(
            "task {}: {} {}",
            record.task,
            subject(task, &record),
            in_words(&record)
        ));
        bodies.push(RunStateBody::from(&record));
    }
    if context.out.is_json() {
        context.out.object("task-stop", &StopBody { runs: bodies })?;
    }
    Ok(ExitStatus::Success)
}

/// A session is not a run, and is stopped by another command.
fn refuse_sessions(tasks: &[Task]) -> Result<()> {
    for task in tasks {
        let runs = task.runs().last()?.is_some_and(|run| run.is_going_on());
        if !runs && let Some((text, stop)) = sessions_of(task, task.vault_name().as_str())? {
            let text = format!("{text}, and nothing else runs there");
            return Err(Failure::new("not-running", ExitStatus::NotFound, text)
                .hint(Some(stop))
                .into());
        }
    }
    Ok(())
}
