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

use std::path::{Path, PathBuf};

use agentvfs::Task;
use anyhow::Result;
use serde::Serialize;

use crate::commands::tasks::TaskBody;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::json::byte_field;

/// What the command of a task says that was made for a workspace.
const COMMAND: &str = "workspace";

/// Work on a private copy of a project outside of any sandbox
#[derive(Debug, clap::Subcommand)]
pub enum WorkspaceCommand {
    Enter(enter::EnterArgs),
    Start(start::StartArgs),
    Checkpoint(checkpoint::CheckpointArgs),
    Rollback(rollback::RollbackArgs),
    Stop(stop::StopArgs),
    Status(status::StatusArgs),
    List(list::ListArgs),
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
    task: TaskBody,
    /// Absent while it is stopped.
    #[serde(flatten)]
    dir: Option<DirField>,
}

impl WorkspaceBody {
    fn of(task: &Task) -> Result<WorkspaceBody> {
        let dir = mounted_at(task)?.map(|dir| DirField::new(dir.as_os_str().as_encoded_bytes()));
        Ok(WorkspaceBody { task: TaskBody::of(task)?, dir })
    }
}

/// Where a task is mounted, if it is.
pub fn mounted_at(task: &Task) -> Result<Option<PathBuf>> {
    let mounts = task.vault().mount_records()?;
    Ok(mounts.into_iter().next().map(|mount| mount.dir))
}

/// Where workspaces are if nobody says otherwise: beside the store.
fn default_place(home: &Path, task: &Task) -> PathBuf {
    let mut beside = home.file_name().unwrap_or_default().to_owned();
    beside.push("-workspaces");
    home.with_file_name(beside).join(task.vault_name().as_str())
}
