//! What the mode and the owner of files allow their callers, in mounts where the kernel leaves that to the server.
//!
//! With `default_permissions` the kernel checks by itself, and asks for the attributes of a directory again after each name
//! that was made, removed or renamed in it. Where only the user who mounts may come in, checking here saves that request.
//! The kernel still checks which files can be executed, and asks before `chdir` and `access`.
//!
//! It finds names that it knows without asking, so it is told to forget those in a directory that was closed. It holds the
//! directory while it waits for the answer that closes it, so it is told afterwards.

use avfs_core::EntryName;
use avfs_tree::{Attr, FsError, Ino, Kind};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::privileges::is_in_group;
use super::{OneOwner, Skin, SkinError};
use crate::abi::SetattrIn;
use crate::abi::flags::setattr;
use crate::request::{CallerId, Operation, Request};

const EXECUTE: u32 = 1;
const WRITE: u32 = 2;
const READ: u32 = 4;
const CHANGE_NAMES: u32 = WRITE | EXECUTE;

const STICKY: u32 = 0o1000;
/// How a file is opened to be executed; the kernel's own flag.
const TO_EXECUTE: u32 = 0x20;
/// Extended attributes that mode and owner decide about; others are for privileged callers, or always readable.
const USER_ATTRIBUTE: &[u8] = b"user.";
/// How many names are listed at once.
const AT_ONCE: usize = 1024;

impl Skin {
    /// Refuses what mode and owner do not allow.
    pub(super) fn check_mode(&self, request: &Request<'_>) -> Result<(), SkinError> {
        if !self.options.checks_modes || request.caller.uid == 0 {
            return Ok(());
        }
        match request.operation {
            Operation::Lookup { .. } => self.may(request, EXECUTE),
            Operation::Create { .. }
            | Operation::MakeNode { .. }
            | Operation::MakeDirectory { .. }
            | Operation::Symlink { .. }
            | Operation::Link { .. } => self.may(request, CHANGE_NAMES),
            Operation::Unlink { name } | Operation::RemoveDirectory { name } => {
                self.may(request, CHANGE_NAMES)?;
                self.may_take_away(request.caller, self.ino(request)?, name)
            }
            Operation::Rename { name, new_parent, new_name, .. } => {
                let (old, new) = (self.ino(request)?, self.nodes.ino(new_parent)?);
                self.may_rename(request.caller, [(old, name), (new, new_name)])
            }
            Operation::Open(open) => self.may(request, wanted_by_open(open.flags)),
            Operation::OpenDirectory(_) => self.may(request, READ),
            Operation::ReadDirectory(read) | Operation::ReadDirectoryPlus(read) if read.fh == 0 => {
                self.may(request, READ)
            }
            Operation::Access { mask } => self.may(request, mask),
            Operation::SetAttr(set) => self.may_set(request, &set),
            Operation::GetXattr { name, .. } if name.starts_with(USER_ATTRIBUTE) => self.may(request, READ),
            Operation::SetXattr { name, .. } | Operation::RemoveXattr { name }
                if name.starts_with(USER_ATTRIBUTE) =>
            {
                self.may(request, WRITE)
            }
            // Of what was opened, or of what everybody may know.
            _ => Ok(()),
        }
    }

    fn may(&self, request: &Request<'_>, wanted: u32) -> Result<(), SkinError> {
        let attr = self.tree.attr(self.ino(request)?)?;
        self.allows(&attr, request.caller, wanted)
    }

    fn allows(&self, attr: &Attr, caller: CallerId, wanted: u32) -> Result<(), SkinError> {
        let (mode, owner) = (attr.meta.mode, self.shown_owner(attr));
        let allowed = if owner.uid == caller.uid {
            mode >> 6
        } else if mode >> 3 & 7 == mode & 7 || !is_in_group(caller, owner.gid) {
            mode
        } else {
            mode >> 3
        };
        if wanted & !allowed & 7 == 0 { Ok(()) } else { Err(Errno::ACCESS.into()) }
    }

    fn shown_owner(&self, attr: &Attr) -> OneOwner {
        self.options.owner.unwrap_or(OneOwner { uid: attr.meta.uid, gid: attr.meta.gid })
    }

    /// In a directory with the sticky bit, a name is taken away by the owner of the file or of the directory.
    fn may_take_away(&self, caller: CallerId, parent: Ino, name: &[u8]) -> Result<(), SkinError> {
        let directory = self.tree.attr(parent)?;
        if directory.meta.mode & STICKY == 0 || self.shown_owner(&directory).uid == caller.uid {
            return Ok(());
        }
        match self.child(parent, name)? {
            Some(child) if self.shown_owner(&child).uid != caller.uid => Err(Errno::PERM.into()),
            _ => Ok(()),
        }
    }

