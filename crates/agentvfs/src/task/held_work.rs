//! The work that would be lost with a task.

use std::fmt;

use super::TaskState;
use crate::apply::{Application, ApplyError, ApplyOptions, ApplyRecord, Plan, Selection};
use crate::error::{Error, Result};
use crate::task::changes::TaskWork;

/// Why a task is not thrown away without a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldWork {
    /// Something uses it.
    Running,
    /// It holds work that was never applied.
    NotApplied,
    /// Its work was applied but for files that the user has to name.
    LeftOut,
    /// The directory has its files, and no ref of the user leads to its commits.
    CommitsOnly,
    /// The directory has its files, and its repository has work that is not in them: a stash, for example.
    InRepository,
    /// Its work is on a branch that was made of it, and not in the directory.
    OnBranch,
    /// Its work was on a branch, which is gone.
    BranchGone,
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
            HeldWork::LeftOut => "some of its files were left out when it was applied",
            HeldWork::CommitsOnly => "its commits are on no branch of yours",
            HeldWork::InRepository => "its repository holds work that is nowhere else",
            HeldWork::OnBranch => "its work is on a branch, but not in the directory",
            HeldWork::BranchGone => "its work was on a branch that no longer exists",
            HeldWork::NotInDirectory => "its work was applied, and is no longer in the directory",
            HeldWork::Undone => "its work was undone, and can be done again",
        })
    }
}

impl TaskWork<'_> {
    /// The work that would be lost if it was discarded. The cost depends on its changes.
    pub fn held(&self) -> Result<Option<HeldWork>> {
        let held = match self.task.state()? {
            TaskState::Running => Some(HeldWork::Running),
            TaskState::Unmerged if self.is_gone_with_branch()? => Some(HeldWork::BranchGone),
            TaskState::Unmerged => Some(self.unmerged_work()?),
            TaskState::Applied if !self.is_in_directory()? => Some(self.work_elsewhere()?),
            TaskState::Applied | TaskState::Unchanged => None,
        };
        match held {
            None if self.task.vault().history().last_undo()?.is_some() => Ok(Some(HeldWork::Undone)),
            held => Ok(held),
        }
    }

    /// The work of a task that does not count as applied, as far as it is missing elsewhere.
    fn unmerged_work(&self) -> Result<HeldWork> {
        let Some(plan) = self.plan_for_directory()? else {
            return Ok(HeldWork::NotApplied);
        };
        let files = self.task.changes()?.files;
        let is_there = plan.is_empty() && plan.conflicts.is_empty() && !files.is_empty();
        Ok(match (is_there, plan.guarded.is_empty()) {
            (true, false) => HeldWork::LeftOut,
            (true, true) if self.task.git().unbrought_commits()? > 0 => HeldWork::CommitsOnly,
            (_, true)
                if (is_there || self.task.is_applied(self.task.head()?)?)
                    && !self.other_git_work(&files)?.is_empty() =>
            {
                HeldWork::InRepository
            }
            _ => HeldWork::NotApplied,
        })
    }

    /// Where the work of a task is that counts as applied, if it is not in the directory.
    fn work_elsewhere(&self) -> Result<HeldWork> {
        if !self.task.git().last_branches()?.is_empty() {
            return Ok(HeldWork::OnBranch);
        }
        if self.task.made().is_some() && !self.is_in_force()? {
            Ok(HeldWork::BranchGone)
        } else {
            Ok(HeldWork::NotInDirectory)
        }
    }

    /// Whether something of it was applied to a directory, and not undone since.
    fn is_in_force(&self) -> Result<bool> {
        let is_own = |record: &ApplyRecord| record.task.as_deref() == Some(self.task.vault_name().as_str());
        let is_in_force = |record: &ApplyRecord| record.undone.is_none() && !record.is_undo();
        let applies = self.task.vault().store().applies().list()?;
        Ok(applies.iter().any(|record| is_own(record) && is_in_force(record)))
    }

    /// Whether all work that counts as applied is neither on its branch any longer nor in the directory.
    fn is_gone_with_branch(&self) -> Result<bool> {
        Ok(self.was_on_lost_branch_only()?
            && self.task.is_applied(self.task.head()?)?
            && !self.is_in_directory()?)
    }

    /// Whether its files were only on a branch that was made of it, and that is gone with its commits. If a
    /// repository cannot be examined, nothing counts as gone.
    pub(super) fn was_on_lost_branch_only(&self) -> Result<bool> {
        Ok(self.task.git().has_lost_branch().unwrap_or(false) && !self.is_in_force()?)
    }

    /// Whether its directory has everything that it changed, including paths that the user must name.
    pub(super) fn is_in_directory(&self) -> Result<bool> {
        let is_all = |plan: Plan| plan.is_empty() && plan.conflicts.is_empty() && plan.guarded.is_empty();
        Ok(self.plan_for_directory()?.is_some_and(is_all))
    }

    /// The remaining work for its directory. `None`: the directory is gone, and has nothing of it.
    fn plan_for_directory(&self) -> Result<Option<Plan>> {
        let options = self.task.apply_options(&ApplyOptions::default())?;
        let selection = Selection::default();
        let store = self.task.vault().store();
        match Application::plan(
            store,
            self.task.base()?,
            self.task.head()?,
            self.task.root(),
            &selection,
            &options,
        ) {
            Ok(plan) => Ok(Some(plan)),
            Err(ApplyError::Host { .. } | ApplyError::NotADirectory { .. }) => Ok(None),
            Err(error) => Err(Error::from(error)),
        }
    }
}
