//! `avfs workspace stop`: removes the mount, and keeps the work.

use std::path::Path;
use std::time::{Duration, Instant};

use agentvfs::Task;
use anyhow::Result;

use super::{WorkspaceBody, default_place, mounted_at};
use crate::commands::unmount;
use crate::context::Context;
use crate::exit::ExitStatus;

/// Unmount a workspace; its work stays until it is applied or discarded
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs workspace stop try
  avfs workspace stop try --force           even while programs use it")]
pub struct WorkspaceStopArgs {
    /// The workspace [default: the one that commands work on here]
    name: Option<String>,

    /// Unmount even while programs use the directory
    #[arg(long, short)]
    force: bool,
}

/// How long the process that served a workspace may take to store the remaining changes.
const PATIENCE: Duration = Duration::from_secs(10);

pub fn run(context: &mut Context<'_>, args: &WorkspaceStopArgs) -> Result<ExitStatus> {
    let task = context.task(args.name.as_deref())?;
    let mounted = mounted_at(&task)?;
    if let Some(dir) = &mounted {
        unmount::end(task.vault(), dir, args.force)?;
        remove_place(context, &task, dir)?;
    }
    if context.out.is_json() {
        context.out.object("workspace", &WorkspaceBody::of(&task)?)?;
        return Ok(ExitStatus::Success);
    }
    let name = context.here()?.name_of(&task);
    match mounted {
        Some(_) => context.out.talk(format_args!(
            "stopped; `avfs diff {name}`, then `avfs apply {name}`"
        )),
        None => context.out.talk(format_args!("'{name}' was not running")),
    }
    Ok(ExitStatus::Success)
}

/// Takes away the directory that a task was mounted at, if it was made for that.
pub fn remove_place(context: &Context<'_>, task: &Task, dir: &Path) -> Result<()> {
    await_rest(task)?;
    if dir == default_place(context.home()?, task) {
        // We made it; if something is in it, it is not ours to remove.
        let _ = std::fs::remove_dir(dir);
        let _ = dir.parent().map(std::fs::remove_dir);
    }
    Ok(())
}

/// Waits until no process has the task open, so that the next command finds its final state. Other programs may continue in it.
fn await_rest(task: &Task) -> Result<()> {
    let start = Instant::now();
    while task.is_running()? && start.elapsed() < PATIENCE {
        // Programs are asked to end; none of them tells us when it has.
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}
