//! From a task's changes and the directory as it is now to a plan.

mod directories;
mod doubtful;
mod guarding;
mod renames;
mod spelling;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use avfs_core::diff::Change;
use avfs_core::{Entry, EntryKind, PATH_MAX, TreePath};
use avfs_tree::{ReadError, TreeReader};

use self::renames::Renamed;
use self::spelling::{git_directory, meant_by};
use super::conflict::{Conflict, ConflictKind, OnConflict};
use super::error::ApplyError;
use super::executed::{self, Pointed};
use super::host::Look;
use super::left::LeftFiles;
use super::notes::{Note, Reason, leads_outside};
use super::plan::Plan;
use super::print::Print;
use super::record::{AppliedFile, Deed};
use super::step::{Action, DirectoryTime, Step};
use super::three_way::{Settled, ThreeWay, Verdict};
use crate::ignored::Ignored;

pub(super) struct Draft {
    plan: Plan,
    /// Before and after.
    readers: (TreeReader, TreeReader),
    /// What will not be there any more when new entries come.
    gone: BTreeSet<TreePath>,
    /// The deepest directories that are there above those that are made.
    anchors: HashMap<TreePath, TreePath>,
    /// Directories that are there, or will be.
    there: HashSet<TreePath>,
    /// Paths of which the user had another version when somebody first read them.
    moved: HashSet<TreePath>,
    /// Files that are renamed, by their new path.
    renamed: BTreeMap<TreePath, Renamed>,
    /// Where they are now.
    leaving: HashSet<TreePath>,
    /// The versions that the last applies left, once somebody asks.
    left: OnceCell<LeftFiles>,
}

impl Draft {
    pub fn new(plan: Plan, readers: (TreeReader, TreeReader)) -> Draft {
        Draft {
            plan,
            readers,
            gone: BTreeSet::new(),
            anchors: HashMap::new(),
            there: HashSet::new(),
            moved: HashSet::new(),
            renamed: BTreeMap::new(),
            leaving: HashSet::new(),
            left: OnceCell::new(),
        }
    }

    pub fn run(mut self) -> Result<Plan, ApplyError> {
        self.moved = self.plan.application.moved()?;
        let mut changes = self.changes()?;
        if self.plan.application.only_conflicts {
            changes = self.doubtful(changes)?;
        }
        self.find_renamed(&changes)?;
        self.decide(&changes)?;
        self.finish()
    }

    /// The changes of the task that count and are wanted.
    fn changes(&mut self) -> Result<Vec<Change>, ApplyError> {
        let visible = self.visible()?;
        let (before, after) = (self.readers.0.root().clone(), self.readers.1.root().clone());
        let mut changes = Vec::new();
        let selection = &self.plan.application.selection;
        let mut git = Vec::new();
        let objects = self.readers.0.objects();
        avfs_core::diff::diff_trees(objects, &before, &after, &mut |change: Change| {
            let is_seen = visible.as_ref().is_none_or(|visible| visible.contains(&change.path));
            match git_directory(&change.path) {
                _ if !is_seen || !selection.wants(&change.path) => {}
                Some(top) => git.push(top),
                None => changes.push(change),
            }
            Ok::<(), avfs_tree::ObjectError>(())
        })?;
        git.dedup();
        self.plan.notes.extend(git.into_iter().map(|path| Note { path, reason: Reason::Git }));
        let changes = self.without_unreachable(changes)?;
        let changes = self.without_disguised(changes)?;
        self.check_selection(&changes)?;
        let changes = match self.plan.application.options.with_ignored {
            true => changes,
            false => self.without_ignored(changes)?,
        };
        self.without_guarded(changes)
    }

    /// Leaves out what lies deeper than a path of the host can say: the topmost of it is a conflict.
    fn without_unreachable(&mut self, mut changes: Vec<Change>) -> Result<Vec<Change>, ApplyError> {
        let is_unreachable = |path: &TreePath| path.as_bytes().len() > PATH_MAX;
        let mut above: Option<TreePath> = None;
        for change in changes.iter().filter(|change| is_unreachable(&change.path)) {
            if above.as_ref().is_none_or(|above| !change.path.starts_with(above)) {
                self.settle(&change.path, Verdict::Conflict(ConflictKind::NoWay, None))?;
                above = Some(change.path.clone());
            }
        }
        changes.retain(|change| !is_unreachable(&change.path));
        Ok(changes)
    }

