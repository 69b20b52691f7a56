//! The tree that an archive describes, entry by entry, and what it may not describe.

use std::collections::BTreeMap;

use avfs_core::map::Record;
use avfs_core::{BadName, Entry, EntryKind, EntryName, Meta, PATH_MAX, Slot, TreePath};
use avfs_tree::{ObjectError, ObjectWriter, Objects};

use super::error::Reason;
use super::host_tree::directory_entry;
use super::links::{IsTaken, Numbered, Shared};
use super::{Imported, Report, join};

/// Directories by number; those below others come behind them.
pub(super) struct TarTree {
    directories: Vec<Directory>,
    /// Files that hard links were made to.
    shared: Vec<Entry>,
    /// The attributes of directories that the archive uses but does not hold.
    implied: Meta,
    /// How long the path of the directory is that this will be.
    depth: usize,
}

struct Directory {
    parent: usize,
    name: Box<[u8]>,
    meta: Meta,
    entries: BTreeMap<Box<[u8]>, Node>,
}

enum Node {
    Directory(usize),
    Own(Entry),
    Shared(usize),
}

/// The names of a path, the last apart.
type Split = (Vec<EntryName>, Option<EntryName>);

const TOP: usize = 0;

impl TarTree {
    pub(super) fn new(implied: Meta, into: &TreePath) -> TarTree {
        let top =
            Directory { parent: TOP, name: Box::default(), meta: implied.clone(), entries: BTreeMap::new() };
        TarTree { directories: vec![top], shared: Vec::new(), implied, depth: into.as_bytes().len() }
    }

    /// Checks where an entry wants to go, before its bytes are read.
    pub(super) fn check(&self, path: &[u8], is_directory: bool) -> Result<(), Reason> {
        let (parents, name) = self.split(path)?;
        let parent = self.find_parent(&parents)?;
        match (name, parent) {
            (None, _) if !is_directory => Err(BadName::Empty.into()),
            (Some(name), Some(parent)) if !is_directory => self.check_free(parent, &name),
            _ => Ok(()),
        }
    }

    /// Adds anything but a directory. What had the name before is gone.
    pub(super) fn add(&mut self, path: &[u8], entry: Entry) -> Result<(), Reason> {
        self.put(path, Node::Own(entry))
    }

    pub(super) fn add_directory(&mut self, path: &[u8], meta: Meta) -> Result<(), Reason> {
        let (mut parents, name) = self.split(path)?;
        parents.extend(name);
        if let (Some(name), parents) = (parents.last().cloned(), &parents[..parents.len().saturating_sub(1)])
            && let Some(parent) = self.find_parent(parents)?
            && matches!(
                self.directories[parent].entries.get(name.as_bytes()),
                Some(Node::Own(_) | Node::Shared(_))
            )
        {
            self.directories[parent].entries.remove(name.as_bytes());
        }
        let directory = self.make_parent(&parents)?;
        self.directories[directory].meta = meta;
        Ok(())
    }

    /// Adds another name of the file at `target`, which must have come before.
    pub(super) fn add_link(&mut self, path: &[u8], target: &[u8]) -> Result<(), Reason> {
        let outside = |_| Reason::LinkOutside(target.into());
        let (parents, name) = self.split(target).map_err(outside)?;
        let nothing = || Reason::LinkToNothing(target.into());
        let name = name.ok_or_else(|| Reason::LinkToDirectory(target.into()))?;
        let parent = self.find_parent(&parents)?.ok_or_else(nothing)?;
        self.check(path, false)?;
        let entries = &mut self.directories[parent].entries;
        let index = match entries.get_mut(name.as_bytes()) {
            None => return Err(nothing()),
            Some(Node::Directory(_)) => return Err(Reason::LinkToDirectory(target.into())),
            Some(Node::Shared(index)) => *index,
            Some(node) => {
                let index = self.shared.len();
                if let Node::Own(entry) = std::mem::replace(node, Node::Shared(index)) {
                    self.shared.push(entry);
                }
                index
            }
        };
        self.put(path, Node::Shared(index))
    }

    fn put(&mut self, path: &[u8], node: Node) -> Result<(), Reason> {
        let (parents, name) = self.split(path)?;
        let name = name.ok_or(BadName::Empty)?;
        let parent = self.make_parent(&parents)?;
        self.check_free(parent, &name)?;
        self.directories[parent].entries.insert(name.as_bytes().into(), node);
        Ok(())
    }

    /// An entry takes the place of whatever came before, but not of a directory with entries.
    fn check_free(&self, parent: usize, name: &EntryName) -> Result<(), Reason> {
        match self.directories[parent].entries.get(name.as_bytes()) {
            Some(Node::Directory(index)) if !self.directories[*index].entries.is_empty() => {
                Err(Reason::DirectoryInTheWay)
            }
            _ => Ok(()),
        }
    }

