//! One entry of a host directory: its attributes, and the bytes of a file as they were at one moment.

use avfs_core::chunks::{BLOB_MAX, FILE_MAX};
use avfs_core::{Content, Entry, EntryKind, Labels, Meta, Timestamp, Xattrs};
use avfs_tree::content::ContentBuilder;
use avfs_tree::{ObjectError, ObjectWriter, Objects};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, FileType, SeekFrom, Stat};
use rustix::io::Errno;

use super::TransferProgress;
use super::error::SkipReason;
use super::links::HostFileKey;

/// Why an entry was not read.
pub enum ReadTrouble {
    /// It has changed in the last moment: read it again.
    Changed,
    /// It is left out, for this reason.
    Skip(SkipReason),
    /// It could not be stored.
    Store(ObjectError),
}

impl From<ObjectError> for ReadTrouble {
    fn from(source: ObjectError) -> ReadTrouble {
        ReadTrouble::Store(source)
    }
}

impl From<Errno> for ReadTrouble {
    fn from(errno: Errno) -> ReadTrouble {
        match errno {
            Errno::NOENT => ReadTrouble::Skip(SkipReason::Vanished),
            // A listed file or directory is a symbolic link or something else now.
            Errno::LOOP | Errno::NXIO | Errno::NOTDIR | Errno::STALE => ReadTrouble::Changed,
            errno => ReadTrouble::Skip(SkipReason::Unreadable(errno)),
        }
    }
}

/// Where objects go.
#[derive(Clone, Copy)]
pub struct ObjectSink<'a> {
    /// The store.
    pub objects: &'a Objects,
    /// Puts objects into it.
    pub writer: &'a ObjectWriter,
    /// Is told of each file.
    pub progress: &'a dyn TransferProgress,
}

/// The bytes of large files that are read at a time.
const PIECE: usize = 1 << 20;

impl ObjectSink<'_> {
    /// Reads an open regular file. `stat` is from the moment when it was opened; if it differs at the end,
    /// the bytes may be a mixture of two versions.
    pub fn regular(&self, file: BorrowedFd<'_>, stat: &Stat) -> Result<Entry, ReadTrouble> {
        let size = stat.st_size as u64;
        if size > FILE_MAX {
            return Err(ReadTrouble::Skip(SkipReason::TooLarge(size)));
        }
        let content = self.content(file, size, has_holes(stat))?;
        let meta = meta(stat, xattrs(file)?);
        if !is_same_version(stat, &rustix::fs::fstat(file)?) {
            return Err(ReadTrouble::Changed);
        }
        Ok(Entry {
            meta,
            kind: EntryKind::File { size, content },
        })
    }

    fn content(&self, file: BorrowedFd<'_>, size: u64, has_holes: bool) -> Result<Content, ReadTrouble> {
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
    pub fn dense_content(&self, file: BorrowedFd<'_>, stat: &Stat) -> Result<Content, ReadTrouble> {
        let size = stat.st_size as u64;
        self.content(file, size, size > BLOB_MAX && has_holes(stat))
    }

    fn small(&self, file: BorrowedFd<'_>, size: usize) -> Result<Content, ReadTrouble> {
        let mut bytes = Vec::with_capacity(size);
        while bytes.len() < size {
            if read_more(file, &mut bytes)? == 0 {
                return Err(ReadTrouble::Changed);
            }
        }
        Ok(Content::Blob(self.writer.put_blob(bytes)?))
    }

    /// Reads a file run by run of data; the gaps between them are holes.
    fn sparse(&self, file: BorrowedFd<'_>, size: u64) -> Result<Content, ReadTrouble> {
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
    fn run(
        &self,
        file: BorrowedFd<'_>,
        builder: &mut ContentBuilder<'_>,
        end: u64,
    ) -> Result<(), ReadTrouble> {
        let mut piece = Vec::new();
        while builder.size() < end {
            piece.clear();
            piece.reserve_exact((end - builder.size()).min(PIECE as u64) as usize);
            if read_more(file, &mut piece)? == 0 {
                return Err(ReadTrouble::Changed);
            }
            // The file has grown since its size was read: the rest is another import's.
            piece.truncate((end - builder.size()).min(usize::MAX as u64) as usize);
            builder.push(&piece)?;
            self.progress.advance(0, piece.len() as u64);
        }
        Ok(())
    }
}

/// Files whose bytes are reported to the progress while they are read, not at the end.
pub fn is_told_piecewise(stat: &Stat) -> bool {
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
    let version = |stat: &Stat| {
        (
            stat.st_size,
            stat.st_mtime,
            stat.st_mtime_nsec,
            stat.st_ctime,
            stat.st_ctime_nsec,
        )
    };
    version(before) == version(after)
}

/// Anything but a file or a directory: there is nothing to open.
pub fn special(directory: BorrowedFd<'_>, name: &[u8], stat: &Stat) -> Result<Entry, ReadTrouble> {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(directory, name, Vec::new());
            // No longer a link: it is read again.
            let target = target.map_err(|errno| match errno {
                Errno::INVAL => ReadTrouble::Changed,
                errno => errno.into(),
            })?;
            EntryKind::Symlink {
                target: target.into_bytes().into(),
            }
        }
        FileType::Fifo => EntryKind::Fifo,
        FileType::Socket => EntryKind::Socket,
        FileType::CharacterDevice => EntryKind::CharDevice { device: stat.st_rdev },
        FileType::BlockDevice => EntryKind::BlockDevice { device: stat.st_rdev },
        FileType::RegularFile | FileType::Directory => return Err(ReadTrouble::Changed),
        FileType::Unknown => return Err(ReadTrouble::Skip(SkipReason::UnknownKind)),
    };
    Ok(Entry {
        meta: meta(stat, Xattrs::default()),
        kind,
    })
}

