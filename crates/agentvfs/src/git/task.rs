//! Tasks and git: what was committed in one, and bringing it home.

use std::path::Path;

use avfs_tree::TreeReader;

use super::bring::{Bring, Brought};
use super::commits::GitSummary;
use super::counted::Memory;
use super::error::GitError;
use super::files::{CommitFiles, Committed};
use super::host::HostRepository;
use super::names::{ObjectName, RefName};
use super::refs::MovedRef;
use super::work::Work;
use crate::error::Result;
use crate::owner::work_directory;
use crate::task::Task;

impl Task {
    /// What was done in it, as it is seen from inside: what its rules hide was neither changed nor removed there.
    pub fn git_work(&self) -> Result<Work> {
        let rules = self.rules()?;
        let reader = |state| -> Result<TreeReader> {
            let reader = self.vault().reader_at(state)?;
            Ok(match &rules {
                Some(rules) => reader.through(rules.clone()),
                None => reader,
            })
        };
        Ok(Work::new(reader(self.base()?)?, reader(self.head()?)?))
    }

    /// Moved refs, and the commits that the repository of its directory does not have.
    pub fn git_summary(&self) -> Result<GitSummary> {
        Ok(self.git_work()?.git_summary(self.repository().as_ref())?)
    }

    /// The branches and tags with work that was not brought over, by what is noted here. Starts no program.
    pub fn unbrought_refs(&self) -> Result<Vec<MovedRef>> {
        let brought = self.brought();
        let is_brought = |tip: &ObjectName| brought.iter().any(|known| known == tip.as_str());
        let tips = self.git_work()?.new_tips()?;
        Ok(tips.into_iter().filter(|(_, tip)| !is_brought(tip)).map(|(moved, _)| moved).collect())
    }

    /// How many commits would be lost with it. Where they cannot be counted, each branch counts as one.
    pub fn unbrought_commits(&self) -> Result<usize> {
        let refs = self.unbrought_refs()?.len();
        if refs == 0 {
            return Ok(0);
        }
        let host = self.repository();
        let memory = self.memory(host.as_ref())?;
        if let Some(commits) = memory.as_ref().and_then(Memory::recall) {
            return Ok(commits);
        }
        let commits = match self.git_work()?.unmerged_commits(host.as_ref()) {
            Err(GitError::Refused { .. }) => refs,
            counted => counted?,
        };
        if let Some(memory) = memory {
            memory.keep(commits);
        }
        Ok(commits)
    }

    fn memory(&self, host: Option<&HostRepository>) -> Result<Option<Memory>> {
        let Some(home) = self.vault().store().home() else { return Ok(None) };
        let states = [self.base()?.to_string(), self.head()?.to_string()];
        Ok(Memory::new(work_directory(home, self.vault().id()), &states, host))
    }

    /// The repository of the directory that it was made from.
    fn repository(&self) -> Option<HostRepository> {
        HostRepository::open(self.root()).ok()
    }

    /// Brings its commits into a repository, as a branch.
    pub fn bring_commits(&self, into: &Path, bring: &Bring) -> Result<Brought> {
        let brought = self.git_work()?.bring_commits(&HostRepository::open(into)?, bring)?;
        let detail = format!("{} {}", brought.branch, brought.tip);
        self.note_brought(brought.named.as_str(), &detail)?;
        Ok(brought)
    }

    /// Makes a branch in a repository with its changed files as one commit.
    pub fn commit_files(&self, into: &Path, commit: &CommitFiles) -> Result<Committed> {
        let head = self.head()?;
        let committed = self.git_work()?.commit_files(&HostRepository::open(into)?, commit)?;
        let detail = format!("{} {}", committed.branch, committed.commit);
        match commit.paths.is_empty() {
            true => self.note_applied(Some(head), &detail)?,
            false => self.note_done("commit files", &detail)?,
        }
        Ok(committed)
    }
}

/// The branch that the work of a task is brought to if none is named.
pub fn default_branch(task: &Task) -> Option<RefName> {
    RefName::branch(&format!("avfs/{}", task.name()))
}
