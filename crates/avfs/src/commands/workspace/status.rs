//! `avfs workspace status`: where a workspace is and what was changed in it.

use anyhow::Result;

use super::{WorkspaceBody, mounted_at};
use crate::commands::tasks::changes;
use crate::context::Context;
use crate::exit::ExitStatus;

/// Show where a workspace is mounted and what changed in it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs workspace status try
  avfs workspace status try --json")]
pub struct WorkspaceStatusArgs {
    /// The workspace [default: the one that commands work on here]
    name: Option<String>,
}

pub fn run(context: &mut Context<'_>, args: &WorkspaceStatusArgs) -> Result<ExitStatus> {
    let task = context.task(args.name.as_deref())?;
    let body = WorkspaceBody::of(&task)?;
    if context.out.is_json() {
        context.out.object("workspace", &body)?;
        return Ok(ExitStatus::Success);
    }
    let dir = mounted_at(&task)?.map_or_else(|| "not mounted".to_owned(), |dir| dir.display().to_string());
    context.out.line(format_args!("state    {}", body.task.state))?;
    context.out.line(format_args!("at       {dir}"))?;
    context
        .out
        .line(format_args!("from     {}", task.root().display()))?;
    context
        .out
        .line(format_args!("changed  {}", changes(body.task.changed)))?;
    Ok(ExitStatus::Success)
}
