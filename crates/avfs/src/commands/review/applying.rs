//! The end of a review: what was accepted goes into the directory.

use agentvfs::apply::{Application, ApplyOptions, Plan};
use agentvfs::{Error, Task};
use anyhow::Result;

use super::accepted::Accepted;
use super::changes::Changes;
use crate::commands::apply::{MannerArgs, carry_out};
use crate::context::Context;
use crate::exit::ExitStatus;

/// What would be done. It is about the states that were looked at, whatever the task has become since.
pub fn plan(task: &Task, changes: &Changes, accepted: &Accepted) -> Result<Plan> {
    let options = ApplyOptions {
        task: Some(task.vault_name().to_string()),
        rules: task.rules()?,
        ..ApplyOptions::default()
    };
    let (base, theirs) = (changes.from.snapshot, changes.to.snapshot);
    let selection = accepted.selection();
    let plan = Application::plan(task.vault().store(), base, theirs, task.root(), &selection, &options);
    Ok(plan.map_err(Error::from)?)
}

/// Why it cannot be done, if something is in its way.
pub fn conflicts(plan: &Plan) -> Option<String> {
    let first = plan.conflicts.first()?;
    let more = match plan.conflicts.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    Some(format!("{}: {}{more}: leave it out, or use `avfs apply --conflicts`", first.path, first.kind))
}

/// Does it. Files that programs of the host run by themselves are pointed out first: who has looked only at their
/// differences may not know.
pub fn finish(context: &mut Context<'_>, task: &Task, plan: Plan) -> Result<ExitStatus> {
    let manner = match plan.pointed.is_empty() {
        true => MannerArgs::unasked(),
        false => MannerArgs::default(),
    };
    carry_out(context, task, plan, &manner)
}
