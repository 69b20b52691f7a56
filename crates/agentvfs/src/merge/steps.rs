//! The steps of a merge, done to a tree.

use std::collections::{BTreeMap, BTreeSet};

use avfs_core::merge::{Move, Step};
use avfs_core::{Entry, EntryKind, Root, TreePath};
use avfs_tree::{Attr, Kind, ReadError, StoredTree, TreeReader};

use crate::error::Result;
use crate::open::OpenVault;
use crate::restore::{Names, set_meta};

pub(crate) struct Doing<'a> {
    tree: &'a OpenVault,
    before: TreeReader,
    /// Which names of the tree, and of the other one, stand for the same file.
    our_names: Names,
    their_names: Names,
    /// The directories that are not as they are to be until everything is done, with what they are to be.
    directories: BTreeMap<TreePath, Entry>,
}

impl<'a> Doing<'a> {
    /// For steps from a tree that is now `before`, made from another one.
    pub fn new(tree: &'a OpenVault, before: &Root, given: &Root) -> Result<Doing<'a>> {
        let reader = |root: &Root| TreeReader::new(tree.vault().store().objects().clone(), root.clone());
        let names = |root: &Root| match root.links {
            Some(_) => Names::of(&reader(root)).map_err(|error| tree.vault().read_error(error)),
            None => Ok(Names::default()),
        };
        let (our_names, their_names) = (names(before)?, names(given)?);
        let directories = BTreeMap::new();
        Ok(Doing { tree, before: reader(before), our_names, their_names, directories })
    }

    pub fn run(mut self, steps: &[Step]) -> Result<()> {
        self.note_directories(steps)?;
        for step in steps {
            if let Step::Put { path, entry } = step
                && entry.is_directory()
            {
                self.make_if_free(path, entry)?;
            }
        }
        for step in steps {
            match step {
                Step::Move(moved) => self.move_one(moved)?,
                Step::Remove(path) => self.remove(path)?,
                Step::Put { path, entry } => self.put(path, entry)?,
            }
        }
        self.link(steps)?;
        self.finish_directories()
    }

    /// What is done in a directory changes its times.
    fn note_directories(&mut self, steps: &[Step]) -> Result<()> {
        let mut touched = BTreeSet::new();
        for step in steps {
            let paths = match step {
                Step::Move(moved) => vec![&moved.from, &moved.to],
                Step::Remove(path) | Step::Put { path, .. } => vec![path],
            };
            touched.extend(paths.into_iter().filter_map(|path| path.split_last()).map(|(parent, _)| parent));
        }
        for path in touched {
            match self.before.find(&path) {
                Ok(found) if found.entry.is_directory() => drop(self.directories.insert(path, found.entry)),
                Ok(_) | Err(ReadError::NotFound { .. } | ReadError::NotADirectory { .. }) => {}
                Err(error) => return Err(self.tree.vault().read_error(error)),
            }
        }
        let made = steps.iter().filter_map(|step| match step {
            Step::Put { path, entry } if entry.is_directory() => Some((path.clone(), entry.clone())),
            _ => None,
        });
        self.directories.extend(made);
        Ok(())
    }

    /// So that what is moved has somewhere to go. What is in the way goes later.
    fn make_if_free(&self, path: &TreePath, entry: &Entry) -> Result<()> {
        if path.is_root() || self.tree.exists(path)? || self.tree.place(path).is_err() {
            return Ok(());
        }
        self.graft(path, Entry::empty_directory(entry.meta.clone()))
    }

    fn graft(&self, path: &TreePath, entry: Entry) -> Result<()> {
        self.tree.graft(path, StoredTree { entry, links: Vec::new() })
    }

    /// A file that cannot be moved is made anew by what follows: only its number is another then.
    fn move_one(&self, moved: &Move) -> Result<()> {
        if let (Ok(from), Ok(to)) = (self.tree.place(&moved.from), self.tree.place(&moved.to)) {
            let _ = self.tree.tree().rename_no_replace(from, to);
        }
        Ok(())
    }

    fn remove(&self, path: &TreePath) -> Result<()> {
        if self.tree.exists(path)? { self.tree.remove(path, true) } else { Ok(()) }
    }

    fn put(&self, path: &TreePath, entry: &Entry) -> Result<()> {
        if entry.is_directory() {
            if !self.tree.exists(path)? || self.tree.is_same_kind(path, entry)? {
                return self.make_if_free(path, entry);
            }
            self.remove(path)?;
            return self.make_if_free(path, entry);
        }
        if self.tree.exists(path)? {
            let attr = self.tree.stat(path)?;
            if attr.kind == Kind::File && self.stays_inode(path, &attr) {
                if let EntryKind::File { size, content } = entry.kind {
                    let set = self.tree.tree().set_content(attr.ino, size, content);
                    let set = set.and_then(|()| set_meta(self.tree, entry, &attr, entry.meta.mtime));
                    return set.map_err(|error| self.tree.fail(path, error));
                }
            }
            self.remove(path)?;
        }
        self.graft(path, entry.clone())
    }

    /// Whether no other name becomes another file by changing this one.
    fn stays_inode(&self, path: &TreePath, attr: &Attr) -> bool {
        !attr.has_other_names() || self.our_names.of_path(path) == self.their_names.of_path(path)
    }

    /// Names that they made names of one file are that here too, as far as they are what they are there.
    fn link(&self, steps: &[Step]) -> Result<()> {
        for step in steps {
            let Step::Put { path, entry } = step else { continue };
            let group = self.their_names.of_path(path);
            if entry.is_directory() || group.len() < 2 || !self.tree.exists(path)? {
                continue;
            }
            let first = self.tree.stat(path)?;
            for name in group.iter().filter(|name| *name != path) {
                if !self.tree.exists(name)? {
                    continue;
                }
                let other = self.tree.stat(name)?;
                let same = (other.kind, other.size, &other.meta) == (first.kind, first.size, &first.meta);
                if same && other.ino != first.ino && self.tree.read(name)? == self.tree.read(path)? {
                    self.tree.remove(name, false)?;
                    self.tree.hard_link(path, name)?;
                }
            }
        }
        Ok(())
    }

    /// From the deepest up, now that nothing is put into them any more.
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
