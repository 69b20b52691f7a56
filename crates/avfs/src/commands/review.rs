//! `avfs review`: look at what a task did, and take all or part of it.

mod accepted;
mod applying;
mod changes;
mod decision;
mod draw;
mod file;
mod geometry;
mod json;
mod keys;
mod model;
mod named;
mod rows;
#[cfg(test)]
mod scene;
mod screen;
mod text;
mod tree;

use std::ffi::OsString;

use agentvfs::apply::Plan;
use anyhow::Result;
use avfs_core::TreePath;

use self::accepted::Accepted;
use self::applying::{conflicts, finish, plan};
use self::changes::Changes;
use self::file::OpenFile;
use self::json::ReviewBody;
use self::model::{Effect, Model};
use self::named::{Named, decisions, named};
use self::screen::{Input, Screen};
use crate::args::vault_path;
use crate::context::Context;
use crate::escape::{printable_line, printable_path};
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::printer::Printer;

/// Look at what a task changed, and decide file by file and hunk by hunk
#[derive(Debug, clap::Args)]
#[command(after_help = "Shows the changed files and their differences on the terminal. What is accepted
is applied at the end to the directory of the task; the rest stays in the
task. '?' lists the keys.

With --json the changes are printed with the numbers of their hunks, and with
what --accept and --reject say of them; then nothing is applied.

Examples:
  avfs review task-1
  avfs review task-1 src --accept src/main.rs
  avfs review task-1 --json --accept / --reject src/main.rs:2,3")]
pub struct ReviewArgs {
    /// The task [default: the only one of this project]
    #[arg(value_name = "TASK")]
    task: Option<OsString>,

    /// Only these files and directories
    #[arg(value_name = "PATH", value_parser = vault_path())]
    paths: Vec<TreePath>,

    /// Begin with this accepted: a file, a directory, or hunks of a file
    #[arg(long, value_name = "PATH[:HUNK,…]", value_parser = named())]
    accept: Vec<Named>,

    /// Begin with this rejected, even if it is accepted too
    #[arg(long, value_name = "PATH[:HUNK,…]", value_parser = named())]
    reject: Vec<Named>,
}

pub fn run(context: &mut Context<'_>, args: &ReviewArgs) -> Result<ExitStatus> {
    let (task, paths) = context.task_and_paths(args.task.as_deref(), &args.paths)?;
    let changes = Changes::of(&task, &paths)?;
    let decisions = decisions(&changes, &args.accept, &args.reject)?;
    if context.out.is_json() {
        context.out.object("review", &ReviewBody::new(task.name().as_str(), &changes, &decisions)?)?;
        return Ok(ExitStatus::Success);
    }
    if !screen::is_possible() {
        return Err(no_terminal(&context.here()?.name_of(&task)).into());
    }
    if changes.files.is_empty() {
        context.out.talk(format_args!("there is nothing to review in task '{}'", task.name()));
        return Ok(ExitStatus::Success);
    }
    let root = printable_path(task.root());
    let model = Model::new(task.name().to_string(), root, changes.files.clone(), decisions);
    let accepted = look(context.out, model, &changes, |accepted| plan(&task, &changes, accepted))?;
    match accepted {
        Some(plan) => finish(context, &task, plan),
        None => Ok(ExitStatus::Success),
    }
}

fn no_terminal(task: &str) -> Failure {
    let hint = format!("see the changes with `avfs diff {task} --patch` or `avfs review {task} --json`");
    Failure::new("no-terminal", ExitStatus::BadInput, "a review needs a terminal").hint(Some(hint))
}

/// Has the terminal until the user is done. `None`: nothing is to be applied.
fn look(
    out: &mut Printer,
    mut model: Model,
    changes: &Changes,
    plan: impl Fn(&Accepted) -> Result<Plan>,
) -> Result<Option<Plan>> {
    let in_color = out.is_colored();
    let mut screen = Screen::enter(out.stream(), in_color)?;
    loop {
        model.resize(screen.size()?);
        // Files that are only passed by are not compared.
        if !screen.has_input() {
            load(&mut model, changes);
        }
        screen.draw(&model)?;
        let action = match screen.next()? {
            Input::Key(key) => keys::action(model.mode, key),
            Input::Resized => None,
            Input::Signal(signal) => {
                drop(screen);
                signal_hook::low_level::emulate_default_handler(signal)?;
                return Ok(None);
            }
        };
        if action.is_some_and(|action| model.needs_file(action)) {
            load(&mut model, changes);
        }
        match action.and_then(|action| model.update(action)) {
            None => {}
            Some(Effect::Suspend) => screen.suspend()?,
            Some(Effect::Leave) => return Ok(None),
            Some(Effect::Apply) => match plan(&model.accepted()) {
                Ok(plan) if plan.conflicts.is_empty() => return Ok(Some(plan)),
                Ok(plan) => model.message = conflicts(&plan),
                Err(error) => model.message = Some(told(&error)),
            },
        }
    }
}

/// A file whose contents cannot be had is shown with the reason: the others can still be decided.
fn load(model: &mut Model, changes: &Changes) {
    if let Some(file) = model.wanted() {
        model.show(match changes.diff(file) {
            Ok(diff) => OpenFile::new(file, diff),
            Err(error) => OpenFile::with_hunks(file, vec![told(&error)], Vec::new(), 0),
        });
    }
}

fn told(error: &anyhow::Error) -> String {
    printable_line(format!("{error:#}").as_bytes())
}
