//! `avfs workspace`: a task as a directory outside of any sandbox, for editors and scripts.

mod checkpoint;
mod enter;
mod leads_back;
mod list;
mod rollback;
mod start;
mod status;
mod stop;

pub use leads_back::LeadsBack;
pub use start::mounted;
pub use stop::remove_place;

use std::path::{Path, PathBuf};

use agentvfs::Task;
use anyhow::Result;
use serde::Serialize;

use crate::commands::tasks::ListedTaskBody;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::json::byte_field;

/// The command that is recorded for the task of a workspace.
pub const COMMAND: &str = "workspace";

/// The same for a workspace that `avfs quickstart` made.
pub const QUICKSTART: &str = "quickstart";

/// Whether a task is a workspace.
pub fn is_workspace(task: &Task) -> bool {
    matches!(task.command(), COMMAND | QUICKSTART)
}

/// Work on a private copy of a project without a sandbox
#[derive(Debug, clap::Subcommand)]
pub enum WorkspaceCommand {
    Enter(enter::EnterArgs),
    Start(start::WorkspaceStartArgs),
    Checkpoint(checkpoint::WorkspaceCheckpointArgs),
    Rollback(rollback::RollbackArgs),
    Stop(stop::WorkspaceStopArgs),
    Status(status::WorkspaceStatusArgs),
    List(list::WorkspaceListArgs),
}

pub fn run(context: &mut Context<'_>, command: &WorkspaceCommand) -> Result<ExitStatus> {
    match command {
        WorkspaceCommand::Enter(args) => enter::run(context, args),
        WorkspaceCommand::Start(args) => start::run(context, args),
        WorkspaceCommand::Checkpoint(args) => checkpoint::run(context, args),
        WorkspaceCommand::Rollback(args) => rollback::run(context, args),
        WorkspaceCommand::Stop(args) => stop::run(context, args),
        WorkspaceCommand::Status(args) => status::run(context, args),
        WorkspaceCommand::List(args) => list::run(context, args),
    }
}

byte_field!(DirField, dir, dir_bytes_hex);

/// A workspace in JSON: a task, and where it is mounted.
#[derive(Serialize)]
struct WorkspaceBody {
    #[serde(flatten)]
    task: ListedTaskBody,
    /// Absent while it is stopped.
    #[serde(flatten)]
    dir: Option<DirField>,
}

impl WorkspaceBody {
    fn of(task: &Task) -> Result<WorkspaceBody> {
        let dir = mounted_at(task)?.map(|dir| DirField::new(dir.as_os_str().as_encoded_bytes()));
        Ok(WorkspaceBody {
            task: ListedTaskBody::of(task)?,
            dir,
        })
    }
}

/// Where a task is mounted, if it is.
pub fn mounted_at(task: &Task) -> Result<Option<PathBuf>> {
    let mounts = task.vault().mounts().list()?;
    Ok(mounts.into_iter().next().map(|mount| mount.dir))
}

/// The default directory of workspaces: beside the store.
fn default_place(home: &Path, task: &Task) -> PathBuf {
    let mut beside = home.file_name().unwrap_or_default().to_owned();
    beside.push("-workspaces");
    home.with_file_name(beside).join(task.vault_name().as_str())
}
