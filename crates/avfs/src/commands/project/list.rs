//! `avfs project list`: the projects that are known.

use anyhow::Result;
use serde::Serialize;

use crate::commands::tasks::ProjectField;
use crate::context::Context;
use crate::escape::printable_path;
use crate::exit::ExitStatus;
use crate::printer::HEADING;

/// List the projects, with their vaults and how many tasks they have
#[derive(Debug, clap::Args)]
#[command(after_help = "A directory becomes a project with the first task that is made from it.

Examples:
  avfs project list
  avfs project list --json | jq -r '.projects[].project'")]
pub struct ListArgs {}

#[derive(Serialize)]
struct ListBody {
    projects: Vec<ProjectBody>,
}

#[derive(Serialize)]
struct ProjectBody {
    #[serde(flatten)]
    project: ProjectField,
    vault: String,
    tasks: usize,
    /// Whether the directory is there.
    exists: bool,
}

pub fn run(context: &mut Context<'_>, _: &ListArgs) -> Result<ExitStatus> {
    let projects = context.task_store()?.projects()?;
    let mut bodies = Vec::new();
    for project in &projects {
        bodies.push(ProjectBody {
            project: ProjectField::new(project.root().as_os_str().as_encoded_bytes()),
            vault: project.vault().name().map_or_else(|_| "-".to_owned(), |name| name.to_string()),
            tasks: project.tasks()?.len(),
            exists: project.root().is_dir(),
        });
    }
    if context.out.is_json() {
        context.out.object("projects", &ListBody { projects: bodies })?;
    } else if bodies.is_empty() {
        context.out.talk("there is no project yet; `avfs run` makes one of the directory you are in");
    } else {
        let width =
            bodies.iter().map(|body| body.vault.chars().count()).max().unwrap_or(0).max("VAULT".len());
        context
            .out
            .line(context.out.paint(HEADING, format!("{:<width$}  {:>5}  DIRECTORY", "VAULT", "TASKS")))?;
        for (body, project) in bodies.iter().zip(&projects) {
            let gone = if body.exists { "" } else { "  (gone)" };
            let directory = printable_path(project.root());
            context.out.line(format_args!("{:<width$}  {:>5}  {directory}{gone}", body.vault, body.tasks))?;
        }
    }
    Ok(ExitStatus::Success)
}
