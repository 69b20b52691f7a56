//! What differs between two trees, as far as it may be seen.

use avfs_core::diff::{Change, diff_trees};
use avfs_core::rules::{Level, Standing};
use avfs_core::{Entry, EntryKind, Labels, Meta, Root, TreePath};

use super::{Found, ReadError, TreeReader};
use crate::objects::{ObjectError, Objects};

/// A path that is not the same in two trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenChange {
    /// Without the contents that may not be read, and so maybe with two equal sides.
    pub change: Change,
    /// Whether contents, target or kind differ, shown or not.
    pub changes_content: bool,
    pub before_level: Level,
    pub after_level: Level,
}

impl SeenChange {
    /// A change that may be seen whole. What a source has promised and what it was kept as are the same bytes.
    pub fn whole(objects: &Objects, change: Change) -> Result<SeenChange, ObjectError> {
        let (before_level, after_level) = (Level::Write, Level::Write);
        let changes_content = changes_content(objects, &change)?;
        Ok(SeenChange { changes_content, change, before_level, after_level })
    }
}

/// A change between trees without promises.
impl From<Change> for SeenChange {
    fn from(change: Change) -> SeenChange {
        let (before_level, after_level) = (Level::Write, Level::Write);
        SeenChange { changes_content: change.changes_content(), change, before_level, after_level }
    }
}

fn changes_content(objects: &Objects, change: &Change) -> Result<bool, ObjectError> {
    match (&change.before, &change.after) {
        (Some(before), Some(after)) if change.changes_content() => {
            Ok(!objects.has_same_bytes(before, after)?)
        }
        _ => Ok(change.changes_content()),
    }
}

impl TreeReader {
    /// Calls `found` for each path at and below `top` that differs in another tree, in the order of
    /// [`diff_trees`]. What is hidden on the side of `to` is passed over, so that it never counts as removed.
    pub fn diff(
        &self,
        to: &TreeReader,
        top: &TreePath,
        found: &mut impl FnMut(SeenChange) -> Result<(), ObjectError>,
    ) -> Result<(), ObjectError> {
        let (before, after) = (self.raw(top)?, to.raw(top)?);
        let (mut old, mut new) = (Cursor::new(self), Cursor::new(to));
        let mut emit = |change: Change| {
            if is_nothing(&self.objects, &change)? {
                return Ok(());
            }
            match seen(&mut old, &mut new, change)? {
                Some(change) => found(change),
                None => Ok(()),
            }
        };
        let is_directory = |entry: &Option<Entry>| entry.as_ref().is_some_and(Entry::is_directory);
        if !is_directory(&before) && !is_directory(&after) {
            return match before == after {
                true => Ok(()),
                false => emit(Change { path: top.clone(), before, after }),
            };
        }
        let roots = (root_of(self, &before), root_of(to, &after));
        diff_trees(&self.objects, &roots.0, &roots.1, &mut |change: Change| {
            let path = top.join_path(&change.path);
            match change.path.is_root() {
                true => emit(Change { path, before: before.clone(), after: after.clone() }),
                false => emit(Change { path, ..change }),
            }
        })
    }

    /// The entry at a path, whatever the rules say.
    fn raw(&self, path: &TreePath) -> Result<Option<Entry>, ObjectError> {
        match self.unrestricted().find(path) {
            Ok(found) => Ok(Some(found.entry)),
            Err(ReadError::Object { source, .. }) => Err(source),
            Err(_) => Ok(None),
        }
    }
}

/// Whether both sides of a change are the same to whoever looks.
fn is_nothing(objects: &Objects, change: &Change) -> Result<bool, ObjectError> {
    match (&change.before, &change.after) {
        (Some(before), Some(after)) if !before.is_directory() => objects.is_same(before, after),
        _ => Ok(false),
    }
}

/// A tree with only this entry, as a root. What is no directory has nothing in common with one.
fn root_of(reader: &TreeReader, entry: &Option<Entry>) -> Root {
    let nothing = Entry { meta: Meta::default(), kind: EntryKind::Fifo };
    Root { directory: entry.clone().unwrap_or(nothing), ..reader.root.clone() }
}

fn seen(
    old: &mut Cursor<'_>,
    new: &mut Cursor<'_>,
    change: Change,
) -> Result<Option<SeenChange>, ObjectError> {
    if !old.reader.has_rules() && !new.reader.has_rules() {
        return SeenChange::whole(&old.reader.objects, change).map(Some);
    }
    let changes_content = changes_content(&old.reader.objects, &change)?;
    let (had, has) = (change.before.is_some(), change.after.is_some());
    let before = old.shown(&change.path, change.before)?;
    let after = new.shown(&change.path, change.after)?;
    if has && after.is_none() || before.is_none() && after.is_none() {
        return Ok(None);
    }
    let changes_content = changes_content || had && before.is_none();
    let level = |found: &Option<Found>| found.as_ref().map_or(Level::Write, |found| found.level);
    let (before_level, after_level) = (level(&before), level(&after));
    let entry = |found: Option<Found>| found.map(|found| without_labels(found.entry));
    let change = Change { path: change.path, before: entry(before), after: entry(after) };
    let differs = changes_content || !is_same(&change);
    Ok(differs.then_some(SeenChange { change, changes_content, before_level, after_level }))
}

/// Directories differ by their attributes alone: what is in them is told of itself.
fn is_same(change: &Change) -> bool {
    match (&change.before, &change.after) {
        (Some(before), Some(after)) if before.is_directory() && after.is_directory() => {
            before.meta == after.meta
        }
        (before, after) => before == after,
    }
}

fn without_labels(mut entry: Entry) -> Entry {
    entry.meta.labels = Labels::default();
    entry
}

/// Where the paths of one tree stand. Changes come directory by directory: the last one is remembered.
struct Cursor<'a> {
    reader: &'a TreeReader,
    /// A directory, and where it stands; `None`: it cannot be seen.
    directory: Option<(TreePath, Option<Standing>)>,
}

impl<'a> Cursor<'a> {
    fn new(reader: &'a TreeReader) -> Cursor<'a> {
        Cursor { reader, directory: None }
    }

    /// What is told of an entry at a path; `None` if there is none or it is hidden.
    fn shown(&mut self, path: &TreePath, entry: Option<Entry>) -> Result<Option<Found>, ObjectError> {
        let Some(entry) = entry else { return Ok(None) };
        let found = Found { entry, link: None, level: Level::Write };
        let Some(sight) = &self.reader.sight else { return Ok(Some(found)) };
        let standing = match path.split_last() {
            None => Some(sight.root(&found.entry.meta.labels)),
            Some((parent, name)) => {
                let above = self.standing_of(parent)?;
                above.map(|above| sight.child(&above, name.as_bytes(), &found.entry))
            }
        };
        match standing.filter(|standing| sight.is_visible(standing, &found.entry)) {
            Some(standing) => self.reader.shown(found, Some(standing)).map(Some),
            None => Ok(None),
        }
    }

    fn standing_of(&mut self, directory: TreePath) -> Result<Option<Standing>, ObjectError> {
        if let Some((known, standing)) = &self.directory
            && *known == directory
        {
            return Ok(standing.clone());
        }
        let standing = match self.reader.locate(&directory) {
            Ok((_, standing)) => standing,
            Err(ReadError::Object { source, .. }) => return Err(source),
            Err(_) => None,
        };
        self.directory = Some((directory, standing.clone()));
        Ok(standing)
    }
}
