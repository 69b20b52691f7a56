//! `avfs task stop`.

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use super::run_body::{RunStateBody, in_words};
use super::{run_of, tasks_named};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::time::parse_span;

/// End the programs in tasks; the tasks and their work stay
#[derive(Debug, clap::Args)]
#[command(after_help = "Asks all processes of the program to end (SIGTERM), kills those that are still there
after --kill-after, and waits until what they did is stored.

Examples:
  avfs task stop
  avfs task stop fix-login add-search
  avfs task stop --kill-after 0s fix-login")]
pub struct StopArgs {
    /// The tasks [default: the only one of this project]
    #[arg(value_name = "TASK")]
    tasks: Vec<String>,
    /// How long the program may take to end by itself
    #[arg(long, value_name = "DURATION", value_parser = parse_span, default_value = "5s")]
    kill_after: Duration,
}

#[derive(Serialize)]
struct StopBody {
    runs: Vec<RunStateBody>,
}

pub fn run(context: &mut Context<'_>, args: &StopArgs) -> Result<ExitStatus> {
    let tasks = tasks_named(context, &args.tasks)?;
    let runs = tasks.iter().map(|task| run_of(task, None)).collect::<Result<Vec<_>>>()?;
    // None is stopped if not all can be.
    if let Some(over) = runs.iter().find(|run| !run.is_going_on()) {
        return Err(agentvfs::Error::NotRunning { task: over.record().vault.clone() }.into());
    }
    let mut bodies = Vec::new();
    for run in runs {
        let record = run.stop(args.kill_after)?;
        context.out.talk(format_args!("task {}: it {}", record.task, in_words(&record)));
        bodies.push(RunStateBody::from(&record));
    }
    if context.out.is_json() {
        context.out.object("task-stop", &StopBody { runs: bodies })?;
    }
    Ok(ExitStatus::Success)
}
