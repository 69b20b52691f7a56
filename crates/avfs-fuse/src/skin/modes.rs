//! Checks of mode and owner, in mounts where the kernel leaves them to the server.
//!
//! With `default_permissions` the kernel checks by itself, and requests the attributes of a directory again
//! after each name that was created, removed or renamed in it. If only the mounting user has access, checking
//! here saves that request. The kernel still checks which files can be executed, and sends requests before
//! `chdir` and `access`.
//!
//! The kernel resolves cached names without a request, so it is notified to forget the names in a directory
//! that was closed to its callers. It holds the directory while it waits for the answer to that change, so
//! the notification follows afterwards.

use avfs_core::EntryName;
use avfs_tree::{Attr, FsError, Ino, InodeKind};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::privileges::is_in_group;
use super::{OneOwner, Skin, SkinError};
use crate::abi::SetattrIn;
use crate::abi::flags::setattr;
use crate::request::{CallerId, FuseOperation, FuseRequest};

const EXECUTE: u32 = 1;
const WRITE: u32 = 2;
const READ: u32 = 4;
const CHANGE_NAMES: u32 = WRITE | EXECUTE;

const STICKY: u32 = 0o1000;
/// The flag of an open for execution; the kernel's own flag.
const TO_EXECUTE: u32 = 0x20;
/// Extended attributes that are protected by mode and owner; others are for privileged callers, or always
/// readable.
const USER_ATTRIBUTE: &[u8] = b"user.";
/// How many names are listed in one step.
const AT_ONCE: usize = 1024;

/// Checks of mode and owner, where the kernel leaves them to us.
pub(super) struct ModeChecks<'a> {
    pub(super) skin: &'a Skin,
}

