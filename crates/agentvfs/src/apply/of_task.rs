//! Applying a task: its changes since its base, in its project or another directory.

use std::path::Path;

use super::carry::Applied;
use super::plan::{Application, ApplyOptions, Plan};
use super::selection::Selection;
use crate::error::Result;
use crate::task::Task;

impl Task {
    /// Plans applying the task. Refused while a selected file has open conflicts.
    pub fn plan_apply(&self, selection: &Selection, options: &ApplyOptions) -> Result<Plan> {
        self.plan_apply_to(self.root(), selection, options)
    }

    /// As [`Task::plan_apply`], for another directory than that of the project.
    pub fn plan_apply_to(
        &self,
        directory: &Path,
        selection: &Selection,
        options: &ApplyOptions,
    ) -> Result<Plan> {
        self.check_settled(selection)?;
        let options = self.apply_options(options)?;
        self.read_moved()?;
        let (base, head) = (self.work().applied_base(directory, selection)?, self.head()?);
        let plan = Application::plan(self.vault().store(), base, head, directory, selection, &options)?;
        Ok(plan)
    }

    /// Applies all changes of the task to the directory of its project, or nothing: a conflict is an error
    /// unless the options resolve it.
    pub fn apply(&self, options: &ApplyOptions) -> Result<Applied> {
        self.vault().store().applies().recover()?;
        self.plan_apply(&Selection::default(), options)?.carry_out()
    }

    /// Adds what only the task knows to the options: its name, and the rules through which its programs see
    /// it.
    pub fn apply_options(&self, options: &ApplyOptions) -> Result<ApplyOptions> {
        Ok(ApplyOptions {
            task: Some(self.vault_name().clone()),
            rules: self.rules()?,
            ..options.clone()
        })
    }
}