    /// Leaves out what would be a protected file under another spelling, where this file system does not tell them apart.
    fn without_disguised(&mut self, changes: Vec<Change>) -> Result<Vec<Change>, ApplyError> {
        let mut kept = Vec::with_capacity(changes.len());
        for change in changes {
            let meant = match change.after {
                Some(_) => meant_by(&change.path, |path| self.plan.host.folds(path))?,
                None => None,
            };
            match meant {
                Some(meant) => {
                    self.plan.notes.push(Note { path: change.path, reason: Reason::Spelling(meant) });
                }
                None => kept.push(change),
            }
        }
        Ok(kept)
    }

    /// Leaves out what is ignored, and directories with nothing else in them.
    fn without_ignored(&mut self, changes: Vec<Change>) -> Result<Vec<Change>, ApplyError> {
        let selection = &self.plan.application.selection;
        let named: HashSet<TreePath> =
            selection.paths.iter().chain(selection.hunks.keys()).cloned().collect();
        let mut ignored = Ignored::new(self.readers.0.clone(), self.readers.1.clone());
        let (work, left_out) = ignored.sort_out(changes, &named)?;
        self.plan.ignored = left_out;
        Ok(work)
    }

    /// The changed paths that the task saw; `None` if it saw everything.
    fn visible(&self) -> Result<Option<HashSet<TreePath>>, ApplyError> {
        let Some(rules) = &self.plan.application.options.rules else { return Ok(None) };
        let (before, after) = (self.readers.0.through(rules.clone()), self.readers.1.through(rules.clone()));
        let mut visible = HashSet::new();
        before.diff(&after, &TreePath::root(), &mut |seen| {
            visible.insert(seen.change.path);
            Ok(())
        })?;
        Ok(Some(visible))
    }

    fn check_selection(&self, changes: &[Change]) -> Result<(), ApplyError> {
        let selection = &self.plan.application.selection;
        let is_known = |top: &&TreePath| !changes.iter().any(|change| change.path.starts_with(top));
        match selection.paths.iter().chain(selection.hunks.keys()).find(is_known) {
            Some(path) => Err(ApplyError::NotChanged { path: path.clone() }),
            None => Ok(()),
        }
    }

    /// First what goes, from below; then what comes, from above.
    fn decide(&mut self, changes: &[Change]) -> Result<(), ApplyError> {
        let is_directory = |entry: &Option<Entry>| entry.as_ref().is_some_and(Entry::is_directory);
        let is_other = |entry: &Option<Entry>| entry.as_ref().is_some_and(|entry| !entry.is_directory());
        for change in changes.iter().rev() {
            match &change.before {
                // It goes when it comes to its new name.
                Some(_) if self.leaving.contains(&change.path) => drop(self.gone.insert(change.path.clone())),
                Some(before) if is_other(&change.before) && !is_other(&change.after) => {
                    self.leave(&change.path, before, is_directory(&change.after))?;
                }
                Some(_) if is_directory(&change.before) && !is_directory(&change.after) => {
                    self.leave_directory(&change.path)?;
                }
                _ => {}
            }
        }
        for change in changes {
            match &change.after {
                Some(after) if self.renamed.contains_key(&change.path) => {
                    self.rename(&change.path, after)?;
                }
                Some(after) if !after.is_directory() => {
                    self.arrive(
                        &change.path,
                        change.before.as_ref().filter(|old| !old.is_directory()),
                        after,
                    )?;
                }
                Some(after) if is_directory(&change.before) => self.same_directory(change, after)?,
                Some(_) => {
                    self.ensure_directory(&change.path)?;
                }
                None => {}
            }
        }
        Ok(())
    }

    fn choice(&self, path: &TreePath) -> OnConflict {
        let options = &self.plan.application.options;
        options.choices.get(path).copied().unwrap_or(options.conflicts)
    }

    fn leave(&mut self, path: &TreePath, before: &Entry, for_directory: bool) -> Result<(), ApplyError> {
        let (look, choice) = (self.plan.host.look(path)?, self.choice(path));
        let is_done = matches!(&look, Look::There(here) if for_directory && here.print == Print::Directory);
        if is_special(before) || is_done {
            return Ok(());
        }
        let verdict = self.three_way(path).leave(path, before, look, choice)?;
        if self.settle(path, verdict)? {
            self.gone.insert(path.clone());
        }
        Ok(())
    }

    /// What is at a path when everything is gone that goes.
    fn look(&self, path: &TreePath) -> Result<Look, ApplyError> {
        match is_at_or_below(path, &self.gone) {
            true => Ok(Look::Nothing),
            false => self.plan.host.look(path),
        }
    }

