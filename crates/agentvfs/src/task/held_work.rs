//! What would be lost with a task.

use std::fmt;

use super::{Task, TaskState};
use crate::apply::{Application, ApplyError, ApplyOptions, Selection};
use crate::error::{Error, Result};

/// Why a task is not thrown away without a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldWork {
    /// Something uses it.
    Running,
    /// It holds work that was never applied.
    NotApplied,
    /// Its work was applied, and is not in the directory any longer.
    NotInDirectory,
    /// Its work was undone, and can be done again.
    Undone,
}

impl fmt::Display for HeldWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HeldWork::Running => "it is in use",
            HeldWork::NotApplied => "its work was not applied",
            HeldWork::NotInDirectory => "its work was applied, and is no longer in the directory",
            HeldWork::Undone => "its work was undone, and can be done again",
        })
    }
}

impl Task {
    /// What would be lost if it was thrown away. Costs what it changed.
    pub fn held_work(&self) -> Result<Option<HeldWork>> {
        let held = match self.state()? {
            TaskState::Running => Some(HeldWork::Running),
            TaskState::Unmerged => Some(HeldWork::NotApplied),
            TaskState::Applied if !self.is_in_directory()? => Some(HeldWork::NotInDirectory),
            TaskState::Applied | TaskState::Unchanged => None,
        };
        match held {
            None if self.vault().last_undo()?.is_some() => Ok(Some(HeldWork::Undone)),
            held => Ok(held),
        }
    }

    /// Whether its directory has everything that it changed.
    pub(super) fn is_in_directory(&self) -> Result<bool> {
        let options = ApplyOptions {
            task: Some(self.vault_name().clone()),
            rules: self.rules()?,
            ..ApplyOptions::default()
        };
        let selection = Selection::default();
        let store = self.vault().store();
        match Application::plan(store, self.base()?, self.head()?, self.root(), &selection, &options) {
            Ok(plan) => Ok(plan.is_empty() && plan.conflicts.is_empty()),
            // A directory that is gone has nothing of it.
            Err(ApplyError::Host { .. } | ApplyError::NotADirectory { .. }) => Ok(false),
            Err(error) => Err(Error::from(error)),
        }
    }
}
