//! Two sides changed one state: bringing the paths that one side changed onto the state of the other.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use avfs_core::diff::TreeChange;
use avfs_core::{Entry, Meta, Root, TreePath};
use avfs_tree::{BaseTree, ReadError, TreeReader, WorkTree};

use super::{Comeback, LinkNames, Times, set_meta};
use crate::error::{Error, FileError, Result};
use crate::open::OpenVault;

/// Changes `onto`, whose head also descends from `base`, by the differences between `base` and `given`. Fails
/// with [`FileError::Overtaken`], after which `onto` must not be used, if both changed the same path or one
/// removed a directory that the other needs. Two sides that only added different names to one directory do
/// not conflict.
pub(crate) fn bring_onto(onto: &OpenVault, base: BaseTree, given: BaseTree) -> Result<()> {
    let present = onto.vault().base_of(&onto.record().head)?.root;
    let ours = onto.vault().history().changed_paths(&base.root, &given.root)?;
    let theirs = onto.vault().history().changed_paths(&base.root, &present)?;
    let merge = OntoMerge {
        onto,
        ours: by_path(&ours),
        theirs: by_path(&theirs),
    };
    merge.check_paths()?;
    let reader = |root: &Root| TreeReader::new(onto.vault().store().objects().clone(), root.clone());
    let readers = [reader(&base.root), reader(&given.root), reader(&present)];
    let scope = merge.scope(&readers)?;
    merge.move_along(base, given)?;
    let [_, given, present] = readers;
    Comeback::new(onto, present, given, &scope, Times::AsTheyWere)?.run()?;
    merge.finish_directories()
}

struct OntoMerge<'a> {
    onto: &'a OpenVault,
    /// The changes to transfer.
    ours: BTreeMap<&'a TreePath, &'a TreeChange>,
    /// The changes of the state to which they are transferred.
    theirs: BTreeMap<&'a TreePath, &'a TreeChange>,
}

fn by_path(changes: &[TreeChange]) -> BTreeMap<&TreePath, &TreeChange> {
    changes.iter().map(|change| (&change.path, change)).collect()
}

