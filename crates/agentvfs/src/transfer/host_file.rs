//! One entry of a host directory: its attributes, and the bytes of a file as they were at one moment.

use avfs_core::chunks::{BLOB_MAX, FILE_MAX};
use avfs_core::{Content, Entry, EntryKind, Labels, Meta, Timestamp, Xattrs};
use avfs_tree::content::ContentBuilder;
use avfs_tree::{ObjectError, ObjectWriter, Objects};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, FileType, SeekFrom, Stat};
use rustix::io::Errno;

use super::Progress;
use super::error::Reason;
use super::links::FileKey;

/// Why an entry was not read.
pub(crate) enum Trouble {
    /// It is not what it was a moment ago: look again.
    Changed,
    Skip(Reason),
    Store(ObjectError),
}

impl From<ObjectError> for Trouble {
    fn from(source: ObjectError) -> Trouble {
        Trouble::Store(source)
    }
}

impl From<Errno> for Trouble {
    fn from(errno: Errno) -> Trouble {
        match errno {
            Errno::NOENT => Trouble::Skip(Reason::Vanished),
            // What was a file or directory when it was listed is a symbolic link or something else now.
            Errno::LOOP | Errno::NXIO | Errno::NOTDIR | Errno::STALE => Trouble::Changed,
            errno => Trouble::Skip(Reason::Unreadable(errno)),
        }
    }
}

/// Where objects go.
#[derive(Clone, Copy)]
pub(crate) struct Intake<'a> {
    pub objects: &'a Objects,
    pub writer: &'a ObjectWriter,
    pub progress: &'a dyn Progress,
}

/// The bytes of large files that are read at a time.
const PIECE: usize = 1 << 20;

impl Intake<'_> {
    /// Reads an open regular file. `stat` is of the moment when it was opened; if it is another one at the
    /// end, what was read may be half of one version and half of the next.
    pub(crate) fn regular(&self, file: BorrowedFd<'_>, stat: &Stat) -> Result<Entry, Trouble> {
        let size = stat.st_size as u64;
        if size > FILE_MAX {
            return Err(Trouble::Skip(Reason::TooLarge(size)));
        }
        let content = self.content(file, size, has_holes(stat))?;
        let meta = meta(stat, xattrs(file)?);
        if !is_same_version(stat, &rustix::fs::fstat(file)?) {
            return Err(Trouble::Changed);
        }
        Ok(Entry { meta, kind: EntryKind::File { size, content } })
    }

    fn content(&self, file: BorrowedFd<'_>, size: u64, has_holes: bool) -> Result<Content, Trouble> {
        match (size, has_holes) {
            (0, _) => Ok(Content::Empty),
            (_, true) => self.sparse(file, size),
            (size, false) if size <= BLOB_MAX => self.small(file, size as usize),
            (_, false) => {
                let mut builder = ContentBuilder::new(self.objects, self.writer);
                self.run(file, &mut builder, size)?;
                Ok(builder.finish()?.1)
            }
        }
    }

    /// The bytes of an open file; only very large ones keep their holes.
    pub(crate) fn dense_content(&self, file: BorrowedFd<'_>, stat: &Stat) -> Result<Content, Trouble> {
        let size = stat.st_size as u64;
        self.content(file, size, size > BLOB_MAX && has_holes(stat))
    }

    fn small(&self, file: BorrowedFd<'_>, size: usize) -> Result<Content, Trouble> {
        let mut bytes = Vec::with_capacity(size);
        while bytes.len() < size {
            if read_more(file, &mut bytes)? == 0 {
                return Err(Trouble::Changed);
            }
        }
        Ok(Content::Blob(self.writer.put_blob(bytes)?))
    }

    /// Reads a file run by run of data; what lies between them is holes.
    fn sparse(&self, file: BorrowedFd<'_>, size: u64) -> Result<Content, Trouble> {
        let mut builder = ContentBuilder::new(self.objects, self.writer);
        while builder.size() < size {
            let start = match rustix::fs::seek(file, SeekFrom::Data(builder.size())) {
                Ok(start) => start.min(size),
                Err(Errno::NXIO) => size,
                Err(errno) => return Err(errno.into()),
            };
            builder.push_hole(start - builder.size())?;
            if start < size {
                let end = rustix::fs::seek(file, SeekFrom::Hole(start))?.min(size);
                rustix::fs::seek(file, SeekFrom::Start(start))?;
                self.run(file, &mut builder, end)?;
            }
        }
        Ok(builder.finish()?.1)
    }

    /// Reads from where the builder is up to `end`.
    fn run(&self, file: BorrowedFd<'_>, builder: &mut ContentBuilder<'_>, end: u64) -> Result<(), Trouble> {
        let mut piece = Vec::new();
        while builder.size() < end {
            piece.clear();
            piece.reserve_exact((end - builder.size()).min(PIECE as u64) as usize);
            if read_more(file, &mut piece)? == 0 {
                return Err(Trouble::Changed);
            }
            piece.truncate((end - builder.size()).min(usize::MAX as u64) as usize);
            builder.push(&piece)?;
            self.progress.advance(0, piece.len() as u64);
        }
        Ok(())
    }
}

