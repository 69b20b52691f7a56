//! `avfs workspace list`: all workspaces.

use agentvfs::Task;
use anyhow::Result;
use serde::Serialize;

use super::{WorkspaceBody, is_workspace, mounted_at};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::printer::HEADING;

/// List the workspaces
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs workspace list
  avfs workspace list --json")]
pub struct WorkspaceListArgs {}

#[derive(Serialize)]
struct WorkspaceListBody {
    workspaces: Vec<WorkspaceBody>,
}

pub fn run(context: &mut Context<'_>, _: &WorkspaceListArgs) -> Result<ExitStatus> {
    let here = context.here()?;
    let tasks: Vec<Task> = context
        .store()?
        .tasks()
        .list()?
        .into_iter()
        .filter(is_workspace)
        .collect();
    if context.out.is_json() {
        let workspaces = tasks.iter().map(WorkspaceBody::of).collect::<Result<Vec<_>>>()?;
        context
            .out
            .object("workspaces", &WorkspaceListBody { workspaces })?;
        return Ok(ExitStatus::Success);
    }
    if tasks.is_empty() {
        context
            .out
            .talk("there is no workspace; start one with `avfs workspace start NAME --from DIR`");
        return Ok(ExitStatus::Success);
    }
    let width = tasks
        .iter()
        .map(|task| here.name_of(task).chars().count())
        .max()
        .unwrap_or(0)
        .max(4);
    context.out.line(
        context
            .out
            .paint(HEADING, format!("{:<width$}  {:<9}  AT", "NAME", "STATE")),
    )?;
    for task in &tasks {
        let dir = mounted_at(task)?.map_or_else(|| "-".to_owned(), |dir| dir.display().to_string());
        let state = task.state()?.as_str();
        context
            .out
            .line(format_args!("{:<width$}  {state:<9}  {dir}", here.name_of(task)))?;
    }
    Ok(ExitStatus::Success)
}
