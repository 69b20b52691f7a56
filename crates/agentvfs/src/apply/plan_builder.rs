//! From a task's changes and the directory as it is now to a plan.

mod directories;
mod doubtful;
mod guarding;
mod renames;
mod spelling;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use avfs_core::diff::TreeChange;
use avfs_core::{Entry, EntryKind, PATH_MAX, TreePath};
use avfs_tree::{ReadError, TreeReader, VisibleChange};

use self::renames::Renamed;
use self::spelling::{git_directory, meant_by};
use super::executed::{self, Pointed};
use super::host::Look;
use super::left::LeftFiles;
use super::notes::{Note, Reason, leads_outside};
use super::on_conflict::OnConflict;
use super::plan::Plan;
use super::print::Print;
use super::record::{AppliedAction, AppliedFile};
use super::step::{ApplyStep, DirectoryTime, StepAction};
use super::three_way::{ConflictChoice, PathVerdict, ThreeWay};
use crate::error::ApplyError;
use crate::error::{Conflict, ConflictKind};
use crate::ignored::Ignored;
use crate::task::changed_files;

pub(super) struct PlanBuilder {
    plan: Plan,
    /// Before and after.
    readers: (TreeReader, TreeReader),
    /// Paths that will be gone when new entries come.
    gone: BTreeSet<TreePath>,
    /// The deepest directories that are there above those that are made.
    anchors: HashMap<TreePath, TreePath>,
    /// Directories that are there, or will be.
    there: HashSet<TreePath>,
    /// Paths that had been changed by the user before they were first read.
    moved: HashSet<TreePath>,
    /// Files that are renamed, by their new path.
    renamed: BTreeMap<TreePath, Renamed>,
    /// Where they are now.
    leaving: HashSet<TreePath>,
    /// The versions that the last applies left, read on first use.
    left: OnceCell<LeftFiles>,
}

