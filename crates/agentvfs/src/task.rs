//! Tasks: forks of a project for one piece of work each.

mod changes;
mod held_work;
mod untouched;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use avfs_core::rules::{Rule, Rules};
use avfs_core::{SnapshotId, Timestamp, TreePath};

use crate::apply::{ApplyError, Selection};
use crate::error::{Error, Result};
use crate::exec::ChangedFile;
use crate::git::{HiddenFile, MadeRecord};
use crate::ignored::IgnoredSummary;
use crate::name::{TaskName, VaultName};
use crate::project::path_of_hex;
use crate::record::{TaskRecord, VaultRecord, key};
use crate::store::Store;
use crate::through::RuleRecord;
use crate::vault::Vault;

pub use changes::TaskChanges;
pub(crate) use changes::is_directory;
pub use held_work::HeldWork;

/// What a new task is made with.
#[derive(Clone, Debug, Default)]
pub struct NewTask {
    /// `None`: `task` with a number.
    pub name: Option<TaskName>,
    /// What runs in it, as one line.
    pub command: String,
    /// It is made for one run by itself: if nothing is changed in it, nobody misses it.
    pub automatic: bool,
    /// The profile that it is run with.
    pub profile: Option<String>,
    /// Through which rules it is seen from inside.
    pub rules: Option<Vec<Rule>>,
}

/// A fork of a project for one piece of work.
#[derive(Clone)]
pub struct Task {
    vault: Vault,
    name: TaskName,
    vault_name: VaultName,
    root: PathBuf,
    created: Timestamp,
    record: TaskRecord,
    /// Of one that was just made: what its rules hide of what git tracks.
    hidden: Option<Arc<[HiddenFile]>>,
}

/// How far a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// Something runs in it, or it is mounted.
    Running,
    /// It is as the directory was.
    Unchanged,
    /// It holds work that is nowhere else.
    Unmerged,
    /// What it holds was applied.
    Applied,
}

impl TaskState {
    pub fn as_str(self) -> &'static str {
        match self {
            TaskState::Running => "running",
            TaskState::Unchanged => "unchanged",
            TaskState::Unmerged => "unmerged",
            TaskState::Applied => "applied",
        }
    }
}

/// A task at one moment.
#[derive(Clone, Debug)]
pub struct TaskLook {
    pub state: TaskState,
    pub head: SnapshotId,
    /// Without what is ignored.
    pub changed: Vec<ChangedFile>,
    pub ignored: IgnoredSummary,
    /// Those of git that were not brought over.
    pub commits: usize,
    /// Where some of them are, if not in the project's own repository; also in repositories that the user does not have,
    /// whose commits are not counted.
    pub repositories: Vec<TreePath>,
}

impl Store {
    /// The task whose vault has this name. [`Here::task`](crate::Here::task) finds what a user means by a name.
    pub fn task(&self, name: &str) -> Result<Task> {
        Task::of(self.vault(name)?)
    }

    /// All tasks, oldest first.
    pub fn tasks(&self) -> Result<Vec<Task>> {
        self.tasks_where(|_| true)
    }

    /// The tasks whose records are wanted, oldest first.
    pub(crate) fn tasks_where(&self, is_wanted: impl Fn(&TaskRecord) -> bool) -> Result<Vec<Task>> {
        let records = self.vault_records()?.into_iter();
        let records = records.filter(|record| record.task.as_ref().is_some_and(&is_wanted));
        let tasks = records.map(|record| Task::from_record(self.vault_by_id(record.id), record));
        let mut tasks = tasks.collect::<Result<Vec<Task>>>()?;
        tasks.sort_by_key(|task| task.vault.id());
        Ok(tasks)
    }
}

impl Task {
    pub(crate) fn of(vault: Vault) -> Result<Task> {
        let found = vault.record()?.0;
        Task::from_record(vault, found)
    }

    fn from_record(vault: Vault, found: VaultRecord) -> Result<Task> {
        let Some(record) = found.task else { return Err(Error::NotATask { name: found.name.to_string() }) };
        let root = path_of_hex(&record.root).ok_or_else(|| Error::DamagedRecord {
            key: key::vault(vault.id()),
            reason: "the directory of the task cannot be read".into(),
        })?;
        let name = TaskName::new(found.name.last_part())?;
        Ok(Task { vault, name, vault_name: found.name, root, created: found.created, record, hidden: None })
    }

