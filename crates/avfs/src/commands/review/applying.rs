//! The end of a review: what was accepted goes into the directory.

use agentvfs::apply::{Application, ApplyOptions, Plan};
use agentvfs::{Error, Task};
use anyhow::Result;

use super::accepted::Accepted;
use super::changes::Changes;
use crate::confirm::confirm;
use crate::escape::printable_path;
use crate::exit::ExitStatus;
use crate::printer::Printer;
use crate::versions::count;

/// What would be done. It is about the states that were looked at, whatever the task has become since.
pub fn plan(task: &Task, changes: &Changes, accepted: &Accepted) -> Result<Plan> {
    let options =
        ApplyOptions { task: Some(task.name().to_string()), rules: task.rules()?, ..ApplyOptions::default() };
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
    Some(format!("{}: {}{more}: leave it out, or use `avfs apply`", first.path, first.kind))
}

/// Does it, once the user knows which of the files programs of the host run by themselves.
pub fn finish(out: &mut Printer, plan: Plan) -> Result<ExitStatus> {
    for note in &plan.notes {
        out.warn(note);
    }
    for pointed in &plan.pointed {
        out.warn(format_args!("{}: {}", pointed.path, pointed.reason));
    }
    if !plan.pointed.is_empty() && !confirm(out, "Apply these files too?", false)? {
        out.talk("nothing was applied");
        return Ok(ExitStatus::No);
    }
    let directory = printable_path(plan.directory());
    let applied = plan.carry_out()?;
    for copy in &applied.kept {
        out.warn(format_args!("a version of {} is kept in {}", copy.path, printable_path(&copy.kept)));
    }
    let files = count(applied.files.len() as u64, "file");
    out.talk(format_args!("applied {files} to {directory}"));
    Ok(ExitStatus::Success)
}
