//! `avfs project move`: the directory of a project has another path now.

use std::path::{Path, PathBuf};

use agentvfs::error::ProjectError;
use agentvfs::{Error, Likeness, Project, Store};
use anyhow::Result;
use serde::Serialize;

use crate::commands::tasks::ProjectField;
use crate::confirm::confirm;
use crate::context::Context;
use crate::escape::printable_path;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::versions::count;

/// Update a project after its directory was renamed or moved
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "avfs project move [OPTIONS] [OLD] <NEW>",
    after_help = "Move the directory yourself first. This command only updates what avfs knows about it:
tasks, reviews, applies and undo then work with the new path. Tasks keep their names.
Without OLD, avfs looks for the missing project that NEW used to be, and asks.

Examples:
  mv ~/src ~/work/src && avfs project move ~/src ~/work/src
  avfs project move ."
)]
pub struct ProjectMoveArgs {
    /// The old directory (can be omitted) and the new one
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath, num_args = 1..=2, required = true)]
    directories: Vec<PathBuf>,

    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,

    /// Move it even if nothing shows that NEW is the same project
    #[arg(long)]
    force: bool,
}

#[derive(Serialize)]
struct ProjectMoveBody {
    #[serde(flatten)]
    project: ProjectField,
    old_project: String,
    tasks: usize,
}

pub fn run(context: &mut Context<'_>, args: &ProjectMoveArgs) -> Result<ExitStatus> {
    let store = context.task_store()?;
    let (project, new) = match args.directories.as_slice() {
        [old, new] => (named(&store, old, new, args.force)?, new),
        [new] => match found(context, &store, new, args.yes)? {
            Some(project) => (project, new),
            None => return Ok(ExitStatus::No),
        },
        _ => unreachable!("clap takes one or two directories"),
    };
    let old = printable_path(project.root());
    let moved = project.move_to(new)?;
    let tasks = moved.tasks()?.len();
    if context.out.is_json() {
        let project = ProjectField::new(moved.root().as_os_str().as_encoded_bytes());
        context.out.object(
            "project-moved",
            &ProjectMoveBody {
                project,
                old_project: old,
                tasks,
            },
        )?;
    } else {
        let (new, tasks) = (printable_path(moved.root()), count(tasks as u64, "task"));
        context
            .out
            .talk(format_args!("project {old} is at {new} now, with {tasks}"));
    }
    Ok(ExitStatus::Success)
}

/// The project that was moved according to the user.
fn named(store: &Store, old: &Path, new: &Path, force: bool) -> Result<Project> {
    let unknown = || {
        Error::Project(ProjectError::Unknown {
            directory: printable_path(old),
        })
    };
    let project = store.projects().known_project(old)?.ok_or_else(unknown)?;
    if project.is_missing() && !force && project.likeness(new)? == Likeness::Unknown {
        let [old, new] = [old, new].map(printable_path);
        return Err(Error::Project(ProjectError::Unlike { old, new }).into());
    }
    Ok(project)
}

/// The missing project that a directory was before, if the user agrees.
fn found(context: &mut Context<'_>, store: &Store, new: &Path, yes: bool) -> Result<Option<Project>> {
    let mut alike = Vec::new();
    for project in store.projects().missing()? {
        match project.likeness(new)? {
            Likeness::SameDirectory => {
                alike = vec![project];
                break;
            }
            Likeness::SameRepository => alike.push(project),
            Likeness::Unknown => {}
        }
    }
    let Some(project) = alike.pop().filter(|_| alike.is_empty()) else {
        let message = match alike.len() {
            0 => format!(
                "no missing project is known that could be {}",
                printable_path(new)
            ),
            _ => format!("several missing projects could be {}", printable_path(new)),
        };
        let hint = "name the old directory too; `avfs project list` shows the projects that are missing";
        return Err(Failure::new("unknown-project", ExitStatus::NotFound, message)
            .hint(Some(hint.to_owned()))
            .into());
    };
    let tasks = count(project.tasks()?.len() as u64, "task");
    let [old, new] = [project.root(), new].map(printable_path);
    let question = format!("Is {new} the project that was at {old}, with {tasks}?");
    Ok(confirm(context.out, question, yes)?.then_some(project))
}
