//! Plans an apply, without changing anything.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use avfs_core::rules::Rules;
use avfs_core::{NodeId, SnapshotId, TreePath};
use avfs_tree::TreeReader;

use super::executed::Pointed;
use super::guarded::Guarded;
use super::host::HostFiles;
use super::notes::Note;
use super::on_conflict::OnConflict;
use super::plan_builder::PlanBuilder;
use super::record::{AppliedFile, BroughtPath, BroughtPaths};
use super::selection::Selection;
use super::sides::{ChosenPlaces, EditedText};
use super::step::{ApplyStep, DirectoryTime};
use crate::error::ApplyError;
use crate::error::Conflict;
use crate::error::{Error, TaskError, VaultError};
use crate::ignored::IgnoredSummary;
use crate::name::VaultName;
use crate::store::Store;

/// How changes are applied.
#[derive(Clone, Default)]
pub struct ApplyOptions {
    /// Whose changes these are: for markers and the record.
    pub task: Option<VaultName>,
    /// What is done where both sides changed something.
    pub conflicts: OnConflict,
    /// The decisions on single paths.
    pub choices: BTreeMap<TreePath, OnConflict>,
    /// The user's versions of single paths that are in conflict.
    pub edited: BTreeMap<TreePath, EditedText>,
    /// The decisions on single conflicts of texts.
    pub places: BTreeMap<TreePath, ChosenPlaces>,
    /// The rules through which the task saw its tree: hidden files are not applied.
    pub rules: Option<Rules>,
    /// Apply ignored files too. Files that the selection names are applied in any case.
    pub with_ignored: bool,
    /// The guarded paths that the user has named, including everything below them.
    pub allowed: Vec<TreePath>,
}

impl ApplyOptions {
    /// The name of the task in markers: their readers are in its project.
    pub(super) fn own_name(&self) -> &str {
        let name = self.task.as_ref().map_or("task", VaultName::as_str);
        name.rsplit('/').next().unwrap_or(name)
    }
}

/// The request: the changes between two states, in a directory.
#[derive(Clone)]
pub struct Application {
    pub(super) store: Store,
    pub(super) base: SnapshotId,
    pub(super) theirs: SnapshotId,
    pub(super) into: PathBuf,
    pub(super) selection: Selection,
    pub(super) options: ApplyOptions,
    /// The inode numbers of the task's files, which show what it moved.
    pub(super) inodes: Option<NodeId>,
    /// Only conflicts are wanted: files whose attributes rule out a conflict are not read.
    pub(super) only_conflicts: bool,
}

/// The plan, for the directory as it was read.
pub struct Plan {
    pub(super) application: Application,
    pub(super) host: HostFiles,
    pub(super) steps: Vec<ApplyStep>,
    pub(super) directories: Vec<DirectoryTime>,
    /// The action for each path, in order of path.
    pub files: Vec<AppliedFile>,
    /// Where both sides changed something. While one is not decided, nothing can be applied.
    pub conflicts: Vec<Conflict>,
    /// Conflicts that were decided, or are left unchanged.
    pub settled: Vec<Conflict>,
    /// One of these leaves something out that the task did.
    pub(super) settled_partly: bool,
    /// Files that programs of the host run.
    pub pointed: Vec<Pointed>,
    /// Changes that are not applied exactly as the task made them, and why.
    pub notes: Vec<Note>,
    /// Files that are omitted because they are ignored.
    pub ignored: IgnoredSummary,
    /// Files that are omitted because the user has not named them and the host would run them.
    pub guarded: Vec<Guarded>,
    /// The paths that the directory has as the task has them, once this is carried out.
    pub(super) brought: Vec<TreePath>,
}

impl Application {
    /// Plans to apply the changes from `base` to `theirs` to the directory `into`.
    pub fn plan(
        store: &Store,
        base: SnapshotId,
        theirs: SnapshotId,
        into: &Path,
        selection: &Selection,
        options: &ApplyOptions,
    ) -> Result<Plan, ApplyError> {
        let inodes = numbers(store, theirs, options);
        let (store, into) = (store.clone(), into.to_owned());
        let (selection, options) = (selection.clone(), options.clone());
        Application {
            store,
            base,
            theirs,
            into,
            selection,
            options,
            inodes,
            only_conflicts: false,
        }
        .look()
    }

