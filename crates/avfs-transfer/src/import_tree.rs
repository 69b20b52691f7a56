//! The tree that an archive describes, entry by entry, and its restrictions.

use std::collections::BTreeMap;

use avfs_core::map::MapRecord;
use avfs_core::{BadName, Entry, EntryKind, EntryName, Meta, PATH_MAX, Slot, TreePath};
use avfs_tree::{ObjectError, ObjectWriter, Objects};

use super::error::SkipReason;
use super::host_tree::directory_entry;
use super::links::{IsTaken, NumberedLinks, SharedFile};
use super::{ImportedTree, TransferReport, join};

/// Directories by number; each comes after its parent.
pub(super) struct ImportTree {
    directories: Vec<ImportDirectory>,
    /// Files that hard links were made to.
    shared: Vec<Entry>,
    /// The attributes of directories that the archive uses but does not hold.
    implied: Meta,
    /// The length of the path of the future directory.
    depth: usize,
    /// The number of the layer that entries belong to from now on. A single archive is one layer.
    layer: u32,
}

struct ImportDirectory {
    parent: usize,
    name: Box<[u8]>,
    meta: Meta,
    entries: BTreeMap<Box<[u8]>, ImportEntry>,
    /// The layer that hid everything which earlier ones had put here. Hiding it again changes nothing, so that a
    /// hostile layer cannot have the same directory searched again and again.
    cleared: Option<u32>,
}

struct ImportEntry {
    node: ImportNode,
    layer: u32,
}

enum ImportNode {
    Directory(usize),
    Own(Entry),
    Shared(usize),
}

/// The names of a path, the last apart.
type Split = (Vec<EntryName>, Option<EntryName>);

const TOP: usize = 0;

impl ImportTree {
    pub(super) fn new(implied: Meta, into: &TreePath) -> ImportTree {
        let top = ImportDirectory {
            parent: TOP,
            name: Box::default(),
            meta: implied.clone(),
            entries: BTreeMap::new(),
            cleared: None,
        };
        ImportTree {
            directories: vec![top],
            shared: Vec::new(),
            implied,
            depth: into.as_bytes().len(),
            layer: 0,
        }
    }

    /// What is added from now on lies above what was added before, and can hide it.
    pub(super) fn begin_layer(&mut self) {
        self.layer += 1;
    }

    /// Hides what earlier layers have at a path, with everything below it.
    pub(super) fn hide(&mut self, path: &[u8]) -> Result<(), SkipReason> {
        let (parents, name) = self.split(path)?;
        let name = name.ok_or(BadName::Empty)?;
        let Some(parent) = self.find_parent(&parents)? else {
            return Ok(());
        };
        if let Some(below) = self.directory_at(parent, &name) {
            self.clear(below);
        }
        self.drop_hidden(parent, name.as_bytes());
        Ok(())
    }

    /// Hides what earlier layers have in a directory, and not the directory itself.
    pub(super) fn hide_contents(&mut self, path: &[u8]) -> Result<(), SkipReason> {
        let (mut parents, name) = self.split(path)?;
        parents.extend(name);
        if let Some(directory) = self.find_parent(&parents)? {
            self.clear(directory);
        }
        Ok(())
    }

    fn directory_at(&self, parent: usize, name: &EntryName) -> Option<usize> {
        match self.directories[parent].entries.get(name.as_bytes())?.node {
            ImportNode::Directory(below) => Some(below),
            ImportNode::Own(_) | ImportNode::Shared(_) => None,
        }
    }

    /// Removes an entry of an earlier layer, unless it is a directory that this layer has put something into.
    fn drop_hidden(&mut self, parent: usize, name: &[u8]) {
        let Some(entry) = self.directories[parent].entries.get(name) else {
            return;
        };
        let (layer, below) = match entry.node {
            ImportNode::Directory(below) => (entry.layer, Some(below)),
            ImportNode::Own(_) | ImportNode::Shared(_) => (entry.layer, None),
        };
        if layer == self.layer {
            return;
        }
        match below.filter(|below| !self.directories[*below].entries.is_empty()) {
            // The old directory is gone; this one is there only for what lies in it.
            Some(below) => self.directories[below].meta = self.implied.clone(),
            None => drop(self.directories[parent].entries.remove(name)),
        }
    }

    /// Removes everything of earlier layers from a directory. The depth is that of a path, which has an end.
    fn clear(&mut self, directory: usize) {
        if self.directories[directory].cleared.replace(self.layer) == Some(self.layer) {
            return;
        }
        let names: Vec<Box<[u8]>> = self.directories[directory].entries.keys().cloned().collect();
        for name in names {
            if let Some(ImportEntry {
                node: ImportNode::Directory(below),
                ..
            }) = self.directories[directory].entries.get(&name)
            {
                self.clear(*below);
            }
            self.drop_hidden(directory, &name);
        }
    }

