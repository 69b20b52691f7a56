//! Attributes, as reported by the host.

use std::os::fd::AsFd;

use rustix::fs::{FileType, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use rustix::io::Errno;

use super::PassthroughFs;
use super::nodes::FileIdentity;
use super::places::{PlaceLayer, RuledPlace, open_reached, own_path};
use crate::abi::flags::setattr;
use crate::abi::{Attr, AttrOut, EntryOut, ROOT_ID, SetattrIn, StatfsOut};

const ANY_WRITE: u32 = 0o222;
/// Mode bits that give privileges to a process that executes the file.
const PRIVILEGES: u32 = 0o6000;
/// These bits distinguish the inode numbers of layers.
const OF_PRIVATE: u64 = 1 << 62;
const OF_CACHED: u64 = 1 << 61;

/// How long the kernel may cache attributes of a cache. Changes of the host's caches become visible after
/// that.
pub(super) const CACHED_SECONDS: u64 = 1;

impl PassthroughFs {
    pub(super) fn get_attr(&self, node: u64) -> Result<AttrOut, Errno> {
        let (stat, at) = self.stat_of(node)?;
        Ok(self.attr_out(&stat, at.as_ref()))
    }

    /// The attributes of a node. A file that no longer has a name is known through its open handles.
    fn stat_of(&self, node: u64) -> Result<(Stat, Option<RuledPlace>), Errno> {
        if let Some(file) = self.files.open_as(node) {
            let at = self.at(node).ok();
            return Ok((rustix::fs::fstat(&*file)?, at));
        }
        let at = self.at(node)?;
        let stat = self.places.stat(&at)?;
        self.check_same(node, &at, &stat)?;
        Ok((stat, Some(at)))
    }

    /// Which file it is.
    pub(super) fn identity(&self, at: &RuledPlace, stat: &Stat) -> FileIdentity {
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        match at.layer() {
            PlaceLayer::Cached if is_directory => FileIdentity::CACHED_DIRECTORY,
            PlaceLayer::Cached | PlaceLayer::Shared | PlaceLayer::Private => FileIdentity::from(stat),
        }
    }

    /// Fails if the name belongs to a different file by now.
    pub(super) fn check_same(&self, node: u64, at: &RuledPlace, stat: &Stat) -> Result<(), Errno> {
        let known = self.nodes().identity(node);
        if node == ROOT_ID || known == Some(self.identity(at, stat)) {
            Ok(())
        } else {
            Err(Errno::STALE)
        }
    }

    pub(super) fn set_attr(&self, node: u64, set: &SetattrIn) -> Result<AttrOut, Errno> {
        let has = |flag: u32| set.valid & flag != 0;
        let at = match self.at(node) {
            // A program that has it open can still truncate it.
            Err(Errno::STALE) if has(setattr::FH) && has(setattr::SIZE) => {
                let open = self.files.writable(set.fh).ok_or(Errno::STALE)?;
                rustix::fs::ftruncate(&*open, set.size)?;
                return self.get_attr(node);
            }
            found => found?,
        };
        if !at.is_writable() {
            return Err(Errno::ACCESS);
        }
        if !self.may_be_given(set) {
            return Err(Errno::PERM);
        }
        let file = self.make_own(node, &at)?;
        self.check_same(node, &at, &rustix::fs::fstat(&file)?)?;
        if has(setattr::SIZE) {
            match self.files.writable(set.fh).filter(|_| has(setattr::FH)) {
                // An open handle may write although the mode no longer allows it.
                Some(open) => rustix::fs::ftruncate(&*open, set.size)?,
                None => rustix::fs::ftruncate(open_reached(&file, OFlags::WRONLY)?, set.size)?,
            }
        }
        if has(setattr::MODE) {
            if at.layer() != PlaceLayer::Private && set.mode & PRIVILEGES != 0 {
                return Err(Errno::PERM);
            }
            rustix::fs::chmod(own_path(&file), Mode::from_raw_mode(set.mode & 0o7777))?;
        }
        if has(setattr::ATIME | setattr::MTIME) {
            self.set_times(&file, set)?;
        }
        self.get_attr(node)
    }

    fn set_times(&self, file: &impl AsFd, set: &SetattrIn) -> Result<(), Errno> {
        let time = |set_it: u32, now: u32, seconds: u64, nanoseconds: u32| {
            let tv_nsec = match set.valid {
                valid if valid & set_it == 0 => UTIME_OMIT,
                valid if valid & now != 0 => UTIME_NOW,
                _ => nanoseconds.into(),
            };
            Timespec {
                tv_sec: seconds.cast_signed(),
                tv_nsec,
            }
        };
        let times = Timestamps {
            last_access: time(setattr::ATIME, setattr::ATIME_NOW, set.atime, set.atimensec),
            last_modification: time(setattr::MTIME, setattr::MTIME_NOW, set.mtime, set.mtimensec),
        };
        rustix::fs::utimensat(file, "", &times, rustix::fs::AtFlags::EMPTY_PATH)
    }

    /// Ownership never changes: a file can only be given to its current owner.
    fn may_be_given(&self, set: &SetattrIn) -> bool {
        let (uid, gid) = self.owner.map_or_else(own_ids, |owner| (owner.uid, owner.gid));
        (set.valid & setattr::UID == 0 || set.uid == uid) && (set.valid & setattr::GID == 0 || set.gid == gid)
    }

    pub(super) fn read_link(&self, node: u64) -> Result<Vec<u8>, Errno> {
        let link = self.places.reach(&self.at(node)?)?;
        Ok(rustix::fs::readlinkat(&link, "", Vec::new())?.into_bytes())
    }

    /// An entry to report to the kernel.
    pub(super) fn entry(&self, parent: u64, at: &RuledPlace, stat: &Stat) -> EntryOut {
        let node = self.nodes().look_up(parent, at.name(), self.identity(at, stat));
        let AttrOut { attr, attr_valid, .. } = self.attr_out(stat, Some(at));
        EntryOut {
            nodeid: node,
            generation: 0,
            entry_valid: attr_valid,
            attr_valid,
            entry_valid_nsec: 0,
            attr_valid_nsec: 0,
            attr,
        }
    }

    /// The kernel decides by the mode, so files that cannot be changed show a read-only mode.
    fn attr_out(&self, stat: &Stat, at: Option<&RuledPlace>) -> AttrOut {
        let is_link = FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
        let is_fixed = at.is_some_and(|at| !at.is_writable()) && !is_link;
        let (uid, gid) = self.shown_owner(stat);
        let attr = Attr {
            ino: at.map_or(stat.st_ino | OF_PRIVATE, |at| number(stat.st_ino, at)),
            size: stat.st_size.cast_unsigned(),
            blocks: stat.st_blocks.cast_unsigned(),
            atime: stat.st_atime.cast_unsigned(),
            mtime: stat.st_mtime.cast_unsigned(),
            ctime: stat.st_ctime.cast_unsigned(),
            atimensec: stat.st_atime_nsec as u32,
            mtimensec: stat.st_mtime_nsec as u32,
            ctimensec: stat.st_ctime_nsec as u32,
            mode: if is_fixed {
                stat.st_mode & !ANY_WRITE
            } else {
                stat.st_mode
            },
            nlink: stat.st_nlink as u32,
            uid,
            gid,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        };
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        let is_cached = at.is_some_and(|at| match at.layer() {
            PlaceLayer::Shared => false,
            PlaceLayer::Cached => true,
            // No other program changes it. Setting up a sandbox walks to each of its paths, over and over.
            PlaceLayer::Private => is_directory,
        });
        let attr_valid = if is_cached { CACHED_SECONDS } else { 0 };
        AttrOut {
            attr_valid,
            attr_valid_nsec: 0,
            dummy: 0,
            attr,
        }
    }

    fn shown_owner(&self, stat: &Stat) -> (u32, u32) {
        match self.owner {
            Some(owner) if stat.st_uid == own_ids().0 => (owner.uid, owner.gid),
            Some(_) | None => (stat.st_uid, stat.st_gid),
        }
    }

    pub(super) fn stat_filesystem(&self) -> Result<StatfsOut, Errno> {
        let stat = rustix::fs::fstatvfs(self.places.top(PlaceLayer::Private))?;
        Ok(StatfsOut {
            blocks: stat.f_blocks,
            bfree: stat.f_bfree,
            bavail: stat.f_bavail,
            files: stat.f_files,
            ffree: stat.f_ffree,
            bsize: stat.f_bsize as u32,
            namelen: stat.f_namemax as u32,
            frsize: stat.f_frsize as u32,
            padding: 0,
            spare: [0; 6],
        })
    }
}

/// The inode number that programs see. In a cache it depends on the path: a file keeps it when it is copied
/// into the layer.
pub(super) fn number(inode: u64, at: &RuledPlace) -> u64 {
    match at.layer() {
        PlaceLayer::Shared => inode & !(OF_PRIVATE | OF_CACHED),
        PlaceLayer::Cached => by_path(at.path()) & !OF_PRIVATE | OF_CACHED,
        PlaceLayer::Private => inode & !OF_CACHED | OF_PRIVATE,
    }
}

/// FNV-1a.
fn by_path(path: &[u8]) -> u64 {
    path.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn own_ids() -> (u32, u32) {
    (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    )
}
