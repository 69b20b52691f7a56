//! Asking a working tree: by inode, as a mount does, or by path.

use std::borrow::Cow;
use std::sync::MutexGuard;

use avfs_core::rules::Level;
use avfs_core::{EntryName, Slot, TreePath};
use bytes::Bytes;

use super::guard::{Ask, VisibleName};
use super::{At, Attr, Kind, WorkTree};
use crate::content;
use crate::error::FsError;
use crate::file::FileBody;
use crate::inodes::Ino;
use crate::op::Place;
use crate::worktree::inode::{Body, Inode};
use crate::worktree::state::State;

/// What was read of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub len: usize,
    /// Which directory the file is in; `None` if it has several names, or none.
    pub parent: Option<Ino>,
}

impl WorkTree {
    pub fn lookup(&self, parent: Ino, name: &EntryName) -> Result<Attr, FsError> {
        let mut state = self.state();
        let at = Place::new(parent, name.clone());
        let found = state.lookup(&at)?;
        let stand = self.ask(&mut state, Ask::Find { at: &at, found })?;
        if !self.waits && state.preparing.contains(&at) {
            return Err(FsError::InPreparation);
        }
        self.told(&mut state, found.ok_or(FsError::NotFound)?, stand)
    }

    pub fn attr(&self, ino: Ino) -> Result<Attr, FsError> {
        let mut state = self.state_with(ino)?;
        let stand = self.ask(&mut state, Ask::See(ino))?;
        let attr = state.attr(ino)?;
        self.shown(&mut state, attr, stand)
    }

    /// Follows a path from the root, without following symbolic links.
    pub fn resolve(&self, path: &TreePath) -> Result<Attr, FsError> {
        let mut state = self.state();
        let mut ino = Ino::ROOT;
        let mut stand = self.ask(&mut state, Ask::See(ino))?;
        for name in path.components() {
            let at = Place::new(ino, name);
            let found = state.lookup(&at)?;
            stand = self.ask(&mut state, Ask::Find { at: &at, found })?;
            ino = found.ok_or(FsError::NotFound)?;
        }
        let attr = state.attr(ino)?;
        self.shown(&mut state, attr, stand)
    }

    /// The entries of a directory behind `after`, in the order of their names, at most `limit`.
    pub fn read_directory(
        &self,
        ino: Ino,
        after: Option<&EntryName>,
        limit: usize,
    ) -> Result<Vec<(EntryName, Attr)>, FsError> {
        let mut state = self.state();
        self.ask(&mut state, Ask::See(ino))?;
        let mut entries = Vec::new();
        for VisibleName { name, slot, stand } in self.visible_names(&mut state, ino, after, limit)? {
            let place = Place::new(ino, name.clone());
            let child = match (state.directory(ino)?.children.get(&name), slot) {
                (Some(child), _) => *child,
                (None, Some(slot)) => state.load(&place, slot)?,
                (None, None) => continue,
            };
            let attr = state.attr(child)?;
            entries.push((name, self.shown(&mut state, attr, stand)?));
        }
        // All or none: who could not be told of the last one has been told of nothing.
        if self.holding {
            entries.iter().try_for_each(|(_, attr)| state.hold(attr.ino))?;
        }
        Ok(entries)
    }

    /// The names in a directory behind `after` with numbers and kinds, in order, at most `limit`. Nothing is
    /// loaded for it.
    pub fn read_names(
        &self,
        ino: Ino,
        after: Option<&EntryName>,
        limit: usize,
    ) -> Result<Vec<(EntryName, Ino, Kind)>, FsError> {
        let mut state = self.state();
        self.ask(&mut state, Ask::See(ino))?;
        let mut entries = Vec::new();
        for VisibleName { name, slot, .. } in self.visible_names(&mut state, ino, after, limit)? {
            let loaded = state.directory(ino)?.children.get(&name).copied();
            let (child, kind) = match (loaded, slot) {
                (Some(child), _) => (child, kind(state.inode(child)?)),
                (None, Some(Slot::Link(link))) => {
                    let child = state.load_link(link)?;
                    (child, kind(state.inode(child)?))
                }
                (None, Some(Slot::Own(entry))) => {
                    (state.number_of(&Place::new(ino, name.clone()))?, Kind::from(&entry.kind))
                }
                (None, None) => continue,
            };
            entries.push((name, child, kind));
        }
        Ok(entries)
    }

    /// Reads into `out` from `offset` on; returns how many bytes there were. The tree stands still only
    /// while it is found out where they are.
    pub fn read(&self, at: impl Into<At>, offset: u64, out: &mut [u8]) -> Result<usize, FsError> {
        Ok(self.read_piece(at, offset, out)?.len)
    }

    /// As [`WorkTree::read`], and says which directory the file is in.
    pub fn read_piece(&self, at: impl Into<At>, offset: u64, out: &mut [u8]) -> Result<Piece, FsError> {
        self.read_by(at.into(), offset, out, self.waits)
    }

    /// The same, but contents are waited for whatever the door does: they may be in many objects, and nobody else
    /// waits meanwhile.
    pub fn read_piece_waiting(
        &self,
        at: impl Into<At>,
        offset: u64,
        out: &mut [u8],
    ) -> Result<Piece, FsError> {
        self.read_by(at.into(), offset, out, true)
    }

