//! Takes the changed part of a tree out of memory at one moment, so that it can be stored while the tree
//! remains usable. The cost depends on the number of changes; file contents are not copied.

use std::collections::BTreeSet;
use std::sync::Arc;

use avfs_core::{EntryKind, EntryName, LinkId, LinkedFile, Meta, NodeId, Timestamp, Totals};

use crate::error::FsError;
use crate::file::EditedFile;
use crate::inodes::Ino;
use crate::worktree::inode::{Inode, InodeBody};
use crate::worktree::state::{BaseTree, CapturedChanges, TreeState};

/// Everything that differed from `base` at the moment of capture.
#[derive(Debug)]
pub(crate) struct CapturedTree {
    pub base: BaseTree,
    pub totals: Totals,
    pub root: CapturedEntry,
    /// The changed directories, each after those below it.
    pub directories: Vec<CapturedDirectory>,
    pub links: Vec<(LinkId, Option<CapturedLink>)>,
    pub freed: BTreeSet<Ino>,
}

#[derive(Debug)]
pub(crate) struct CapturedDirectory {
    pub ino: Ino,
    pub base: Option<NodeId>,
    pub below: Totals,
    /// The source's numbers of entries that did not change.
    pub numbers: Option<NodeId>,
    /// The changed names, and their new entries.
    pub names: Vec<(EntryName, Option<CapturedChild>)>,
}

#[derive(Debug)]
pub(crate) enum CapturedChild {
    Link(LinkId),
    Own(Ino, CapturedEntry),
}

#[derive(Debug)]
pub(crate) enum CapturedLink {
    InMemory {
        entry: CapturedEntry,
        names: u32,
    },
    /// Came unchanged with a stored tree.
    AsItCame(LinkedFile),
}

#[derive(Debug)]
pub(crate) struct CapturedEntry {
    pub meta: Meta,
    pub ctime: Timestamp,
    pub body: CapturedBody,
}

#[derive(Debug)]
pub(crate) enum CapturedBody {
    /// Stored already, or without contents.
    Known(EntryKind),
    Edited(Ino, Arc<EditedFile>),
    /// One of the captured directories.
    Directory(Ino),
}

/// How the contents of a changed file are captured.
type TakeFile<'a> = &'a dyn Fn(&mut EditedFile) -> Arc<EditedFile>;

/// Captures a part of a tree.
struct TreeCapture<'a> {
    state: &'a mut TreeState,
    take: TakeFile<'a>,
}

impl TreeCapture<'_> {
    fn captured_tree(&mut self) -> Result<CapturedTree, FsError> {
        let order = self.dirty_directories(Ino::ROOT)?;
        let mut directories = Vec::with_capacity(order.len());
        for ino in &order {
            let captured = self.captured_directory(*ino)?;
            directories.push(captured);
            let directory = self.state.directory_mut(*ino)?;
            directory.settling = std::mem::take(&mut directory.changed);
        }
        let links = self.captured_links()?;
        let root = self.captured_entry(Ino::ROOT)?;
        let dirty: Vec<Ino> = self.state.dirty.drain().collect();
        for ino in &dirty {
            if let Some(inode) = self.state.inodes.get_mut(ino) {
                inode.dirty = false;
            }
        }
        let freed = std::mem::take(&mut self.state.freed);
        let settling = CapturedChanges {
            links: std::mem::take(&mut self.state.links),
            freed: freed.clone(),
            dirty,
        };
        self.state.settling = Some(settling);
        let base = self.state.base.clone();
        let totals = self.state.totals();
        Ok(CapturedTree {
            base,
            totals,
            root,
            directories,
            links,
            freed,
        })
    }

    fn captured_below(&mut self, ino: Ino) -> Result<(CapturedEntry, Vec<CapturedDirectory>), FsError> {
        let order = if self.state.inode(ino)?.is_directory() {
            self.dirty_directories(ino)?
        } else {
            Vec::new()
        };
        let mut directories = Vec::with_capacity(order.len());
        for below in order {
            directories.push(self.captured_directory(below)?);
        }
        let mut entry = self.captured_entry(ino)?;
        if !directories.is_empty() {
            entry.body = CapturedBody::Directory(ino);
        }
        Ok((entry, directories))
    }

    /// The directories from `top` down whose stored form is outdated, each after those below it.
    fn dirty_directories(&self, top: Ino) -> Result<Vec<Ino>, FsError> {
        let mut order = Vec::new();
        if !is_overlaid_directory(self.state.inode(top)?) {
            return Ok(order);
        }
        let mut open = vec![top];
        while let Some(ino) = open.pop() {
            let directory = self.state.directory(ino)?;
            order.push(ino);
            let overlaid = directory.changed.iter().chain(&directory.settling);
            for child in overlaid.filter_map(|name| directory.children.get(name)) {
                if is_overlaid_directory(self.state.inode(*child)?) {
                    open.push(*child);
                }
            }
        }
        order.reverse();
        Ok(order)
    }

    fn captured_directory(&mut self, ino: Ino) -> Result<CapturedDirectory, FsError> {
        let directory = self.state.directory(ino)?;
        let base = directory.base;
        let below = directory.below;
        let numbers = directory.numbers;
        let child = |name: &EntryName| (name.clone(), directory.children.get(name).copied());
        // Both are sorted already.
        let children: Vec<(EntryName, Option<Ino>)> =
            directory.changed.union(&directory.settling).map(child).collect();
        let mut names = Vec::with_capacity(children.len());
        for (name, child) in children {
            let child = child.map(|child| self.captured_child(child)).transpose()?;
            names.push((name, child));
        }
        Ok(CapturedDirectory {
            ino,
            base,
            below,
            numbers,
            names,
        })
    }

    fn captured_child(&mut self, ino: Ino) -> Result<CapturedChild, FsError> {
        let inode = self.state.inode_mut(ino)?;
        if inode.linked {
            Ok(CapturedChild::Link(LinkId(ino.0)))
        } else {
            Ok(CapturedChild::Own(ino, captured_entry(ino, inode, self.take)))
        }
    }

    fn captured_entry(&mut self, ino: Ino) -> Result<CapturedEntry, FsError> {
        Ok(captured_entry(ino, self.state.inode_mut(ino)?, self.take))
    }

    fn captured_links(&mut self) -> Result<Vec<(LinkId, Option<CapturedLink>)>, FsError> {
        let mut links = Vec::with_capacity(self.state.links.dirty.len());
        for link in self.state.links.dirty.clone() {
            let ino = Ino::of_link(link);
            let names = self
                .state
                .inodes
                .get(&ino)
                .filter(|inode| inode.linked)
                .map(|inode| inode.names);
            let captured = match names {
                Some(0) => None,
                Some(names) => Some(CapturedLink::InMemory {
                    entry: self.captured_entry(ino)?,
                    names,
                }),
                None => self
                    .state
                    .links
                    .new
                    .get(&link)
                    .cloned()
                    .map(CapturedLink::AsItCame),
            };
            links.push((link, captured));
        }
        Ok(links)
    }
}