    /// Its name among the tasks of its project.
    pub fn name(&self) -> &TaskName {
        &self.name
    }

    /// Its name everywhere.
    pub fn vault_name(&self) -> &VaultName {
        &self.vault_name
    }

    pub fn vault(&self) -> &Vault {
        &self.vault
    }

    /// The directory of the host that it was made from.
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn created(&self) -> Timestamp {
        self.created
    }

    /// What runs in it, as one line.
    pub fn command(&self) -> &str {
        &self.record.command
    }

    pub fn profile(&self) -> Option<&str> {
        self.record.profile.as_deref()
    }

    /// Through which rules it is seen from inside.
    pub fn rules(&self) -> Result<Option<Rules>> {
        self.record.rules.as_deref().map(|stored| self.vault.ready_rules(stored)).transpose()
    }

    /// The directory as it was when the task began. What the user changed before anybody in the task looked is in
    /// it as it is in the task: nobody there has changed it.
    pub fn base(&self) -> Result<SnapshotId> {
        self.vault.store().with_moved(self.record.base)
    }

    /// The same as it is stored, with promises where nobody has looked.
    pub(crate) fn began(&self) -> SnapshotId {
        self.record.base
    }

    /// The task as it is now.
    pub fn head(&self) -> Result<SnapshotId> {
        self.vault.store().with_moved(self.vault.head()?)
    }

    /// What of it was applied last.
    pub fn applied(&self) -> Option<SnapshotId> {
        self.record.applied
    }

    /// The work of the task. What is ignored is not in it, nor the files of git repositories: commits are.
    pub fn changed_files(&self) -> Result<Vec<ChangedFile>> {
        Ok(self.changes()?.files.into_iter().map(ChangedFile::from).collect())
    }

    /// Whether somebody has it open: a run, a mount, an editor.
    pub fn is_running(&self) -> Result<bool> {
        Ok(self.vault.live_owner()?.is_some())
    }

    pub fn state(&self) -> Result<TaskState> {
        Ok(self.look()?.state)
    }

    /// How far it is, and what it changed.
    pub fn look(&self) -> Result<TaskLook> {
        let is_running = self.is_running()?;
        let head = self.head()?;
        let TaskChanges { files, ignored_places, .. } = self.changes_between(self.base()?, head)?;
        let changed: Vec<ChangedFile> = files.into_iter().map(ChangedFile::from).collect();
        let commits = self.unbrought_commits()?;
        let repositories = match commits {
            0 => self.lone_repositories()?,
            _ => self.unbrought_repositories()?,
        };
        let state = match () {
            () if is_running => TaskState::Running,
            () if !changed.is_empty() && !self.is_applied(head)? && !self.is_merged_by_git() => {
                TaskState::Unmerged
            }
            () if commits > 0 || !repositories.is_empty() => TaskState::Unmerged,
            () if changed.is_empty() && self.has_other_git_work()? => TaskState::Unmerged,
            () if changed.is_empty() => TaskState::Unchanged,
            () => TaskState::Applied,
        };
        Ok(TaskLook { state, head, changed, ignored: ignored_places, commits, repositories })
    }

    /// Whether no work was done since a state of it was applied.
    fn is_applied(&self, head: SnapshotId) -> Result<bool> {
        match self.applied() {
            Some(applied) => Ok(self.changes_between(applied, head)?.files.is_empty()),
            None => Ok(false),
        }
    }

    /// Whether its directory has everything that it changed, by a branch that was made of it and that git has merged. What
    /// cannot be compared is not known to be there.
    fn is_merged_by_git(&self) -> bool {
        self.made().is_some() && self.is_in_directory().unwrap_or(false)
    }

    /// The paths of conflicts that a merge or a sync left open in it, and that nobody has settled yet.
    pub fn open_conflicts(&self) -> Result<Vec<TreePath>> {
        self.vault.unsettled()
    }

    /// Refuses if conflicts are open in what is selected: they are not to be applied.
    pub fn check_settled(&self, selection: &Selection) -> Result<()> {
        let mut paths = self.open_conflicts()?;
        paths.retain(|path| selection.wants(path));
        match paths.is_empty() {
            true => Ok(()),
            false => Err(ApplyError::OpenConflicts { vault: self.vault_name.to_string(), paths }.into()),
        }
    }

