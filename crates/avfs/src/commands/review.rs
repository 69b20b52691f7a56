//! `avfs review`: shows the changes of a task, and applies all or part of them.

mod accepted;
mod applying;
mod changes;
mod conflict;
mod decision;
mod draw;
mod file;
mod geometry;
mod json;
mod kept;
mod keys;
mod model;
mod named;
mod palette;
mod rows;
#[cfg(test)]
mod scene;
mod screen;
mod syntax;
mod text;
mod tree;

use std::ffi::OsString;

use std::sync::Arc;

use agentvfs::apply::Plan;
use agentvfs::patch::FileChange;
use agentvfs::{KeptReview, Task};
use anyhow::Result;
use avfs_core::TreePath;

use self::applying::{conflicts, conflicts_ahead, finish, plan};
use self::changes::Changes;
use self::conflict::{Ahead, Choice, ConflictView};
use self::file::OpenFile;
use self::json::ReviewBody;
use self::kept::restore;
use self::model::{Model, ReviewEffect};
use self::named::{NamedDecision, decide, named};
use self::palette::Palette;
use self::screen::{ReviewInput, ReviewScreen};
use crate::args::{PathArg, path_arg};
use crate::commands::resolve::edited;
use crate::context::Context;
use crate::escape::{printable_line, printable_path};
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::here::below;
use crate::ignored::IgnoredArgs;
use crate::printer::Printer;
use crate::versions::count;

/// Review what a task changed, file by file and hunk by hunk
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Shows the changed files and their differences on the terminal. At the end, what you
accepted is applied to the directory of the task; the rest stays in the task.
Press '?' for the keys.

With --json the changes are printed with the numbers of their hunks, and with
what --accept and --reject decide about them; nothing is applied.

Examples:
  avfs review task-1
  avfs review task-1 src --accept src/main.rs
  avfs review task-1 --json --accept / --reject src/main.rs:2,3"
)]
pub struct ReviewArgs {
    /// The task [default: the one that commands work on here]
    #[arg(value_name = "TASK")]
    task: Option<OsString>,

    /// Limit to these files and directories
    #[arg(value_name = "PATH", value_parser = path_arg())]
    paths: Vec<PathArg>,

    /// Start with this accepted: a file, a directory, or hunks of a file; can be repeated
    #[arg(long, value_name = "PATH[:HUNK,…]", value_parser = named())]
    accept: Vec<NamedDecision>,

    /// Start with this rejected, even if --accept names it; can be repeated
    #[arg(long, value_name = "PATH[:HUNK,…]", value_parser = named())]
    reject: Vec<NamedDecision>,

    /// Start without the decisions of an earlier review
    #[arg(long)]
    fresh: bool,

    #[command(flatten)]
    ignored: IgnoredArgs,
}

pub fn run(context: &mut Context<'_>, args: &ReviewArgs) -> Result<ExitStatus> {
    let (task, paths) = context.task_and_paths(args.task.as_deref(), &args.paths)?;
    let changes = Arc::new(Changes::of(&task, &paths, args.ignored.are_wanted(context))?);
    let kept = if args.fresh {
        KeptReview::default()
    } else {
        task.review().kept()?
    };
    // Decisions of an earlier review first, so that the flags of this call override them.
    let mut restored = restore(&changes.files, &kept);
    let here = below(task.root());
    decide(
        &changes,
        &mut restored.decisions,
        &here,
        &args.accept,
        &args.reject,
    )?;
    if context.out.is_json() {
        let plan = conflicts_ahead(&task, &changes)?;
        let body = ReviewBody::new(
            task.name().as_str(),
            &changes,
            &restored.decisions,
            &plan.conflicts,
        )?;
        context.out.object("review", &body)?;
        return Ok(ExitStatus::Success);
    }
    if !screen::is_possible() {
        return Err(no_terminal(&context.here()?.name_of(&task)).into());
    }
    if changes.files.is_empty() {
        context.out.talk(format_args!(
            "there is nothing to review in task '{}'",
            task.name()
        ));
        return Ok(ExitStatus::Success);
    }
    let root = printable_path(task.root());
    let mut model = Model::new(
        task.name().to_string(),
        root,
        changes.files.clone(),
        restored.decisions,
    );
    model.group(changes.groups(&[]));
    model.choices = restored.choices;
    if restored.outdated > 0 {
        let files = count(restored.outdated as u64, "file");
        model.message = Some(format!(
            "{files} changed since you decided: they are undecided again"
        ));
    }
    let mut review = Review {
        task: &task,
        changes: &changes,
        conflicts: None,
        ahead: ahead(&task, &changes),
    };
    // The terminal is restored when this returns, so what follows is printed on the usual screen.
    let ended = review.look(context.out, &mut model)?;
    // Also after an apply: what was not accepted stays decided for the next review.
    task.review().keep(&model.kept())?;
    match ended {
        Some(plan) => finish(context, &task, plan),
        None => {
            if !model.kept().decisions.is_empty() {
                let name = context.here()?.name_of(&task);
                context.out.talk(format_args!(
                    "your decisions are kept: `avfs review {name}` continues"
                ));
            }
            Ok(ExitStatus::Success)
        }
    }
}

/// Searches for conflicts while the user reads the changes.
fn ahead(task: &Task, changes: &Arc<Changes>) -> Ahead {
    let (task, changes) = (task.clone(), Arc::clone(changes));
    Ahead::start(move || conflicts_ahead(&task, &changes))
}

fn no_terminal(task: &str) -> Failure {
    let hint = format!("see the changes with `avfs diff {task} --patch` or `avfs review {task} --json`");
    Failure::new("no-terminal", ExitStatus::BadInput, "a review needs a terminal").hint(Some(hint))
}

