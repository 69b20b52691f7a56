//! `avfs workspace status`: where a workspace is and what was changed in it.

use anyhow::Result;

use super::{WorkspaceBody, mounted_at};
use crate::commands::tasks::changes;
use crate::context::Context;
use crate::exit::ExitStatus;

/// Say where a workspace is and what was changed in it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs workspace status try
  avfs workspace status try --json")]
pub struct StatusArgs {
    /// The workspace [default: the only one of this project]
    name: Option<String>,
}

pub fn run(context: &mut Context<'_>, args: &StatusArgs) -> Result<ExitStatus> {
    let task = context.task(args.name.as_deref())?;
    let body = WorkspaceBody::of(&task)?;
    if context.out.is_json() {
        context.out.object("workspace", &body)?;
        return Ok(ExitStatus::Success);
    }
    let dir = mounted_at(&task)?.map_or_else(|| "not mounted".to_owned(), |dir| dir.display().to_string());
    context.out.line(format_args!("state    {}", body.task.state))?;
    context.out.line(format_args!("at       {dir}"))?;
    context.out.line(format_args!("from     {}", task.root().display()))?;
    context.out.line(format_args!("changed  {}", changes(body.task.changed)))?;
    Ok(ExitStatus::Success)
}
