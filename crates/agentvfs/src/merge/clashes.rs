//! Early warning: which tasks would not merge with each other, or with the directory they came from.

use std::collections::{BTreeSet, HashMap};

use avfs_core::TreePath;
use avfs_core::merge::{Choice, MarkerStyle, Merger, Sides, merge_trees};

use super::sides::{Changed, Texts};
use crate::apply::{Application, ApplyOptions, Selection};
use crate::error::Result;
use crate::git::is_in_repository;
use crate::name::TaskName;
use crate::store::Store;
use crate::task::Task;

/// Where the work of two tasks meets and cannot be merged by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clash {
    pub with: TaskName,
    pub paths: Vec<TreePath>,
}

impl Task {
    /// The files of the directory that the user has changed in another way than the task.
    pub fn clashes_with_directory(&self) -> Result<Vec<TreePath>> {
        let options = ApplyOptions { rules: self.rules()?, ..ApplyOptions::default() };
        let (base, head) = (self.base()?, self.head()?);
        if base == head {
            return Ok(Vec::new());
        }
        let store = self.vault().store();
        let plan = Application::plan(store, base, head, self.root(), &Selection::default(), &options)?;
        Ok(plan.conflicts.into_iter().map(|conflict| conflict.path).collect())
    }

    /// What it did, but for what is in git repositories, which is merged by git.
    fn work(&self) -> Result<Changed> {
        let root = |state| Ok::<_, crate::Error>(self.vault().snapshot(state)?.root);
        let base = avfs_tree::Base { root: root(self.base()?)?, inodes: None };
        let head = avfs_tree::Base { root: root(self.head()?)?, inodes: None };
        let mut changed = Changed::new(self.vault(), &base, &head)?;
        changed.changes.retain(|change| !is_in_repository(&change.path));
        Ok(changed)
    }
}

impl Store {
    /// For each of these tasks, the others with which it would not merge by itself. Costs what they changed, and
    /// compares only those that changed the same.
    pub fn clashes(&self, tasks: &[Task]) -> Result<Vec<Vec<Clash>>> {
        let works = tasks.iter().map(Task::work).collect::<Result<Vec<Changed>>>()?;
        let mut clashes: Vec<Vec<Clash>> = tasks.iter().map(|_| Vec::new()).collect();
        for (one, other) in meeting(&works) {
            if tasks[one].root() != tasks[other].root() {
                continue;
            }
            let paths = self.clash(&works[one], &works[other])?;
            if !paths.is_empty() {
                let clash = |with: usize| Clash { with: tasks[with].name().clone(), paths: paths.clone() };
                clashes[one].push(clash(other));
                clashes[other].push(clash(one));
            }
        }
        Ok(clashes)
    }

    fn clash(&self, one: &Changed, other: &Changed) -> Result<Vec<TreePath>> {
        let names = Sides {
            ours: String::new(),
            theirs: String::new(),
            base: String::new(),
            style: MarkerStyle::default(),
        };
        let mut texts = Texts::new(self.objects(), false);
        let mut merger = Merger { contents: &mut texts, names: &names, choice: Choice::default() };
        let merged = merge_trees(one.side(), other.side(), &mut merger)?;
        Ok(merged.conflicts.into_iter().map(|conflict| conflict.path).collect())
    }
}

/// The pairs that changed the same path, or one of them what the other built upon.
fn meeting(works: &[Changed]) -> BTreeSet<(usize, usize)> {
    let mut changed: HashMap<&TreePath, Vec<usize>> = HashMap::new();
    for (task, work) in works.iter().enumerate() {
        work.changes.iter().for_each(|change| changed.entry(&change.path).or_default().push(task));
    }
    let mut pairs = BTreeSet::new();
    for (task, work) in works.iter().enumerate() {
        for change in &work.changes {
            let mut path = Some(change.path.clone());
            while let Some(at) = path {
                let others = changed.get(&at).into_iter().flatten().filter(|other| **other != task);
                pairs.extend(others.map(|other| (task.min(*other), task.max(*other))));
                path = at.split_last().map(|(parent, _)| parent);
            }
        }
    }
    pairs
}
