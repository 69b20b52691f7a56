//! Tasks that can be removed silently: one whose program did not start, and one without changes.

use std::time::Duration;

use agentvfs::{Project, Task};
use anyhow::Result;

use super::arguments::Start;
use crate::printer::Printer;
use crate::time::now;

/// How long a task without changes is kept, if its run was not observed to its end.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// The objects that a run created before it began.
pub struct MadeObjects {
    pub project: Project,
    /// The directory was no project before.
    pub is_first: bool,
}

impl MadeObjects {
    /// Takes away a task that was made and cannot be used, and its project if that was new.
    pub fn withdraw(&self, task: &Task) {
        // If it cannot be removed now, it is removed like other tasks without changes.
        let discarded = task.clone().discard(false);
        // A project that was known before stays, even without tasks.
        if self.is_first && discarded.is_ok() {
            let _ = self.project.clone().forget(false);
        }
    }
}

impl Start {
    /// Removes everything that was created for a run that did not begin.
    pub(super) fn withdraw(&self) {
        if let Some(made) = &self.made {
            made.withdraw(&self.task);
        }
    }

    /// Removes unneeded leftovers of older runs of the project.
    pub(super) fn discard_older(&self, out: &mut Printer) -> Result<()> {
        // Only a run that made its own task cleans up: others are told to work in a certain one.
        let Some(made) = &self.made else { return Ok(()) };
        let is_old = |task: &Task| {
            let age = now().as_nanos().saturating_sub(task.created().as_nanos());
            age > i128::try_from(KEPT.as_nanos()).unwrap_or(i128::MAX)
        };
        for task in made.project.tasks()?.into_iter().filter(is_old) {
            let name = task.name().to_string();
            // A task that cannot be examined may still be needed.
            if task.is_spent().unwrap_or(false) && task.discard(false).is_ok() {
                out.talk(format_args!("task {name}: nothing changed, so it is gone"));
            }
        }
        Ok(())
    }
}
