//! Names: looking them up, making, moving and removing them.

use avfs_core::rules::Level;
use avfs_core::{EntryKind, EntryName};
use avfs_tree::{At, Attr, FsError, Ino, Kind, NewEntry, Place, SetAttr};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::Skin;
use super::attributes::{device_number, no_entry, no_entry_for_now};
use super::error::SkinError;
use crate::abi::flags::open_in;
use crate::abi::{CreateIn, EntryOut, MknodIn, OpenIn};
use crate::request::Request;

const FORMAT: u32 = 0o170_000;
const SET_GID: u32 = 0o2000;

/// Of `renameat2(2)`.
const NO_REPLACE: u32 = 1 << 0;
const EXCHANGE: u32 = 1 << 1;

impl Skin {
    pub(super) fn lookup(&self, request: &Request<'_>, name: &[u8]) -> Result<EntryOut, SkinError> {
        let found = self.tree.lookup(self.ino(request)?, &EntryName::new(name)?);
        let kept = found.and_then(|attr| {
            let ino = attr.ino;
            self.kept_early(attr).inspect_err(|_| self.give_back(ino))
        });
        match kept {
            Ok(attr) => self.remembered(&attr),
            Err(FsError::NotFound) => Ok(no_entry()),
            Err(FsError::Hidden) => Ok(no_entry_for_now()),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn forget(&self, node: u64, lookups: u64) {
        let Some(ino) = self.nodes.forget(node, lookups) else { return };
        self.listings.forget(ino);
        self.directories.forget(ino);
    }

    pub(super) fn read_link(&self, request: &Request<'_>) -> Result<Vec<u8>, SkinError> {
        Ok(self.tree.read_link(self.ino(request)?)?)
    }

    pub(super) fn symlink(
        &self,
        request: &Request<'_>,
        name: &[u8],
        target: &[u8],
    ) -> Result<EntryOut, SkinError> {
        self.make(request, name, NewEntry::symlink(target))
    }

    pub(super) fn make_directory(
        &self,
        request: &Request<'_>,
        mode: u32,
        name: &[u8],
    ) -> Result<EntryOut, SkinError> {
        self.make(request, name, NewEntry::directory(mode))
    }

    pub(super) fn make_node(
        &self,
        request: &Request<'_>,
        node: &MknodIn,
        name: &[u8],
    ) -> Result<EntryOut, SkinError> {
        let device = device_number(node.rdev);
        let kind = match node.mode & FORMAT {
            0o010_000 => EntryKind::Fifo,
            0o020_000 => EntryKind::CharDevice { device },
            0o060_000 => EntryKind::BlockDevice { device },
            0o140_000 => EntryKind::Socket,
            0 | 0o100_000 => return self.make(request, name, NewEntry::file(node.mode)),
            _ => return Err(Errno::INVAL.into()),
        };
        self.make(request, name, NewEntry { kind, mode: node.mode, uid: 0, gid: 0 })
    }

    /// Makes an entry that belongs to the caller; in a directory with setgid, to the directory's group.
    fn make(&self, request: &Request<'_>, name: &[u8], new: NewEntry) -> Result<EntryOut, SkinError> {
        let (parent, name) = (self.ino(request)?, EntryName::new(name)?);
        let directory = self.tree.attr(parent)?.meta;
        let (mut new, inherits) = (new, directory.mode & SET_GID != 0);
        if inherits && matches!(new.kind, EntryKind::Directory { .. }) {
            new.mode |= SET_GID;
        }
        let (uid, gid) = match self.options.owner {
            Some(_) => (directory.uid, directory.gid),
            None if inherits => (request.caller.uid, directory.gid),
            None => (request.caller.uid, request.caller.gid),
        };
        let attr = self.tree.create(parent, &name, new.owned_by(uid, gid))?;
        self.remembered(&attr)
    }

    /// Makes a file, or opens the one that another door has just made.
    pub(super) fn create(
        &self,
        request: &Request<'_>,
        create: &CreateIn,
        name: &[u8],
    ) -> Result<EntryOut, SkinError> {
        let made = self.make(request, name, NewEntry::file(create.mode));
        let exclusive = create.flags & OFlags::EXCL.bits() != 0;
        match made {
            Err(SkinError::Tree(FsError::Exists)) if !exclusive => {}
            made => return made,
        }
        let found = self.tree.lookup(self.ino(request)?, &EntryName::new(name)?)?;
        let opened = self.open_found(request, &found, create).inspect_err(|_| self.give_back(found.ino))?;
        self.remembered(&opened)
    }

    fn open_found(&self, request: &Request<'_>, found: &Attr, create: &CreateIn) -> Result<Attr, SkinError> {
        // The kernel opens others than files itself; it has to look the name up again.
        if found.kind != Kind::File {
            return Err(Errno::STALE.into());
        }
        self.open_inode(request, found.ino.into(), create.flags, create.open_flags)?;
        Ok(self.tree.attr(found.ino)?)
    }

    pub(super) fn open(&self, request: &Request<'_>, open: &OpenIn) -> Result<(), SkinError> {
        self.open_inode(request, self.at(request)?, open.flags, open.open_flags)
    }

    fn open_inode(
        &self,
        request: &Request<'_>,
        at: At,
        flags: u32,
        open_flags: u32,
    ) -> Result<(), SkinError> {
        self.check(at.ino, level_to_open(flags))?;
        if open_flags & open_in::KILL_SUIDGID != 0 {
            self.drop_privileges(request, at)?;
        }
        if flags & OFlags::TRUNC.bits() != 0 {
            let emptied = SetAttr { size: Some(0), ..SetAttr::default() };
            self.resize(self.nodes.node(at.ino), at, emptied)?;
        }
        Ok(self.tree.settle_owed(at.ino)?)
    }

    pub(super) fn open_directory(&self, request: &Request<'_>) -> Result<Ino, SkinError> {
        let ino = self.ino(request)?;
        self.before_listing(ino)?;
        Ok(ino)
    }

    /// Whether a directory is there for whoever uses this mount; what a source has promised to be in it is kept.
    pub(super) fn before_listing(&self, ino: Ino) -> Result<(), SkinError> {
        if self.is_ruled() {
            self.tree.attr(ino)?;
        }
        Ok(self.tree.settle_owed(ino)?)
    }

    pub(super) fn link(&self, request: &Request<'_>, node: u64, name: &[u8]) -> Result<EntryOut, SkinError> {
        let (ino, parent) = (self.nodes.ino(node)?, self.ino(request)?);
        let name = EntryName::new(name)?;
        // What is told of it is found out before: a link that was made is not made again.
        if let Some(unread) = self.tree.occupied(ino).err().filter(|error| error.wanted().is_some()) {
            return Err(unread.into());
        }
        self.remembered(&self.tree.link(ino, parent, &name)?)
    }

    pub(super) fn unlink(&self, request: &Request<'_>, name: &[u8]) -> Result<(), SkinError> {
        Ok(self.tree.unlink(self.ino(request)?, &EntryName::new(name)?)?)
    }

    pub(super) fn remove_directory(&self, request: &Request<'_>, name: &[u8]) -> Result<(), SkinError> {
        Ok(self.tree.remove_directory(self.ino(request)?, &EntryName::new(name)?)?)
    }

    pub(super) fn rename(
        &self,
        request: &Request<'_>,
        name: &[u8],
        new_parent: u64,
        new_name: &[u8],
        flags: u32,
    ) -> Result<(), SkinError> {
        let from = Place::new(self.ino(request)?, EntryName::new(name)?);
        let to = Place::new(self.nodes.ino(new_parent)?, EntryName::new(new_name)?);
        match flags {
            0 => Ok(self.tree.rename(from, to)?),
            NO_REPLACE => Ok(self.tree.rename_no_replace(from, to)?),
            EXCHANGE => Ok(self.tree.exchange(from, to)?),
            _ => Err(Errno::INVAL.into()),
        }
    }
}

/// What opening a file with these flags takes. Where bytes may be added, each write is looked at.
fn level_to_open(flags: u32) -> Level {
    let flags = OFlags::from_bits_retain(flags);
    match flags & OFlags::RWMODE {
        _ if flags.contains(OFlags::TRUNC) => Level::Write,
        OFlags::RDONLY => Level::Read,
        _ => Level::Append,
    }
}