    /// A directory that moves gets another `..`, which takes the right to write it.
    fn may_rename(&self, caller: CallerId, places: [(Ino, &[u8]); 2]) -> Result<(), SkinError> {
        let [(old, _), (new, _)] = places;
        for (parent, name) in places {
            self.allows(&self.tree.attr(parent)?, caller, CHANGE_NAMES)?;
            self.may_take_away(caller, parent, name)?;
        }
        let (place, name) = places[0];
        match old == new {
            true => Ok(()),
            false => match self.child(place, name)? {
                Some(child) if child.kind == Kind::Directory => self.allows(&child, caller, WRITE),
                _ => Ok(()),
            },
        }
    }

    /// The attributes of a name, without counting it as told.
    fn child(&self, parent: Ino, name: &[u8]) -> Result<Option<Attr>, SkinError> {
        let Ok(name) = EntryName::new(name) else { return Ok(None) };
        match self.tree.lookup(parent, &name) {
            Ok(attr) => {
                self.give_back(attr.ino);
                Ok(Some(attr))
            }
            Err(FsError::NotFound) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn may_set(&self, request: &Request<'_>, set: &SetattrIn) -> Result<(), SkinError> {
        let has = |flag: u32| set.valid & flag != 0;
        let attr = self.tree.attr(self.ino(request)?)?;
        let (caller, owner) = (request.caller, self.shown_owner(&attr));
        let sets_time = |set: u32, now: u32| has(set) && !has(now);
        let for_owner = has(setattr::MODE)
            || sets_time(setattr::ATIME, setattr::ATIME_NOW)
            || sets_time(setattr::MTIME, setattr::MTIME_NOW);
        let gives_away = has(setattr::UID) && set.uid != owner.uid
            || has(setattr::GID) && set.gid != owner.gid && !is_in_group(caller, set.gid);
        let changes_owner = has(setattr::UID) || has(setattr::GID);
        if gives_away || (for_owner || changes_owner) && owner.uid != caller.uid {
            return Err(Errno::PERM.into());
        }
        if has(setattr::SIZE) {
            // Opened to be written, it may be shortened whatever its mode is by now.
            let is_open = has(setattr::FH) && self.handles.may_write(set.fh);
            return if is_open { Ok(()) } else { self.allows(&attr, caller, WRITE) };
        }
        match has(setattr::ATIME_NOW) || has(setattr::MTIME_NOW) {
            true if owner.uid != caller.uid => self.allows(&attr, caller, WRITE),
            _ => Ok(()),
        }
    }

    /// The mode that a caller can give to a file: set-group-id only for a group that it is in.
    pub(super) fn mode_to_set(&self, caller: CallerId, attr: &Attr, mode: u32) -> u32 {
        const SET_GID: u32 = 0o2000;
        let is_checked = self.options.checks_modes && caller.uid != 0 && mode & SET_GID != 0;
        match is_checked && !is_in_group(caller, self.shown_owner(attr).gid) {
            true => mode & !SET_GID,
            false => mode,
        }
    }

    /// Whether names of a directory may be told with their attributes: the kernel would keep them.
    pub(super) fn may_be_entered(&self, caller: CallerId, directory: Ino) -> Result<bool, SkinError> {
        let is_checked = self.options.checks_modes && caller.uid != 0;
        Ok(!is_checked || self.allows(&self.tree.attr(directory)?, caller, EXECUTE).is_ok())
    }

    /// The attributes of a directory were changed: has the kernel forget its names if the caller may not use them any more.
    pub(super) fn close_if_closed(&self, caller: CallerId, node: u64, attr: &Attr) {
        let is_checked = self.options.checks_modes && caller.uid != 0 && attr.kind == Kind::Directory;
        if !is_checked || self.allows(attr, caller, READ | EXECUTE).is_ok() {
            return;
        }
        let mut last: Option<EntryName> = None;
        while let Ok(names) = self.tree.read_names(attr.ino, last.as_ref(), AT_ONCE) {
            let known = names.iter().filter(|(_, child, _)| self.nodes.known(*child).is_some());
            known.for_each(|(name, ..)| self.notices.name(node, name.as_bytes()));
            match names.last() {
                Some((name, ..)) if names.len() == AT_ONCE => last = Some(name.clone()),
                _ => break,
            }
        }
        self.notices.contents_from(node, 0);
    }
}

fn wanted_by_open(flags: u32) -> u32 {
    if flags & TO_EXECUTE != 0 {
        return EXECUTE;
    }
    match OFlags::from_bits_retain(flags) & OFlags::RWMODE {
        OFlags::RDONLY => READ,
        OFlags::WRONLY => WRITE,
        _ => READ | WRITE,
    }
}
