//! `avfs project forget`: removes a directory from the known projects.

use std::path::PathBuf;

use agentvfs::Error;
use agentvfs::error::ProjectError;
use anyhow::Result;
use serde::Serialize;

use crate::commands::tasks::ProjectField;
use crate::context::Context;
use crate::escape::printable_path;
use crate::exit::ExitStatus;
use crate::versions::count;

/// Forget a project, with its vault and its tasks
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The directory itself does not change. Refuses if a task is running or holds work that
is nowhere else, unless --force is given.

Examples:
  avfs project forget ~/src
  avfs project forget . --force"
)]
pub struct ForgetArgs {
    /// The directory of the project
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    directory: PathBuf,

    /// Also delete tasks with work that is nowhere else
    #[arg(long)]
    force: bool,
}

#[derive(Serialize)]
struct ForgetBody {
    #[serde(flatten)]
    project: ProjectField,
    /// The names of those that are gone with it.
    tasks: Vec<String>,
}

pub fn run(context: &mut Context<'_>, args: &ForgetArgs) -> Result<ExitStatus> {
    let found = context.task_store()?.projects().known_project(&args.directory)?;
    let unknown = || {
        Error::Project(ProjectError::Unknown {
            directory: printable_path(&args.directory),
        })
    };
    let project = found.ok_or_else(unknown)?;
    let root = project.root().to_owned();
    let tasks: Vec<String> = project
        .forget(args.force)?
        .iter()
        .map(ToString::to_string)
        .collect();
    if context.out.is_json() {
        let project = ProjectField::new(root.as_os_str().as_encoded_bytes());
        context
            .out
            .object("project-forgotten", &ForgetBody { project, tasks })?;
    } else {
        let with = match tasks.len() {
            0 => String::new(),
            some => format!(", with {}", count(some as u64, "task")),
        };
        context.out.talk(format_args!(
            "forgot project {}{with}; its files are as they were",
            printable_path(&root)
        ));
    }
    Ok(ExitStatus::Success)
}
