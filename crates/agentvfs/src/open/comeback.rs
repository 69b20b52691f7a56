//! Bringing single paths back, with everything below them and nothing else.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use avfs_core::diff::TreeChange;
use avfs_core::rules::Level;
use avfs_core::{Entry, EntryKind, Timestamp, TreePath, Xattrs};
use avfs_tree::{Attr, FsError, Ino, InodeKind, ReadError, SetAttr, StoredTree, TreeReader, WorkTree};

use super::link_names::LinkNames;
use crate::error::Result;
use crate::open::OpenVault;
use crate::vault::Vault;

/// Which modification time a file gets that comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Times {
    /// The present one, or build tools would not see that it changed.
    Now,
    AsTheyWere,
}

/// The paths that come back, and the two states they are compared in.
pub(crate) struct Comeback<'a> {
    open: &'a OpenVault,
    times: Times,
    present: TreeReader,
    source: TreeReader,
    /// No path lies below another one.
    scope: Vec<TreePath>,
    present_names: LinkNames,
    source_names: LinkNames,
}

impl<'a> Comeback<'a> {
    pub(crate) fn new(
        open: &'a OpenVault,
        present: TreeReader,
        source: TreeReader,
        paths: &[TreePath],
        times: Times,
    ) -> Result<Comeback<'a>> {
        let (present_names, source_names) = (LinkNames::default(), LinkNames::default());
        let scope = outermost(paths);
        let mut comeback = Comeback {
            open,
            times,
            present,
            source,
            scope,
            present_names,
            source_names,
        };
        if comeback.touches_links()? {
            comeback.present_names =
                LinkNames::of(&comeback.present).map_err(|e| comeback.vault().history().read_error(e))?;
            comeback.source_names =
                LinkNames::of(&comeback.source).map_err(|e| comeback.vault().history().read_error(e))?;
        }
        Ok(comeback)
    }

    fn vault(&self) -> &Vault {
        self.open.vault()
    }

    /// Restores all the paths from the source; returns those that changed.
    pub(crate) fn run(&self) -> Result<Vec<TreeChange>> {
        let mut parents = BTreeMap::new();
        let mut below = Vec::new();
        for path in &self.scope {
            parents.extend(
                self.remade_parents(path)?
                    .into_iter()
                    .map(|change| (change.path.clone(), change)),
            );
            below.extend(self.differences_below(path)?);
        }
        let mut changes: Vec<TreeChange> = parents.into_values().chain(below).collect();
        let differing: HashSet<TreePath> = changes.iter().map(|change| change.path.clone()).collect();
        changes.extend(self.relinked(&differing)?);
        self.remove_what_goes(&changes)?;
        self.make_directories(&changes)?;
        self.bring_files(&changes, &differing)?;
        self.finish_directories(&changes)?;
        Ok(changes)
    }

    fn find(&self, reader: &TreeReader, path: &TreePath) -> Result<Option<Entry>> {
        match reader.find(path) {
            Ok(found) => Ok(Some(found.entry)),
            Err(ReadError::NotFound { .. } | ReadError::NotADirectory { .. }) => Ok(None),
            Err(error) => Err(self.vault().history().read_error(error)),
        }
    }

    fn covers(&self, path: &TreePath) -> bool {
        self.scope.iter().any(|top| path.starts_with(top))
    }

    /// Whether a file with several names may be among the restored or replaced ones.
    fn touches_links(&self) -> Result<bool> {
        for reader in [&self.present, &self.source] {
            for path in self.scope.iter().filter(|_| reader.root().links.is_some()) {
                match reader.find(path) {
                    Ok(found) if found.link.is_some() || links_below(&found.entry) > 0 => return Ok(true),
                    Ok(_) | Err(ReadError::NotFound { .. } | ReadError::NotADirectory { .. }) => {}
                    Err(error) => return Err(self.vault().history().read_error(error)),
                }
            }
        }
        Ok(false)
    }

    /// The directories above `path` that the source has and the present state does not.
    fn remade_parents(&self, path: &TreePath) -> Result<Vec<TreeChange>> {
        let mut parents = Vec::new();
        let mut above = path.split_last();
        while let Some((parent, _)) = above {
            let before = self.find(&self.present, &parent)?;
            if before.is_some() || self.find(&self.source, path)?.is_none() {
                break;
            }
            let after = self.find(&self.source, &parent)?;
            parents.push(TreeChange {
                path: parent.clone(),
                before,
                after,
            });
            above = parent.split_last();
        }
        Ok(parents)
    }

    /// The differences at `path` and below it.
    fn differences_below(&self, path: &TreePath) -> Result<Vec<TreeChange>> {
        let (before, after) = (self.find(&self.present, path)?, self.find(&self.source, path)?);
        let Some(_) = after.as_ref().filter(|entry| entry.is_directory()) else {
            self.check_readable(path)?;
            let differs = before != after;
            return Ok(differs
                .then(|| TreeChange {
                    path: path.clone(),
                    before,
                    after,
                })
                .into_iter()
                .collect());
        };
        let mut changes = Vec::new();
        self.present.diff(&self.source, path, &mut |seen| {
            changes.push(seen.change);
            Ok(())
        })?;
        if self.source.has_rules() {
            for change in &mut changes {
                self.check_readable(&change.path)?;
                // With everything that belongs to it.
                change.after = self.find(&self.source, &change.path)?;
            }
        }
        Ok(changes)
    }

    /// An unreadable file cannot be restored: it would come back empty.
    fn check_readable(&self, path: &TreePath) -> Result<()> {
        match self.source.find_readable(path) {
            Ok(_) | Err(ReadError::NotFound { .. } | ReadError::NotADirectory { .. }) => Ok(()),
            Err(error) => Err(self.vault().history().read_error(error)),
        }
    }

    /// The files that are the same in both states but do not share their names with the same others.
    fn relinked(&self, differing: &HashSet<TreePath>) -> Result<Vec<TreeChange>> {
        let linked: BTreeSet<&TreePath> = self
            .present_names
            .paths()
            .chain(self.source_names.paths())
            .collect();
        let mut changes = Vec::new();
        for path in linked
            .into_iter()
            .filter(|path| self.covers(path) && !differing.contains(*path))
        {
            if self.covered(&self.present_names, path) != self.covered(&self.source_names, path) {
                let (before, after) = (self.find(&self.present, path)?, self.find(&self.source, path)?);
                changes.push(TreeChange {
                    path: path.clone(),
                    before,
                    after,
                });
            }
        }
        Ok(changes)
    }

    /// The names of the file at `path` that come back with it.
    fn covered(&self, names: &LinkNames, path: &TreePath) -> BTreeSet<TreePath> {
        names
            .of_path(path)
            .into_iter()
            .filter(|name| self.covers(name))
            .collect()
    }

    fn remove_what_goes(&self, changes: &[TreeChange]) -> Result<()> {
        for change in changes.iter().filter(|change| change.after.is_none()) {
            if self.open.exists(&change.path)? {
                self.open.remove(&change.path, true)?;
            }
        }
        Ok(())
    }

    /// Makes directories, still empty and with attributes that change while they are filled.
    fn make_directories(&self, changes: &[TreeChange]) -> Result<()> {
        for change in changes {
            let Some(entry) = change.after.as_ref().filter(|entry| entry.is_directory()) else {
                continue;
            };
            if self.open.exists(&change.path)? && !self.open.is_same_kind(&change.path, entry)? {
                self.open.remove(&change.path, true)?;
            }
            if !self.open.exists(&change.path)? {
                self.graft(&change.path, Entry::empty_directory(entry.meta.clone()))?;
            }
        }
        Ok(())
    }

    fn graft(&self, path: &TreePath, entry: Entry) -> Result<()> {
        self.open.graft(
            path,
            StoredTree {
                entry,
                links: Vec::new(),
            },
        )
    }

    fn bring_files(&self, changes: &[TreeChange], differing: &HashSet<TreePath>) -> Result<()> {
        let mut done = HashSet::new();
        for change in changes {
            let Some(entry) = change.after.as_ref().filter(|entry| !entry.is_directory()) else {
                continue;
            };
            if done.contains(&change.path) {
                continue;
            }
            let group = self.covered(&self.source_names, &change.path);
            let first = match self.unchanged_of(&group, differing)? {
                Some(unchanged) => unchanged,
                None => {
                    self.bring_file(&change.path, entry)?;
                    change.path.clone()
                }
            };
            self.link_all(&first, &group)?;
            done.extend(group);
        }
        Ok(())
    }

    /// A name of the group whose file is the same as in the source, and has no other names than there.
    fn unchanged_of(
        &self,
        group: &BTreeSet<TreePath>,
        differing: &HashSet<TreePath>,
    ) -> Result<Option<TreePath>> {
        for path in group.iter().filter(|path| !differing.contains(*path)) {
            let allowed = self.source_names.of_path(path);
            if !self.open.stat(path)?.has_other_names()
                || self.present_names.of_path(path).is_subset(&allowed)
            {
                return Ok(Some(path.clone()));
            }
        }
        Ok(None)
    }

    /// Makes the names of a group names of the file at `first`.
    fn link_all(&self, first: &TreePath, group: &BTreeSet<TreePath>) -> Result<()> {
        let ino = self.open.stat(first)?.ino;
        for path in group {
            if self.open.exists(path)? {
                if self.open.stat(path)?.ino == ino {
                    continue;
                }
                self.open.remove(path, true)?;
            }
            self.open.hard_link(first, path)?;
        }
        Ok(())
    }

    /// Restores one name. A regular file keeps its inode, if no other name changes by that.
    fn bring_file(&self, path: &TreePath, entry: &Entry) -> Result<()> {
        if self.open.exists(path)? {
            let attr = self.open.stat(path)?;
            let names = self.present_names.of_path(path);
            let all_come_back =
                names == self.source_names.of_path(path) && names.iter().all(|name| self.covers(name));
            let alone = !attr.has_other_names() || all_come_back;
            if alone && attr.kind == InodeKind::File && matches!(entry.kind, EntryKind::File { .. }) {
                return self
                    .set_to(entry, &attr)
                    .map_err(|error| self.open.fail(path, error));
            }
            self.open.remove(path, true)?;
        }
        let mut entry = entry.clone();
        entry.meta.mtime = self.mtime_of(&entry);
        self.graft(path, entry)
    }

    /// Sets the attributes of directories, now that nothing more is added to them.
    fn finish_directories(&self, changes: &[TreeChange]) -> Result<()> {
        let remade = changes
            .iter()
            .filter(|change| change.after.as_ref().is_some_and(Entry::is_directory));
        let parents = changes.iter().filter_map(|change| change.path.split_last());
        let filled = parents
            .map(|(parent, _)| parent)
            .filter(|parent| self.covers(parent));
        let directories: BTreeSet<TreePath> =
            remade.map(|change| change.path.clone()).chain(filled).collect();
        for path in directories.iter().rev() {
            if let Some(entry) = self.find(&self.source, path)?.filter(Entry::is_directory) {
                let attr = self.open.stat(path)?;
                // If names may be created in the directory but it may not be changed itself, its attributes
                // stay.
                if self.open.tree().check(attr.ino, Level::Write).is_err() {
                    continue;
                }
                self.set_to(&entry, &attr)
                    .map_err(|error| self.open.fail(path, error))?;
            }
        }
        Ok(())
    }

    fn mtime_of(&self, entry: &Entry) -> Timestamp {
        match (&entry.kind, self.times) {
            (EntryKind::File { .. }, Times::Now) => self.vault().store().now(),
            _ => entry.meta.mtime,
        }
    }

    /// Sets contents and attributes of an inode to those of `entry`, which is of the same kind.
    fn set_to(&self, entry: &Entry, attr: &Attr) -> Result<(), FsError> {
        if let EntryKind::File { size, content } = entry.kind {
            self.open.tree().set_content(attr.ino, size, content)?;
        }
        set_meta(self.open, entry, attr, self.mtime_of(entry))
    }
}

