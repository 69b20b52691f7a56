//! Attributes, in the form that the kernel shows and sets.

use std::sync::atomic::Ordering;

use avfs_core::Timestamp;
use avfs_core::chunks::BLOB_MAX;
use avfs_core::rules::Level;
use avfs_tree::{Attr, FsError, Ino, InodeKind, KnownInode, SetAttr, SystemClock, TreeClock};

use rustix::io::Errno;

use super::error::SkinError;
use super::{OneOwner, Skin};
use crate::abi::flags::setattr;
use crate::abi::{self, AttrOut, EntryOut, SetattrIn};
use crate::request::FuseRequest;

/// How many seconds the kernel may cache: a day, because it is notified of every change that it did not make.
const VALID: u64 = 86_400;

const ANY_WRITE: u32 = 0o222;
const ANY_EXECUTE: u32 = 0o111;

/// Of `access(2)`.
const EXECUTE_ACCESS: u32 = 1;
const WRITE_ACCESS: u32 = 2;
const READ_ACCESS: u32 = 4;

/// Requests for attributes, extended attributes and free space.
pub(super) struct AttributeRequests<'a> {
    pub(super) skin: &'a Skin,
}

impl AttributeRequests<'_> {
    pub(super) fn get_attr(&self, request: &FuseRequest<'_>) -> Result<AttrOut, SkinError> {
        let attr = self.skin.tree.attr(self.skin.ino(request)?)?;
        self.attr_out(&self.kept_early(attr)?)
    }

    /// The attributes of an inode to report; resolves its promise first if necessary.
    pub(super) fn kept_early(&self, attr: Attr) -> Result<Attr, FsError> {
        if attr.kind != InodeKind::File || !self.skin.keeps_early() {
            return Ok(attr);
        }
        self.skin.tree.fulfil_owed(attr.ino)?;
        self.skin.tree.attr(attr.ino)
    }

    /// The request describes the new state, so repeating it does no harm.
    pub(super) fn set_attr(&self, request: &FuseRequest<'_>, set: &SetattrIn) -> Result<AttrOut, SkinError> {
        let at = self.skin.at(request)?;
        let mut wanted = wanted(set);
        if let Some(owner) = self.skin.options.owner {
            if !owner.may_be_given(wanted.uid, wanted.gid) {
                return Err(Errno::PERM.into());
            }
            wanted.uid = None;
            wanted.gid = None;
        }
        if set.valid & setattr::KILL_SUIDGID != 0 {
            wanted.mode = wanted.mode.or(self
                .skin
                .modes()
                .mode_without_privileges(request.caller, at.ino)?);
        }
        if let Some(mode) = wanted.mode {
            wanted.mode = Some(self.skin.modes().mode_to_set(
                request.caller,
                &self.skin.tree.attr(at.ino)?,
                mode,
            ));
        }
        let attr = match wanted.size {
            Some(_) => self.resize(request.nodeid, at, wanted)?,
            None => self.skin.tree.set_attr(at, wanted)?,
        };
        self.skin
            .modes()
            .close_if_closed(request.caller, request.nodeid, &attr);
        self.attr_out(&attr)
    }

    /// Changes the size of a file, which needs no handle: not while the kernel is being given its contents.
    /// The kernel may drop its cached contents.
    pub(super) fn resize(&self, node: u64, at: KnownInode, wanted: SetAttr) -> Result<Attr, SkinError> {
        let _held = self.skin.opens.hold(node);
        self.skin.nodes.set_has_contents(node, false);
        Ok(self.skin.tree.set_attr(at, wanted)?)
    }

    /// The entry of an inode to report to the kernel. The tree counts it as held: on failure the hold is
    /// released.
    pub(super) fn remembered(&self, attr: &Attr) -> Result<EntryOut, SkinError> {
        let shown = self.kernel_attr(attr).inspect_err(|_| self.give_back(attr.ino))?;
        let node = self.skin.nodes.remember(attr.ino);
        if attr.kind == InodeKind::File {
            self.skin.last_file.store(node, Ordering::Relaxed);
        }
        Ok(entry_out(node, shown))
    }

    pub(super) fn give_back(&self, ino: Ino) {
        // An inode that is gone needs no release.
        let _ = self.skin.tree.release(ino, 1);
    }

    fn attr_out(&self, attr: &Attr) -> Result<AttrOut, SkinError> {
        Ok(AttrOut {
            attr_valid: VALID,
            attr_valid_nsec: 0,
            dummy: 0,
            attr: self.kernel_attr(attr)?,
        })
    }

    fn kernel_attr(&self, attr: &Attr) -> Result<abi::Attr, SkinError> {
        let shown = kernel_attr(attr, self.occupied(attr)?);
        Ok(match self.skin.options.owner {
            Some(OneOwner { uid, gid }) => abi::Attr { uid, gid, ..shown },
            None => shown,
        })
    }

    /// Answers `access(2)`. Every caller that sees a directory may list and traverse it.
    pub(super) fn access(&self, request: &FuseRequest<'_>, mask: u32) -> Result<(), SkinError> {
        let ino = self.skin.ino(request)?;
        let attr = self.skin.tree.attr(ino)?;
        let is_directory = attr.kind == InodeKind::Directory;
        if mask & WRITE_ACCESS != 0 && attr.meta.mode & ANY_WRITE == 0 {
            return Err(Errno::ACCESS.into());
        }
        if mask & WRITE_ACCESS != 0 && !is_directory {
            self.skin.check(ino, Level::Append)?;
        }
        if mask & (READ_ACCESS | EXECUTE_ACCESS) != 0 && !is_directory {
            self.skin.check(ino, Level::Read)?;
        }
        if mask & EXECUTE_ACCESS != 0 && attr.meta.mode & ANY_EXECUTE == 0 {
            Err(Errno::ACCESS.into())
        } else {
            Ok(())
        }
    }

    /// The number of bytes that `du` shows. In small files, holes are ignored.
    fn occupied(&self, attr: &Attr) -> Result<u64, SkinError> {
        if attr.kind != InodeKind::File || attr.size <= BLOB_MAX {
            return Ok(attr.size);
        }
        match self.skin.tree.occupied(attr.ino) {
            Err(error) if error.wanted().is_some() => Err(error.into()),
            occupied => Ok(occupied.unwrap_or(attr.size)),
        }
    }
}