/// The attributes of an entry, without following a link or mounting anything.
pub fn stat_of(directory: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<Stat> {
    rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT)
}

pub(super) fn key_of(stat: &Stat) -> HostFileKey {
    HostFileKey {
        device: stat.st_dev,
        inode: stat.st_ino,
    }
}

/// The attributes as a vault keeps them.
pub fn meta(stat: &Stat, xattrs: Xattrs) -> Meta {
    let nanos = (stat.st_mtime_nsec as u32).min(Timestamp::NANOS_PER_SECOND - 1);
    Meta {
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        mtime: Timestamp {
            seconds: stat.st_mtime,
            nanos,
        },
        xattrs,
        labels: Labels::default(),
    }
}

/// Whether a vault keeps this extended attribute: those of the user, file capabilities and access control
/// lists. The rest are labels of the host's own security systems.
pub fn is_kept_xattr(name: &[u8]) -> bool {
    name.starts_with(b"user.") || name.starts_with(b"system.posix_acl_") || name == CAPABILITY
}

/// The extended attribute of file capabilities.
pub const CAPABILITY: &[u8] = b"security.capability";
/// Most lists fit.
const LIST_BUFFER: usize = 1024;

/// The extended attributes of an open file or directory. Nearly all have none: one call.
pub fn xattrs(file: impl AsFd) -> Result<Xattrs, ReadTrouble> {
    let file = file.as_fd();
    let mut first = [0u8; LIST_BUFFER];
    let longer;
    let names = match rustix::fs::flistxattr(file, &mut first[..]) {
        Ok(len) => &first[..len],
        Err(Errno::RANGE) => {
            longer = whole(|buffer| rustix::fs::flistxattr(file, buffer))?;
            &longer
        }
        // A file system without attributes is one whose files have none.
        Err(Errno::NOTSUP | Errno::NOSYS) => &[],
        Err(errno) => return Err(errno.into()),
    };
    let mut xattrs = Xattrs::default();
    for name in names.split(|byte| *byte == 0).filter(|name| is_kept_xattr(name)) {
        match whole(|buffer| rustix::fs::fgetxattr(file, name, buffer)) {
            Ok(value) => xattrs.set(name, &value),
            Err(Errno::NODATA) => return Err(ReadTrouble::Changed),
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
                // The list may have grown between asking for its size and reading it.
                buffer.truncate(outcome?);
                return Ok(buffer);
            }
        }
    }
}
