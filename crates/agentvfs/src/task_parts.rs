//! The parts of a task, each with the calls about one side of it.

use avfs_core::TreePath;
use avfs_tree::TreeReader;

use crate::error::Result;
use crate::exec::TaskPrograms;
use crate::git::TaskGit;
use crate::merge::TaskMerges;
use crate::review::TaskReview;
use crate::task::{Task, TaskChanges, TaskWork};
use crate::task_run::TaskRuns;

impl Task {
    /// The commits of a task, and bringing them into the repository of the user.
    pub fn git(&self) -> TaskGit<'_> {
        TaskGit { task: self }
    }

    /// The programs that run in a task, or have run in it.
    pub fn runs(&self) -> TaskRuns<'_> {
        TaskRuns { task: self }
    }

    /// Starts a person's programs in a task, with a home and the task's repository.
    pub fn programs(&self) -> TaskPrograms<'_> {
        TaskPrograms { task: self }
    }

    /// The work of a task: its changes, those that are nowhere else, and the files that its rules hide.
    pub fn work(&self) -> TaskWork<'_> {
        TaskWork { task: self }
    }

    /// The decisions of a review that were kept for later.
    pub fn review(&self) -> TaskReview<'_> {
        TaskReview { task: self }
    }

    /// The conflicts that a merge of a task with its directory would have.
    pub fn merges(&self) -> TaskMerges<'_> {
        TaskMerges { task: self }
    }
}

/// Shortcuts for the calls that most programs make.
impl Task {
    /// As [`TaskWork::changes`].
    pub fn changes(&self) -> Result<TaskChanges> {
        self.work().changes()
    }

    /// As [`TaskWork::changes_seen`].
    pub fn changes_seen(
        &self,
        from: &TreeReader,
        to: &TreeReader,
        paths: &[TreePath],
    ) -> Result<TaskChanges> {
        self.work().changes_seen(from, to, paths)
    }
}