    fn split(&self, path: &[u8]) -> Result<Split, Reason> {
        if path.first() == Some(&b'/') {
            return Err(Reason::Absolute);
        }
        let mut names = Vec::new();
        let mut len = self.depth;
        for part in path.split(|byte| *byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." => return Err(Reason::DotDot),
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
    fn find_parent(&self, names: &[EntryName]) -> Result<Option<usize>, Reason> {
        let mut directory = TOP;
        for (index, name) in names.iter().enumerate() {
            let so_far = || {
                let names: Vec<&[u8]> = names[..=index].iter().map(EntryName::as_bytes).collect();
                names.join(&b'/').into()
            };
            match self.directories[directory].entries.get(name.as_bytes()) {
                None => return Ok(None),
                Some(Node::Directory(below)) => directory = *below,
                Some(node) if self.is_symlink(node) => return Err(Reason::ThroughLink(so_far())),
                Some(_) => return Err(Reason::UnderFile(so_far())),
            }
        }
        Ok(Some(directory))
    }

    fn is_symlink(&self, node: &Node) -> bool {
        let entry = match node {
            Node::Own(entry) => entry,
            Node::Shared(index) => &self.shared[*index],
            Node::Directory(_) => return false,
        };
        matches!(entry.kind, EntryKind::Symlink { .. })
    }

    /// The directory at a path, made with all above it if it does not exist.
    fn make_parent(&mut self, names: &[EntryName]) -> Result<usize, Reason> {
        self.find_parent(names)?;
        let mut directory = TOP;
        for name in names {
            let new = self.directories.len();
            let entries = &mut self.directories[directory].entries;
            let node = entries.entry(name.as_bytes().into()).or_insert(Node::Directory(new));
            let Node::Directory(below) = node else { return Err(Reason::UnderFile(name.as_bytes().into())) };
            let below = *below;
            if below == new {
                let (parent, name, meta) = (directory, name.as_bytes().into(), self.implied.clone());
                self.directories.push(Directory { parent, name, meta, entries: BTreeMap::new() });
            }
            directory = below;
        }
        Ok(directory)
    }

    /// Builds all directories, the deepest first, and counts what they hold in the end.
    pub(super) fn build(
        mut self,
        objects: &Objects,
        writer: &ObjectWriter,
        into: &TreePath,
        is_taken: IsTaken<'_>,
    ) -> Result<Imported, ObjectError> {
        let numbered = Numbered::new(self.named(into), is_taken);
        let mut directories = 0;
        let mut built: Vec<Option<Entry>> = self.directories.iter().map(|_| None).collect();
        for index in (0..self.directories.len()).rev() {
            let entries = std::mem::take(&mut self.directories[index].entries);
            let slots: Vec<_> = entries
                .into_iter()
                .map(|(name, node)| match node {
                    Node::Own(entry) => (name, Slot::Own(entry)),
                    Node::Shared(shared) => (name, numbered.slot(&shared).expect("it has a name: this one")),
                    Node::Directory(below) => {
                        directories += 1;
                        (name, Slot::Own(built[below].take().expect("what lies below comes behind")))
                    }
                })
                .collect();
            let meta = std::mem::take(&mut self.directories[index].meta);
            built[index] = Some(directory_entry(objects, writer, meta, slots.into_iter())?);
        }
        let directory = built.swap_remove(TOP).expect("the topmost directory was built last");
        let below = directory.totals().plus(numbered.totals());
        let (files, bytes) = (below.inodes - 1 - directories, below.bytes);
        let report = Report { files, directories, bytes, skipped: Vec::new() };
        Ok(Imported { directory, links: numbered.links.into_iter().collect(), report })
    }

    /// The shared files with the names that they have in the end.
    fn named(&mut self, into: &TreePath) -> Vec<(usize, Shared)> {
        let mut files: BTreeMap<usize, Shared> = BTreeMap::new();
        for (index, directory) in self.directories.iter().enumerate() {
            if !self.is_reached(index) {
                continue;
            }
            for (name, node) in &directory.entries {
                let Node::Shared(shared) = node else { continue };
                let path = join(into.as_bytes(), &join(&self.path(index), name));
                match files.get_mut(shared) {
                    Some(file) => file.add_name(&path),
                    None => {
                        files.insert(*shared, Shared::new(self.shared[*shared].clone(), &path));
                    }
                }
            }
        }
        files.into_iter().collect()
    }

    /// Whether a directory is still in the tree. One that was replaced was empty, so this is about itself.
    fn is_reached(&self, index: usize) -> bool {
        let Directory { parent, name, .. } = &self.directories[index];
        index == TOP
            || matches!(self.directories[*parent].entries.get(name), Some(Node::Directory(own)) if *own == index)
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
