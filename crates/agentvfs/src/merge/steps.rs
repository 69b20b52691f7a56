//! The steps of a merge, done to a tree.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use avfs_core::merge::{MergeStep, PathMove};
use avfs_core::{Entry, EntryKind, Root, Timestamp, TreePath};
use avfs_tree::{Attr, InodeKind, ReadError, StoredTree, TreeReader};

use crate::error::Result;
use crate::open::OpenVault;
use crate::open::{LinkNames, set_meta};

pub(crate) struct Doing<'a> {
    tree: &'a OpenVault,
    before: TreeReader,
    /// Which names of our tree, and of the other one, refer to the same file.
    our_names: LinkNames,
    their_names: LinkNames,
    /// The directories that get their final attributes at the end, with these attributes.
    directories: BTreeMap<TreePath, Entry>,
    /// The time that contents get which come in, if it is not their own.
    arrival: Option<Timestamp>,
    /// Where files were that have other names, by the new one.
    moved: HashMap<TreePath, TreePath>,
    /// The same by the old one.
    new_names: HashMap<TreePath, TreePath>,
}

impl<'a> Doing<'a> {
    /// For steps from a tree that is now `before`, made from another one.
    pub(crate) fn new(tree: &'a OpenVault, before: &Root, given: &Root) -> Result<Doing<'a>> {
        let reader = |root: &Root| TreeReader::new(tree.vault().store().objects().clone(), root.clone());
        let names = |root: &Root| match root.links {
            // Only where there are linked files: finding their names walks the tree.
            Some(_) => LinkNames::of(&reader(root)).map_err(|error| tree.vault().history().read_error(error)),
            None => Ok(LinkNames::default()),
        };
        let (our_names, their_names) = (names(before)?, names(given)?);
        let directories = BTreeMap::new();
        let (moved, new_names) = (HashMap::new(), HashMap::new());
        let (before, arrival) = (reader(before), None);
        Ok(Doing {
            tree,
            before,
            our_names,
            their_names,
            directories,
            arrival,
            moved,
            new_names,
        })
    }

    /// Gives merged contents this time: results that were built from the old ones are older.
    pub(crate) fn arriving_at(self, arrival: Option<Timestamp>) -> Doing<'a> {
        Doing { arrival, ..self }
    }

    pub(crate) fn run(mut self, steps: &[MergeStep]) -> Result<()> {
        // Before anything changes: every step in a directory changes its time.
        self.note_directories(steps)?;
        self.moved = steps.iter().filter_map(move_of).collect();
        self.new_names = self
            .moved
            .iter()
            .map(|(to, from)| (from.clone(), to.clone()))
            .collect();
        for (path, entry) in steps
            .iter()
            .filter_map(put_of)
            .filter(|(_, entry)| entry.is_directory())
        {
            // Directories first, as moves may lead into them.
            self.make_if_free(path, entry)?;
        }
        for step in steps {
            match step {
                MergeStep::Move(moved) => self.move_one(moved)?,
                MergeStep::Remove(path) => self.remove(path)?,
                MergeStep::Put { path, entry } => self.put(path, entry)?,
            }
        }
        // After all contents are there: which names belong together is decided by those.
        self.link(steps)?;
        self.finish_directories()
    }

    /// Changes in a directory affect its times.
    fn note_directories(&mut self, steps: &[MergeStep]) -> Result<()> {
        let mut touched = BTreeSet::new();
        for step in steps {
            let paths = match step {
                MergeStep::Move(moved) => BTreeSet::from([moved.from.clone(), moved.to.clone()]),
                MergeStep::Remove(path) => BTreeSet::from([path.clone()]),
                MergeStep::Put { path, .. } => self.their_names.of_path(path),
            };
            touched.extend(
                paths
                    .iter()
                    .filter_map(TreePath::split_last)
                    .map(|(parent, _)| parent),
            );
        }
        for path in touched {
            if let Some(entry) = self.find(&path)?.filter(Entry::is_directory) {
                self.directories.insert(path, entry);
            }
        }
        let made = steps
            .iter()
            .filter_map(put_of)
            .filter(|(_, entry)| entry.is_directory());
        let made = made.map(|(path, entry)| (path.clone(), entry.clone()));
        self.directories.extend(made);
        Ok(())
    }

    /// Creates directories as targets of moves. Entries in the way are removed later.
    fn make_if_free(&self, path: &TreePath, entry: &Entry) -> Result<()> {
        if path.is_root() || self.tree.exists(path)? || self.tree.place(path).is_err() {
            return Ok(());
        }
        self.graft(path, Entry::empty_directory(entry.meta.clone()))
    }

    fn graft(&self, path: &TreePath, entry: Entry) -> Result<()> {
        self.tree.graft(
            path,
            StoredTree {
                entry,
                links: Vec::new(),
            },
        )
    }