    fn three_way(&self, path: &TreePath) -> ThreeWay<'_> {
        let application = &self.plan.application;
        ThreeWay {
            objects: application.store.objects(),
            selection: &application.selection,
            task: application.options.own_name(),
            moved: &self.moved,
            edited: application.options.edited.get(path),
        }
    }

    fn arrive(&mut self, path: &TreePath, before: Option<&Entry>, after: &Entry) -> Result<(), ApplyError> {
        if is_special(after) {
            self.plan.notes.push(Note { path: path.clone(), reason: Reason::Special });
            return Ok(());
        }
        let look = self.look(path)?;
        if matches!(&look, Look::There(here) if here.print == Print::Directory)
            && before.is_none()
            && self.was_directory(path)?
        {
            return self.settle(path, Verdict::Conflict(ConflictKind::DirectoryInUse, None)).map(drop);
        }
        // What stands in the way goes first.
        let before = before.filter(|_| !self.gone.contains(path));
        let verdict = self.three_way(path).arrive(path, before, after, look, self.choice(path))?;
        let is_put = !matches!(verdict, Verdict::Nothing | Verdict::Conflict(_, None | Some(Settled::Ours)));
        if is_put {
            let parent = path.split_last().map(|(parent, _)| parent).unwrap_or_default();
            if !self.ensure_directory(&parent)? {
                return self.settle(path, Verdict::Conflict(ConflictKind::NoWay, None)).map(drop);
            }
            self.point_out(path, before, after);
        }
        self.settle(path, verdict).map(drop)
    }

    fn was_directory(&self, path: &TreePath) -> Result<bool, ApplyError> {
        match self.readers.0.find(path) {
            Ok(found) => Ok(found.entry.is_directory()),
            Err(error @ ReadError::Object { .. }) => Err(error.into()),
            Err(_) => Ok(false),
        }
    }

    fn point_out(&mut self, path: &TreePath, before: Option<&Entry>, after: &Entry) {
        let can_run =
            |entry: &Entry| matches!(entry.kind, EntryKind::File { .. }) && entry.meta.mode & 0o111 != 0;
        let became_executable = can_run(after) && !before.is_some_and(can_run);
        if let Some(reason) = executed::reason(path, became_executable) {
            self.plan.pointed.push(Pointed { path: path.clone(), reason });
        }
        let mut note = |reason| self.plan.notes.push(Note { path: path.clone(), reason });
        if after.meta.mode & 0o6000 != 0 && matches!(after.kind, EntryKind::File { .. }) {
            note(Reason::PrivilegeDropped);
        }
        if let EntryKind::Symlink { target } = &after.kind
            && leads_outside(path, target)
        {
            note(Reason::LeadsOutside(target.clone()));
        }
    }

    /// Takes a verdict into the plan; returns whether something is done about the path.
    fn settle(&mut self, path: &TreePath, verdict: Verdict) -> Result<bool, ApplyError> {
        let conflict = |kind| Conflict { path: path.clone(), kind };
        match verdict {
            Verdict::Nothing => Ok(false),
            Verdict::Do(action, deed) => self.push(path, action, deed).map(|()| true),
            Verdict::Conflict(kind, Some(Settled::Do(chosen))) => {
                self.plan.settled.push(conflict(kind));
                self.push(path, chosen.0, chosen.1).map(|()| true)
            }
            Verdict::Conflict(kind, Some(Settled::Ours)) => {
                self.plan.settled.push(conflict(kind));
                Ok(false)
            }
            Verdict::Conflict(kind, None) => {
                match self.choice(path) {
                    OnConflict::Refuse => self.plan.conflicts.push(conflict(kind)),
                    OnConflict::Mark | OnConflict::Ours | OnConflict::Theirs => {
                        self.plan.settled.push(conflict(kind));
                    }
                }
                Ok(false)
            }
        }
    }

    fn push(&mut self, path: &TreePath, action: Action, deed: Deed) -> Result<(), ApplyError> {
        let parent = path.split_last().map(|(parent, _)| parent).unwrap_or_default();
        // A directory that is made has the anchor of everything that is made in it.
        let anchor = match self.anchors.get(&parent) {
            Some(anchor) => anchor.clone(),
            None => self.plan.host.anchor(path)?,
        };
        if matches!(action, Action::MakeDirectory { .. }) {
            self.anchors.insert(path.clone(), anchor.clone());
        }
        self.plan.steps.push(Step { path: path.clone(), anchor, action });
        self.plan.files.push(AppliedFile { path: path.clone(), deed, from: None });
        Ok(())
    }

    fn finish(mut self) -> Result<Plan, ApplyError> {
        self.order_steps();
        self.set_directory_times()?;
        let plan = &mut self.plan;
        plan.files.sort_by(|a, b| a.path.cmp(&b.path));
        plan.notes.sort_by(|a, b| a.path.cmp(&b.path));
        plan.pointed.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(self.plan)
    }

    /// A directory goes after the files that are renamed away from it. A mode may take away the right to make
    /// something: modes come last, and are the first to be taken back.
    fn order_steps(&mut self) {
        let mut emptied = HashSet::new();
        for path in &self.leaving {
            let mut above = path.split_last();
            while let Some((parent, _)) = above {
                above = parent.split_last();
                emptied.insert(parent);
            }
        }
        self.plan.steps.sort_by_key(|step| match step.action {
            Action::SetMode { .. } => 2,
            Action::RemoveDirectory { .. } if emptied.contains(&step.path) => 1,
            _ => 0,
        });
    }

    /// Which time the directories get in which something changes: the task's, where it alone changed them.
    fn set_directory_times(&mut self) -> Result<(), ApplyError> {
        let mut touched: BTreeMap<TreePath, bool> = BTreeMap::new();
        for step in &self.plan.steps {
            match step.action {
                Action::SetMode { .. } => continue,
                Action::MakeDirectory { .. } => {
                    touched.insert(step.path.clone(), true);
                }
                Action::Put { .. }
                | Action::Remove { .. }
                | Action::Rename { .. }
                | Action::RemoveDirectory { .. } => {}
            }
            if let Some((left, _)) = step.leaves().and_then(TreePath::split_last) {
                touched.entry(left).or_insert(false);
            }
            if let Some((parent, _)) = step.path.split_last() {
                touched.entry(parent).or_insert(false);
            }
        }
        // A new one may have the path of a file that goes.
        let stays = |path: &TreePath, is_new: bool| is_new || !self.gone.contains(path);
        for (path, is_new) in touched.into_iter().filter(|(path, is_new)| stays(path, *is_new)) {
            let mtime = |reader: &TreeReader| reader.find(&path).ok().map(|found| found.entry.meta.mtime);
            let (old, new) = (mtime(&self.readers.0), mtime(&self.readers.1));
            let before = match self.plan.host.look(&path)? {
                Look::There(here) if !is_new => Some(here.mtime),
                _ => None,
            };
            let want = new.filter(|_| is_new || before == old);
            self.plan.directories.push(DirectoryTime { path, before, want });
        }
        Ok(())
    }
}

