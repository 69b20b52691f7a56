//! Attributes, as the kernel shows and sets them.

use std::sync::atomic::Ordering;

use avfs_core::Timestamp;
use avfs_core::chunks::BLOB_MAX;
use avfs_core::rules::Level;
use avfs_tree::{At, Attr, Clock, FsError, Ino, Kind, SetAttr, SystemClock};

use rustix::io::Errno;

use super::error::SkinError;
use super::{OneOwner, Skin};
use crate::abi::flags::setattr;
use crate::abi::{self, AttrOut, EntryOut, SetattrIn};
use crate::request::Request;

/// How many seconds the kernel may cache: a day, because it is told of every change behind its back.
const VALID: u64 = 86_400;

const ANY_WRITE: u32 = 0o222;
const ANY_EXECUTE: u32 = 0o111;

/// Of `access(2)`.
const EXECUTE_ACCESS: u32 = 1;
const WRITE_ACCESS: u32 = 2;
const READ_ACCESS: u32 = 4;

impl Skin {
    pub(super) fn get_attr(&self, request: &Request<'_>) -> Result<AttrOut, SkinError> {
        let attr = self.tree.attr(self.ino(request)?)?;
        self.attr_out(&self.kept_early(attr)?)
    }

    /// What is told of an inode, when what a source has promised of it is kept.
    pub(super) fn kept_early(&self, attr: Attr) -> Result<Attr, FsError> {
        if attr.kind != Kind::File || !self.keeps_early() {
            return Ok(attr);
        }
        self.tree.settle_owed(attr.ino)?;
        self.tree.attr(attr.ino)
    }

    /// Says how it is to be, so it does no harm if it is done twice.
    pub(super) fn set_attr(&self, request: &Request<'_>, set: &SetattrIn) -> Result<AttrOut, SkinError> {
        let at = self.at(request)?;
        let mut wanted = wanted(set);
        if let Some(owner) = self.options.owner {
            if !owner.may_be_given(wanted.uid, wanted.gid) {
                return Err(Errno::PERM.into());
            }
            (wanted.uid, wanted.gid) = (None, None);
        }
        if set.valid & setattr::KILL_SUIDGID != 0 {
            wanted.mode = wanted.mode.or(self.mode_without_privileges(request.caller, at.ino)?);
        }
        if let Some(mode) = wanted.mode {
            wanted.mode = Some(self.mode_to_set(request.caller, &self.tree.attr(at.ino)?, mode));
        }
        let attr = match wanted.size {
            Some(_) => self.resize(request.nodeid, at, wanted)?,
            None => self.tree.set_attr(at, wanted)?,
        };
        self.close_if_closed(request.caller, request.nodeid, &attr);
        self.attr_out(&attr)
    }

    /// Makes a file shorter or longer, which needs no handle of it: not while the kernel is being given its contents.
    /// What it has of them it may drop.
    pub(super) fn resize(&self, node: u64, at: At, wanted: SetAttr) -> Result<Attr, SkinError> {
        let _held = self.opens.hold(node);
        self.nodes.set_has_contents(node, false);
        Ok(self.tree.set_attr(at, wanted)?)
    }

    /// What the kernel is told of an inode, once more. The tree counts it as told: if it is not, it is given back.
    pub(super) fn remembered(&self, attr: &Attr) -> Result<EntryOut, SkinError> {
        let shown = self.kernel_attr(attr).inspect_err(|_| self.give_back(attr.ino))?;
        let node = self.nodes.remember(attr.ino);
        if attr.kind == Kind::File {
            self.last_file.store(node, Ordering::Relaxed);
        }
        Ok(entry_out(node, shown))
    }

    pub(super) fn give_back(&self, ino: Ino) {
        // One that is gone already has nothing to be released.
        let _ = self.tree.release(ino, 1);
    }

    fn attr_out(&self, attr: &Attr) -> Result<AttrOut, SkinError> {
        Ok(AttrOut { attr_valid: VALID, attr_valid_nsec: 0, dummy: 0, attr: self.kernel_attr(attr)? })
    }

    fn kernel_attr(&self, attr: &Attr) -> Result<abi::Attr, SkinError> {
        let shown = kernel_attr(attr, self.occupied(attr)?);
        Ok(match self.options.owner {
            Some(OneOwner { uid, gid }) => abi::Attr { uid, gid, ..shown },
            None => shown,
        })
    }

    /// Whether what `access(2)` asks about may be done. Directories can be listed and passed by whoever sees them.
    pub(super) fn access(&self, request: &Request<'_>, mask: u32) -> Result<(), SkinError> {
        let ino = self.ino(request)?;
        let attr = self.tree.attr(ino)?;
        let is_directory = attr.kind == Kind::Directory;
        if mask & WRITE_ACCESS != 0 && attr.meta.mode & ANY_WRITE == 0 {
            return Err(Errno::ACCESS.into());
        }
        if mask & WRITE_ACCESS != 0 && !is_directory {
            self.check(ino, Level::Append)?;
        }
        if mask & (READ_ACCESS | EXECUTE_ACCESS) != 0 && !is_directory {
            self.check(ino, Level::Read)?;
        }
        match mask & EXECUTE_ACCESS != 0 && attr.meta.mode & ANY_EXECUTE == 0 {
            true => Err(Errno::ACCESS.into()),
            false => Ok(()),
        }
    }

    /// How many bytes `du` shows. Holes of small files are not worth looking for.
    fn occupied(&self, attr: &Attr) -> Result<u64, SkinError> {
        if attr.kind != Kind::File || attr.size <= BLOB_MAX {
            return Ok(attr.size);
        }
        match self.tree.occupied(attr.ino) {
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

/// A name that does not exist, which the kernel may remember as such; also what stands for `.` and `..` in a
/// listing.
pub(super) fn no_entry() -> EntryOut {
    EntryOut { entry_valid: VALID, ..no_entry_for_now() }
}

/// A name that rules hide, whether it exists or not. Never remembered: the rules may change, and names that are
/// hidden must not be told from each other by how long it takes to ask for them.
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
pub(super) fn format(kind: Kind) -> u32 {
    match kind {
        Kind::Fifo => 0o010_000,
        Kind::CharDevice { .. } => 0o020_000,
        Kind::Directory => 0o040_000,
        Kind::BlockDevice { .. } => 0o060_000,
        Kind::File => 0o100_000,
        Kind::Symlink => 0o120_000,
        Kind::Socket => 0o140_000,
    }
}

/// The kernel's 32-bit form: twelve bits of the major number between twenty of the minor one.
fn device(kind: Kind) -> u32 {
    match kind {
        Kind::CharDevice { device } | Kind::BlockDevice { device } => {
            let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
            minor & 0xff | (major & 0xfff) << 8 | (minor & !0xff) << 12
        }
        Kind::File | Kind::Directory | Kind::Symlink | Kind::Fifo | Kind::Socket => 0,
    }
}

/// A device number from the kernel's 32-bit form.
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
            assert_eq!(device_number(device(Kind::BlockDevice { device: number })), number);
        }
    }
}
