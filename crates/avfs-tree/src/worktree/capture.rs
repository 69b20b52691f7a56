//! Taking the changed part of a tree out of memory at one moment, so that it can be stored while the tree
//! goes on. Costs what changed, without touching a byte of file contents.

use std::collections::BTreeSet;
use std::sync::Arc;

use avfs_core::{EntryKind, EntryName, LinkId, LinkedFile, Meta, NodeId, Timestamp, Totals};

use crate::error::FsError;
use crate::file::FileBody;
use crate::inodes::Ino;
use crate::worktree::inode::{Body, Inode};
use crate::worktree::state::{Base, Settling, State};

/// Everything that differed from `base` when it was taken.
#[derive(Debug)]
pub(crate) struct Captured {
    pub base: Base,
    pub totals: Totals,
    pub root: CapturedEntry,
    /// The changed directories, each behind those below it.
    pub directories: Vec<CapturedDirectory>,
    pub links: Vec<(LinkId, Option<CapturedLink>)>,
    pub freed: BTreeSet<Ino>,
}

#[derive(Debug)]
pub(crate) struct CapturedDirectory {
    pub ino: Ino,
    pub base: Option<NodeId>,
    pub below: Totals,
    /// What its source said of entries that did not change.
    pub numbers: Option<NodeId>,
    /// The names that changed, and what they name now.
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
    /// Came with a stored tree.
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
    Edited(Ino, Arc<FileBody>),
    /// One of the captured directories.
    Directory(Ino),
}

/// How the contents of a changed file are taken.
type TakeFile<'a> = &'a dyn Fn(&mut FileBody) -> Arc<FileBody>;

impl State {
    /// Takes everything that changed; until it is settled or abandoned, it lies between the base and later
    /// changes.
    pub fn capture(&mut self) -> Result<Captured, FsError> {
        let order = self.dirty_directories(Ino::ROOT)?;
        let take: TakeFile<'_> = &FileBody::capture;
        let mut directories = Vec::with_capacity(order.len());
        for ino in &order {
            let captured = self.captured_directory(*ino, take)?;
            directories.push(captured);
            let directory = self.directory_mut(*ino)?;
            directory.settling = std::mem::take(&mut directory.changed);
        }
        let links = self.captured_links(take)?;
        let root = self.captured_entry(Ino::ROOT, take)?;
        let dirty: Vec<Ino> = self.dirty.drain().collect();
        for ino in &dirty {
            if let Some(inode) = self.inodes.get_mut(ino) {
                inode.dirty = false;
            }
        }
        let freed = std::mem::take(&mut self.freed);
        let settling = Settling { links: std::mem::take(&mut self.links), freed: freed.clone(), dirty };
        self.settling = Some(settling);
        let (base, totals) = (self.base.clone(), self.totals());
        Ok(Captured { base, totals, root, directories, links, freed })
    }

    /// Takes a copy of one entry with everything below it; the tree stays as it is.
    pub fn capture_entry(&mut self, ino: Ino) -> Result<(CapturedEntry, Vec<CapturedDirectory>), FsError> {
        let journal = self.journal.take();
        let take = |file: &mut FileBody| Arc::new(file.resolved(journal.as_ref()));
        let captured = self.captured_below(ino, &take);
        self.journal = journal;
        captured
    }

    fn captured_below(
        &mut self,
        ino: Ino,
        take: TakeFile<'_>,
    ) -> Result<(CapturedEntry, Vec<CapturedDirectory>), FsError> {
        let order = match self.inode(ino)?.is_directory() {
            true => self.dirty_directories(ino)?,
            false => Vec::new(),
        };
        let mut directories = Vec::with_capacity(order.len());
        for below in order {
            directories.push(self.captured_directory(below, take)?);
        }
        let mut entry = self.captured_entry(ino, take)?;
        if !directories.is_empty() {
            entry.body = CapturedBody::Directory(ino);
        }
        Ok((entry, directories))
    }

    /// The directories from `top` on whose stored form does not hold, each behind those below it.
    fn dirty_directories(&self, top: Ino) -> Result<Vec<Ino>, FsError> {
        let mut order = Vec::new();
        if !is_overlaid_directory(self.inode(top)?) {
            return Ok(order);
        }
        let mut open = vec![top];
        while let Some(ino) = open.pop() {
            let directory = self.directory(ino)?;
            order.push(ino);
            let overlaid = directory.changed.iter().chain(&directory.settling);
            for child in overlaid.filter_map(|name| directory.children.get(name)) {
                if is_overlaid_directory(self.inode(*child)?) {
                    open.push(*child);
                }
            }
        }
        order.reverse();
        Ok(order)
    }

