//! `avfs task wait`.

use std::time::{Duration, Instant};

use agentvfs::task_run::RunRecord;
use anyhow::Result;
use serde::Serialize;

use super::run_body::{RunStateBody, in_words, status, subject};
use super::runs_of;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::time::span_or_seconds;

/// Wait until the programs in tasks end
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The exit status is that of the program; of several tasks, that of the first one that did
not exit with 0. It is 124 if one of them is still running when the time is up.

Examples:
  avfs task wait
  avfs task wait fix-login add-search
  avfs task wait --timeout 30m fix-login && avfs apply fix-login"
)]
pub struct WaitArgs {
    /// The tasks [default: the one that commands work on here]
    #[arg(value_name = "TASK")]
    tasks: Vec<String>,
    /// Wait no longer than this, such as 90s, 5m or 1h30m; a bare number is seconds
    #[arg(long, value_name = "DURATION", value_parser = span_or_seconds)]
    timeout: Option<Duration>,
    /// Select one of several runs in the task [default: one that is still running, or else the
    /// detached one that ended last, or else the newest]
    #[arg(long, value_name = "ID")]
    run: Option<String>,
}

#[derive(Serialize)]
struct WaitBody {
    runs: Vec<RunStateBody>,
}

pub fn run(context: &mut Context<'_>, args: &WaitArgs) -> Result<ExitStatus> {
    let tasks = context.tasks(&args.tasks)?;
    let runs = runs_of(&tasks, args.run.as_deref())?;
    let until = args.timeout.map(|most| Instant::now() + most);
    let mut ended: Vec<RunRecord> = Vec::new();
    for (run, task) in runs.iter().zip(&tasks) {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let record = run.wait(left)?.unwrap_or_else(|| run.record().clone());
        context.out.talk(format_args!(
            "task {}: {} {}",
            record.task,
            subject(task, &record),
            in_words(&record)
        ));
        ended.push(record);
    }
    if context.out.is_json() {
        context.out.object(
            "task-wait",
            &WaitBody {
                runs: ended.iter().map(RunStateBody::from).collect(),
            },
        )?;
    }
    let statuses = ended.iter().map(status);
    let bad = |status: &ExitStatus| status.number() != 0;
    // A run that is still going on takes precedence over how others ended.
    let is_running = ended.iter().any(|record| record.end.is_none());
    let first_bad = statuses.into_iter().find(bad);
    Ok(if is_running {
        ExitStatus::TimedOut
    } else {
        first_bad.unwrap_or(ExitStatus::Success)
    })
}