/// Whether one of these paths is `path` or above it. Costs a few comparisons, however deep the path is.
fn is_at_or_below(path: &TreePath, tops: &BTreeSet<TreePath>) -> bool {
    let mut at = path.clone();
    // What is at or above a path sorts before it, and whatever sorts between the two begins with the same bytes.
    while let Some(before) = tops.range(..=&at).next_back() {
        if at.starts_with(before) {
            return true;
        }
        let same =
            at.as_bytes().iter().zip(before.as_bytes()).take_while(|(one, other)| one == other).count();
        while at.as_bytes().len() > same {
            at = at.split_last().map(|(parent, _)| parent).unwrap_or_default();
        }
    }
    false
}

/// Whether an entry is of a kind that is never applied.
fn is_special(entry: &Entry) -> bool {
    match entry.kind {
        EntryKind::Fifo
        | EntryKind::Socket
        | EntryKind::CharDevice { .. }
        | EntryKind::BlockDevice { .. } => true,
        EntryKind::File { .. } | EntryKind::Directory { .. } | EntryKind::Symlink { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_at_or_below_others_are_found_among_names_that_sort_between_them() {
        let path = |text: &str| TreePath::parse(text.as_bytes()).unwrap();
        let tops = ["a", "a!b", "a!b/c", "b/c/d", "b/c!/d", "b/c/d/e/f", "z"].map(path).into_iter().collect();
        for below in ["a", "a/x", "a/x/y", "a!b/z", "b/c/d", "b/c/d/e", "b/c/d/e/f/g", "z/z"] {
            assert!(is_at_or_below(&path(below), &tops), "{below}");
        }
        for apart in ["", "b", "b/c", "b/c/e", "b/c!/e", "ab", "a!", "a!c", "y/z", "zz"] {
            assert!(!is_at_or_below(&path(apart), &tops), "{apart}");
        }
        assert!(is_at_or_below(&path("any"), &BTreeSet::from([TreePath::root()])));
        assert!(!is_at_or_below(&path("any"), &BTreeSet::new()));
    }
}