fn wanted(set: &SetattrIn) -> SetAttr {
    let has = |flag: u32| set.valid & flag != 0;
    let time = |set: u32, now: u32, seconds: u64, nanos: u32| match () {
        () if has(now) => Some(SystemClock.now()),
        () if has(set) => Timestamp::new(seconds as i64, nanos),
        () => None,
    };
    SetAttr {
        mode: has(setattr::MODE).then_some(set.mode & 0o7777),
        uid: has(setattr::UID).then_some(set.uid),
        gid: has(setattr::GID).then_some(set.gid),
        size: has(setattr::SIZE).then_some(set.size),
        mtime: time(setattr::MTIME, setattr::MTIME_NOW, set.mtime, set.mtimensec),
        atime: time(setattr::ATIME, setattr::ATIME_NOW, set.atime, set.atimensec),
    }
}

/// A name that exists.
fn entry_out(nodeid: u64, attr: abi::Attr) -> EntryOut {
    EntryOut {
        nodeid,
        generation: 0,
        entry_valid: VALID,
        attr_valid: VALID,
        entry_valid_nsec: 0,
        attr_valid_nsec: 0,
        attr,
    }
}

/// A name that does not exist, which the kernel may cache as such; also used for `.` and `..` in a listing.
pub(super) fn no_entry() -> EntryOut {
    EntryOut {
        entry_valid: VALID,
        ..no_entry_for_now()
    }
}

/// A name that rules hide, whether it exists or not. Never cached: the rules may change, and the time of a
/// lookup must not reveal whether a hidden name exists.
pub(super) fn no_entry_for_now() -> EntryOut {
    EntryOut {
        nodeid: 0,
        generation: 0,
        entry_valid: 0,
        attr_valid: 0,
        entry_valid_nsec: 0,
        attr_valid_nsec: 0,
        attr: zerocopy::FromZeros::new_zeroed(),
    }
}

fn kernel_attr(attr: &Attr, occupied: u64) -> abi::Attr {
    abi::Attr {
        ino: attr.ino.0,
        size: attr.size,
        blocks: occupied.div_ceil(512),
        atime: attr.atime.seconds as u64,
        mtime: attr.meta.mtime.seconds as u64,
        ctime: attr.ctime.seconds as u64,
        atimensec: attr.atime.nanos,
        mtimensec: attr.meta.mtime.nanos,
        ctimensec: attr.ctime.nanos,
        mode: format(attr.kind) | attr.meta.mode,
        nlink: attr.names,
        uid: attr.meta.uid,
        gid: attr.meta.gid,
        rdev: device(attr.kind),
        blksize: 4096,
        flags: 0,
    }
}

/// The kind of a file in the upper bits of its mode.
pub(super) fn format(kind: InodeKind) -> u32 {
    match kind {
        InodeKind::Fifo => 0o010_000,
        InodeKind::CharDevice { .. } => 0o020_000,
        InodeKind::Directory => 0o040_000,
        InodeKind::BlockDevice { .. } => 0o060_000,
        InodeKind::File => 0o100_000,
        InodeKind::Symlink => 0o120_000,
        InodeKind::Socket => 0o140_000,
    }
}

/// The kernel's 32-bit encoding: twelve bits of the major number between twenty of the minor one.
fn device(kind: InodeKind) -> u32 {
    match kind {
        InodeKind::CharDevice { device } | InodeKind::BlockDevice { device } => {
            let major = rustix::fs::major(device);
            let minor = rustix::fs::minor(device);
            minor & 0xff | (major & 0xfff) << 8 | (minor & !0xff) << 12
        }
        InodeKind::File | InodeKind::Directory | InodeKind::Symlink | InodeKind::Fifo | InodeKind::Socket => {
            0
        }
    }
}

/// A device number from the kernel's 32-bit encoding.
pub(super) fn device_number(rdev: u32) -> u64 {
    rustix::fs::makedev(rdev >> 8 & 0xfff, rdev & 0xff | rdev >> 12 & !0xff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_survive_the_kernels_form() {
        for (major, minor) in [(1, 3), (8, 17), (259, 70_000), (4095, (1 << 20) - 1)] {
            let number = rustix::fs::makedev(major, minor);
            assert_eq!(
                device_number(device(InodeKind::BlockDevice { device: number })),
                number
            );
        }
    }
}
