//! `avfs task`: tasks without a program, and the programs that run in tasks.

mod attach;
mod new;
mod output;
mod run_body;
mod stop;
mod wait;

use agentvfs::Task;
use agentvfs::task_run::TaskRun;
use anyhow::Result;
pub use run_body::RunStateBody;

use super::tasks::{self, TasksArgs};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::rule_args::RuleArgs;

/// Create tasks, and manage the programs that run in them
#[derive(Debug, clap::Subcommand)]
pub enum TaskCommand {
    List(TasksArgs),
    New(new::NewArgs),
    Attach(attach::AttachArgs),
    Output(output::OutputArgs),
    Wait(wait::WaitArgs),
    Stop(stop::TaskStopArgs),
}

impl TaskCommand {
    pub fn rule_args(&self) -> Option<&RuleArgs> {
        match self {
            TaskCommand::New(args) => Some(&args.rules),
            TaskCommand::List(_)
            | TaskCommand::Attach(_)
            | TaskCommand::Output(_)
            | TaskCommand::Wait(_)
            | TaskCommand::Stop(_) => None,
        }
    }
}

pub fn run(context: &mut Context<'_>, command: &TaskCommand) -> Result<ExitStatus> {
    match command {
        TaskCommand::List(args) => tasks::run(context, args),
        TaskCommand::New(args) => new::run(context, args),
        TaskCommand::Attach(args) => attach::run(context, args),
        TaskCommand::Output(args) => output::run(context, args),
        TaskCommand::Wait(args) => wait::run(context, args),
        TaskCommand::Stop(args) => stop::run(context, args),
    }
}

/// The runs of several tasks that a command is about. Only of one task, a run can be named.
fn runs_of(tasks: &[Task], id: Option<&str>) -> Result<Vec<TaskRun>> {
    if id.is_some() && tasks.len() > 1 {
        let text = "--run names a run of one task, and several tasks are named";
        return Err(Failure::new("usage", ExitStatus::BadInput, text).into());
    }
    tasks.iter().map(|task| run_of(task, id)).collect()
}

/// The run of a task to which a command refers: the named one, or a running one, or else the detached one
/// that ended last, or else the newest.
fn run_of(task: &Task, id: Option<&str>) -> Result<TaskRun> {
    let name = task.vault_name();
    let Some(id) = id else {
        let none = || {
            Failure::new(
                "no-run",
                ExitStatus::NotFound,
                format!("nothing was run in task '{name}' yet"),
            )
            .hint(Some(format!(
                "`avfs run --task {name} -- COMMAND` runs something"
            )))
        };
        return Ok(task.runs().last()?.ok_or_else(none)?);
    };
    let unknown = || {
        let id = crate::escape::printable(id.as_bytes());
        Failure::new(
            "unknown-run",
            ExitStatus::NotFound,
            format!("task '{name}' has no run '{id}'"),
        )
        .hint(Some("`avfs tasks --json` has the ids".to_owned()))
    };
    Ok(task
        .runs()
        .list()?
        .into_iter()
        .find(|run| run.record().id == id)
        .ok_or_else(unknown)?)
}
