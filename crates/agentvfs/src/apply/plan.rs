//! What would be done, decided by looking.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use avfs_core::rules::Rules;
use avfs_core::{NodeId, SnapshotId, TreePath};
use avfs_tree::TreeReader;

use super::conflict::{Conflict, OnConflict};
use super::draft::Draft;
use super::error::ApplyError;
use super::executed::Pointed;
use super::guarded::Guarded;
use super::host::Host;
use super::notes::Note;
use super::record::AppliedFile;
use super::selection::Selection;
use super::sides::EditedText;
use super::step::{DirectoryTime, Step};
use crate::error::Error;
use crate::ignored::IgnoredSummary;
use crate::name::VaultName;
use crate::store::Store;

/// How changes are applied.
#[derive(Clone, Default)]
pub struct ApplyOptions {
    /// Whose changes these are: for markers and the record.
    pub task: Option<VaultName>,
    pub conflicts: OnConflict,
    /// What was decided for single paths.
    pub choices: BTreeMap<TreePath, OnConflict>,
    /// What a person made of single paths that are in conflict.
    pub edited: BTreeMap<TreePath, EditedText>,
    /// The rules through which the task saw its tree: what they hide is not applied.
    pub rules: Option<Rules>,
    /// Apply what is ignored too. What the selection names is applied in any case.
    pub with_ignored: bool,
    /// The guarded paths that the user has named, each with what is below it.
    pub allowed: Vec<TreePath>,
}

impl ApplyOptions {
    /// What the task is called in markers: those who see them are in its project.
    pub(super) fn own_name(&self) -> &str {
        let name = self.task.as_ref().map_or("task", VaultName::as_str);
        name.rsplit('/').next().unwrap_or(name)
    }
}

/// What is asked for: the changes between two states, in a directory.
#[derive(Clone)]
pub struct Application {
    pub(super) store: Store,
    pub(super) base: SnapshotId,
    pub(super) theirs: SnapshotId,
    pub(super) into: PathBuf,
    pub(super) selection: Selection,
    pub(super) options: ApplyOptions,
    /// The numbers of the task's files, by which it is known what it moved.
    pub(super) inodes: Option<NodeId>,
    /// Only conflicts are wanted: what a look at attributes shows to be none is not read.
    pub(super) only_conflicts: bool,
}

/// What would be done, decided for the directory as it was looked at.
pub struct Plan {
    pub(super) application: Application,
    pub(super) host: Host,
    pub(super) steps: Vec<Step>,
    pub(super) directories: Vec<DirectoryTime>,
    /// What is done with which path, in order of path.
    pub files: Vec<AppliedFile>,
    /// Where both sides changed something. While one is not decided, nothing can be applied.
    pub conflicts: Vec<Conflict>,
    /// Conflicts that were decided, or are left as they are.
    pub settled: Vec<Conflict>,
    /// Files that programs of the host run.
    pub pointed: Vec<Pointed>,
    /// What is not applied as the task has it, and why.
    pub notes: Vec<Note>,
    /// What is left out because it is ignored.
    pub ignored: IgnoredSummary,
    /// What is left out because the user has not named it: the host would run it.
    pub guarded: Vec<Guarded>,
}

impl Application {
    /// Looks at what the changes from `base` to `theirs` would do to the directory `into`.
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
        Application { store, base, theirs, into, selection, options, inodes, only_conflicts: false }.look()
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
        let application =
            Application { store, base, theirs, into, selection, options, inodes, only_conflicts: true };
        Ok(application.look()?.conflicts)
    }

    /// Refuses a task whose conflicts are open: whoever applies, markers do not reach the directory.
    pub(super) fn check_settled(&self) -> crate::error::Result<()> {
        let task = self.options.task.as_ref().map(|name| self.store.task(name.as_str())).transpose();
        match task {
            Ok(Some(task)) => task.check_settled(&self.selection),
            // A vault that is no task, or that is gone by now.
            Ok(None) | Err(Error::NotATask { .. } | Error::UnknownVault { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Paths of which the user had another version when somebody first read them. What other tasks and projects met does
    /// not count; where it is not known whose changes these are, everything does.
    pub(super) fn moved(&self) -> Result<HashSet<TreePath>, ApplyError> {
        let task = self.options.task.as_ref().and_then(|name| self.store.task(name.as_str()).ok());
        match task {
            Some(task) => Ok(self.store.moved_paths(task.began())?),
            // Which promises it began with is not known: what anybody met may be one of them.
            None => {
                let moved = self.store.objects().all_moved()?.into_iter();
                Ok(moved.map(|(_, promise)| promise.path().clone()).collect())
            }
        }
    }

    /// Looks, or looks again.
    pub(super) fn look(&self) -> Result<Plan, ApplyError> {
        let plan = Plan {
            application: self.clone(),
            host: Host::open(&self.into)?,
            steps: Vec::new(),
            directories: Vec::new(),
            files: Vec::new(),
            conflicts: Vec::new(),
            settled: Vec::new(),
            pointed: Vec::new(),
            notes: Vec::new(),
            ignored: IgnoredSummary::default(),
            guarded: Vec::new(),
        };
        let readers = (self.reader(self.base)?, self.reader(self.theirs)?);
        Draft::new(plan, readers).run()
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
    let is_present = store.with_moved(head.snapshot).ok()? == theirs;
    head.inodes.filter(|_| is_present)
}

impl Plan {
    /// The same with some of what is guarded, which the user has named.
    pub fn allowing(self, paths: impl IntoIterator<Item = TreePath>) -> Result<Plan, ApplyError> {
        let mut application = self.application;
        application.options.allowed.extend(paths);
        application.look()
    }

    /// Whether something of the task is not in the plan, though nobody left it out.
    pub(super) fn is_partial(&self) -> bool {
        !self.application.selection.is_all() || !self.settled.is_empty() || !self.guarded.is_empty()
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
