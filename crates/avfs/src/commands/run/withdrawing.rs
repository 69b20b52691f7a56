//! Tasks that nobody misses: one whose program did not start, and one in which nothing was changed.

use std::time::Duration;

use agentvfs::{Project, Task};
use anyhow::Result;

use super::arguments::Start;
use crate::printer::Printer;
use crate::time::now;

/// How long a task is kept in which nothing was changed, if its run was not seen to its end.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// What a run made before it began.
pub struct Made {
    pub project: Project,
    /// The directory was no project before.
    pub is_first: bool,
}

impl Made {
    /// Takes away a task that was made and cannot be used, and its project if that was new.
    pub fn withdraw(&self, task: &Task) {
        // What cannot be taken away now goes like other tasks in which nothing was changed.
        let discarded = task.clone().discard(false);
        if self.is_first && discarded.is_ok() {
            let _ = self.project.clone().forget(false);
        }
    }
}

impl Start {
    /// Takes away what was made for a run that did not begin.
    pub(super) fn withdraw(&self) {
        if let Some(made) = &self.made {
            made.withdraw(&self.task);
        }
    }

    /// Takes away what older runs of the project left that nobody misses.
    pub(super) fn discard_older(&self, out: &mut Printer) -> Result<()> {
        let Some(made) = &self.made else { return Ok(()) };
        let is_old = |task: &Task| {
            let age = now().as_nanos().saturating_sub(task.created().as_nanos());
            age > i128::try_from(KEPT.as_nanos()).unwrap_or(i128::MAX)
        };
        for task in made.project.tasks()?.into_iter().filter(is_old) {
            let name = task.name().to_string();
            // One that cannot be looked at is not one that nobody misses.
            if task.is_spent().unwrap_or(false) && task.discard(false).is_ok() {
                out.talk(format_args!("task {name}: nothing changed, so it is gone"));
            }
        }
        Ok(())
    }
}
