//! Early warning: which tasks would not merge with each other, or with the directory they came from.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

use avfs_core::diff::TreeChange;
use avfs_core::merge::{ConflictPolicy, EntryMerger, MarkerStyle, PathMove, SideNames, merge_trees};
use avfs_core::{Entry, EntryKind, EntryName, TreePath};

use super::sides::{SideChanges, Texts};
use crate::apply::{Application, AppliedBase, ApplyOptions};
use crate::error::Result;
use crate::git::is_in_repository;
use crate::ignored::Ignored;
use crate::name::TaskName;
use crate::task::Task;
use crate::task::Tasks;

/// Where the work of two tasks meets and cannot be merged by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clash {
    /// The other task.
    pub with: TaskName,
    /// The paths that both changed in different ways.
    pub paths: Vec<TreePath>,
}

/// Changes of a task that would not merge automatically.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clashes {
    /// Files that another task changed in another way, by path.
    pub paths: Vec<TreePath>,
    /// The same for each other task; empty if only the paths were requested.
    pub tasks: Vec<Clash>,
}

/// The amount of detail about clashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClashDetail {
    /// Which files clash with some other task: stops at the first one, so that the cost does not grow with the square
    /// of the number of tasks.
    Paths,
    /// Which files clash with which task.
    Pairs,
}

/// The number of other versions with which a file is compared until it counts as clean, if only paths are
/// requested.
const TRIES: usize = 16;

/// The conflicts that a merge of a task with its directory would have.
#[derive(Clone, Copy)]
pub struct TaskMerges<'a> {
    pub(crate) task: &'a Task,
}

impl TaskMerges<'_> {
    /// The files of the directory that the user has changed in another way than the task. The cost depends on
    /// the task's changes, and almost nothing is read.
    pub fn clashes_with_directory(&self) -> Result<Vec<TreePath>> {
        let task = Some(self.task.vault_name().clone());
        let options = ApplyOptions {
            task,
            rules: self.task.rules()?,
            ..ApplyOptions::default()
        };
        let base = AppliedBase::of(self.task).without_reading(self.task.root())?;
        let head = self.task.head()?;
        if base == head {
            return Ok(Vec::new());
        }
        let store = self.task.vault().store();
        let conflicts = Application::conflicts(store, base, head, self.task.root(), &options)?;
        Ok(conflicts.into_iter().map(|conflict| conflict.path).collect())
    }

    /// Its changes, except for ignored files, files that were rewritten unchanged, and git repositories,
    /// which git merges.
    fn work(&self) -> Result<SideChanges> {
        let vault = self.task.vault();
        let (base, head) = (self.task.base()?, self.task.head()?);
        let root = |state| Ok::<_, crate::Error>(vault.snapshot(state)?.root);
        let before = avfs_tree::BaseTree {
            root: root(base)?,
            inodes: None,
        };
        let after = avfs_tree::BaseTree {
            root: root(head)?,
            inodes: None,
        };
        let mut changed = SideChanges::folded(vault, &before, &after)?;
        changed.changes.retain(|change| !is_in_repository(&change.path));
        changed.drop_rewritten(vault.store().objects())?;
        let mut ignored = Ignored::new(vault.reader_at(base)?, vault.reader_at(head)?);
        let sorted = ignored.sort_out(std::mem::take(&mut changed.changes), &HashSet::new());
        changed.changes = sorted.map_err(|error| vault.history().read_error(error))?.0;
        Ok(changed)
    }
}

