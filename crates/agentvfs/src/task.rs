//! Tasks: forks of a project for one piece of work each.

mod changes;
mod held_work;
mod moved_unread;
mod repository_work;
mod untouched;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use avfs_core::rules::{Rule, Rules};
use avfs_core::{SnapshotId, Timestamp, TreePath};

use crate::apply::{ApplyError, Selection};
use crate::error::{Error, Result, StorageError, TaskError};
use crate::exec::{AfterRun, ChangedFile};
use crate::fork::Remains;
use crate::git::HiddenFile;
use crate::ignored::IgnoredSummary;
use crate::name::{TaskName, VaultName};
use crate::project::path_of_hex;
use crate::record::MadeRecord;
use crate::record::{TaskRecord, VaultRecord, key};
use crate::rule_record::RuleRecord;
use crate::store::Store;
use crate::vault::Vault;

pub(crate) use changes::changed_files;
pub use changes::{TaskChanges, TaskWork};
pub use held_work::HeldWork;

/// The options of a new task.
#[derive(Clone, Debug, Default)]
pub struct NewTask {
    /// `None`: `task` with a number.
    pub name: Option<TaskName>,
    /// The command that runs in it, as one line.
    pub command: String,
    /// It is made automatically for one run: without changes, it can be removed silently.
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
    /// For a new task: the tracked files that its rules hide.
    hidden: Option<Arc<[HiddenFile]>>,
}

/// The state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// Something runs in it, or it is mounted.
    Running,
    /// It is as the directory was.
    Unchanged,
    /// It holds work that is nowhere else.
    Unmerged,
    /// Its work was applied.
    Applied,
}

impl TaskState {
    /// Its name in JSON.
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
    /// Its state.
    pub state: TaskState,
    /// The snapshot that was looked at.
    pub head: SnapshotId,
    /// Without ignored files.
    pub changed: Vec<ChangedFile>,
    /// The ignored files that differ.
    pub ignored: IgnoredSummary,
    /// The number of git commits that were not brought into the user's repository.
    pub commits: usize,
    /// The repositories of some of them, if not the project's own; also repositories that the user does not
    /// have, whose commits are not counted.
    pub repositories: Vec<TreePath>,
}

/// The tasks of a store.
#[derive(Clone, Copy)]
pub struct Tasks<'a> {
    pub(crate) store: &'a Store,
}

impl Tasks<'_> {
    /// The task whose vault has this name. [`Here::task`](crate::Here::task) finds what a user means by a name.
    pub fn get(&self, name: &str) -> Result<Task> {
        Task::of(self.store.vault(name)?)
    }

    /// All tasks, oldest first.
    pub fn list(&self) -> Result<Vec<Task>> {
        self.list_where(|_| true)
    }

    /// The tasks whose records are wanted, oldest first.
    pub(crate) fn list_where(&self, is_wanted: impl Fn(&TaskRecord) -> bool) -> Result<Vec<Task>> {
        let records = self.store.vault_records()?.into_iter();
        let records = records.filter(|record| record.task.as_ref().is_some_and(&is_wanted));
        let tasks = records.map(|record| Task::from_record(self.store.vault_by_id(record.id), record));
        let mut tasks = tasks.collect::<Result<Vec<Task>>>()?;
        tasks.sort_by_key(|task| task.vault.id());
        Ok(tasks)
    }
}