/// Files whose bytes are told to the progress while they are read, not when they are done.
pub(crate) fn is_told_piecewise(stat: &Stat) -> bool {
    stat.st_size as u64 > BLOB_MAX || has_holes(stat)
}

fn read_more(file: BorrowedFd<'_>, bytes: &mut Vec<u8>) -> rustix::io::Result<usize> {
    loop {
        match rustix::io::read(file, rustix::buffer::spare_capacity(bytes)) {
            Err(Errno::INTR) => {}
            outcome => return outcome,
        }
    }
}

/// `st_blocks` counts in 512 bytes, whatever the file system's blocks are.
fn has_holes(stat: &Stat) -> bool {
    (stat.st_blocks as u64).saturating_mul(512) < stat.st_size as u64
}

fn is_same_version(before: &Stat, after: &Stat) -> bool {
    let version =
        |stat: &Stat| (stat.st_size, stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec);
    version(before) == version(after)
}

/// Anything but a file or a directory: there is nothing to open.
pub(crate) fn special(directory: BorrowedFd<'_>, name: &[u8], stat: &Stat) -> Result<Entry, Trouble> {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(directory, name, Vec::new());
            // Not a link any more: it is looked at again.
            let target = target.map_err(|errno| match errno {
                Errno::INVAL => Trouble::Changed,
                errno => errno.into(),
            })?;
            EntryKind::Symlink { target: target.into_bytes().into() }
        }
        FileType::Fifo => EntryKind::Fifo,
        FileType::Socket => EntryKind::Socket,
        FileType::CharacterDevice => EntryKind::CharDevice { device: stat.st_rdev },
        FileType::BlockDevice => EntryKind::BlockDevice { device: stat.st_rdev },
        FileType::RegularFile | FileType::Directory => return Err(Trouble::Changed),
        FileType::Unknown => return Err(Trouble::Skip(Reason::UnknownKind)),
    };
    Ok(Entry { meta: meta(stat, Xattrs::default()), kind })
}

pub(crate) fn stat_of(directory: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<Stat> {
    rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT)
}

pub(super) fn key_of(stat: &Stat) -> FileKey {
    FileKey { device: stat.st_dev, inode: stat.st_ino }
}

pub(crate) fn meta(stat: &Stat, xattrs: Xattrs) -> Meta {
    let nanos = (stat.st_mtime_nsec as u32).min(Timestamp::NANOS_PER_SECOND - 1);
    Meta {
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        mtime: Timestamp { seconds: stat.st_mtime, nanos },
        xattrs,
        labels: Labels::default(),
    }
}

/// Whether a vault keeps this extended attribute: those of the user, file capabilities and access control
/// lists. The rest are labels of the host's own security systems.
pub(crate) fn is_kept_xattr(name: &[u8]) -> bool {
    name.starts_with(b"user.") || name.starts_with(b"system.posix_acl_") || name == CAPABILITY
}

pub(crate) const CAPABILITY: &[u8] = b"security.capability";
/// Most lists fit.
const LIST_BUFFER: usize = 1024;

/// The extended attributes of an open file or directory. Nearly all have none: one call.
pub(crate) fn xattrs(file: impl AsFd) -> Result<Xattrs, Trouble> {
    let file = file.as_fd();
    let mut first = [0u8; LIST_BUFFER];
    let longer;
    let names = match rustix::fs::flistxattr(file, &mut first[..]) {
        Ok(len) => &first[..len],
        Err(Errno::RANGE) => {
            longer = whole(|buffer| rustix::fs::flistxattr(file, buffer))?;
            &longer
        }
        Err(Errno::NOTSUP | Errno::NOSYS) => &[],
        Err(errno) => return Err(errno.into()),
    };
    let mut xattrs = Xattrs::default();
    for name in names.split(|byte| *byte == 0).filter(|name| is_kept_xattr(name)) {
        match whole(|buffer| rustix::fs::fgetxattr(file, name, buffer)) {
            Ok(value) => xattrs.set(name, &value),
            Err(Errno::NODATA) => return Err(Trouble::Changed),
            // Listed, but not for us to see.
            Err(Errno::ACCESS | Errno::PERM | Errno::NOTSUP) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(xattrs)
}

/// Calls until the buffer is large enough; the kernel allows 64 KiB.
fn whole(call: impl Fn(&mut [u8]) -> rustix::io::Result<usize>) -> rustix::io::Result<Vec<u8>> {
    let mut buffer = vec![0; 4096];
    loop {
        match call(&mut buffer) {
            Err(Errno::RANGE) if buffer.len() < 1 << 20 => buffer.resize(buffer.len() * 4, 0),
            outcome => {
                buffer.truncate(outcome?);
                return Ok(buffer);
            }
        }
    }
}