/// Comparing larger files takes a noticeable time.
const LARGE: u64 = 128 << 10;

/// A review while the user has it on the screen.
struct Review<'a> {
    task: &'a Task,
    changes: &'a Arc<Changes>,
    /// The conflicts, once they are known.
    conflicts: Option<Plan>,
    ahead: Ahead,
}

impl Review<'_> {
    /// Has the terminal until the user is done. `None`: nothing is to be applied.
    fn look(&mut self, out: &mut Printer, model: &mut Model) -> Result<Option<Plan>> {
        let palette = Palette::of_terminal(out.is_colored(), &|name| std::env::var(name).ok());
        let mut screen = ReviewScreen::enter(out.stream(), palette)?;
        self.take_conflicts(model, true);
        loop {
            model.resize(screen.size()?);
            // Files that are only passed by are not compared; a large one is compared once the screen is there.
            if !screen.has_input() {
                if model.wanted().is_some_and(|file| self.is_large(file)) {
                    model.is_comparing = true;
                    screen.draw(model)?;
                    model.is_comparing = false;
                }
                self.load(model);
            }
            screen.draw(model)?;
            let action = match screen.next()? {
                ReviewInput::Key(key) => keys::action(model.mode, key),
                ReviewInput::Resized => None,
                ReviewInput::Idle => {
                    self.idle(model)?;
                    continue;
                }
                ReviewInput::Signal(signal) => {
                    // The terminal is restored before the signal ends the process.
                    drop(screen);
                    self.task.review().keep(&model.kept())?;
                    signal_hook::low_level::emulate_default_handler(signal)?;
                    return Ok(None);
                }
            };
            // Keys can arrive faster than files are compared: the action must refer to the file that is
            // selected now.
            if action.is_some_and(|action| model.needs_file(action)) {
                self.load(model);
            }
            match action.and_then(|action| model.update(action)) {
                None => {}
                Some(ReviewEffect::Suspend) => screen.suspend()?,
                Some(ReviewEffect::Leave) => return Ok(None),
                Some(ReviewEffect::Edit(file)) => self.edit(&mut screen, model, file)?,
                // Planned with the directory as it is now: it may have changed since the review began.
                Some(ReviewEffect::Apply) => match plan(self.task, self.changes, &model.accepted()) {
                    Ok(plan) if plan.conflicts.is_empty() => return Ok(Some(plan)),
                    Ok(plan) => {
                        model.message = conflicts(&plan);
                        self.ahead = ahead(self.task, self.changes);
                    }
                    Err(error) => model.message = Some(told(&error)),
                },
            }
        }
    }

    fn is_large(&self, file: usize) -> bool {
        let FileChange { old, new, .. } = &self.changes.files[file];
        old.iter().chain(new).any(|side| side.entry.size() > LARGE)
    }

    /// If the terminal is lost, decisions of the last moment are not.
    fn idle(&mut self, model: &mut Model) -> Result<()> {
        self.take_conflicts(model, false);
        if model.take_unkept() {
            self.task.review().keep(&model.kept())?;
        }
        Ok(())
    }

    fn take_conflicts(&mut self, model: &mut Model, is_first: bool) {
        match self.ahead.found(is_first) {
            None => {}
            Some(Ok(plan)) => {
                model.group(self.changes.groups(&plan.conflicts));
                self.conflicts = Some(plan);
                self.drop_outdated_choices(model);
            }
            // Applying repeats the checks, and then reports the error.
            Some(Err(error)) => model.message = Some(told(&error)),
        }
        model.is_looking = self.ahead.is_pending();
    }

    /// A choice was made between two sides: if one of them is another now, it is open again.
    fn drop_outdated_choices(&self, model: &mut Model) {
        let Some(plan) = &self.conflicts else { return };
        let holds = |file: &usize, choice: &Choice| {
            let path = model.files[*file].path();
            let is_open = plan.conflicts.iter().any(|conflict| conflict.path == *path);
            is_open
                && plan
                    .sides(path)
                    .is_ok_and(|sides| sides.here_digest == choice.here_digest)
        };
        let outdated: Vec<usize> = model
            .choices
            .iter()
            .filter(|(file, choice)| !holds(file, choice))
            .map(|(file, _)| *file)
            .collect();
        model.reopen(&outdated);
    }

    /// A file whose contents are unavailable is shown with the reason: the others can still be decided.
    fn load(&self, model: &mut Model) {
        if let Some(file) = model.wanted() {
            let opened = self.changes.diff(file).and_then(|diff| {
                Ok(OpenFile::new(
                    file,
                    diff,
                    self.conflict_of(model.files[file].path())?,
                ))
            });
            model.show(opened.unwrap_or_else(|error| {
                OpenFile::with_hunks(file, vec![told(&error)], Vec::new(), Vec::new())
            }));
        }
    }

    fn conflict_of(&self, path: &TreePath) -> Result<Option<ConflictView>> {
        let Some(plan) = &self.conflicts else {
            return Ok(None);
        };
        let conflict = plan.conflicts.iter().find(|conflict| conflict.path == *path);
        conflict
            .map(|conflict| ConflictView::new(plan, conflict))
            .transpose()
    }

    fn edit<W: std::io::Write>(
        &self,
        screen: &mut ReviewScreen<W>,
        model: &mut Model,
        file: usize,
    ) -> Result<()> {
        let Some(text) = model.text_to_edit(file) else {
            return Ok(());
        };
        // The editor needs the terminal in its ordinary mode; `lend` restores the screen afterwards.
        match screen.lend(|| edited(&text))? {
            Ok(text) => model.edited(file, text),
            Err(error) => model.message = Some(told(&error)),
        }
        Ok(())
    }
}

fn told(error: &anyhow::Error) -> String {
    printable_line(format!("{error:#}").as_bytes())
}