    /// Whether it was made for one run by itself, and nothing in it is worth keeping: no changed file, commit, conflict or
    /// checkpoint.
    pub fn is_spent(&self) -> Result<bool> {
        Ok(self.record.automatic
            && self.state()? == TaskState::Unchanged
            && self.open_conflicts()?.is_empty()
            && self.vault.checkpoints()?.is_empty())
    }

    /// Notes that a state of it was applied to its directory; `None`: that it was taken back.
    pub fn note_applied(&self, state: Option<SnapshotId>, detail: &str) -> Result<()> {
        let action = if state.is_some() { "apply" } else { "unapply" };
        self.vault.update(action, detail, |record, _| {
            if let Some(task) = &mut record.task {
                task.applied = state;
            }
            Ok(())
        })
    }

    /// Has the task begin at its present state: what is in it now is no change of it.
    pub fn begin_here(&mut self) -> Result<()> {
        self.begin_at(self.vault.head()?)
    }

    pub(crate) fn begin_at(&mut self, base: SnapshotId) -> Result<()> {
        self.vault.update("task-begins", "", |record, _| {
            if let Some(task) = &mut record.task {
                task.base = base;
            }
            Ok(())
        })?;
        self.record.base = base;
        Ok(())
    }

    /// Has it be seen through these rules from now on.
    pub(crate) fn set_rules(&mut self, rules: Option<&[Rule]>) -> Result<()> {
        let rules = rules.map(RuleRecord::list);
        if self.record.rules == rules {
            return Ok(());
        }
        self.vault.update("task-rules", "", |record, _| {
            if let Some(task) = &mut record.task {
                task.rules = rules.clone();
            }
            Ok(())
        })?;
        self.record.rules = rules;
        Ok(())
    }

    /// Of one that was just made: what its rules hide of what git tracks.
    pub(crate) fn hidden_and_tracked(&self) -> Option<&[HiddenFile]> {
        self.hidden.as_deref()
    }

    pub(crate) fn knowing_hidden(self, hidden: Vec<HiddenFile>) -> Task {
        Task { hidden: Some(hidden.into()), ..self }
    }

    /// The ends of git histories that were brought over.
    pub(crate) fn brought(&self) -> &[String] {
        &self.record.brought
    }

    /// The branch that was made of it last.
    pub(crate) fn made(&self) -> Option<&MadeRecord> {
        self.record.made.as_deref()
    }

    /// Notes that its files became a commit: those of this state, or some of them.
    pub(crate) fn note_committed(
        &self,
        state: Option<SnapshotId>,
        detail: &str,
        made: &MadeRecord,
    ) -> Result<()> {
        let action = if state.is_some() { "apply" } else { "commit files" };
        self.vault.update(action, detail, |record, _| {
            if let Some(task) = &mut record.task {
                task.applied = state.or(task.applied);
                task.made = Some(Box::new(made.clone()));
            }
            Ok(())
        })
    }

    pub(crate) fn note_brought(&self, tip: &str, detail: &str, made: &MadeRecord) -> Result<()> {
        self.vault.update("bring commits", detail, |record, _| {
            if let Some(task) = &mut record.task {
                if !task.brought.iter().any(|known| known == tip) {
                    task.brought.push(tip.to_owned());
                }
                task.made = Some(Box::new(made.clone()));
            }
            Ok(())
        })
    }

    /// Makes copies of the task as it is now, for attempts beside each other. Costs the same whatever it holds.
    pub fn fork(&self, names: &[TaskName]) -> Result<Vec<Task>> {
        let project = self.vault.store().project_of(self)?;
        let names =
            names.iter().map(|name| project.free_task_name(name)).collect::<Result<Vec<VaultName>>>()?;
        let names = &names;
        let record = TaskRecord { applied: None, made: None, ..self.record.clone() };
        let copies = self.vault.fork_for(&self.vault.revision("@")?, names, Some(record))?;
        copies.into_iter().map(Task::of).collect()
    }

    /// Throws the task away, with everything that it holds; copies of it stay. Fails while it runs, unless `force`.
    pub fn discard(self, force: bool) -> Result<()> {
        let store = self.vault.store().clone();
        self.vault.remove(force)?;
        store.forget_undone_applies(self.vault_name.as_str())
    }
}
