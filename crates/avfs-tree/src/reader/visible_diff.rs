//! The differences between two trees, as far as rules show them.

use avfs_core::diff::{self, TreeChange, visit_differences};
use avfs_core::rules::{Level, RuleState};
use avfs_core::{Entry, EntryKind, Labels, Meta, Root, TreePath};

use super::{FoundEntry, ReadError, TreeReader};
use crate::objects::{ObjectError, Objects};

/// A path that differs between two trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VisibleChange {
    /// Without contents that the rules hide, so both sides may be equal.
    pub change: TreeChange,
    /// Whether contents, target or kind differ, visible or not.
    pub changes_content: bool,
    /// The level of the entry before.
    pub before_level: Level,
    /// The level of the entry after.
    pub after_level: Level,
}

impl VisibleChange {
    /// A change that the rules show completely. A promise and its result count as the same bytes.
    pub fn whole(objects: &Objects, change: TreeChange) -> Result<VisibleChange, ObjectError> {
        let before_level = Level::Write;
        let after_level = Level::Write;
        let changes_content = changes_content(objects, &change)?;
        Ok(VisibleChange {
            changes_content,
            change,
            before_level,
            after_level,
        })
    }
}

/// A change between trees without promises.
impl From<TreeChange> for VisibleChange {
    fn from(change: TreeChange) -> VisibleChange {
        let before_level = Level::Write;
        let after_level = Level::Write;
        VisibleChange {
            changes_content: change.changes_content(),
            change,
            before_level,
            after_level,
        }
    }
}

fn changes_content(objects: &Objects, change: &TreeChange) -> Result<bool, ObjectError> {
    match (&change.before, &change.after) {
        (Some(before), Some(after)) if change.changes_content() => {
            // A promise and its kept version have different ids and the same bytes.
            Ok(!objects.has_same_bytes(before, after)?)
        }
        _ => Ok(change.changes_content()),
    }
}

impl TreeReader {
    /// Calls `found` for each path at and below `top` that differs in another tree, in the order of
    /// [`diff_trees`](avfs_core::diff::diff_trees). Paths that are hidden in `to` are skipped, so they never
    /// count as removed.
    pub fn diff(
        &self,
        to: &TreeReader,
        top: &TreePath,
        found: &mut impl FnMut(VisibleChange) -> Result<(), ObjectError>,
    ) -> Result<(), ObjectError> {
        let mut old = RuleCursor::new(self);
        let mut new = RuleCursor::new(to);
        self.visit(to, top, &mut |path, before, after| match visible_change(
            &mut old,
            &mut new,
            TreeChange {
                path: path.clone(),
                before,
                after,
            },
        )? {
            Some(change) => found(change),
            None => Ok(()),
        })
    }

    /// The same for callers that only display changes, with the paths of
    /// [`diff_trees_folded`](avfs_core::diff::diff_trees_folded). Rules are evaluated on whole paths.
    pub fn diff_folded(
        &self,
        to: &TreeReader,
        found: &mut impl FnMut(VisibleChange) -> Result<(), ObjectError>,
    ) -> Result<(), ObjectError> {
        let mut old = RuleCursor::new(self);
        let mut new = RuleCursor::new(to);
        let has_rules = self.has_rules() || to.has_rules();
        self.visit(to, &TreePath::root(), &mut |path, before, after| {
            let Some(folded) = diff::folded(path, before.as_ref(), after.as_ref()) else {
                return Ok(());
            };
            // Rules decide on whole paths; without any the folded one saves a copy of a long path.
            let told = if has_rules { path } else { &folded };
            match visible_change(
                &mut old,
                &mut new,
                TreeChange {
                    path: told.clone(),
                    before,
                    after,
                },
            )? {
                Some(mut visible) => {
                    visible.change.path = folded;
                    found(visible)
                }
                None => Ok(()),
            }
        })
    }

    /// Visits all differences, regardless of the rules.
    fn visit(
        &self,
        to: &TreeReader,
        top: &TreePath,
        found: &mut impl FnMut(&TreePath, Option<Entry>, Option<Entry>) -> Result<(), ObjectError>,
    ) -> Result<(), ObjectError> {
        let before = self.raw(top)?;
        let after = to.raw(top)?;
        let mut emit = |path: &TreePath, before: Option<Entry>, after: Option<Entry>| {
            if is_nothing(&self.objects, before.as_ref(), after.as_ref())? {
                return Ok(());
            }
            found(path, before, after)
        };
        let is_directory = |entry: &Option<Entry>| entry.as_ref().is_some_and(Entry::is_directory);
        if !is_directory(&before) && !is_directory(&after) {
            return if before == after {
                Ok(())
            } else {
                emit(top, before, after)
            };
        }
        let roots = (root_of(self, &before), root_of(to, &after));
        visit_differences(
            &self.objects,
            top.clone(),
            &roots.0,
            &roots.1,
            &mut |path, old, new| {
                if path == top {
                    // The roots were made up for the comparison: at the top, the true entries are reported.
                    emit(path, before.clone(), after.clone())
                } else {
                    emit(path, old, new)
                }
            },
        )
    }