    fn captured_directory(&mut self, ino: Ino, take: TakeFile<'_>) -> Result<CapturedDirectory, FsError> {
        let directory = self.directory(ino)?;
        let (base, below, numbers) = (directory.base, directory.below, directory.numbers);
        let child = |name: &EntryName| (name.clone(), directory.children.get(name).copied());
        // Both are in order already.
        let children: Vec<(EntryName, Option<Ino>)> =
            directory.changed.union(&directory.settling).map(child).collect();
        let mut names = Vec::with_capacity(children.len());
        for (name, child) in children {
            let child = child.map(|child| self.captured_child(child, take)).transpose()?;
            names.push((name, child));
        }
        Ok(CapturedDirectory { ino, base, below, numbers, names })
    }

    fn captured_child(&mut self, ino: Ino, take: TakeFile<'_>) -> Result<CapturedChild, FsError> {
        let inode = self.inode_mut(ino)?;
        match inode.linked {
            true => Ok(CapturedChild::Link(LinkId(ino.0))),
            false => Ok(CapturedChild::Own(ino, captured_entry(ino, inode, take))),
        }
    }

    fn captured_entry(&mut self, ino: Ino, take: TakeFile<'_>) -> Result<CapturedEntry, FsError> {
        Ok(captured_entry(ino, self.inode_mut(ino)?, take))
    }

    fn captured_links(&mut self, take: TakeFile<'_>) -> Result<Vec<(LinkId, Option<CapturedLink>)>, FsError> {
        let mut links = Vec::with_capacity(self.links.dirty.len());
        for link in self.links.dirty.clone() {
            let ino = Ino::of_link(link);
            let names = self.inodes.get(&ino).filter(|inode| inode.linked).map(|inode| inode.names);
            let captured = match names {
                Some(0) => None,
                Some(names) => Some(CapturedLink::InMemory { entry: self.captured_entry(ino, take)?, names }),
                None => self.links.new.get(&link).cloned().map(CapturedLink::AsItCame),
            };
            links.push((link, captured));
        }
        Ok(links)
    }

    /// What was taken will not be stored: it is part of the changes again.
    pub fn abandon(&mut self) -> Result<(), FsError> {
        let Some(settling) = self.settling.take() else { return Ok(()) };
        for (link, file) in settling.links.new {
            let superseded =
                self.links.dirty.contains(&link) || self.inodes.contains_key(&Ino::of_link(link));
            if !superseded {
                self.links.new.insert(link, file);
            }
        }
        self.links.dirty.extend(settling.links.dirty);
        self.freed.extend(settling.freed.into_iter().filter(|ino| !self.inodes.contains_key(ino)));
        for ino in settling.dirty {
            let Some(inode) = self.inodes.get_mut(&ino) else { continue };
            thaw(inode);
            let is_named = inode.names > 0 || ino == Ino::ROOT;
            if is_named {
                self.mark_dirty(ino)?;
            }
        }
        Ok(())
    }
}

fn is_overlaid_directory(inode: &Inode) -> bool {
    match &inode.body {
        Body::Directory(directory) => {
            !directory.changed.is_empty() || !directory.settling.is_empty() || directory.numbers.is_some()
        }
        _ => false,
    }
}

fn captured_entry(ino: Ino, inode: &mut Inode, take: TakeFile<'_>) -> CapturedEntry {
    let is_overlaid = is_overlaid_directory(inode);
    let body = match &mut inode.body {
        Body::Edited(file) => CapturedBody::Edited(ino, take(file)),
        Body::Directory(_) if is_overlaid => CapturedBody::Directory(ino),
        Body::Stored { size, content } => {
            CapturedBody::Known(EntryKind::File { size: *size, content: *content })
        }
        Body::Directory(directory) => {
            let (entries, below) = (directory.base, directory.below);
            CapturedBody::Known(EntryKind::Directory { entries, below })
        }
        Body::Symlink(target) => CapturedBody::Known(EntryKind::Symlink { target: target.clone() }),
        Body::Fifo => CapturedBody::Known(EntryKind::Fifo),
        Body::Socket => CapturedBody::Known(EntryKind::Socket),
        Body::CharDevice(device) => CapturedBody::Known(EntryKind::CharDevice { device: *device }),
        Body::BlockDevice(device) => CapturedBody::Known(EntryKind::BlockDevice { device: *device }),
    };
    CapturedEntry { meta: inode.meta.clone(), ctime: inode.ctime, body }
}

fn thaw(inode: &mut Inode) {
    match &mut inode.body {
        Body::Edited(file) => file.thaw(),
        Body::Directory(directory) => directory.changed.append(&mut directory.settling),
        _ => {}
    }
}
