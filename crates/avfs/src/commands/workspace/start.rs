//! `avfs workspace start`: a fork of a directory, mounted.

use std::path::{Path, PathBuf};

use agentvfs::error::TaskError;
use agentvfs::mount::MountOptions;
use agentvfs::{Error, NewTask, Task, TaskName};
use anyhow::Result;

use super::leads_back::LeadsBack;
use super::{COMMAND, WorkspaceBody, default_place, mounted_at};
use avfs_core::shell_word;

use crate::commands::mount::MountPlan;
use crate::commands::project::setup::{allowed_setup, carry_out};
use crate::commands::run::MadeObjects;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::Failure;

/// Fork a directory and mount the fork elsewhere
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Prints the mount point, for editors and scripts. The directory itself does not change
until `avfs apply NAME`. To resume a workspace that was stopped, use its name again.

A project that holds absolute paths to itself, such as a Python environment, is
refused, because they would lead from the fork back to the directory. Use `avfs
workspace enter` instead, which shows the fork at the project's own path.

Examples:
  avfs workspace start try --from ~/src/web
  cd $(avfs workspace start try --from .)
  avfs workspace start try                  resume after a stop
  avfs workspace start try --from . --dir ~/try"
)]
pub struct WorkspaceStartArgs {
    #[command(flatten)]
    source: SourceArgs,

    /// Mount it here [default: next to the store]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Mount it even if absolute paths in it lead back to the directory
    #[arg(long)]
    anyway: bool,
}

/// Which workspace: one that there is, or a new one.
#[derive(Debug, clap::Args)]
pub struct SourceArgs {
    /// The name of the workspace
    name: String,

    /// Copy this directory
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
}

pub fn run(context: &mut Context<'_>, args: &WorkspaceStartArgs) -> Result<ExitStatus> {
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
    context.out.talk(format_args!(
        "when you are done: avfs workspace stop {name}; avfs apply {name}"
    ));
    Ok(ExitStatus::Success)
}

/// The mount point of the task; if it is not mounted yet, it is mounted at `dir` or beside the store.
/// Otherwise the exit status of the process that failed and has reported the reason.
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
    let plan = MountPlan::new(task.vault().clone(), &place, MountOptions::default())?;
    Ok(plan.mount(context)?.map(|_| plan.dir().to_owned()))
}

impl SourceArgs {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The task that has this name already, or a new one.
    pub fn task(&self, context: &mut Context<'_>) -> Result<(Task, Option<MadeObjects>)> {
        let here = context.here()?;
        let store = context.store()?;
        let Some(from) = &self.from else {
            return match here.task(&self.name) {
                Err(Error::Task(TaskError::Unknown { name, similar: None })) => {
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
        let is_first = store.projects().known_project(from)?.is_none();
        let project = store.project(from)?;
        let setup = allowed_setup(context, &project)?;
        if let Some(Err(error)) = setup.as_ref().map(|setup| setup.read_files(project.root())) {
            // Nothing is made for a set-up that cannot be carried out.
            if is_first {
                project.forget(false)?;
            }
            return Err(error.into());
        }
        let mut task = match project.new_task(&new) {
            Err(exists @ Error::Task(TaskError::Exists { .. })) => {
                let name = &self.name;
                let hint = format!(
                    "`avfs workspace enter {name}` goes on with it, `avfs workspace start {name}` mounts it; or choose another name"
                );
                return Err(Failure::of(&exists.into()).hint(Some(hint)).into());
            }
            made => made?,
        };
        if let Some(setup) = setup {
            let rules = setup
                .rules
                .iter()
                .flat_map(|rule| ["--rule".to_owned(), rule.to_string()]);
            let rules: Vec<String> = ["--preset".to_owned(), "development".to_owned()]
                .into_iter()
                .chain(rules)
                .collect();
            carry_out(context, &mut task, &setup, &rules)?;
        }
        Ok((task, Some(MadeObjects { project, is_first })))
    }

    /// A copy elsewhere must not lead back in silence. Looked at before anything is made.
    fn check(&self, context: &mut Context<'_>) -> Result<()> {
        let root = match &self.from {
            Some(from) => from.canonicalize().ok(),
            None => context
                .here()?
                .task(&self.name)
                .ok()
                .map(|task| task.root().to_owned()),
        };
        let Some(found) = root.as_deref().and_then(LeadsBack::find) else {
            return Ok(());
        };
        let from = self.from.as_ref().map_or(String::new(), |from| {
            format!(
                " --from {}",
                shell_word(&crate::escape::printable_os(from.as_os_str()))
            )
        });
        let enter = format!(
            "`avfs workspace enter {}{from}` has the fork at the project's own path",
            self.name
        );
        let failure = Failure::new("leads-back", ExitStatus::Conflict, found);
        Err(failure
            .hint(Some(format!(
                "{enter}; --anyway mounts it elsewhere all the same"
            )))
            .into())
    }
}
