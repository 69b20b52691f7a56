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
#[command(
    after_help = "A directory becomes a project with the first task that is made from it.

Examples:
  avfs project list
  avfs project list --json | jq -r '.projects[].project'"
)]
pub struct ProjectListArgs {}

#[derive(Serialize)]
struct ProjectListBody {
    projects: Vec<ProjectBody>,
}

#[derive(Serialize)]
struct ProjectBody {
    #[serde(flatten)]
    project: ProjectField,
    vault: String,
    tasks: usize,
    /// Whether the directory exists.
    exists: bool,
}

pub fn run(context: &mut Context<'_>, _: &ProjectListArgs) -> Result<ExitStatus> {
    let projects = context.task_store()?.projects().list()?;
    let mut bodies = Vec::new();
    for project in &projects {
        bodies.push(ProjectBody {
            project: ProjectField::new(project.root().as_os_str().as_encoded_bytes()),
            vault: project
                .vault()
                .name()
                .map_or_else(|_| "-".to_owned(), |name| name.to_string()),
            tasks: project.tasks()?.len(),
            exists: project.root().is_dir(),
        });
    }
    if context.out.is_json() {
        context
            .out
            .object("projects", &ProjectListBody { projects: bodies })?;
    } else if bodies.is_empty() {
        context
            .out
            .talk("there is no project yet; `avfs run` makes the current directory one");
    } else {
        let width = bodies
            .iter()
            .map(|body| body.vault.chars().count())
            .max()
            .unwrap_or(0)
            .max("VAULT".len());
        context.out.line(
            context
                .out
                .paint(HEADING, format!("{:<width$}  {:>5}  DIRECTORY", "VAULT", "TASKS")),
        )?;
        for (body, project) in bodies.iter().zip(&projects) {
            let missing = if body.exists { "" } else { "  (missing)" };
            let directory = printable_path(project.root());
            context.out.line(format_args!(
                "{:<width$}  {:>5}  {directory}{missing}",
                body.vault, body.tasks
            ))?;
        }
        if bodies.iter().any(|body| !body.exists) {
            context.out.talk(
                "after renaming or moving a directory: `avfs project move OLD NEW`; \
                 after deleting one: `avfs project forget DIR`",
            );
        }
    }
    Ok(ExitStatus::Success)
}
