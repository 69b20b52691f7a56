//! Names: looking up, creating, moving and removing them.

use avfs_core::rules::Level;
use avfs_core::{EntryKind, EntryName};
use avfs_tree::{Attr, EntryPlace, FsError, Ino, InodeKind, KnownInode, NewEntry, SetAttr};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::Skin;
use super::attributes::{device_number, no_entry, no_entry_for_now};
use super::error::SkinError;
use crate::abi::flags::open_in;
use crate::abi::{CreateIn, EntryOut, MknodIn, OpenIn};
use crate::request::FuseRequest;

const FORMAT: u32 = 0o170_000;
const SET_GID: u32 = 0o2000;

/// Of `renameat2(2)`.
const NO_REPLACE: u32 = 1 << 0;
const EXCHANGE: u32 = 1 << 1;

/// Requests that look up, create, open and remove names.
pub(super) struct NameRequests<'a> {
    pub(super) skin: &'a Skin,
}

impl NameRequests<'_> {
    pub(super) fn lookup(&self, request: &FuseRequest<'_>, name: &[u8]) -> Result<EntryOut, SkinError> {
        let found = self
            .skin
            .tree
            .lookup(self.skin.ino(request)?, &EntryName::new(name)?);
        let kept = found.and_then(|attr| {
            let ino = attr.ino;
            self.skin
                .attributes()
                .kept_early(attr)
                .inspect_err(|_| self.skin.attributes().give_back(ino))
        });
        match kept {
            Ok(attr) => self.skin.attributes().remembered(&attr),
            Err(FsError::NotFound) => Ok(no_entry()),
            Err(FsError::Hidden) => Ok(no_entry_for_now()),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn forget(&self, node: u64, lookups: u64) {
        let Some(ino) = self.skin.nodes.forget(node, lookups) else {
            return;
        };
        self.skin.listings.forget(ino);
        self.skin.directories.forget(ino);
    }

    pub(super) fn read_link(&self, request: &FuseRequest<'_>) -> Result<Vec<u8>, SkinError> {
        Ok(self.skin.tree.read_link(self.skin.ino(request)?)?)
    }

    pub(super) fn symlink(
        &self,
        request: &FuseRequest<'_>,
        name: &[u8],
        target: &[u8],
    ) -> Result<EntryOut, SkinError> {
        self.make(request, name, NewEntry::symlink(target))
    }

    pub(super) fn make_directory(
        &self,
        request: &FuseRequest<'_>,
        mode: u32,
        name: &[u8],
    ) -> Result<EntryOut, SkinError> {
        self.make(request, name, NewEntry::directory(mode))
    }

    pub(super) fn make_node(
        &self,
        request: &FuseRequest<'_>,
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
        self.make(
            request,
            name,
            NewEntry {
                kind,
                mode: node.mode,
                uid: 0,
                gid: 0,
            },
        )
    }

    /// Creates an entry that belongs to the caller; in a directory with setgid, to the directory's group.
    fn make(&self, request: &FuseRequest<'_>, name: &[u8], new: NewEntry) -> Result<EntryOut, SkinError> {
        let parent = self.skin.ino(request)?;
        let name = EntryName::new(name)?;
        let directory = self.skin.tree.attr(parent)?.meta;
        let mut new = new;
        let inherits = directory.mode & SET_GID != 0;
        if inherits && matches!(new.kind, EntryKind::Directory { .. }) {
            new.mode |= SET_GID;
        }
        let (uid, gid) = match self.skin.options.owner {
            Some(_) => (directory.uid, directory.gid),
            None if inherits => (request.caller.uid, directory.gid),
            None => (request.caller.uid, request.caller.gid),
        };
        let attr = self.skin.tree.create(parent, &name, new.owned_by(uid, gid))?;
        self.skin.attributes().remembered(&attr)
    }

    /// Creates a file, or opens the one that another door has just created.
    pub(super) fn create(
        &self,
        request: &FuseRequest<'_>,
        create: &CreateIn,
        name: &[u8],
    ) -> Result<EntryOut, SkinError> {
        let made = self.make(request, name, NewEntry::file(create.mode));
        let exclusive = create.flags & OFlags::EXCL.bits() != 0;
        match made {
            Err(SkinError::Tree(FsError::Exists)) if !exclusive => {}
            made => return made,
        }
        let found = self
            .skin
            .tree
            .lookup(self.skin.ino(request)?, &EntryName::new(name)?)?;
        let opened = self
            .open_found(request, &found, create)
            .inspect_err(|_| self.skin.attributes().give_back(found.ino))?;
        self.skin.attributes().remembered(&opened)
    }

    fn open_found(
        &self,
        request: &FuseRequest<'_>,
        found: &Attr,
        create: &CreateIn,
    ) -> Result<Attr, SkinError> {
        // The kernel opens entries other than files itself; it must look the name up again.
        if found.kind != InodeKind::File {
            return Err(Errno::STALE.into());
        }
        self.open_inode(request, found.ino.into(), create.flags, create.open_flags)?;
        Ok(self.skin.tree.attr(found.ino)?)
    }

    pub(super) fn open(&self, request: &FuseRequest<'_>, open: &OpenIn) -> Result<(), SkinError> {
        self.open_inode(request, self.skin.at(request)?, open.flags, open.open_flags)
    }

    fn open_inode(
        &self,
        request: &FuseRequest<'_>,
        at: KnownInode,
        flags: u32,
        open_flags: u32,
    ) -> Result<(), SkinError> {
        self.skin.check(at.ino, level_to_open(flags))?;
        if open_flags & open_in::KILL_SUIDGID != 0 {
            self.skin.modes().drop_privileges(request, at)?;
        }
        if flags & OFlags::TRUNC.bits() != 0 {
            let emptied = SetAttr {
                size: Some(0),
                ..SetAttr::default()
            };
            self.skin
                .attributes()
                .resize(self.skin.nodes.node(at.ino), at, emptied)?;
        }
        Ok(self.skin.tree.fulfil_owed(at.ino)?)
    }

    pub(super) fn open_directory(&self, request: &FuseRequest<'_>) -> Result<Ino, SkinError> {
        let ino = self.skin.ino(request)?;
        self.before_listing(ino)?;
        Ok(ino)
    }

    /// Checks that a directory is visible through this mount; resolves its promise.
    pub(super) fn before_listing(&self, ino: Ino) -> Result<(), SkinError> {
        if self.skin.is_ruled() {
            self.skin.tree.attr(ino)?;
        }
        Ok(self.skin.tree.fulfil_owed(ino)?)
    }

    pub(super) fn link(
        &self,
        request: &FuseRequest<'_>,
        node: u64,
        name: &[u8],
    ) -> Result<EntryOut, SkinError> {
        let ino = self.skin.nodes.ino(node)?;
        let parent = self.skin.ino(request)?;
        let name = EntryName::new(name)?;
        // The attributes are prepared first: a link that was created must not be created again on a retry.
        if let Some(unread) = self
            .skin
            .tree
            .occupied(ino)
            .err()
            .filter(|error| error.wanted().is_some())
        {
            return Err(unread.into());
        }
        self.skin
            .attributes()
            .remembered(&self.skin.tree.link(ino, parent, &name)?)
    }

    pub(super) fn unlink(&self, request: &FuseRequest<'_>, name: &[u8]) -> Result<(), SkinError> {
        Ok(self
            .skin
            .tree
            .unlink(self.skin.ino(request)?, &EntryName::new(name)?)?)
    }

    pub(super) fn remove_directory(&self, request: &FuseRequest<'_>, name: &[u8]) -> Result<(), SkinError> {
        Ok(self
            .skin
            .tree
            .remove_directory(self.skin.ino(request)?, &EntryName::new(name)?)?)
    }

    pub(super) fn rename(
        &self,
        request: &FuseRequest<'_>,
        name: &[u8],
        new_parent: u64,
        new_name: &[u8],
        flags: u32,
    ) -> Result<(), SkinError> {
        let from = EntryPlace::new(self.skin.ino(request)?, EntryName::new(name)?);
        let to = EntryPlace::new(self.skin.nodes.ino(new_parent)?, EntryName::new(new_name)?);
        match flags {
            0 => Ok(self.skin.tree.rename(from, to)?),
            NO_REPLACE => Ok(self.skin.tree.rename_no_replace(from, to)?),
            EXCHANGE => Ok(self.skin.tree.exchange(from, to)?),
            _ => Err(Errno::INVAL.into()),
        }
    }
}

/// The level that is required to open a file with these flags. If bytes may be appended, each write is
/// checked.
fn level_to_open(flags: u32) -> Level {
    let flags = OFlags::from_bits_retain(flags);
    match flags & OFlags::RWMODE {
        _ if flags.contains(OFlags::TRUNC) => Level::Write,
        OFlags::RDONLY => Level::Read,
        _ => Level::Append,
    }
}
