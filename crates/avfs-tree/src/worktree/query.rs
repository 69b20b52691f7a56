//! Queries to a working tree: by inode, as a mount does, or by path.

use std::borrow::Cow;
use std::sync::MutexGuard;

use avfs_core::rules::Level;
use avfs_core::{EntryName, Slot, TreePath};
use bytes::Bytes;

use super::guard::{GuardedRequest, VisibleName};
use super::{Attr, InodeKind, KnownInode, WorkTree};
use crate::content;
use crate::error::FsError;
use crate::file::EditedFile;
use crate::inodes::Ino;
use crate::op::EntryPlace;
use crate::worktree::inode::{Inode, InodeBody};
use crate::worktree::state::TreeState;
use crate::worktree::subdirectories::link_count;

/// A piece that was read from a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadPiece {
    /// How many bytes.
    pub len: usize,
    /// The directory that contains the file; `None` if the file has several names, or none.
    pub parent: Option<Ino>,
}

impl WorkTree {
    /// The entry of a directory with this name.
    pub fn lookup(&self, parent: Ino, name: &EntryName) -> Result<Attr, FsError> {
        let mut state = self.state();
        let at = EntryPlace::new(parent, name.clone());
        let found = state.lookup(&at)?;
        let visibility = self.ask(&mut state, GuardedRequest::Find { at: &at, found })?;
        if !self.waits && state.preparing.contains(&at) {
            return Err(FsError::InPreparation);
        }
        self.attr_and_hold(&mut state, found.ok_or(FsError::NotFound)?, visibility)
    }

    /// The attributes of an inode.
    pub fn attr(&self, ino: Ino) -> Result<Attr, FsError> {
        let mut state = self.state_with(ino)?;
        let visibility = self.ask(&mut state, GuardedRequest::See(ino))?;
        let attr = attr(&mut state, ino)?;
        self.visible_attr(&mut state, attr, visibility)
    }

    /// Follows a path from the root, without following symbolic links.
    pub fn resolve(&self, path: &TreePath) -> Result<Attr, FsError> {
        let mut state = self.state();
        let mut ino = Ino::ROOT;
        let mut visibility = self.ask(&mut state, GuardedRequest::See(ino))?;
        for name in path.components() {
            let at = EntryPlace::new(ino, name);
            let found = state.lookup(&at)?;
            visibility = self.ask(&mut state, GuardedRequest::Find { at: &at, found })?;
            ino = found.ok_or(FsError::NotFound)?;
        }
        let attr = attr(&mut state, ino)?;
        self.visible_attr(&mut state, attr, visibility)
    }

    /// The entries of a directory after `after`, in the order of their names, at most `limit`.
    pub fn read_directory(
        &self,
        ino: Ino,
        after: Option<&EntryName>,
        limit: usize,
    ) -> Result<Vec<(EntryName, Attr)>, FsError> {
        let mut state = self.state();
        self.ask(&mut state, GuardedRequest::See(ino))?;
        let mut entries = Vec::new();
        for VisibleName {
            name,
            slot,
            visibility,
        } in self.visible_names(&mut state, ino, after, limit)?
        {
            let place = EntryPlace::new(ino, name.clone());
            let child = match (state.directory(ino)?.children.get(&name), slot) {
                (Some(child), _) => *child,
                (None, Some(slot)) => state.load(&place, slot)?,
                (None, None) => continue,
            };
            let attr = attr(&mut state, child)?;
            entries.push((name, self.visible_attr(&mut state, attr, visibility)?));
        }
        // All or none: if the last entry cannot be reported, the caller gets an error and holds none of them.
        if self.holding {
            entries.iter().try_for_each(|(_, attr)| state.hold(attr.ino))?;
        }
        Ok(entries)
    }