    /// The conflicts that a plan would have. Costs a look at the attributes of each changed file of the directory, and
    /// reads those alone that the user may have changed: very large ones are taken for a conflict then.
    pub fn conflicts(
        store: &Store,
        base: SnapshotId,
        theirs: SnapshotId,
        into: &Path,
        options: &ApplyOptions,
    ) -> Result<Vec<Conflict>, ApplyError> {
        let inodes = numbers(store, theirs, options);
        let (store, into, options) = (store.clone(), into.to_owned(), options.clone());
        let selection = Selection::default();
        let application = Application {
            store,
            base,
            theirs,
            into,
            selection,
            options,
            inodes,
            only_conflicts: true,
        };
        Ok(application.look()?.conflicts)
    }

    /// Refuses a task with open conflicts: markers must not reach the directory.
    pub(super) fn check_settled(&self) -> crate::error::Result<()> {
        let task = self
            .options
            .task
            .as_ref()
            .map(|name| self.store.task(name.as_str()))
            .transpose();
        match task {
            Ok(Some(task)) => task.check_settled(&self.selection),
            // A vault that is not a task, or no longer exists.
            Ok(None)
            | Err(Error::Task(TaskError::NotATask { .. }) | Error::Vault(VaultError::Unknown { .. })) => {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Paths that had been changed by the user before they were first read. Only promises of this task count,
    /// or all if the task is unknown.
    pub(super) fn moved(&self) -> Result<HashSet<TreePath>, ApplyError> {
        let task = self
            .options
            .task
            .as_ref()
            .and_then(|name| self.store.task(name.as_str()).ok());
        match task {
            Some(task) => Ok(self.store.projects().moved_paths(task.began())?),
            // The promises with which it began are unknown: any resolved promise may be one of them.
            None => {
                let moved = self.store.objects().all_moved()?.into_iter();
                Ok(moved.map(|(_, promise)| promise.path().clone()).collect())
            }
        }
    }

    /// For the record of an apply: which part of a task it brings. Without a task there is no later apply to
    /// compare with.
    pub(super) fn brought(&self, paths: Vec<TreePath>) -> Option<BroughtPaths> {
        let task = self.store.task(self.options.task.as_ref()?.as_str()).ok()?;
        Some(BroughtPaths {
            base: task.began(),
            paths: paths.into_iter().map(BroughtPath).collect(),
        })
    }

    /// Looks, or looks again.
    pub(super) fn look(&self) -> Result<Plan, ApplyError> {
        let plan = Plan {
            application: self.clone(),
            host: HostFiles::open(&self.into)?,
            steps: Vec::new(),
            directories: Vec::new(),
            files: Vec::new(),
            conflicts: Vec::new(),
            settled: Vec::new(),
            settled_partly: false,
            pointed: Vec::new(),
            notes: Vec::new(),
            ignored: IgnoredSummary::default(),
            guarded: Vec::new(),
            brought: Vec::new(),
        };
        let readers = (self.reader(self.base)?, self.reader(self.theirs)?);
        PlanBuilder::new(plan, readers).run()
    }

    pub(super) fn reader(&self, snapshot: SnapshotId) -> Result<TreeReader, ApplyError> {
        let objects = self.store.objects();
        Ok(TreeReader::new(objects.clone(), objects.snapshot(snapshot)?.root))
    }
}

/// The numbers of the task's files, if the state is its present one.
fn numbers(store: &Store, theirs: SnapshotId, options: &ApplyOptions) -> Option<NodeId> {
    let vault = store.vault(options.task.as_ref()?.as_str()).ok()?;
    let head = vault.record().ok()?.0.head;
    let is_present = store.projects().with_moved(head.snapshot).ok()? == theirs;
    head.inodes.filter(|_| is_present)
}

impl Plan {
    /// The same with some of the guarded paths, which the user has named.
    pub fn allowing(self, paths: impl IntoIterator<Item = TreePath>) -> Result<Plan, ApplyError> {
        let mut application = self.application;
        application.options.allowed.extend(paths);
        application.look()
    }

    /// Whether the directory lacks some of the task's work then.
    pub(super) fn is_partial(&self) -> bool {
        !self.application.selection.is_all() || self.settled_partly || !self.guarded.is_empty()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The directory that would be changed.
    pub fn directory(&self) -> &Path {
        self.host.path()
    }
}