    fn read_by(&self, at: At, offset: u64, out: &mut [u8], waits: bool) -> Result<Piece, FsError> {
        self.settle_if_owed(at.ino)?;
        let mut state = self.state_with(at.ino)?;
        self.ask(&mut state, Ask::Use(at.ino, Level::Read))?;
        let mut objects = state.objects.clone();
        objects.set_waits(waits);
        let inode = state.inode_at(at)?;
        let parent = inode.place.as_ref().map(|place| place.parent);
        let plan = match &inode.body {
            Body::Stored { size, content } => {
                let (size, content) = (*size, *content);
                drop(state);
                let len = content::read_at(&objects, content, size, offset, out)?;
                return Ok(Piece { len, parent });
            }
            Body::Edited(file) => file.plan(state.journal.as_ref(), offset, out.len() as u64),
            Body::Directory(_) => return Err(FsError::IsADirectory),
            _ => return Err(FsError::Invalid("not a regular file")),
        };
        drop(state);
        Ok(Piece { len: plan.fill(&objects, out)?, parent })
    }

    /// The tree, with this inode loaded, if it may be read.
    fn readable(&self, ino: Ino) -> Result<MutexGuard<'_, State>, FsError> {
        let mut state = self.state_with(ino)?;
        self.ask(&mut state, Ask::Use(ino, Level::Read))?;
        Ok(state)
    }

    pub fn read_all(&self, ino: Ino) -> Result<Bytes, FsError> {
        self.settle_if_owed(ino)?;
        let state = self.readable(ino)?;
        file(&state, ino)?.read_all(&state.objects, state.journal.as_ref())
    }

    /// About how many bytes of a file are no holes: never fewer, and exact if there are few of them.
    pub fn occupied(&self, ino: Ino) -> Result<u64, FsError> {
        let mut state = self.state_with(ino)?;
        self.ask(&mut state, Ask::See(ino))?;
        if let Body::Stored { size, content } = state.inode(ino)?.body {
            let objects = state.objects.clone();
            drop(state);
            return FileBody::stored(size, content).occupied(&objects);
        }
        file(&state, ino)?.occupied(&state.objects)
    }

    /// The next data at or behind `offset`; `None` if only a hole follows.
    pub fn seek_data(&self, ino: Ino, offset: u64) -> Result<Option<u64>, FsError> {
        let state = self.readable(ino)?;
        file(&state, ino)?.seek_data(&state.objects, offset)
    }

    /// The next hole at or behind `offset`, or the end of the file.
    pub fn seek_hole(&self, ino: Ino, offset: u64) -> Result<u64, FsError> {
        let state = self.readable(ino)?;
        file(&state, ino)?.seek_hole(&state.objects, offset)
    }

    pub fn read_link(&self, ino: Ino) -> Result<Vec<u8>, FsError> {
        match &self.readable(ino)?.inode(ino)?.body {
            Body::Symlink(target) => Ok(target.to_vec()),
            _ => Err(FsError::Invalid("not a symbolic link")),
        }
    }

    pub fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>, FsError> {
        let state = self.readable(ino)?;
        let value = state.inode(ino)?.meta.xattrs.get(name);
        value.map(<[u8]>::to_vec).ok_or(FsError::NoXattr)
    }

    /// The names of the extended attributes.
    pub fn list_xattrs(&self, ino: Ino) -> Result<Vec<Vec<u8>>, FsError> {
        let state = self.readable(ino)?;
        Ok(state.inode(ino)?.meta.xattrs.iter().map(|(name, _)| name.to_vec()).collect())
    }

    /// The directory that a directory lies in; the root lies in itself.
    pub fn parent(&self, directory: Ino) -> Result<Ino, FsError> {
        let mut state = self.state();
        self.ask(&mut state, Ask::See(directory))?;
        let place = state.inode(directory)?.place.as_ref();
        Ok(place.map_or(directory, |place| place.parent))
    }

    /// The path of an inode that has one name; `None` for others.
    pub fn path(&self, ino: Ino) -> Result<Option<TreePath>, FsError> {
        let mut state = self.state_with(ino)?;
        self.ask(&mut state, Ask::See(ino))?;
        let mut names = Vec::new();
        let mut current = ino;
        while current != Ino::ROOT {
            let Some(place) = &state.inode(current)?.place else { return Ok(None) };
            names.push(place.name.clone());
            current = place.parent;
        }
        let mut path = TreePath::root();
        names.iter().rev().for_each(|name| path.push(name));
        Ok(Some(path))
    }
}

fn file(state: &State, ino: Ino) -> Result<Cow<'_, FileBody>, FsError> {
    match &state.inode(ino)?.body {
        Body::Stored { size, content } => Ok(Cow::Owned(FileBody::stored(*size, *content))),
        Body::Edited(file) => Ok(Cow::Borrowed(file)),
        Body::Directory(_) => Err(FsError::IsADirectory),
        _ => Err(FsError::Invalid("not a regular file")),
    }
}

impl State {
    pub fn attr(&mut self, ino: Ino) -> Result<Attr, FsError> {
        let names = self.link_count(ino)?;
        let inode = self.inode(ino)?;
        let atime = inode.atime.as_deref().copied().unwrap_or(inode.meta.mtime);
        let (meta, ctime, size) = (inode.meta.clone(), inode.ctime, inode.size());
        Ok(Attr { ino, meta, ctime, atime, kind: kind(inode), size, names })
    }
}

fn kind(inode: &Inode) -> Kind {
    match &inode.body {
        Body::Stored { .. } | Body::Edited(_) => Kind::File,
        Body::Directory(_) => Kind::Directory,
        Body::Symlink(_) => Kind::Symlink,
        Body::Fifo => Kind::Fifo,
        Body::Socket => Kind::Socket,
        Body::CharDevice(device) => Kind::CharDevice { device: *device },
        Body::BlockDevice(device) => Kind::BlockDevice { device: *device },
    }
}