    /// A file that cannot be moved is created again by the later steps: only its number then differs.
    fn move_one(&self, moved: &PathMove) -> Result<()> {
        if let (Ok(from), Ok(to)) = (self.tree.place(&moved.from), self.tree.place(&moved.to)) {
            // A move that is not possible is no failure: the steps that follow remove the one and put the
            // other.
            let _ = self.tree.tree().rename_no_replace(from, to);
        }
        Ok(())
    }

    fn remove(&self, path: &TreePath) -> Result<()> {
        if self.tree.exists(path)? {
            self.tree.remove(path, true)
        } else {
            Ok(())
        }
    }

    fn put(&self, path: &TreePath, entry: &Entry) -> Result<()> {
        if entry.is_directory() {
            // A directory of the same kind stays, with everything in it that no step is about.
            if !self.tree.is_same_kind(path, entry)? {
                self.remove(path)?;
            }
            return self.make_if_free(path, entry);
        }
        let entry = &self.arriving(path, entry)?;
        if self.tree.exists(path)? {
            let attr = self.tree.stat(path)?;
            if let EntryKind::File { size, content } = entry.kind
                && attr.kind == InodeKind::File
                // A program that has the file open goes on with it; another inode would leave it with the
                // old one.
                && self.stays_inode(path, &attr)
            {
                let set = self.tree.tree().set_content(attr.ino, size, content);
                let set = set.and_then(|()| set_meta(self.tree, entry, &attr, entry.meta.mtime));
                return set.map_err(|error| self.tree.fail(path, error));
            }
            self.remove(path)?;
        }
        self.graft(path, entry.clone())
    }

    /// An incoming file. If only its name or mode differs, it keeps its time.
    fn arriving(&self, path: &TreePath, entry: &Entry) -> Result<Entry> {
        let mut entry = entry.clone();
        let Some(arrival) = self.arrival else {
            return Ok(entry);
        };
        let was = self.find(self.moved.get(path).unwrap_or(path))?;
        // Only where the contents are new here: a build compares times with its products.
        if was.is_none_or(|was| was.kind != entry.kind) {
            entry.meta.mtime = arrival;
        }
        Ok(entry)
    }

    /// Whether changing this name does not change other names of the same file.
    fn stays_inode(&self, path: &TreePath, attr: &Attr) -> bool {
        // Writing into a linked file changes it under all of its names.
        !attr.has_other_names() || self.our_names_of(path) == self.their_names.of_path(path)
    }

    /// The names of a file of ours, by one of them, as they are after all moves.
    fn our_names_of(&self, path: &TreePath) -> BTreeSet<TreePath> {
        let names = self.our_names.of_path(self.moved.get(path).unwrap_or(path));
        names
            .into_iter()
            .map(|name| self.new_names.get(&name).cloned().unwrap_or(name))
            .collect()
    }

    /// Names that they made names of one file are linked here too, if their contents agree.
    fn link(&self, steps: &[MergeStep]) -> Result<()> {
        let puts: HashMap<&TreePath, &Entry> = steps.iter().filter_map(put_of).collect();
        for (path, entry) in steps.iter().filter_map(put_of) {
            for name in self.their_names.of_path(path).iter().filter(|name| *name != path) {
                let is_same = match puts.get(name) {
                    Some(other) => *other == entry,
                    None => self.find(name)?.as_ref() == Some(entry),
                };
                if is_same
                    && self.tree.exists(name)?
                    && self.tree.stat(name)?.ino != self.tree.stat(path)?.ino
                {
                    self.tree.remove(name, false)?;
                    self.tree.hard_link(path, name)?;
                }
            }
        }
        Ok(())
    }

    /// The earlier entry at a path.
    fn find(&self, path: &TreePath) -> Result<Option<Entry>> {
        match self.before.find(path) {
            Ok(found) => Ok(Some(found.entry)),
            Err(ReadError::NotFound { .. } | ReadError::NotADirectory { .. }) => Ok(None),
            Err(error) => Err(self.tree.vault().history().read_error(error)),
        }
    }

    /// From the bottom up, now that nothing more is added to them.
    fn finish_directories(&self) -> Result<()> {
        for (path, entry) in self.directories.iter().rev() {
            if self.tree.exists(path)? && self.tree.is_same_kind(path, entry)? {
                let attr = self.tree.stat(path)?;
                set_meta(self.tree, entry, &attr, entry.meta.mtime)
                    .map_err(|error| self.tree.fail(path, error))?;
            }
        }
        Ok(())
    }
}

fn move_of(step: &MergeStep) -> Option<(TreePath, TreePath)> {
    match step {
        MergeStep::Move(moved) => Some((moved.to.clone(), moved.from.clone())),
        MergeStep::Put { .. } | MergeStep::Remove(_) => None,
    }
}

fn put_of(step: &MergeStep) -> Option<(&TreePath, &Entry)> {
    match step {
        MergeStep::Put { path, entry } => Some((path, entry)),
        MergeStep::Move(_) | MergeStep::Remove(_) => None,
    }
}