    /// The names in a directory after `after` with numbers and kinds, in order, at most `limit`. Loads no
    /// inodes.
    pub fn read_names(
        &self,
        ino: Ino,
        after: Option<&EntryName>,
        limit: usize,
    ) -> Result<Vec<(EntryName, Ino, InodeKind)>, FsError> {
        let mut state = self.state();
        self.ask(&mut state, GuardedRequest::See(ino))?;
        let mut entries = Vec::new();
        for VisibleName { name, slot, .. } in self.visible_names(&mut state, ino, after, limit)? {
            let loaded = state.directory(ino)?.children.get(&name).copied();
            let (child, kind) = match (loaded, slot) {
                (Some(child), _) => (child, kind(state.inode(child)?)),
                (None, Some(Slot::Link(link))) => {
                    let child = state.load_link(link)?;
                    (child, kind(state.inode(child)?))
                }
                (None, Some(Slot::Own(entry))) => (
                    state.number_of(&EntryPlace::new(ino, name.clone()))?,
                    InodeKind::from(&entry.kind),
                ),
                (None, None) => continue,
            };
            entries.push((name, child, kind));
        }
        Ok(entries)
    }

    /// Reads into `out` from `offset` on; returns the number of bytes. The lock of the tree is held only to
    /// find out where they are.
    pub fn read(&self, at: impl Into<KnownInode>, offset: u64, out: &mut [u8]) -> Result<usize, FsError> {
        Ok(self.read_piece(at, offset, out)?.len)
    }

    /// As [`WorkTree::read`], and returns the directory of the file.
    pub fn read_piece(
        &self,
        at: impl Into<KnownInode>,
        offset: u64,
        out: &mut [u8],
    ) -> Result<ReadPiece, FsError> {
        self.read_by(at.into(), offset, out, self.waits)
    }

    /// The same, but waits for contents even through a door that never waits: they may be in many objects,
    /// and other requests are not delayed.
    pub fn read_piece_waiting(
        &self,
        at: impl Into<KnownInode>,
        offset: u64,
        out: &mut [u8],
    ) -> Result<ReadPiece, FsError> {
        self.read_by(at.into(), offset, out, true)
    }

    fn read_by(
        &self,
        at: KnownInode,
        offset: u64,
        out: &mut [u8],
        waits: bool,
    ) -> Result<ReadPiece, FsError> {
        self.promised().fulfil_if_owed(at.ino)?;
        let mut state = self.state_with(at.ino)?;
        self.ask(&mut state, GuardedRequest::Use(at.ino, Level::Read))?;
        let mut objects = state.objects.clone();
        objects.set_waits(waits);
        let inode = state.inode_at(at)?;
        let parent = inode.place.as_ref().map(|place| place.parent);
        let plan = match &inode.body {
            InodeBody::Stored { size, content } => {
                let size = *size;
                let content = *content;
                drop(state);
                let len = content::read_at(&objects, content, size, offset, out)?;
                return Ok(ReadPiece { len, parent });
            }
            InodeBody::Edited(file) => file.plan(state.journal.as_ref(), offset, out.len() as u64),
            InodeBody::Directory(_) => return Err(FsError::IsADirectory),
            _ => return Err(FsError::Invalid("not a regular file")),
        };
        drop(state);
        Ok(ReadPiece {
            len: plan.fill(&objects, out)?,
            parent,
        })
    }