impl PlanBuilder {
    pub(super) fn new(plan: Plan, readers: (TreeReader, TreeReader)) -> PlanBuilder {
        PlanBuilder {
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

    pub(super) fn run(mut self) -> Result<Plan, ApplyError> {
        // First: whether a file changed under the task decides what its beginning is compared with.
        self.moved = self.plan.application.moved()?;
        let mut changes = self.changes()?;
        if self.plan.application.only_conflicts {
            changes = doubtful::doubtful(&mut self, changes)?;
        }
        self.find_renamed(&changes)?;
        self.decide(&changes)?;
        let hunks = &self.plan.application.selection.hunks;
        // Files with chosen hunks count as brought only in part, so they are not recorded.
        let whole = changes.into_iter().map(|change| change.path);
        self.plan.brought = whole.filter(|path| !hunks.contains_key(path)).collect();
        self.finish()
    }

    /// The changes of the task that count and are wanted.
    fn changes(&mut self) -> Result<Vec<TreeChange>, ApplyError> {
        let visible = self.visible()?;
        let (before, after) = (self.readers.0.root().clone(), self.readers.1.root().clone());
        let mut changes = Vec::new();
        let selection = &self.plan.application.selection;
        let mut git = Vec::new();
        let objects = self.readers.0.objects();
        avfs_core::diff::diff_trees_folded(objects, &before, &after, &mut |change: TreeChange| {
            let is_seen = visible
                .as_ref()
                .is_none_or(|visible| visible.contains(&change.path));
            match git_directory(&change.path) {
                _ if !is_seen || !selection.wants(&change.path) => {}
                Some(top) => git.push(top),
                None => changes.push(change),
            }
            Ok::<(), avfs_tree::ObjectError>(())
        })?;
        // The paths come in order, so equal ones are neighbours.
        git.dedup();
        self.plan.notes.extend(git.into_iter().map(|path| Note {
            path,
            reason: Reason::Git,
        }));
        // The order counts: what cannot be applied at all must not appear among the ignored or guarded
        // files.
        let changes = self.without_unreachable(changes)?;
        let changes = self.without_disguised(changes)?;
        self.check_selection(&changes)?;
        let changes = if self.plan.application.options.with_ignored {
            changes
        } else {
            self.without_ignored(changes)?
        };
        self.without_guarded(changes)
    }

    /// Omits changes deeper than a path of the host can express: the topmost of them is a conflict.
    fn without_unreachable(&mut self, mut changes: Vec<TreeChange>) -> Result<Vec<TreeChange>, ApplyError> {
        let is_unreachable = |path: &TreePath| path.as_bytes().len() > PATH_MAX;
        let mut above: Option<TreePath> = None;
        for change in changes.iter().filter(|change| is_unreachable(&change.path)) {
            if above.as_ref().is_none_or(|above| !change.path.starts_with(above)) {
                self.settle(&change.path, PathVerdict::Conflict(ConflictKind::NoWay, None))?;
                above = Some(change.path.clone());
            }
        }
        changes.retain(|change| !is_unreachable(&change.path));
        Ok(changes)
    }

    /// Omits a protected file under another spelling, if this file system does not distinguish the two.
    fn without_disguised(&mut self, changes: Vec<TreeChange>) -> Result<Vec<TreeChange>, ApplyError> {
        let mut kept = Vec::with_capacity(changes.len());
        for change in changes {
            let meant = match change.after {
                Some(_) => meant_by(&change.path, |path| self.plan.host.folds(path))?,
                None => None,
            };
            match meant {
                Some(meant) => {
                    self.plan.notes.push(Note {
                        path: change.path,
                        reason: Reason::Spelling(meant),
                    });
                }
                None => kept.push(change),
            }
        }
        Ok(kept)
    }

    /// Omits ignored files, and directories with nothing else in them.
    fn without_ignored(&mut self, changes: Vec<TreeChange>) -> Result<Vec<TreeChange>, ApplyError> {
        let selection = &self.plan.application.selection;
        let named: HashSet<TreePath> = selection
            .paths
            .iter()
            .chain(selection.hunks.keys())
            .cloned()
            .collect();
        let mut ignored = Ignored::new(self.readers.0.clone(), self.readers.1.clone());
        let (work, left_out) = ignored.sort_out(changes, &named)?;
        let objects = self.readers.1.objects();
        let left_out = left_out
            .into_iter()
            .map(|change| VisibleChange::whole(objects, change));
        let left_out = changed_files(objects, left_out.collect::<Result<_, _>>()?)?;
        self.plan.ignored = ignored.count(&left_out)?;
        Ok(work)
    }

    /// The changed paths that the task saw; `None` if it saw everything.
    fn visible(&self) -> Result<Option<HashSet<TreePath>>, ApplyError> {
        let Some(rules) = &self.plan.application.options.rules else {
            return Ok(None);
        };
        let (before, after) = (
            self.readers.0.through(rules.clone()),
            self.readers.1.through(rules.clone()),
        );
        let mut visible = HashSet::new();
        before.diff_folded(&after, &mut |seen| {
            visible.insert(seen.change.path);
            Ok(())
        })?;
        Ok(Some(visible))
    }

    fn check_selection(&self, changes: &[TreeChange]) -> Result<(), ApplyError> {
        let selection = &self.plan.application.selection;
        let is_unknown = |top: &&TreePath| !changes.iter().any(|change| change.path.starts_with(top));
        let mut unknown = selection
            .paths
            .iter()
            .chain(selection.hunks.keys())
            .filter(is_unknown);
        match unknown.find(|path| !self.was_applied(path)) {
            Some(path) => Err(ApplyError::NotChanged { path: path.clone() }),
            None => Ok(()),
        }
    }

    /// Whether the task changed something at a path, though nothing of it is left to apply.
    fn was_applied(&self, path: &TreePath) -> bool {
        let application = &self.plan.application;
        let began = || {
            let task = application
                .store
                .task(application.options.task.as_ref()?.as_str())
                .ok()?;
            application.reader(task.base().ok()?).ok()
        };
        let entry = |reader: &TreeReader| reader.find(path).ok().map(|found| found.entry);
        began().is_some_and(|began| entry(&began) != entry(&self.readers.1))
    }

    /// First removals, from the bottom up; then additions, from the top down.
    fn decide(&mut self, changes: &[TreeChange]) -> Result<(), ApplyError> {
        let is_directory = |entry: &Option<Entry>| entry.as_ref().is_some_and(Entry::is_directory);
        let is_other = |entry: &Option<Entry>| entry.as_ref().is_some_and(|entry| !entry.is_directory());
        // In reverse, everything below a directory comes before the directory itself.
        for change in changes.iter().rev() {
            match &change.before {
                // It is removed when it is renamed.
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

    /// The entry at a path after all removals.
    fn look(&self, path: &TreePath) -> Result<Look, ApplyError> {
        if is_at_or_below(path, &self.gone) {
            Ok(Look::Nothing)
        } else {
            self.plan.host.look(path)
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
            places: application.options.places.get(path),
        }
    }

    fn arrive(&mut self, path: &TreePath, before: Option<&Entry>, after: &Entry) -> Result<(), ApplyError> {
        if is_special(after) {
            self.plan.notes.push(Note {
                path: path.clone(),
                reason: Reason::Special,
            });
            return Ok(());
        }
        let look = self.look(path)?;
        if matches!(&look, Look::There(here) if here.print == Print::Directory)
            && before.is_none()
            && self.was_directory(path)?
        {
            return self
                .settle(path, PathVerdict::Conflict(ConflictKind::DirectoryInUse, None))
                .map(drop);
        }
        // An entry in the way is removed first.
        let before = before.filter(|_| !self.gone.contains(path));
        let verdict = self
            .three_way(path)
            .arrive(path, before, after, look, self.choice(path))?;
        let is_put = !matches!(
            verdict,
            PathVerdict::Nothing | PathVerdict::Conflict(_, None | Some(ConflictChoice { action: None, .. }))
        );
        // Only for entries that are really put: a directory that is made for nothing would stay.
        if is_put {
            let parent = path.split_last().map(|(parent, _)| parent).unwrap_or_default();
            if !self.ensure_directory(&parent)? {
                return self
                    .settle(path, PathVerdict::Conflict(ConflictKind::NoWay, None))
                    .map(drop);
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
            self.plan.pointed.push(Pointed {
                path: path.clone(),
                reason,
            });
        }
        let mut note = |reason| {
            self.plan.notes.push(Note {
                path: path.clone(),
                reason,
            })
        };
        // Set-user-ID and set-group-ID: a task must not leave a program that runs with the user's rights.
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
    fn settle(&mut self, path: &TreePath, verdict: PathVerdict) -> Result<bool, ApplyError> {
        let conflict = |kind| Conflict {
            path: path.clone(),
            kind,
        };
        match verdict {
            PathVerdict::Nothing => Ok(false),
            PathVerdict::Do(action, applied) => self.push(path, action, applied).map(|()| true),
            PathVerdict::Conflict(kind, Some(chosen)) => {
                self.plan.settled.push(conflict(kind));
                self.plan.settled_partly |= !chosen.is_whole;
                match chosen.action {
                    Some(action) => self.push(path, action.0, action.1).map(|()| true),
                    None => Ok(false),
                }
            }
            PathVerdict::Conflict(kind, None) => {
                match self.choice(path) {
                    OnConflict::Refuse => self.plan.conflicts.push(conflict(kind)),
                    OnConflict::Mark | OnConflict::Ours | OnConflict::Theirs => {
                        self.plan.settled.push(conflict(kind));
                        self.plan.settled_partly = true;
                    }
                }
                Ok(false)
            }
        }
    }

    fn push(
        &mut self,
        path: &TreePath,
        action: StepAction,
        applied: AppliedAction,
    ) -> Result<(), ApplyError> {
        let parent = path.split_last().map(|(parent, _)| parent).unwrap_or_default();
        // A directory that is made has the anchor of everything that is made in it.
        let anchor = match self.anchors.get(&parent) {
            Some(anchor) => anchor.clone(),
            None => self.plan.host.anchor(path)?,
        };
        if matches!(action, StepAction::MakeDirectory { .. }) {
            self.anchors.insert(path.clone(), anchor.clone());
        }
        self.plan.steps.push(ApplyStep {
            path: path.clone(),
            anchor,
            action,
        });
        self.plan.files.push(AppliedFile {
            path: path.clone(),
            action: applied,
            from: None,
        });
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

    /// A directory is removed after the files that are renamed out of it. A mode may revoke the right to
    /// create entries: modes come last, and are rolled back first.
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
            StepAction::SetMode { .. } => 2,
            StepAction::RemoveDirectory { .. } if emptied.contains(&step.path) => 1,
            _ => 0,
        });
    }

    /// Which time the directories get in which something changes: the task's, where it alone changed them.
    fn set_directory_times(&mut self) -> Result<(), ApplyError> {
        let mut touched: BTreeMap<TreePath, bool> = BTreeMap::new();
        for step in &self.plan.steps {
            match step.action {
                // Changing a mode leaves the modification time of the directory as it is.
                StepAction::SetMode { .. } => continue,
                StepAction::MakeDirectory { .. } => {
                    touched.insert(step.path.clone(), true);
                }
                StepAction::Put { .. }
                | StepAction::Remove { .. }
                | StepAction::Rename { .. }
                | StepAction::RemoveDirectory { .. } => {}
            }
            if let Some((left, _)) = step.leaves().and_then(TreePath::split_last) {
                touched.entry(left).or_insert(false);
            }
            if let Some((parent, _)) = step.path.split_last() {
                touched.entry(parent).or_insert(false);
            }
        }
        // A new one may have the path of a file that is removed.
        let stays = |path: &TreePath, is_new: bool| is_new || !self.gone.contains(path);
        for (path, is_new) in touched.into_iter().filter(|(path, is_new)| stays(path, *is_new)) {
            let mtime = |reader: &TreeReader| reader.find(&path).ok().map(|found| found.entry.meta.mtime);
            let (old, new) = (mtime(&self.readers.0), mtime(&self.readers.1));
            let before = match self.plan.host.look(&path)? {
                Look::There(here) if !is_new => Some(here.mtime),
                _ => None,
            };
            // If the user has changed the directory as well, it keeps the time that the apply gives it.
            let want = new.filter(|_| is_new || before == old);
            self.plan.directories.push(DirectoryTime { path, before, want });
        }
        Ok(())
    }
}

/// Whether one of these paths is `path` or above it. Costs a few comparisons, however deep the path is.
fn is_at_or_below(path: &TreePath, tops: &BTreeSet<TreePath>) -> bool {
    let mut at = path.clone();
    // A path sorts after its prefixes, and every path between the two begins with the same bytes.
    while let Some(before) = tops.range::<TreePath, _>(..=&at).next_back() {
        if at.starts_with(before) {
            return true;
        }
        let same = at
            .as_bytes()
            .iter()
            .zip(before.as_bytes())
            .take_while(|(one, other)| one == other)
            .count();
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
        let tops = ["a", "a!b", "a!b/c", "b/c/d", "b/c!/d", "b/c/d/e/f", "z"]
            .map(path)
            .into_iter()
            .collect();
        for below in [
            "a",
            "a/x",
            "a/x/y",
            "a!b/z",
            "b/c/d",
            "b/c/d/e",
            "b/c/d/e/f/g",
            "z/z",
        ] {
            assert!(is_at_or_below(&path(below), &tops), "{below}");
        }
        for apart in ["", "b", "b/c", "b/c/e", "b/c!/e", "ab", "a!", "a!c", "y/z", "zz"] {
            assert!(!is_at_or_below(&path(apart), &tops), "{apart}");
        }
        assert!(is_at_or_below(&path("any"), &BTreeSet::from([TreePath::root()])));
        assert!(!is_at_or_below(&path("any"), &BTreeSet::new()));
    }
}