impl Task {
    /// The task that a vault is, if it is one.
    pub fn of_vault(vault: &Vault) -> Result<Option<Task>> {
        match Task::of(vault.clone()) {
            Ok(task) => Ok(Some(task)),
            Err(Error::Task(TaskError::NotATask { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The task that a vault is.
    pub fn of(vault: Vault) -> Result<Task> {
        let found = vault.record()?.0;
        Task::from_record(vault, found)
    }

    fn from_record(vault: Vault, found: VaultRecord) -> Result<Task> {
        let Some(record) = found.task else {
            return Err(Error::Task(TaskError::NotATask {
                name: found.name.to_string(),
            }));
        };
        let root = path_of_hex(&record.root).ok_or_else(|| {
            Error::Storage(StorageError::DamagedRecord {
                key: key::vault(vault.id()),
                reason: "the directory of the task cannot be read".into(),
            })
        })?;
        // The name of the vault has the project in front.
        let name = TaskName::new(found.name.last_part())?;
        Ok(Task {
            vault,
            name,
            vault_name: found.name,
            root,
            created: found.created,
            record,
            hidden: None,
        })
    }

    /// Its name among the tasks of its project.
    pub fn name(&self) -> &TaskName {
        &self.name
    }

    /// Its name everywhere.
    pub fn vault_name(&self) -> &VaultName {
        &self.vault_name
    }

    /// The vault that it is.
    pub fn vault(&self) -> &Vault {
        &self.vault
    }

    /// The directory of the host that it was made from.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// When it was made.
    pub fn created(&self) -> Timestamp {
        self.created
    }

    /// The command that runs in it, as one line.
    pub fn command(&self) -> &str {
        &self.record.command
    }

    /// The profile that it is run with.
    pub fn profile(&self) -> Option<&str> {
        self.record.profile.as_deref()
    }

    /// Through which rules it is seen from inside.
    pub fn rules(&self) -> Result<Option<Rules>> {
        self.record
            .rules
            .as_deref()
            .map(|stored| self.vault.ready_rules(stored))
            .transpose()
    }

    /// The directory as it was when the task began. Files that the user changed before they were first read
    /// in the task are in it as in the task: the task has not changed them.
    pub fn base(&self) -> Result<SnapshotId> {
        self.vault.store().projects().with_moved(self.record.base)
    }

    /// The stored form of [`Task::base`], with unresolved promises.
    pub(crate) fn began(&self) -> SnapshotId {
        self.record.base
    }

    /// The current state of the task.
    pub fn head(&self) -> Result<SnapshotId> {
        let head = self.vault.store().projects().with_moved(self.vault.head()?)?;
        moved_unread::with_versions_of_user(self, head)
    }

    /// Reads the files that it moved without reading them, so that its head has what the user made of them.
    pub(crate) fn read_moved(&self) -> Result<()> {
        moved_unread::read(self)
    }

    /// The state of it that was applied last.
    pub fn applied(&self) -> Option<SnapshotId> {
        self.record.applied
    }

    /// The work of the task. Ignored files are not included, nor the files of git repositories, whose commits
    /// are counted instead.
    pub fn changed_files(&self) -> Result<Vec<ChangedFile>> {
        Ok(self.changes()?.files.into_iter().map(ChangedFile::from).collect())
    }

    /// The task as a program should find it: if nothing was done in it, it begins with the directory as that is now.
    pub fn beginning_now(self) -> Result<Task> {
        untouched::beginning_now(self)
    }

    /// Whether a process has it open: a run, a mount, an editor.
    pub fn is_running(&self) -> Result<bool> {
        Ok(self.vault.live_owner()?.is_some())
    }

    /// What became of its work so far.
    pub fn state(&self) -> Result<TaskState> {
        Ok(self.look()?.state)
    }

    /// Its state and its changes.
    pub fn look(&self) -> Result<TaskLook> {
        let is_running = self.is_running()?;
        let head = self.head()?;
        let TaskChanges {
            files,
            ignored_places,
            ..
        } = self.work().changes_between(self.base()?, head)?;
        let is_changed = !files.is_empty();
        let commits = self.git().unbrought_commits()?;
        let repositories = match commits {
            0 => self.git().lone_repositories()?,
            _ => self.git().unbrought_repositories()?,
        };
        let state = match () {
            () if is_running => TaskState::Running,
            () if is_changed
                && (!self.is_applied(head)? || self.work().was_on_lost_branch_only()?)
                && !self.is_merged_by_git() =>
            {
                TaskState::Unmerged
            }
            () if commits > 0 || !repositories.is_empty() => TaskState::Unmerged,
            () if !self.work().other_git_work(&files)?.is_empty() => TaskState::Unmerged,
            () if !is_changed => TaskState::Unchanged,
            () => TaskState::Applied,
        };
        Ok(TaskLook {
            state,
            head,
            changed: files.into_iter().map(ChangedFile::from).collect(),
            ignored: ignored_places,
            commits,
            repositories,
        })
    }

    /// Whether no work was done since a state of it was applied.
    fn is_applied(&self, head: SnapshotId) -> Result<bool> {
        match self.applied() {
            Some(applied) => Ok(self.work().changes_between(applied, head)?.files.is_empty()),
            None => Ok(false),
        }
    }

    /// Whether its directory has everything that it changed, through a branch that was made of it and that
    /// git has merged. If that cannot be compared, it counts as no.
    fn is_merged_by_git(&self) -> bool {
        self.made().is_some() && self.work().is_in_directory().unwrap_or(false)
    }

    /// The paths of conflicts that a merge or a sync left open in it, and that have not been resolved yet.
    pub fn open_conflicts(&self) -> Result<Vec<TreePath>> {
        self.vault.merges().unsettled()
    }

    /// Fails if conflicts are open in the selected part: they must not be applied.
    pub fn check_settled(&self, selection: &Selection) -> Result<()> {
        let mut paths = self.open_conflicts()?;
        paths.retain(|path| selection.wants(path));
        if paths.is_empty() {
            Ok(())
        } else {
            Err(ApplyError::OpenConflicts {
                vault: self.vault_name.to_string(),
                paths,
            }
            .into())
        }
    }

    /// Whether it was made automatically for one run, and nothing in it is worth keeping: no changed file,
    /// commit or conflict, and no checkpoint but those that were saved automatically on the way.
    pub fn is_spent(&self) -> Result<bool> {
        Ok(self.record.automatic
            && self.state()? == TaskState::Unchanged
            && self.open_conflicts()?.is_empty()
            && self
                .vault
                .checkpoints()?
                .iter()
                .all(|checkpoint| checkpoint.automatic))
    }

    /// Records that a state of it was applied to its directory; `None`: that this was undone.
    pub fn note_applied(&self, state: Option<SnapshotId>, detail: &str) -> Result<()> {
        let action = if state.is_some() { "apply" } else { "unapply" };
        self.vault.update(action, detail, |record, _| {
            if let Some(task) = &mut record.task {
                task.applied = state;
            }
            Ok(())
        })
    }

    /// Makes the present state the beginning of the task: its current contents are not changes.
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

    /// For a new task: the tracked files that its rules hide.
    pub(crate) fn hidden_and_tracked(&self) -> Option<&[HiddenFile]> {
        self.hidden.as_deref()
    }

    pub(crate) fn knowing_hidden(self, hidden: Vec<HiddenFile>) -> Task {
        Task {
            hidden: Some(hidden.into()),
            ..self
        }
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

    /// Makes copies of the current state of the task, for parallel attempts. The cost does not depend on its
    /// contents.
    pub fn fork(&self, names: &[TaskName]) -> Result<Vec<Task>> {
        let project = self.vault.store().projects().project_of(self)?;
        let names = names
            .iter()
            .map(|name| project.free_task_name(name))
            .collect::<Result<Vec<VaultName>>>()?;
        let names = &names;
        let record = TaskRecord {
            // A copy begins with the work and without the past: nothing of it was applied, and no branch
            // made of it.
            applied: None,
            made: None,
            ..self.record.clone()
        };
        let copies = self
            .vault
            .fork_for(&self.vault.revision("@")?, names, Some(record))?;
        copies.into_iter().map(Task::of).collect()
    }

    /// Throws the task away, with everything that it holds; copies of it stay. Fails while it runs, unless `force`.
    pub fn discard(self, force: bool) -> Result<()> {
        self.discard_in_part(force).map(drop)
    }

    /// As [`Task::discard`] without force. The task is gone when this returns; its directory in the store is
    /// removed in the background.
    pub fn discard_at_end(self, lingering: &mut AfterRun) -> Result<()> {
        let remains = self.discard_in_part(false)?;
        lingering.later(move || drop(remains));
        Ok(())
    }

    fn discard_in_part(self, force: bool) -> Result<Remains> {
        let store = self.vault.store().clone();
        let remains = self.vault.forget(force)?;
        // An undone apply of a task that is gone cannot be redone.
        store.applies().forget_undone(self.vault_name.as_str())?;
        Ok(remains)
    }
}
