//! `avfs task wait`.

use std::time::{Duration, Instant};

use agentvfs::task_run::RunRecord;
use anyhow::Result;
use serde::Serialize;

use super::run_body::{RunStateBody, in_words, status};
use super::{run_of, tasks_named};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::time::parse_span;

/// Wait until the programs in tasks have ended
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The exit status is that of the program; of several tasks, that of the first one that did
not end with 0. It is 124 if one of them still runs when the time is over.

Examples:
  avfs task wait
  avfs task wait fix-login add-search
  avfs task wait --timeout 30m fix-login && avfs apply fix-login"
)]
pub struct WaitArgs {
    /// The tasks [default: the only one of this project]
    #[arg(value_name = "TASK")]
    tasks: Vec<String>,
    /// Wait no longer than this, such as 30m
    #[arg(long, value_name = "DURATION", value_parser = parse_span)]
    timeout: Option<Duration>,
}

#[derive(Serialize)]
struct WaitBody {
    runs: Vec<RunStateBody>,
}

pub fn run(context: &mut Context<'_>, args: &WaitArgs) -> Result<ExitStatus> {
    let tasks = tasks_named(context, &args.tasks)?;
    let runs = tasks.iter().map(|task| run_of(task, None)).collect::<Result<Vec<_>>>()?;
    let until = args.timeout.map(|most| Instant::now() + most);
    let mut ended: Vec<RunRecord> = Vec::new();
    for run in &runs {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let record = run.wait(left)?.unwrap_or_else(|| run.record().clone());
        context.out.talk(format_args!("task {}: it {}", record.task, in_words(&record)));
        ended.push(record);
    }
    if context.out.is_json() {
        context
            .out
            .object("task-wait", &WaitBody { runs: ended.iter().map(RunStateBody::from).collect() })?;
    }
    let statuses = ended.iter().map(status);
    let bad = |status: &ExitStatus| status.number() != 0;
    // That one is still running counts more than how others ended.
    let is_running = ended.iter().any(|record| record.end.is_none());
    let first_bad = statuses.into_iter().find(bad);
    Ok(if is_running { ExitStatus::TimedOut } else { first_bad.unwrap_or(ExitStatus::Success) })
}