    /// Checks where an entry wants to go, before its bytes are read.
    pub(super) fn check(&mut self, path: &[u8], is_directory: bool) -> Result<(), SkipReason> {
        let (parents, name) = self.split(path)?;
        let parent = self.find_parent(&parents)?;
        match (name, parent) {
            (None, _) if !is_directory => Err(BadName::Empty.into()),
            (Some(name), Some(parent)) if !is_directory => self.make_free(parent, &name),
            _ => Ok(()),
        }
    }

    /// Adds anything but a directory. An earlier entry of the name is dropped.
    pub(super) fn add(&mut self, path: &[u8], entry: Entry) -> Result<(), SkipReason> {
        self.put(path, ImportNode::Own(entry))
    }

    pub(super) fn add_directory(&mut self, path: &[u8], meta: Meta) -> Result<(), SkipReason> {
        let (mut parents, name) = self.split(path)?;
        parents.extend(name);
        if let (Some(name), parents) = (
            parents.last().cloned(),
            &parents[..parents.len().saturating_sub(1)],
        ) && let Some(parent) = self.find_parent(parents)?
            && self.directory_at(parent, &name).is_none()
        {
            self.directories[parent].entries.remove(name.as_bytes());
        }
        let directory = self.make_parent(&parents)?;
        self.directories[directory].meta = meta;
        let ImportDirectory { parent, name, .. } = &self.directories[directory];
        let (parent, name) = (*parent, name.clone());
        if let Some(entry) = self.directories[parent].entries.get_mut(&name) {
            entry.layer = self.layer;
        }
        Ok(())
    }

    /// Adds another name of the file at `target`, which must have come before.
    pub(super) fn add_link(&mut self, path: &[u8], target: &[u8]) -> Result<(), SkipReason> {
        let outside = |_| SkipReason::LinkOutside(target.into());
        let (parents, name) = self.split(target).map_err(outside)?;
        let nothing = || SkipReason::LinkToNothing(target.into());
        let name = name.ok_or_else(|| SkipReason::LinkToDirectory(target.into()))?;
        let parent = self.find_parent(&parents)?.ok_or_else(nothing)?;
        self.check(path, false)?;
        let entries = &mut self.directories[parent].entries;
        let index = match entries.get_mut(name.as_bytes()).map(|entry| &mut entry.node) {
            None => return Err(nothing()),
            Some(ImportNode::Directory(_)) => return Err(SkipReason::LinkToDirectory(target.into())),
            Some(ImportNode::Shared(index)) => *index,
            Some(node) => {
                let index = self.shared.len();
                if let ImportNode::Own(entry) = std::mem::replace(node, ImportNode::Shared(index)) {
                    self.shared.push(entry);
                }
                index
            }
        };
        self.put(path, ImportNode::Shared(index))
    }

    fn put(&mut self, path: &[u8], node: ImportNode) -> Result<(), SkipReason> {
        let (parents, name) = self.split(path)?;
        let name = name.ok_or(BadName::Empty)?;
        let parent = self.make_parent(&parents)?;
        self.make_free(parent, &name)?;
        let entry = ImportEntry {
            node,
            layer: self.layer,
        };
        self.directories[parent]
            .entries
            .insert(name.as_bytes().into(), entry);
        Ok(())
    }

    /// An entry replaces any earlier one, except a directory with entries of its own layer.
    fn make_free(&mut self, parent: usize, name: &EntryName) -> Result<(), SkipReason> {
        let Some(below) = self.directory_at(parent, name) else {
            return Ok(());
        };
        self.clear(below);
        if self.directories[below].entries.is_empty() {
            Ok(())
        } else {
            Err(SkipReason::DirectoryInTheWay)
        }
    }