    /// The tree, with this inode loaded, if the rules allow reading it.
    fn readable(&self, ino: Ino) -> Result<MutexGuard<'_, TreeState>, FsError> {
        let mut state = self.state_with(ino)?;
        self.ask(&mut state, GuardedRequest::Use(ino, Level::Read))?;
        Ok(state)
    }

    /// All bytes of a file.
    pub fn read_all(&self, ino: Ino) -> Result<Bytes, FsError> {
        self.promised().fulfil_if_owed(ino)?;
        let state = self.readable(ino)?;
        file(&state, ino)?.read_all(&state.objects, state.journal.as_ref())
    }

    /// An estimate of the bytes of a file that are not holes: never too low, and exact if there are few of
    /// them.
    pub fn occupied(&self, ino: Ino) -> Result<u64, FsError> {
        let mut state = self.state_with(ino)?;
        self.ask(&mut state, GuardedRequest::See(ino))?;
        if let InodeBody::Stored { size, content } = state.inode(ino)?.body {
            let objects = state.objects.clone();
            drop(state);
            return EditedFile::stored(size, content).occupied(&objects);
        }
        file(&state, ino)?.occupied(&state.objects)
    }

    /// The next data at or after `offset`; `None` if only a hole follows.
    pub fn seek_data(&self, ino: Ino, offset: u64) -> Result<Option<u64>, FsError> {
        let state = self.readable(ino)?;
        file(&state, ino)?.seek_data(&state.objects, offset)
    }

    /// The next hole at or after `offset`, or the end of the file.
    pub fn seek_hole(&self, ino: Ino, offset: u64) -> Result<u64, FsError> {
        let state = self.readable(ino)?;
        file(&state, ino)?.seek_hole(&state.objects, offset)
    }

    /// The target of a symbolic link.
    pub fn read_link(&self, ino: Ino) -> Result<Vec<u8>, FsError> {
        match &self.readable(ino)?.inode(ino)?.body {
            InodeBody::Symlink(target) => Ok(target.to_vec()),
            _ => Err(FsError::Invalid("not a symbolic link")),
        }
    }

    /// The value of an extended attribute.
    pub fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>, FsError> {
        let state = self.readable(ino)?;
        let value = state.inode(ino)?.meta.xattrs.get(name);
        value.map(<[u8]>::to_vec).ok_or(FsError::NoXattr)
    }

    /// The names of the extended attributes.
    pub fn list_xattrs(&self, ino: Ino) -> Result<Vec<Vec<u8>>, FsError> {
        let state = self.readable(ino)?;
        Ok(state
            .inode(ino)?
            .meta
            .xattrs
            .iter()
            .map(|(name, _)| name.to_vec())
            .collect())
    }

    /// The parent of a directory; the root is its own parent.
    pub fn parent(&self, directory: Ino) -> Result<Ino, FsError> {
        let mut state = self.state();
        self.ask(&mut state, GuardedRequest::See(directory))?;
        let place = state.inode(directory)?.place.as_ref();
        Ok(place.map_or(directory, |place| place.parent))
    }

    /// The path of an inode that has one name; `None` for others.
    pub fn path(&self, ino: Ino) -> Result<Option<TreePath>, FsError> {
        let mut state = self.state_with(ino)?;
        self.ask(&mut state, GuardedRequest::See(ino))?;
        let mut names = Vec::new();
        let mut current = ino;
        while current != Ino::ROOT {
            let Some(place) = &state.inode(current)?.place else {
                return Ok(None);
            };
            names.push(place.name.clone());
            current = place.parent;
        }
        let mut path = TreePath::root();
        names.iter().rev().for_each(|name| path.push(name));
        Ok(Some(path))
    }
}

fn file(state: &TreeState, ino: Ino) -> Result<Cow<'_, EditedFile>, FsError> {
    match &state.inode(ino)?.body {
        InodeBody::Stored { size, content } => Ok(Cow::Owned(EditedFile::stored(*size, *content))),
        InodeBody::Edited(file) => Ok(Cow::Borrowed(file)),
        InodeBody::Directory(_) => Err(FsError::IsADirectory),
        _ => Err(FsError::Invalid("not a regular file")),
    }
}

pub(crate) fn attr(state: &mut TreeState, ino: Ino) -> Result<Attr, FsError> {
    let names = link_count(state, ino)?;
    let inode = state.inode(ino)?;
    let atime = inode.atime.as_deref().copied().unwrap_or(inode.meta.mtime);
    let meta = inode.meta.clone();
    let ctime = inode.ctime;
    let size = inode.size();
    Ok(Attr {
        ino,
        meta,
        ctime,
        atime,
        kind: kind(inode),
        size,
        names,
    })
}

fn kind(inode: &Inode) -> InodeKind {
    match &inode.body {
        InodeBody::Stored { .. } | InodeBody::Edited(_) => InodeKind::File,
        InodeBody::Directory(_) => InodeKind::Directory,
        InodeBody::Symlink(_) => InodeKind::Symlink,
        InodeBody::Fifo => InodeKind::Fifo,
        InodeBody::Socket => InodeKind::Socket,
        InodeBody::CharDevice(device) => InodeKind::CharDevice { device: *device },
        InodeBody::BlockDevice(device) => InodeKind::BlockDevice { device: *device },
    }
}
