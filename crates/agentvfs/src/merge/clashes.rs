//! Early warning: which tasks would not merge with each other, or with the directory they came from.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

use avfs_core::diff::Change;
use avfs_core::merge::{Choice, MarkerStyle, Merger, Move, Sides, merge_trees};
use avfs_core::{Entry, EntryKind, EntryName, TreePath};

use super::sides::{Changed, Texts};
use crate::apply::{Application, ApplyOptions};
use crate::error::Result;
use crate::git::is_in_repository;
use crate::ignored::Ignored;
use crate::name::TaskName;
use crate::store::Store;
use crate::task::Task;

/// Where the work of two tasks meets and cannot be merged by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clash {
    pub with: TaskName,
    pub paths: Vec<TreePath>,
}

/// What of a task would not merge by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clashes {
    /// Files that another task changed in another way, by path.
    pub paths: Vec<TreePath>,
    /// The same for each other task; empty if only the paths were asked for.
    pub tasks: Vec<Clash>,
}

/// How much is to be found out about clashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClashDetail {
    /// Which files clash with some other task: stops at the first one, so that the cost does not grow with the square
    /// of the number of tasks.
    Paths,
    /// Which files clash with which task.
    Pairs,
}

/// With how many other versions of a file one is compared until it counts as clean, where only paths are asked for.
const TRIES: usize = 16;

impl Task {
    /// The files of the directory that the user has changed in another way than the task. Costs what the task changed,
    /// and reads next to nothing of it.
    pub fn clashes_with_directory(&self) -> Result<Vec<TreePath>> {
        let task = Some(self.vault_name().clone());
        let options = ApplyOptions { task, rules: self.rules()?, ..ApplyOptions::default() };
        let (base, head) = (self.base()?, self.head()?);
        if base == head {
            return Ok(Vec::new());
        }
        let store = self.vault().store();
        let conflicts = Application::conflicts(store, base, head, self.root(), &options)?;
        Ok(conflicts.into_iter().map(|conflict| conflict.path).collect())
    }

    /// What it did, but for what is ignored, what was written as it was, and what is in git repositories, which is
    /// merged by git.
    fn work(&self) -> Result<Changed> {
        let vault = self.vault();
        let (base, head) = (self.base()?, self.head()?);
        let root = |state| Ok::<_, crate::Error>(vault.snapshot(state)?.root);
        let before = avfs_tree::Base { root: root(base)?, inodes: None };
        let after = avfs_tree::Base { root: root(head)?, inodes: None };
        let mut changed = Changed::new(vault, &before, &after)?;
        changed.changes.retain(|change| !is_in_repository(&change.path));
        changed.drop_rewritten(vault.store().objects())?;
        let mut ignored = Ignored::new(vault.reader_at(base)?, vault.reader_at(head)?);
        let sorted = ignored.sort_out(std::mem::take(&mut changed.changes), &HashSet::new());
        changed.changes = sorted.map_err(|error| vault.read_error(error))?.0;
        Ok(changed)
    }
}