impl OntoMerge<'_> {
    fn meet(&self, path: &TreePath) -> Error {
        let vault = self
            .onto
            .vault()
            .name()
            .map(|name| name.to_string())
            .unwrap_or_default();
        Error::File(FileError::Overtaken {
            vault,
            path: Some(path.clone()),
        })
    }

    fn check_paths(&self) -> Result<()> {
        for change in self.ours.values() {
            if self
                .theirs
                .get(&change.path)
                .is_some_and(|theirs| !agree(change, theirs))
            {
                return Err(self.meet(&change.path));
            }
        }
        for (one, other) in [(&self.ours, &self.theirs), (&self.theirs, &self.ours)] {
            for change in one.values().filter(|change| change.after.is_some()) {
                if stands_on_nothing(&change.path, other) {
                    return Err(self.meet(&change.path));
                }
            }
        }
        Ok(())
    }

    /// The paths that come as a whole. A file with several names comes with all of them, and only if the
    /// other side left it and its names alone.
    fn scope(&self, readers: &[TreeReader; 3]) -> Result<Vec<TreePath>> {
        let mut scope: BTreeSet<TreePath> = self
            .ours
            .values()
            .filter(|change| !stays_directory(change))
            .map(|c| c.path.clone())
            .collect();
        if readers.iter().all(|reader| reader.root().links.is_none()) {
            return Ok(scope.into_iter().collect());
        }
        let names = |reader: &TreeReader| LinkNames::of(reader).map_err(|error| self.unreadable(error));
        let [base, given, present] = readers;
        let (in_base, in_given, in_present) = (names(base)?, names(given)?, names(present)?);
        let mut linked = BTreeSet::new();
        for path in &scope {
            for group in [
                in_base.of_path(path),
                in_given.of_path(path),
                in_present.of_path(path),
            ] {
                linked.extend(group.into_iter().filter(|name| name != path));
            }
        }
        for name in &linked {
            let is_ours = self.ours.contains_key(name);
            let is_theirs = self.theirs.contains_key(name) && !is_ours;
            if is_theirs || in_base.of_path(name) != in_present.of_path(name) {
                return Err(self.meet(name));
            }
        }
        // A path that is missing in the given state is removed only if we own the removal.
        scope.extend(linked.into_iter().filter(|name| in_given.of_path(name).len() > 1));
        Ok(scope.into_iter().collect())
    }

    fn unreadable(&self, error: ReadError) -> Error {
        self.onto.vault().history().read_error(error)
    }

    /// Executes moves: a moved entry keeps its number, which a comparison of paths would lose.
    fn move_along(&self, base: BaseTree, given: BaseTree) -> Result<()> {
        let gone: Vec<&TreePath> = self
            .ours
            .values()
            .filter(|change| change.after.is_none())
            .map(|change| &change.path)
            .collect();
        if gone.is_empty() {
            return Ok(());
        }
        let store = self.onto.vault().store();
        let tree = |base| WorkTree::in_memory(store.objects().clone(), base, store.clock());
        let (before, after) = (tree(base)?, tree(given)?);
        let mut places = HashMap::new();
        for path in &gone {
            places.insert(before.resolve(path)?.ino, *path);
        }
        for change in self.ours.values().filter(|change| change.after.is_some()) {
            let attr = after.resolve(&change.path)?;
            if let Some(from) = places.get(&attr.ino).filter(|_| !attr.has_other_names()) {
                self.move_one(from, &change.path, &gone, &after)?;
            }
        }
        Ok(())
    }

    /// Moves one entry with everything below it, except entries that are missing in the given state. If it
    /// cannot be moved, because a parent must be created first, it is added as new.
    fn move_one(&self, from: &TreePath, to: &TreePath, gone: &[&TreePath], given: &WorkTree) -> Result<()> {
        let (Ok(source), Ok(target)) = (self.onto.place(from), self.onto.place(to)) else {
            return Ok(());
        };
        if self.onto.tree().rename(source, target).is_err() {
            return Ok(());
        }
        let depth = from.components().count();
        for path in gone
            .iter()
            .filter(|path| path.starts_with(from) && **path != from)
        {
            let now = path
                .components()
                .skip(depth)
                .fold(to.clone(), |at, name| at.join(&name));
            if given.resolve(&now).is_err() && self.onto.exists(&now)? {
                self.onto.remove(&now, true)?;
            }
        }
        Ok(())
    }

    /// Attributes of directories that both sides have. Times go forward only.
    fn finish_directories(&self) -> Result<()> {
        for change in self.ours.values().filter(|change| stays_directory(change)) {
            let Some(mut entry) = change.after.clone() else {
                continue;
            };
            if let Some(theirs) = self
                .theirs
                .get(&change.path)
                .and_then(|theirs| theirs.after.as_ref())
            {
                let mtime = entry.meta.mtime.max(theirs.meta.mtime);
                let unchanged = change
                    .before
                    .as_ref()
                    .is_some_and(|before| same_rights(before, &entry));
                entry.meta = if unchanged {
                    theirs.meta.clone()
                } else {
                    entry.meta
                };
                entry.meta.mtime = mtime;
            }
            let attr = self.onto.stat(&change.path)?;
            set_meta(self.onto, &entry, &attr, entry.meta.mtime)
                .map_err(|error| self.onto.fail(&change.path, error))?;
        }
        Ok(())
    }
}

/// Whether two changes of one path are compatible.
fn agree(one: &TreeChange, other: &TreeChange) -> bool {
    if one.after.is_none() && other.after.is_none() {
        return true;
    }
    let (Some(before), Some(mine), Some(theirs)) = (&one.before, &one.after, &other.after) else {
        return false;
    };
    let directories = stays_directory(one) && stays_directory(other);
    directories && (same_rights(before, mine) || same_rights(before, theirs) || same_rights(mine, theirs))
}

fn stays_directory(change: &TreeChange) -> bool {
    let is_directory = |entry: &Option<Entry>| entry.as_ref().is_some_and(Entry::is_directory);
    is_directory(&change.before) && is_directory(&change.after)
}

/// Whether two directories differ in nothing but their times and entries.
fn same_rights(one: &Entry, other: &Entry) -> bool {
    let (one, other) = (&one.meta, &other.meta);
    let rights = |meta: &Meta| (meta.mode, meta.uid, meta.gid);
    rights(one) == rights(other) && one.xattrs == other.xattrs && one.labels == other.labels
}

/// Whether the other side removed a parent directory of a path.
fn stands_on_nothing(path: &TreePath, other: &BTreeMap<&TreePath, &TreeChange>) -> bool {
    let mut above = path.split_last();
    while let Some((parent, _)) = above {
        if let Some(change) = other.get(&parent)
            && !change.after.as_ref().is_some_and(Entry::is_directory)
        {
            return true;
        }
        above = parent.split_last();
    }
    false
}

#[cfg(test)]
mod tests;
