//! The end of a review: accepted changes are applied to the directory.

use agentvfs::apply::{Application, ApplyOptions, Plan, Selection};
use agentvfs::{Error, Task};
use anyhow::{Result, bail};

use super::accepted::Accepted;
use super::changes::Changes;
use crate::commands::apply::{MannerArgs, carry_out};
use crate::context::Context;
use crate::exit::ExitStatus;

/// The plan. It is about the states that were reviewed, even if the task has changed since.
pub fn plan(task: &Task, changes: &Changes, accepted: &Accepted) -> Result<Plan> {
    let mut options = options(task, changes)?;
    for (path, choice) in &accepted.choices {
        options.choices.insert(path.clone(), choice.how.on_conflict());
        options
            .edited
            .extend(choice.edited().map(|edited| (path.clone(), edited)));
        options
            .places
            .extend(choice.places().map(|places| (path.clone(), places)));
    }
    let selection = accepted.selection();
    task.check_settled(&selection)?;
    let plan = look(task, changes, &selection, &options)?;
    for conflict in &plan.settled {
        let choice = accepted.choices.get(&conflict.path);
        let here = plan.sides(&conflict.path).map_err(Error::from)?.here_digest;
        if choice.is_some_and(|choice| choice.here_digest != here) {
            bail!(
                "{} was changed in the directory after your choice: check it again",
                conflict.path
            );
        }
    }
    Ok(plan)
}

/// Everything that would conflict if all of the task was applied.
pub fn conflicts_ahead(task: &Task, changes: &Changes) -> Result<Plan> {
    look(task, changes, &Selection::default(), &options(task, changes)?)
}

fn options(task: &Task, changes: &Changes) -> Result<ApplyOptions> {
    let options = ApplyOptions {
        with_ignored: changes.with_ignored,
        ..ApplyOptions::default()
    };
    Ok(task.apply_options(&options)?)
}

fn look(task: &Task, changes: &Changes, selection: &Selection, options: &ApplyOptions) -> Result<Plan> {
    let (base, theirs) = (
        task.work().applied_base(task.root(), selection)?,
        changes.to.snapshot,
    );
    let plan = Application::plan(
        task.vault().store(),
        base,
        theirs,
        task.root(),
        selection,
        options,
    );
    Ok(plan.map_err(Error::from)?)
}

/// Why it cannot be done, if something is in its way.
pub fn conflicts(plan: &Plan) -> Option<String> {
    let first = plan.conflicts.first()?;
    let more = match plan.conflicts.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    Some(format!(
        "{}: {}{more}: choose with t, b, e or m",
        first.path, first.kind
    ))
}

/// Executes it. Files that programs of the host run by themselves are pointed out first: a user who has only
/// read the differences may not know.
pub fn finish(context: &mut Context<'_>, task: &Task, plan: Plan) -> Result<ExitStatus> {
    carry_out(context, task, plan, &MannerArgs::reviewed())
}