/// The paths without those that lie below another one.
fn outermost(paths: &[TreePath]) -> Vec<TreePath> {
    let all: BTreeSet<&TreePath> = paths.iter().collect();
    let inner = |path: &TreePath| paths.iter().any(|other| path != other && path.starts_with(other));
    all.into_iter().filter(|path| !inner(path)).cloned().collect()
}

fn links_below(entry: &Entry) -> u64 {
    match &entry.kind {
        EntryKind::Directory { below, .. } => below.links,
        _ => 0,
    }
}

/// Sets the attributes of an inode to those of `entry`, with a modification time of its own.
pub(crate) fn set_meta(
    open: &OpenVault,
    entry: &Entry,
    attr: &Attr,
    mtime: Timestamp,
) -> Result<(), FsError> {
    let tree = open.tree();
    set_xattrs(tree, attr.ino, &attr.meta.xattrs, &entry.meta.xattrs)?;
    // Through rules, labelled entries keep their labels.
    if attr.meta.labels != entry.meta.labels && !tree.has_rules() {
        tree.set_labels(attr.ino, entry.meta.labels.clone())?;
    }
    let set = SetAttr {
        mode: Some(entry.meta.mode),
        uid: Some(entry.meta.uid),
        gid: Some(entry.meta.gid),
        mtime: Some(mtime),
        ..SetAttr::default()
    };
    tree.set_attr(attr.ino, set).map(|_| ())
}

fn set_xattrs(tree: &WorkTree, ino: Ino, present: &Xattrs, wanted: &Xattrs) -> Result<(), FsError> {
    for (name, _) in present.iter().filter(|(name, _)| wanted.get(name).is_none()) {
        tree.remove_xattr(ino, name)?;
    }
    for (name, value) in wanted
        .iter()
        .filter(|(name, value)| present.get(name) != Some(value))
    {
        tree.set_xattr(ino, name, value)?;
    }
    Ok(())
}