    /// The entry at a path, regardless of the rules.
    fn raw(&self, path: &TreePath) -> Result<Option<Entry>, ObjectError> {
        match self.unrestricted().find(path) {
            Ok(found) => Ok(Some(found.entry)),
            Err(ReadError::Object { source, .. }) => Err(source),
            Err(_) => Ok(None),
        }
    }
}

/// Whether both sides of a change look the same to the reader.
fn is_nothing(objects: &Objects, before: Option<&Entry>, after: Option<&Entry>) -> Result<bool, ObjectError> {
    match (before, after) {
        (Some(before), Some(after)) if !before.is_directory() => objects.is_same(before, after),
        _ => Ok(false),
    }
}

/// A tree whose root is this entry. A FIFO stands in for a missing entry: it has nothing in common with a
/// directory.
fn root_of(reader: &TreeReader, entry: &Option<Entry>) -> Root {
    let nothing = Entry {
        meta: Meta::default(),
        kind: EntryKind::Fifo,
    };
    Root {
        directory: entry.clone().unwrap_or(nothing),
        ..reader.root.clone()
    }
}

fn visible_change(
    old: &mut RuleCursor<'_>,
    new: &mut RuleCursor<'_>,
    change: TreeChange,
) -> Result<Option<VisibleChange>, ObjectError> {
    if !old.reader.has_rules() && !new.reader.has_rules() {
        return VisibleChange::whole(&old.reader.objects, change).map(Some);
    }
    let changes_content = changes_content(&old.reader.objects, &change)?;
    let had = change.before.is_some();
    let has = change.after.is_some();
    let before = old.as_visible(&change.path, change.before)?;
    let after = new.as_visible(&change.path, change.after)?;
    // An entry that became hidden was not removed, and must not be reported so.
    if has && after.is_none() || before.is_none() && after.is_none() {
        return Ok(None);
    }
    // What became visible looks new to this reader, whatever it was before.
    let changes_content = changes_content || had && before.is_none();
    let level = |found: &Option<FoundEntry>| found.as_ref().map_or(Level::Write, |found| found.level);
    let before_level = level(&before);
    let after_level = level(&after);
    let entry = |found: Option<FoundEntry>| found.map(|found| without_labels(found.entry));
    let change = TreeChange {
        path: change.path,
        before: entry(before),
        after: entry(after),
    };
    let differs = changes_content || !is_same(&change);
    Ok(differs.then_some(VisibleChange {
        change,
        changes_content,
        before_level,
        after_level,
    }))
}

/// Directories differ only by their attributes: their contents are compared separately.
fn is_same(change: &TreeChange) -> bool {
    match (&change.before, &change.after) {
        (Some(before), Some(after)) if before.is_directory() && after.is_directory() => {
            before.meta == after.meta
        }
        (before, after) => before == after,
    }
}

fn without_labels(mut entry: Entry) -> Entry {
    // Labels tell about rules, and not everyone who may see a file may see those.
    entry.meta.labels = Labels::default();
    entry
}

/// The rule states of paths in one tree. Changes arrive directory by directory, so the last one is cached.
struct RuleCursor<'a> {
    reader: &'a TreeReader,
    /// A directory and its rule state; `None`: it is not visible.
    directory: Option<(TreePath, Option<RuleState>)>,
}

impl<'a> RuleCursor<'a> {
    fn new(reader: &'a TreeReader) -> RuleCursor<'a> {
        RuleCursor {
            reader,
            directory: None,
        }
    }

    /// The visible part of an entry at a path; `None` if it does not exist or is hidden.
    fn as_visible(
        &mut self,
        path: &TreePath,
        entry: Option<Entry>,
    ) -> Result<Option<FoundEntry>, ObjectError> {
        let Some(entry) = entry else { return Ok(None) };
        let found = FoundEntry {
            entry,
            link: None,
            level: Level::Write,
        };
        let Some(scope) = &self.reader.scope else {
            return Ok(Some(found));
        };
        let rule_state = match path.split_last() {
            None => Some(scope.root(&found.entry.meta.labels)),
            Some((parent, name)) => {
                let above = self.standing_of(parent)?;
                above.map(|above| scope.child(&above, name.as_bytes(), &found.entry))
            }
        };
        match rule_state.filter(|rule_state| scope.is_visible(rule_state, &found.entry)) {
            Some(rule_state) => self.reader.as_visible(found, Some(rule_state)).map(Some),
            None => Ok(None),
        }
    }

    fn standing_of(&mut self, directory: TreePath) -> Result<Option<RuleState>, ObjectError> {
        if let Some((known, rule_state)) = &self.directory
            && *known == directory
        {
            return Ok(rule_state.clone());
        }
        let rule_state = match self.reader.locate(&directory) {
            Ok((_, rule_state)) => rule_state,
            Err(ReadError::Object { source, .. }) => return Err(source),
            Err(_) => None,
        };
        self.directory = Some((directory, rule_state.clone()));
        Ok(rule_state)
    }
}
