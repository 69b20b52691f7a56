//! `avfs workspace start`: a fork of a directory, mounted.

use std::path::PathBuf;

use agentvfs::mount::MountOptions;
use agentvfs::{Error, NewTask, Task, TaskName};
use anyhow::Result;

use super::{COMMAND, WorkspaceBody, default_place, mounted_at};
use crate::commands::mount::Plan;
use crate::commands::setup::{allowed_setup, carry_out};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::Failure;

/// Fork a directory and mount the fork
#[derive(Debug, clap::Args)]
#[command(after_help = "Prints where it is. Nothing in the directory itself changes until
`avfs apply NAME`. A workspace that was stopped goes on with the same name.

Examples:
  avfs workspace start try --from ~/web
  cd $(avfs workspace start try --from .)
  avfs workspace start try                  goes on after a stop
  avfs workspace start try --from . --dir ~/try")]
pub struct StartArgs {
    name: String,

    /// The directory to work on a copy of
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,

    /// Where to mount it [default: beside the store]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub fn run(context: &mut Context<'_>, args: &StartArgs) -> Result<ExitStatus> {
    let task = task(context, args)?;
    let dir = match mounted_at(&task)? {
        Some(dir) => dir,
        None => {
            let place = args.dir.clone().map_or_else(|| default(context, &task), Ok)?;
            std::fs::create_dir_all(&place).map_err(|source| Error::Host {
                action: "making",
                place: place.display().to_string(),
                source,
            })?;
            let plan = Plan::new(task.vault().clone(), &place, MountOptions::default())?;
            if let Err(status) = plan.mount(context)? {
                return Ok(status);
            }
            plan.dir().to_owned()
        }
    };
    if context.out.is_json() {
        context.out.object("workspace", &WorkspaceBody::of(&task)?)?;
        return Ok(ExitStatus::Success);
    }
    context.out.line(dir.display())?;
    let name = context.here()?.name_of(&task);
    context.out.talk(format_args!("when you are done: avfs workspace stop {name}; avfs apply {name}"));
    Ok(ExitStatus::Success)
}

fn default(context: &Context<'_>, task: &Task) -> Result<PathBuf> {
    Ok(default_place(context.home()?, task))
}

/// The task that has this name already, or a new one.
fn task(context: &mut Context<'_>, args: &StartArgs) -> Result<Task> {
    let here = context.here()?;
    let store = context.store()?;
    let Some(from) = &args.from else {
        return match here.task(&args.name) {
            Err(Error::UnknownTask { name, similar: None }) => {
                let text = format!("there is no workspace '{name}'");
                let failure = Failure::new("unknown-task", ExitStatus::NotFound, text);
                Err(failure.hint(Some("make one with --from DIR".to_owned())).into())
            }
            found => Ok(found?),
        };
    };
    let new =
        NewTask { name: Some(TaskName::new(&args.name)?), command: COMMAND.to_owned(), ..NewTask::default() };
    let project = store.project(from)?;
    let mut task = project.new_task(&new)?;
    if let Some(setup) = allowed_setup(context, &project)? {
        let rules = setup.rules.iter().flat_map(|rule| ["--rule".to_owned(), rule.to_string()]);
        let rules: Vec<String> =
            ["--preset".to_owned(), "development".to_owned()].into_iter().chain(rules).collect();
        carry_out(context, &mut task, &setup, &rules)?;
    }
    Ok(task)
}