impl CapturedTree {
    /// Captures all changes; until they are settled or abandoned, they lie between the base and later
    /// changes.
    pub(super) fn take(state: &mut TreeState) -> Result<CapturedTree, FsError> {
        TreeCapture {
            state,
            take: &EditedFile::capture,
        }
        .captured_tree()
    }
}

/// Captures a copy of one entry with everything below it; the tree is unchanged.
pub(crate) fn capture_entry(
    state: &mut TreeState,
    ino: Ino,
) -> Result<(CapturedEntry, Vec<CapturedDirectory>), FsError> {
    let journal = state.journal.take();
    let take = |file: &mut EditedFile| Arc::new(file.resolved(journal.as_ref()));
    let captured = TreeCapture { state, take: &take }.captured_below(ino);
    state.journal = journal;
    captured
}

impl CapturedChanges {
    /// The captured state will not be stored: returns it to the changes.
    pub(crate) fn give_back(self, state: &mut TreeState) -> Result<(), FsError> {
        for (link, file) in self.links.new {
            let superseded =
                state.links.dirty.contains(&link) || state.inodes.contains_key(&Ino::of_link(link));
            if !superseded {
                state.links.new.insert(link, file);
            }
        }
        state.links.dirty.extend(self.links.dirty);
        state.freed.extend(
            self.freed
                .into_iter()
                .filter(|ino| !state.inodes.contains_key(ino)),
        );
        for ino in self.dirty {
            let Some(inode) = state.inodes.get_mut(&ino) else {
                continue;
            };
            thaw(inode);
            let is_named = inode.names > 0 || ino == Ino::ROOT;
            if is_named {
                state.mark_dirty(ino)?;
            }
        }
        Ok(())
    }
}

fn is_overlaid_directory(inode: &Inode) -> bool {
    match &inode.body {
        InodeBody::Directory(directory) => {
            !directory.changed.is_empty() || !directory.settling.is_empty() || directory.numbers.is_some()
        }
        _ => false,
    }
}

fn captured_entry(ino: Ino, inode: &mut Inode, take: TakeFile<'_>) -> CapturedEntry {
    let is_overlaid = is_overlaid_directory(inode);
    let body = match &mut inode.body {
        InodeBody::Edited(file) => CapturedBody::Edited(ino, take(file)),
        InodeBody::Directory(_) if is_overlaid => CapturedBody::Directory(ino),
        InodeBody::Stored { size, content } => CapturedBody::Known(EntryKind::File {
            size: *size,
            content: *content,
        }),
        InodeBody::Directory(directory) => {
            let entries = directory.base;
            let below = directory.below;
            CapturedBody::Known(EntryKind::Directory { entries, below })
        }
        InodeBody::Symlink(target) => CapturedBody::Known(EntryKind::Symlink {
            target: target.clone(),
        }),
        InodeBody::Fifo => CapturedBody::Known(EntryKind::Fifo),
        InodeBody::Socket => CapturedBody::Known(EntryKind::Socket),
        InodeBody::CharDevice(device) => CapturedBody::Known(EntryKind::CharDevice { device: *device }),
        InodeBody::BlockDevice(device) => CapturedBody::Known(EntryKind::BlockDevice { device: *device }),
    };
    CapturedEntry {
        meta: inode.meta.clone(),
        ctime: inode.ctime,
        body,
    }
}

fn thaw(inode: &mut Inode) {
    match &mut inode.body {
        InodeBody::Edited(file) => file.thaw(),
        InodeBody::Directory(directory) => directory.changed.append(&mut directory.settling),
        _ => {}
    }
}
