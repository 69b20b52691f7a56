//! Finding and creating entries.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::PassthroughFs;
use super::attributes::CACHED_SECONDS;
use super::places::{PlaceLayer, RuledPlace, open_reached};
use crate::abi::flags::open_out;
use crate::abi::{CreateIn, EntryOut, MknodIn};

impl PassthroughFs {
    pub(super) fn lookup(&self, parent: u64, name: &[u8]) -> Result<EntryOut, Errno> {
        let at = self.child(parent, name)?;
        match self.places.stat(&at) {
            Ok(stat) => Ok(self.entry(parent, &at, &stat)),
            // The kernel remembers for a moment that it does not exist.
            Err(Errno::NOENT) if at.layer() == PlaceLayer::Cached => Ok(EntryOut {
                entry_valid: CACHED_SECONDS,
                ..zerocopy::FromZeros::new_zeroed()
            }),
            Err(errno) => Err(errno),
        }
    }

    pub(super) fn make_directory(&self, parent: u64, mode: u32, name: &[u8]) -> Result<EntryOut, Errno> {
        let at = self.child(parent, name)?;
        if !at.is_writable() {
            return Err(Errno::ACCESS);
        }
        // A directory of the host on the way to a shared path exists.
        if at.is_way && self.places.stat(&at).is_ok() {
            return Err(Errno::EXIST);
        }
        self.check_absent(&at)?;
        let (directory, name) = self.places.parent_to_be(&at)?;
        rustix::fs::mkdirat(&directory, name, Mode::from_raw_mode(mode & 0o1777))?;
        let stat = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(self.entry(parent, &at, &stat))
    }

    /// Also for special files, which can only be created in the private part.
    pub(super) fn make_node(&self, parent: u64, made: &MknodIn, name: &[u8]) -> Result<EntryOut, Errno> {
        let at = self.child(parent, name)?;
        at.check_changeable()?;
        let kind = FileType::from_raw_mode(made.mode);
        let is_allowed = match kind {
            FileType::RegularFile => true,
            FileType::Fifo | FileType::Socket => !at.is_shared(),
            _ => false,
        };
        if !is_allowed {
            return Err(Errno::PERM);
        }
        self.check_absent(&at)?;
        let (directory, name) = self.places.parent_to_be(&at)?;
        let mode = Mode::from_raw_mode(made.mode & !made.umask & 0o777);
        rustix::fs::mknodat(&directory, name, kind, mode, 0)?;
        let stat = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(self.entry(parent, &at, &stat))
    }

    pub(super) fn symlink(&self, parent: u64, name: &[u8], target: &[u8]) -> Result<EntryOut, Errno> {
        let at = self.child(parent, name)?;
        at.check_changeable()?;
        if at.is_shared() {
            return Err(Errno::PERM);
        }
        self.check_absent(&at)?;
        let (directory, name) = self.places.parent(&at)?;
        rustix::fs::symlinkat(target, &directory, name)?;
        let stat = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(self.entry(parent, &at, &stat))
    }

    /// A second name in the same part, for a file that can be changed under both.
    pub(super) fn link(&self, old: u64, parent: u64, name: &[u8]) -> Result<EntryOut, Errno> {
        let from = self.at(old)?;
        let at = self.child(parent, name)?;
        from.check_changeable()?;
        at.check_changeable()?;
        if from.layer() != at.layer() {
            return Err(Errno::XDEV);
        }
        self.check_absent(&at)?;
        self.make_own(old, &from)?;
        let (old_directory, old_name) = self.places.parent(&from)?;
        let (directory, name) = self.places.parent_to_be(&at)?;
        rustix::fs::linkat(&old_directory, old_name, &directory, name, AtFlags::empty())?;
        let stat = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(self.entry(parent, &at, &stat))
    }

    /// Creates a file and opens it, or opens the one that another program has created meanwhile.
    pub(super) fn create(
        &self,
        parent: u64,
        create: &CreateIn,
        name: &[u8],
    ) -> Result<(EntryOut, u64), Errno> {
        let at = self.child(parent, name)?;
        at.check_changeable()?;
        let wanted = OFlags::from_bits_retain(create.flags);
        if wanted.contains(OFlags::EXCL) {
            self.check_absent(&at)?;
        } else if at.layer() == PlaceLayer::Cached {
            match self.places.own(&at) {
                Ok(_) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno),
            }
        }
        let (directory, name) = self.places.parent_to_be(&at)?;
        let kept = wanted & (OFlags::RWMODE | OFlags::APPEND | OFlags::EXCL);
        // Never waiting for the other end of a pipe, and never through a link that took the place of the file.
        let flags = kept | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(create.mode & !create.umask & 0o777);
        let file = rustix::fs::openat(&directory, name, flags, mode)?;
        let stat = rustix::fs::fstat(&file)?;
        check_regular(&stat)?;
        let entry = self.entry(parent, &at, &stat);
        let handle = self.files.add(entry.nodeid, file, is_writing(wanted));
        Ok((entry, handle))
    }

    /// Opens a file that the kernel knows.
    pub(super) fn open(&self, node: u64, flags: u32) -> Result<(u64, u32), Errno> {
        let at = self.at(node)?;
        let wanted = OFlags::from_bits_retain(flags);
        check_access(&at, wanted)?;
        let file = if is_writing(wanted) {
            self.make_own(node, &at)?
        } else {
            self.places.reach(&at)?
        };
        self.check_same(node, &at, &rustix::fs::fstat(&file)?)?;
        let kept = wanted & (OFlags::RWMODE | OFlags::APPEND);
        let file = open_reached(&file, kept)?;
        // A file of a cache is replaced, which makes it a different file, or gets a new time.
        let flags = if at.layer() == PlaceLayer::Cached {
            open_out::KEEP_CACHE
        } else {
            0
        };
        Ok((self.files.add(node, file, is_writing(wanted)), flags))
    }

    /// The file of a node in a place where it can be changed. If it is copied for that, the node stays the
    /// same, also for programs that have it open.
    pub(super) fn make_own(&self, node: u64, at: &RuledPlace) -> Result<OwnedFd, Errno> {
        let (file, is_copied) = self.places.own(at)?;
        if is_copied {
            self.nodes()
                .identify(node, self.identity(at, &rustix::fs::fstat(&file)?));
            self.files.replace(node, || open_reached(&file, OFlags::RDONLY))?;
        }
        Ok(file)
    }

    /// Fails if the host has an entry, which the layer lacks, at a name that is about to be created.
    fn check_absent(&self, at: &RuledPlace) -> Result<(), Errno> {
        match self.places.cached(at).map(|(caches, path)| caches.reach(path)) {
            Some(Ok(_)) => Err(Errno::EXIST),
            Some(Err(Errno::NOENT)) | None => Ok(()),
            Some(Err(errno)) => Err(errno),
        }
    }
}

fn check_access(at: &RuledPlace, wanted: OFlags) -> Result<(), Errno> {
    if at.is_writable() || !is_writing(wanted) {
        Ok(())
    } else {
        Err(Errno::ACCESS)
    }
}

fn is_writing(flags: OFlags) -> bool {
    flags & OFlags::RWMODE != OFlags::RDONLY
}

fn check_regular(stat: &Stat) -> Result<(), Errno> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        _ => Err(Errno::INVAL),
    }
}