    fn split(&self, path: &[u8]) -> Result<Split, SkipReason> {
        if path.first() == Some(&b'/') {
            return Err(SkipReason::Absolute);
        }
        let mut names = Vec::new();
        let mut len = self.depth;
        for part in path.split(|byte| *byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." => return Err(SkipReason::DotDot),
                part => {
                    len += part.len() + usize::from(len > 0);
                    names.push(EntryName::new(part)?);
                }
            }
        }
        if len > PATH_MAX {
            return Err(BadName::PathTooLong(len).into());
        }
        let last = names.pop();
        Ok((names, last))
    }

    /// The directory at a path, as far as it exists. Nothing is reached through a symbolic link.
    fn find_parent(&self, names: &[EntryName]) -> Result<Option<usize>, SkipReason> {
        let mut directory = TOP;
        for (index, name) in names.iter().enumerate() {
            let so_far = || {
                let names: Vec<&[u8]> = names[..=index].iter().map(EntryName::as_bytes).collect();
                names.join(&b'/').into()
            };
            let entry = self.directories[directory].entries.get(name.as_bytes());
            match entry.map(|entry| &entry.node) {
                None => return Ok(None),
                Some(ImportNode::Directory(below)) => directory = *below,
                Some(node) if self.is_symlink(node) => return Err(SkipReason::ThroughLink(so_far())),
                Some(_) => return Err(SkipReason::UnderFile(so_far())),
            }
        }
        Ok(Some(directory))
    }

    fn is_symlink(&self, node: &ImportNode) -> bool {
        let entry = match node {
            ImportNode::Own(entry) => entry,
            ImportNode::Shared(index) => &self.shared[*index],
            ImportNode::Directory(_) => return false,
        };
        matches!(entry.kind, EntryKind::Symlink { .. })
    }

    /// The directory at a path, made with all above it if it does not exist.
    fn make_parent(&mut self, names: &[EntryName]) -> Result<usize, SkipReason> {
        self.find_parent(names)?;
        let mut directory = TOP;
        for name in names {
            let new = self.directories.len();
            let entries = &mut self.directories[directory].entries;
            let node = entries.entry(name.as_bytes().into()).or_insert(ImportEntry {
                node: ImportNode::Directory(new),
                layer: self.layer,
            });
            let ImportNode::Directory(below) = node.node else {
                return Err(SkipReason::UnderFile(name.as_bytes().into()));
            };
            if below == new {
                let (parent, name, meta) = (directory, name.as_bytes().into(), self.implied.clone());
                self.directories.push(ImportDirectory {
                    parent,
                    name,
                    meta,
                    entries: BTreeMap::new(),
                    cleared: None,
                });
            }
            directory = below;
        }
        Ok(directory)
    }

    /// Builds all directories, the deepest first, and counts their final contents.
    pub(super) fn build(
        mut self,
        objects: &Objects,
        writer: &ObjectWriter,
        into: &TreePath,
        is_taken: IsTaken<'_>,
    ) -> Result<ImportedTree, ObjectError> {
        let reached = self.reached();
        let numbered = NumberedLinks::new(self.named(into, &reached), is_taken);
        let mut directories = 0;
        let mut built: Vec<Option<Entry>> = self.directories.iter().map(|_| None).collect();
        for index in (0..self.directories.len()).rev().filter(|index| reached[*index]) {
            // From the last to the first: a directory comes before those in it, and needs their entries.
            let entries = std::mem::take(&mut self.directories[index].entries);
            let slots: Vec<_> = entries
                .into_iter()
                .map(|(name, entry)| match entry.node {
                    ImportNode::Own(entry) => (name, Slot::Own(entry)),
                    ImportNode::Shared(shared) => {
                        (name, numbered.slot(&shared).expect("it has a name: this one"))
                    }
                    ImportNode::Directory(below) => {
                        directories += 1;
                        (
                            name,
                            Slot::Own(built[below].take().expect("what lies below comes behind")),
                        )
                    }
                })
                .collect();
            let meta = std::mem::take(&mut self.directories[index].meta);
            built[index] = Some(directory_entry(objects, writer, meta, slots.into_iter())?);
        }
        let directory = built
            .swap_remove(TOP)
            .expect("the topmost directory was built last");
        let below = directory.totals().plus(numbered.totals());
        let (files, bytes) = (below.inodes - 1 - directories, below.bytes);
        let report = TransferReport {
            files,
            directories,
            bytes,
            skipped: Vec::new(),
        };
        Ok(ImportedTree {
            directory,
            links: numbered.links.into_iter().collect(),
            report,
        })
    }

    /// The shared files with the names that they have in the end.
    fn named(&self, into: &TreePath, reached: &[bool]) -> Vec<(usize, SharedFile)> {
        let mut files: BTreeMap<usize, SharedFile> = BTreeMap::new();
        for (index, directory) in self.directories.iter().enumerate() {
            if !reached[index] {
                continue;
            }
            for (name, entry) in &directory.entries {
                let ImportNode::Shared(shared) = &entry.node else {
                    continue;
                };
                let path = join(into.as_bytes(), &join(&self.path(index), name));
                match files.get_mut(shared) {
                    Some(file) => file.add_name(&path),
                    None => {
                        files.insert(*shared, SharedFile::new(self.shared[*shared].clone(), &path));
                    }
                }
            }
        }
        files.into_iter().collect()
    }

    /// Which directories are still in the tree: those that nothing has replaced or hidden.
    fn reached(&self) -> Vec<bool> {
        let mut reached = vec![true; self.directories.len()];
        for (index, ImportDirectory { parent, name, .. }) in self.directories.iter().enumerate().skip(1) {
            let entry = self.directories[*parent].entries.get(name);
            let is_named =
                matches!(entry, Some(ImportEntry { node: ImportNode::Directory(own), .. }) if *own == index);
            reached[index] = reached[*parent] && is_named;
        }
        reached
    }

    fn path(&self, mut index: usize) -> Vec<u8> {
        let mut names = Vec::new();
        while index != TOP {
            names.push(&self.directories[index].name[..]);
            index = self.directories[index].parent;
        }
        names.reverse();
        names.join(&b'/')
    }
}