impl Store {
    /// For each of these tasks, what would not merge with the work of another one on the same directory. Costs what they
    /// changed, and merges only what several of them changed.
    pub fn clashes(&self, tasks: &[Task], detail: ClashDetail) -> Result<Vec<Clashes>> {
        let works = tasks.iter().map(Task::work).collect::<Result<Vec<Changed>>>()?;
        let works: Vec<Indexed<'_>> = works.iter().map(Indexed::new).collect();
        let mut found: Vec<Clashing> = tasks.iter().map(|_| Clashing::default()).collect();
        for (path, meeting) in meetings(tasks, &works) {
            let groups = by_result(&works, &path, &meeting);
            let parts: Vec<Changed> = groups.iter().map(|group| works[group[0]].at(&path)).collect();
            match detail {
                ClashDetail::Paths => {
                    let clashing = self.clashing(&parts)?;
                    for task in groups.iter().zip(clashing).filter(|(_, is)| *is).flat_map(|(group, _)| group)
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
    fn clashing(&self, parts: &[Changed]) -> Result<Vec<bool>> {
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

    fn clashing_pairs(&self, parts: &[Changed]) -> Result<Vec<(usize, usize)>> {
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

    fn clash(&self, one: &Changed, other: &Changed) -> Result<bool> {
        let names = Sides {
            ours: String::new(),
            theirs: String::new(),
            base: String::new(),
            style: MarkerStyle::default(),
        };
        let mut texts = Texts::new(self.objects(), false);
        let mut merger = Merger { contents: &mut texts, names: &names, choice: Choice::default() };
        let merged = merge_trees(one.side(), other.side(), &mut merger)?;
        Ok(!merged.conflicts.is_empty())
    }
}

/// What one task clashes in.
#[derive(Default)]
struct Clashing {
    paths: BTreeSet<TreePath>,
    with: BTreeMap<usize, Vec<TreePath>>,
}

impl Clashing {
    fn named(self, tasks: &[Task]) -> Clashes {
        let clash = |(with, paths): (usize, Vec<TreePath>)| Clash { with: tasks[with].name().clone(), paths };
        Clashes { paths: self.paths.into_iter().collect(), tasks: self.with.into_iter().map(clash).collect() }
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
    changes: BTreeMap<&'a TreePath, &'a Change>,
    moved: HashMap<&'a TreePath, &'a Move>,
}

impl<'a> Indexed<'a> {
    fn new(work: &'a Changed) -> Indexed<'a> {
        let side = work.side();
        Indexed {
            changes: side.changes.iter().map(|change| (&change.path, change)).collect(),
            moved: side.moves.iter().flat_map(|one| [(&one.from, one), (&one.to, one)]).collect(),
        }
    }

    /// The part of the work that is at and below a path, with the other ends of what was moved.
    fn at(&self, path: &TreePath) -> Changed {
        // The first name that there can be: other paths may stand between a directory and what is in it.
        let first = path.join(&EntryName::new(&[1]).expect("a byte is a name"));
        let below = self.changes.range::<TreePath, _>(&first..).take_while(|(at, _)| at.starts_with(path));
        let all = self.changes.get_key_value(path).into_iter().chain(below);
        let mut changes: BTreeMap<&TreePath, &Change> = all.map(|(path, change)| (*path, *change)).collect();
        let moves: BTreeSet<&Move> =
            changes.keys().filter_map(|path| self.moved.get(path)).copied().collect();
        for end in moves.iter().flat_map(|one| [&one.from, &one.to]) {
            if let Some((path, change)) = self.changes.get_key_value(end) {
                changes.insert(path, change);
            }
        }
        Changed::of(changes.into_values().cloned().collect(), moves.into_iter().cloned().collect())
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
                    meetings.entry(parent.clone()).or_default().extend(replaced.into_iter().chain([task]));
                }
                above = parent.split_last();
            }
        }
    }
    meetings.into_iter().map(|(path, tasks)| (path, tasks.into_iter().collect())).collect()
}

impl Indexed<'_> {
    /// Whether something that is no directory is at a path now.
    fn replaces(&self, path: &TreePath) -> bool {
        let after = self.changes.get(path).and_then(|change| change.after.as_ref());
        after.is_some_and(|after| !after.is_directory())
    }
}

/// Whether a change is of a file. Directories are changed by what is in them, and merged with it.
fn is_plain(change: &Change) -> bool {
    !change.after.as_ref().or(change.before.as_ref()).is_some_and(Entry::is_directory)
}

/// Those who made the same of a path stand together: they do not clash.
fn by_result(works: &[Indexed<'_>], path: &TreePath, meeting: &[usize]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut known: HashMap<Option<(&EntryKind, u32)>, usize> = HashMap::new();
    for task in meeting {
        let after = works[*task].changes.get(path).map(|change| change.after.as_ref());
        match after {
            // Of directories, what is below counts.
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