impl ModeChecks<'_> {
    /// Refuses requests that mode and owner do not allow.
    pub(super) fn check_mode(&self, request: &FuseRequest<'_>) -> Result<(), SkinError> {
        if !self.skin.options.checks_modes || request.caller.uid == 0 {
            return Ok(());
        }
        match request.operation {
            FuseOperation::Lookup { .. } => self.may(request, EXECUTE),
            FuseOperation::Create { .. }
            | FuseOperation::MakeNode { .. }
            | FuseOperation::MakeDirectory { .. }
            | FuseOperation::Symlink { .. }
            | FuseOperation::Link { .. } => self.may(request, CHANGE_NAMES),
            FuseOperation::Unlink { name } | FuseOperation::RemoveDirectory { name } => {
                self.may(request, CHANGE_NAMES)?;
                self.may_take_away(request.caller, self.skin.ino(request)?, name)
            }
            FuseOperation::Rename {
                name,
                new_parent,
                new_name,
                ..
            } => {
                let old = self.skin.ino(request)?;
                let new = self.skin.nodes.ino(new_parent)?;
                self.may_rename(request.caller, [(old, name), (new, new_name)])
            }
            FuseOperation::Open(open) => self.may(request, wanted_by_open(open.flags)),
            FuseOperation::OpenDirectory(_) => self.may(request, READ),
            FuseOperation::ReadDirectory(read) | FuseOperation::ReadDirectoryPlus(read) if read.fh == 0 => {
                self.may(request, READ)
            }
            FuseOperation::Access { mask } => self.may(request, mask),
            FuseOperation::SetAttr(set) => self.may_set(request, &set),
            FuseOperation::GetXattr { name, .. } if name.starts_with(USER_ATTRIBUTE) => {
                self.may(request, READ)
            }
            FuseOperation::SetXattr { name, .. } | FuseOperation::RemoveXattr { name }
                if name.starts_with(USER_ATTRIBUTE) =>
            {
                self.may(request, WRITE)
            }
            // Requests on open files, or for information that is public.
            _ => Ok(()),
        }
    }

    fn may(&self, request: &FuseRequest<'_>, wanted: u32) -> Result<(), SkinError> {
        let attr = self.skin.tree.attr(self.skin.ino(request)?)?;
        self.allows(&attr, request.caller, wanted)
    }

    fn allows(&self, attr: &Attr, caller: CallerId, wanted: u32) -> Result<(), SkinError> {
        let mode = attr.meta.mode;
        let owner = self.shown_owner(attr);
        let allowed = if owner.uid == caller.uid {
            mode >> 6
        } else if mode >> 3 & 7 == mode & 7 || !is_in_group(caller, owner.gid) {
            mode
        } else {
            mode >> 3
        };
        if wanted & !allowed & 7 == 0 {
            Ok(())
        } else {
            Err(Errno::ACCESS.into())
        }
    }

    fn shown_owner(&self, attr: &Attr) -> OneOwner {
        self.skin.options.owner.unwrap_or(OneOwner {
            uid: attr.meta.uid,
            gid: attr.meta.gid,
        })
    }

    /// In a directory with the sticky bit, only the owner of the file or of the directory may remove a name.
    fn may_take_away(&self, caller: CallerId, parent: Ino, name: &[u8]) -> Result<(), SkinError> {
        let directory = self.skin.tree.attr(parent)?;
        if directory.meta.mode & STICKY == 0 || self.shown_owner(&directory).uid == caller.uid {
            return Ok(());
        }
        match self.child(parent, name)? {
            Some(child) if self.shown_owner(&child).uid != caller.uid => Err(Errno::PERM.into()),
            _ => Ok(()),
        }
    }

    /// A moved directory gets another `..`, which requires write permission on the directory itself.
    fn may_rename(&self, caller: CallerId, places: [(Ino, &[u8]); 2]) -> Result<(), SkinError> {
        let [(old, _), (new, _)] = places;
        for (parent, name) in places {
            self.allows(&self.skin.tree.attr(parent)?, caller, CHANGE_NAMES)?;
            self.may_take_away(caller, parent, name)?;
        }
        let (place, name) = places[0];
        if old == new {
            Ok(())
        } else {
            match self.child(place, name)? {
                Some(child) if child.kind == InodeKind::Directory => self.allows(&child, caller, WRITE),
                _ => Ok(()),
            }
        }
    }

    /// The attributes of a name, without counting a lookup.
    fn child(&self, parent: Ino, name: &[u8]) -> Result<Option<Attr>, SkinError> {
        let Ok(name) = EntryName::new(name) else {
            return Ok(None);
        };
        match self.skin.tree.lookup(parent, &name) {
            Ok(attr) => {
                self.skin.attributes().give_back(attr.ino);
                Ok(Some(attr))
            }
            Err(FsError::NotFound) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn may_set(&self, request: &FuseRequest<'_>, set: &SetattrIn) -> Result<(), SkinError> {
        let has = |flag: u32| set.valid & flag != 0;
        let attr = self.skin.tree.attr(self.skin.ino(request)?)?;
        let caller = request.caller;
        let owner = self.shown_owner(&attr);
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
            // A file that was opened for writing may be truncated whatever its mode is by now.
            let is_open = has(setattr::FH) && self.skin.handles.may_write(set.fh);
            return if is_open {
                Ok(())
            } else {
                self.allows(&attr, caller, WRITE)
            };
        }
        // A caller with write permission may set the times to now; only the owner may set other times
        // (`for_owner`).
        let sets_to_now = has(setattr::ATIME_NOW) || has(setattr::MTIME_NOW);
        if sets_to_now && owner.uid != caller.uid {
            self.allows(&attr, caller, WRITE)
        } else {
            Ok(())
        }
    }

    /// The mode that a caller can set on a file: set-group-id only for a group of the caller.
    pub(super) fn mode_to_set(&self, caller: CallerId, attr: &Attr, mode: u32) -> u32 {
        const SET_GID: u32 = 0o2000;
        let is_checked = self.skin.options.checks_modes && caller.uid != 0 && mode & SET_GID != 0;
        if is_checked && !is_in_group(caller, self.shown_owner(attr).gid) {
            mode & !SET_GID
        } else {
            mode
        }
    }

    /// Whether the names of a directory may be listed with their attributes: the kernel would cache them.
    pub(super) fn may_be_entered(&self, caller: CallerId, directory: Ino) -> Result<bool, SkinError> {
        let is_checked = self.skin.options.checks_modes && caller.uid != 0;
        Ok(!is_checked
            || self
                .allows(&self.skin.tree.attr(directory)?, caller, EXECUTE)
                .is_ok())
    }

    /// The attributes of a directory were changed: makes the kernel forget its names if the caller may no
    /// longer use them.
    pub(super) fn close_if_closed(&self, caller: CallerId, node: u64, attr: &Attr) {
        let is_checked =
            self.skin.options.checks_modes && caller.uid != 0 && attr.kind == InodeKind::Directory;
        if !is_checked || self.allows(attr, caller, READ | EXECUTE).is_ok() {
            return;
        }
        let mut last: Option<EntryName> = None;
        while let Ok(names) = self.skin.tree.read_names(attr.ino, last.as_ref(), AT_ONCE) {
            let known = names
                .iter()
                .filter(|(_, child, _)| self.skin.nodes.known(*child).is_some());
            known.for_each(|(name, ..)| self.skin.notices.name(node, name.as_bytes()));
            match names.last() {
                Some((name, ..)) if names.len() == AT_ONCE => last = Some(name.clone()),
                _ => break,
            }
        }
        self.skin.notices.contents_from(node, 0);
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