impl Tasks<'_> {
    /// For each of these tasks, the changes that would not merge with the work of another one on the same
    /// directory. The cost depends on their changes, and only paths that several of them changed are merged.
    pub fn clashes(&self, tasks: &[Task], detail: ClashDetail) -> Result<Vec<Clashes>> {
        let works = tasks
            .iter()
            .map(|task| task.merges().work())
            .collect::<Result<Vec<SideChanges>>>()?;
        let works: Vec<Indexed<'_>> = works.iter().map(Indexed::new).collect();
        let mut found: Vec<Clashing> = tasks.iter().map(|_| Clashing::default()).collect();
        for (path, meeting) in meetings(tasks, &works) {
            let groups = by_result(&works, &path, &meeting);
            let parts: Vec<SideChanges> = groups.iter().map(|group| works[group[0]].at(&path)).collect();
            match detail {
                ClashDetail::Paths => {
                    let clashing = self.clashing(&parts)?;
                    for task in groups
                        .iter()
                        .zip(clashing)
                        .filter(|(_, is)| *is)
                        .flat_map(|(group, _)| group)
                    {
                        found[*task].paths.insert(path.clone());
                    }
                }
                ClashDetail::Pairs => {
                    for (one, other) in self.clashing_pairs(&parts)? {
                        note_pair(&mut found, &path, &groups[one], &groups[other]);
                    }
                }
            }
        }
        Ok(found.into_iter().map(|found| found.named(tasks)).collect())
    }

    /// Which of several versions clash with some other one.
    fn clashing(&self, parts: &[SideChanges]) -> Result<Vec<bool>> {
        let mut clashing = vec![false; parts.len()];
        for one in 0..parts.len() {
            if clashing[one] {
                continue;
            }
            for other in (0..parts.len()).filter(|other| *other != one).take(TRIES) {
                if self.clash(&parts[one], &parts[other])? {
                    (clashing[one], clashing[other]) = (true, true);
                    break;
                }
            }
        }
        Ok(clashing)
    }

    fn clashing_pairs(&self, parts: &[SideChanges]) -> Result<Vec<(usize, usize)>> {
        let mut pairs = Vec::new();
        for one in 0..parts.len() {
            for other in one + 1..parts.len() {
                if self.clash(&parts[one], &parts[other])? {
                    pairs.push((one, other));
                }
            }
        }
        Ok(pairs)
    }

    fn clash(&self, one: &SideChanges, other: &SideChanges) -> Result<bool> {
        let names = SideNames {
            ours: String::new(),
            theirs: String::new(),
            base: String::new(),
            style: MarkerStyle::default(),
        };
        let mut texts = Texts::new(self.store.objects(), false);
        let mut merger = EntryMerger {
            contents: &mut texts,
            names: &names,
            choice: ConflictPolicy::default(),
        };
        let merged = merge_trees(one.side(), other.side(), &mut merger)?;
        Ok(!merged.conflicts.is_empty())
    }
}

/// The clashes of one task.
#[derive(Default)]
struct Clashing {
    paths: BTreeSet<TreePath>,
    with: BTreeMap<usize, Vec<TreePath>>,
}

impl Clashing {
    fn named(self, tasks: &[Task]) -> Clashes {
        let clash = |(with, paths): (usize, Vec<TreePath>)| Clash {
            with: tasks[with].name().clone(),
            paths,
        };
        Clashes {
            paths: self.paths.into_iter().collect(),
            tasks: self.with.into_iter().map(clash).collect(),
        }
    }
}

fn note_pair(found: &mut [Clashing], path: &TreePath, group: &[usize], others: &[usize]) {
    for one in group {
        for other in others {
            for (task, with) in [(*one, *other), (*other, *one)] {
                found[task].paths.insert(path.clone());
                found[task].with.entry(with).or_default().push(path.clone());
            }
        }
    }
}

/// The work of a task, by path.
struct Indexed<'a> {
    changes: BTreeMap<&'a TreePath, &'a TreeChange>,
    moved: HashMap<&'a TreePath, &'a PathMove>,
}

