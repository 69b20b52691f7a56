//! `avfs workspace start`: a fork of a directory, mounted.

use std::path::{Path, PathBuf};

use agentvfs::mount::MountOptions;
use agentvfs::{Error, NewTask, Task, TaskName};
use anyhow::Result;

use super::leads_back::LeadsBack;
use super::{COMMAND, WorkspaceBody, default_place, mounted_at};
use crate::commands::mount::Plan;
use crate::commands::run::Made;
use crate::commands::setup::{allowed_setup, carry_out};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::rule_args::quoted;

/// Fork a directory and mount the fork elsewhere
#[derive(Debug, clap::Args)]
#[command(after_help = "Prints where it is, for editors and scripts. Nothing in the directory itself
changes until `avfs apply NAME`. A workspace that was stopped goes on with the same
name.

A project with absolute paths to itself, such as those of a Python environment, is
refused: they would lead from the fork into the directory. `avfs workspace enter`
has the fork at the project's own path.

Examples:
  avfs workspace start try --from ~/src/web
  cd $(avfs workspace start try --from .)
  avfs workspace start try                  goes on after a stop
  avfs workspace start try --from . --dir ~/try")]
pub struct StartArgs {
    #[command(flatten)]
    source: SourceArgs,

    /// Where to mount it [default: beside the store]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Mount it even if absolute paths in it lead into the directory
    #[arg(long)]
    anyway: bool,
}

/// Which workspace: one that there is, or a new one.
#[derive(Debug, clap::Args)]
pub struct SourceArgs {
    name: String,

    /// The directory to work on a copy of
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
}

pub fn run(context: &mut Context<'_>, args: &StartArgs) -> Result<ExitStatus> {
    if !args.anyway {
        args.source.check(context)?;
    }
    let (task, made) = args.source.task(context)?;
    let dir = match mounted(context, &task, args.dir.as_deref()) {
        Ok(Ok(dir)) => dir,
        failed => {
            if let Some(made) = made {
                made.withdraw(&task);
            }
            return failed.map(|mounted| mounted.err().unwrap_or(ExitStatus::Success));
        }
    };
    if context.out.is_json() {
        context.out.object("workspace", &WorkspaceBody::of(&task)?)?;
        return Ok(ExitStatus::Success);
    }
    context.out.line(dir.display())?;
    let name = context.here()?.name_of(&task);
    let root = crate::escape::printable_os(task.root().as_os_str()).to_string();
    context.out.talk(format_args!(
        "at {root} itself, for programs with absolute paths: avfs workspace enter {name}"
    ));
    context.out.talk(format_args!("when you are done: avfs workspace stop {name}; avfs apply {name}"));
    Ok(ExitStatus::Success)
}

/// Where the task is mounted; if it is not yet, it is mounted at `dir` or beside the store. Otherwise the status of the
/// process that could not do it and has told why.
pub fn mounted(
    context: &mut Context<'_>,
    task: &Task,
    dir: Option<&Path>,
) -> Result<Result<PathBuf, ExitStatus>> {
    if let Some(dir) = mounted_at(task)? {
        return Ok(Ok(dir));
    }
    let place = match dir {
        Some(dir) => dir.to_owned(),
        None => default_place(context.home()?, task),
    };
    std::fs::create_dir_all(&place).map_err(|source| Error::Host {
        action: "making",
        place: place.display().to_string(),
        source,
    })?;
    let plan = Plan::new(task.vault().clone(), &place, MountOptions::default())?;
    Ok(plan.mount(context)?.map(|_| plan.dir().to_owned()))
}

impl SourceArgs {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The task that has this name already, or a new one.
    pub fn task(&self, context: &mut Context<'_>) -> Result<(Task, Option<Made>)> {
        let here = context.here()?;
        let store = context.store()?;
        let Some(from) = &self.from else {
            return match here.task(&self.name) {
                Err(Error::UnknownTask { name, similar: None }) => {
                    let text = format!("there is no workspace '{name}'");
                    let failure = Failure::new("unknown-task", ExitStatus::NotFound, text);
                    Err(failure.hint(Some("make one with --from DIR".to_owned())).into())
                }
                found => Ok((found?, None)),
            };
        };
        let new = NewTask {
            name: Some(TaskName::new(&self.name)?),
            command: COMMAND.to_owned(),
            ..NewTask::default()
        };
        let is_first = store.known_project(from)?.is_none();
        let project = store.project(from)?;
        let mut task = project.new_task(&new)?;
        if let Some(setup) = allowed_setup(context, &project)? {
            let rules = setup.rules.iter().flat_map(|rule| ["--rule".to_owned(), rule.to_string()]);
            let rules: Vec<String> =
                ["--preset".to_owned(), "development".to_owned()].into_iter().chain(rules).collect();
            carry_out(context, &mut task, &setup, &rules)?;
        }
        Ok((task, Some(Made { project, is_first })))
    }

    /// A copy elsewhere must not lead back in silence. Looked at before anything is made.
    fn check(&self, context: &mut Context<'_>) -> Result<()> {
        let root = match &self.from {
            Some(from) => from.canonicalize().ok(),
            None => context.here()?.task(&self.name).ok().map(|task| task.root().to_owned()),
        };
        let Some(found) = root.as_deref().and_then(LeadsBack::find) else { return Ok(()) };
        let from = self.from.as_ref().map_or(String::new(), |from| {
            format!(" --from {}", quoted(&crate::escape::printable_os(from.as_os_str())))
        });
        let enter =
            format!("`avfs workspace enter {}{from}` has the fork at the project's own path", self.name);
        let failure = Failure::new("leads-back", ExitStatus::Conflict, found);
        Err(failure.hint(Some(format!("{enter}; --anyway mounts it elsewhere all the same"))).into())
    }
}