impl<'a> Indexed<'a> {
    fn new(work: &'a SideChanges) -> Indexed<'a> {
        let side = work.side();
        Indexed {
            changes: side.changes.iter().map(|change| (&change.path, change)).collect(),
            moved: side
                .moves
                .iter()
                .flat_map(|one| [(&one.from, one), (&one.to, one)])
                .collect(),
        }
    }

    /// The part of the work at and below a path, with the other ends of moves.
    fn at(&self, path: &TreePath) -> SideChanges {
        // The smallest possible name: other paths may sort between a directory and its contents.
        let first = path.join(&EntryName::new(&[1]).expect("a byte is a name"));
        let below = self
            .changes
            .range::<TreePath, _>(&first..)
            .take_while(|(at, _)| at.starts_with(path));
        let all = self.changes.get_key_value(path).into_iter().chain(below);
        let mut changes: BTreeMap<&TreePath, &TreeChange> =
            all.map(|(path, change)| (*path, *change)).collect();
        let moves: BTreeSet<&PathMove> = changes
            .keys()
            .filter_map(|path| self.moved.get(path))
            .copied()
            .collect();
        for end in moves.iter().flat_map(|one| [&one.from, &one.to]) {
            if let Some((path, change)) = self.changes.get_key_value(end) {
                changes.insert(path, change);
            }
        }
        SideChanges::of(
            changes.into_values().cloned().collect(),
            moves.into_iter().cloned().collect(),
        )
    }
}

/// The paths at which the work of several tasks on one directory meets: they changed the same, or one of them put
/// something in the place of a directory in which the other one worked.
fn meetings(tasks: &[Task], works: &[Indexed<'_>]) -> BTreeMap<TreePath, Vec<usize>> {
    let mut changed: HashMap<(&Path, &TreePath), Vec<usize>> = HashMap::new();
    for (task, work) in works.iter().enumerate() {
        for (path, _) in work.changes.iter().filter(|(_, change)| is_plain(change)) {
            changed.entry((tasks[task].root(), path)).or_default().push(task);
        }
    }
    let mut meetings: BTreeMap<TreePath, BTreeSet<usize>> = BTreeMap::new();
    for (task, work) in works.iter().enumerate() {
        let root = tasks[task].root();
        for (path, change) in work.changes.iter().filter(|(_, change)| is_plain(change)) {
            if let Some(others) = changed.get(&(root, *path)).filter(|others| others.len() > 1) {
                meetings.entry((*path).clone()).or_default().extend(others);
            }
            let mut above = path.split_last().filter(|_| change.after.is_some());
            while let Some((parent, _)) = above {
                let others = changed.get(&(root, &parent)).into_iter().flatten();
                let replaced = others.filter(|other| **other != task && works[**other].replaces(&parent));
                let replaced: Vec<usize> = replaced.copied().collect();
                if !replaced.is_empty() {
                    meetings
                        .entry(parent.clone())
                        .or_default()
                        .extend(replaced.into_iter().chain([task]));
                }
                above = parent.split_last();
            }
        }
    }
    meetings
        .into_iter()
        .map(|(path, tasks)| (path, tasks.into_iter().collect()))
        .collect()
}

impl Indexed<'_> {
    /// Whether something that is not a directory is at a path now.
    fn replaces(&self, path: &TreePath) -> bool {
        let after = self.changes.get(path).and_then(|change| change.after.as_ref());
        after.is_some_and(|after| !after.is_directory())
    }
}

/// Whether a change is of a file. Directories change through their contents, and are merged with them.
fn is_plain(change: &TreeChange) -> bool {
    !change
        .after
        .as_ref()
        .or(change.before.as_ref())
        .is_some_and(Entry::is_directory)
}

/// Groups tasks with the same result for a path: they do not clash.
fn by_result(works: &[Indexed<'_>], path: &TreePath, meeting: &[usize]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut known: HashMap<Option<(&EntryKind, u32)>, usize> = HashMap::new();
    for task in meeting {
        let after = works[*task].changes.get(path).map(|change| change.after.as_ref());
        match after {
            // For directories, the contents count.
            Some(after) if after.is_none_or(|entry| !entry.is_directory()) => {
                let result = after.map(|entry| (&entry.kind, entry.meta.mode));
                let at = *known.entry(result).or_insert_with(|| {
                    groups.push(Vec::new());
                    groups.len() - 1
                });
                groups[at].push(*task);
            }
            _ => groups.push(vec![*task]),
        }
    }
    groups
}
