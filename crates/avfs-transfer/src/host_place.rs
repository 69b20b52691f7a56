//! Making one entry in a host directory, with all its attributes.
//!
//! Everything is made under a descriptor of its directory, as a new name that is never followed, so that
//! nothing outside can be written through a name that someone puts there meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use avfs_core::{Content, Entry, EntryKind, Meta, Timestamp};
use avfs_tree::{ObjectError, Objects, content};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags};
use rustix::io::Errno;

use super::error::SkipReason;
use super::{TransferProgress, TransferTally};

/// How one entry failed.
#[derive(Debug)]
pub enum PlaceFault {
    /// The action, and the error of the host.
    Host(&'static str, Errno),
    /// An object could not be read.
    Object(ObjectError),
}

impl From<ObjectError> for PlaceFault {
    fn from(source: ObjectError) -> PlaceFault {
        PlaceFault::Object(source)
    }
}

/// Adds the action to the error of a failed call.
pub trait DescribeAction<T> {
    /// Adds the action to an error.
    fn doing(self, action: &'static str) -> Result<T, PlaceFault>;
}

impl<T> DescribeAction<T> for rustix::io::Result<T> {
    fn doing(self, action: &'static str) -> Result<T, PlaceFault> {
        self.map_err(|errno| PlaceFault::Host(action, errno))
    }
}

/// The result of creating an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceOutcome {
    /// It was created.
    Yes,
    /// There is something of this name.
    Exists,
    /// Not for us to make; it is in the report.
    Skipped,
}

/// Creates entries of a tree in a directory of the host.
pub struct EntryPlacer<'a> {
    /// The store.
    pub objects: &'a Objects,
    /// Counts what was created.
    pub tally: &'a TransferTally,
    /// Is told of each file.
    pub progress: &'a dyn TransferProgress,
    /// Replace an existing entry of the name, unless it is a directory.
    pub replace: bool,
    /// Give files their owners, as only root can.
    pub sets_owners: bool,
    /// The owner of new files.
    pub user: (u32, u32),
    /// Whether a file did not get its owner.
    pub lost_owners: AtomicBool,
    /// The number in the name of the next temporary file.
    pub temporary: AtomicU64,
}

/// The bytes of large files that are written at a time.
const PIECE: u64 = 1 << 20;
const FRESH: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

impl EntryPlacer<'_> {
    /// Makes anything but a directory as `name` of `directory`. `relative` is how the report names it.
    pub fn place(
        &self,
        directory: BorrowedFd<'_>,
        name: &[u8],
        entry: &Entry,
        relative: &[u8],
    ) -> Result<PlaceOutcome, PlaceFault> {
        self.at(directory, name, |name| {
            self.make(directory, name, entry, relative)
        })
    }

    /// Makes `name` of `directory` another name of `first` of `first_directory`.
    pub fn link(
        &self,
        first: (BorrowedFd<'_>, &[u8]),
        directory: BorrowedFd<'_>,
        name: &[u8],
    ) -> Result<PlaceOutcome, PlaceFault> {
        self.at(directory, name, |name| {
            made(
                rustix::fs::linkat(first.0, first.1, directory, name, AtFlags::empty()),
                "linking",
            )
        })
    }

    /// Creates an entry under its name or, if that exists and may be replaced, under a temporary name from
    /// which it is then renamed: an incomplete file is never visible.
    fn at(
        &self,
        directory: BorrowedFd<'_>,
        name: &[u8],
        make: impl Fn(&[u8]) -> Result<PlaceOutcome, PlaceFault>,
    ) -> Result<PlaceOutcome, PlaceFault> {
        match make(name)? {
            PlaceOutcome::Exists if self.replace => {}
            outcome => return Ok(outcome),
        }
        loop {
            let number = self.temporary.fetch_add(1, Ordering::Relaxed);
            // In the same directory, so that the rename stays within one file system.
            let aside = format!(".avfs-export-{}-{number}", std::process::id()).into_bytes();
            match make(&aside)? {
                PlaceOutcome::Exists => {}
                PlaceOutcome::Skipped => return Ok(PlaceOutcome::Skipped),
                PlaceOutcome::Yes => {
                    let renamed = rustix::fs::renameat(directory, &aside[..], directory, name);
                    if renamed.is_err() {
                        // For example, the name is a directory now.
                        let _ = rustix::fs::unlinkat(directory, &aside[..], AtFlags::empty());
                    }
                    return renamed.doing("replacing").map(|()| PlaceOutcome::Yes);
                }
            }
        }
    }

    fn make(
        &self,
        directory: BorrowedFd<'_>,
        name: &[u8],
        entry: &Entry,
        relative: &[u8],
    ) -> Result<PlaceOutcome, PlaceFault> {
        match &entry.kind {
            EntryKind::File { size, content } => {
                // Readable for its owner alone until its own mode and owner are set.
                match rustix::fs::openat(directory, name, FRESH, Mode::from_raw_mode(0o600)) {
                    Err(Errno::EXIST) => return Ok(PlaceOutcome::Exists),
                    file => self.fill(&file.doing("creating")?, *size, *content, &entry.meta, relative)?,
                }
                Ok(PlaceOutcome::Yes)
            }
            EntryKind::Symlink { target } => {
                let outcome = made(rustix::fs::symlinkat(&target[..], directory, name), "creating");
                self.then_attributes(outcome, directory, name, entry, relative)
            }
            EntryKind::Fifo => self.node(directory, name, entry, FileType::Fifo, 0, relative),
            EntryKind::Socket => self.node(directory, name, entry, FileType::Socket, 0, relative),
            EntryKind::CharDevice { device } => self.node(
                directory,
                name,
                entry,
                FileType::CharacterDevice,
                *device,
                relative,
            ),
            EntryKind::BlockDevice { device } => {
                self.node(directory, name, entry, FileType::BlockDevice, *device, relative)
            }
            EntryKind::Directory { .. } => Err(PlaceFault::Host("creating", Errno::ISDIR)),
        }
    }

    fn fill(
        &self,
        file: &OwnedFd,
        size: u64,
        content: Content,
        meta: &Meta,
        relative: &[u8],
    ) -> Result<(), PlaceFault> {
        match content {
            Content::Empty => {}
            Content::Blob(_) => {
                write_at(file, &content::read_all(self.objects, content, size)?, 0)?;
                self.progress.advance(0, size);
            }
            Content::Chunks(_) => self.fill_runs(file, size, content)?,
        }
        // Last, because writing changes the time of the file.
        self.attributes(file.as_fd(), meta, relative)
    }

    /// Writes the runs of data and leaves the holes between them.
    fn fill_runs(&self, file: &OwnedFd, size: u64, content: Content) -> Result<(), PlaceFault> {
        let mut piece = Vec::new();
        let mut done = 0;
        while let Some(start) = content::seek_data(self.objects, content, size, done)? {
            let end = content::seek_hole(self.objects, content, size, start)?;
            done = start;
            while done < end {
                piece.resize((end - done).min(PIECE) as usize, 0);
                content::read_at(self.objects, content, size, done, &mut piece)?;
                write_at(file, &piece, done)?;
                done += piece.len() as u64;
                self.progress.advance(0, piece.len() as u64);
            }
        }
        // A hole at the end is made by no write.
        rustix::fs::ftruncate(file, size).doing("setting the size of")
    }

    fn node(
        &self,
        directory: BorrowedFd<'_>,
        name: &[u8],
        entry: &Entry,
        kind: FileType,
        device: u64,
        relative: &[u8],
    ) -> Result<PlaceOutcome, PlaceFault> {
        // Its own mode is set later, when nothing in it can be reached too early.
        let outcome = rustix::fs::mknodat(directory, name, kind, Mode::from_raw_mode(0o600), device);
        let is_device = matches!(kind, FileType::CharacterDevice | FileType::BlockDevice);
        if outcome == Err(Errno::PERM) && is_device {
            self.tally.skip(relative, SkipReason::DeviceNeedsRoot);
            return Ok(PlaceOutcome::Skipped);
        }
        self.then_attributes(made(outcome, "creating"), directory, name, entry, relative)
    }

    /// The attributes of an entry that cannot be opened, set by name without following it.
    fn then_attributes(
        &self,
        outcome: Result<PlaceOutcome, PlaceFault>,
        directory: BorrowedFd<'_>,
        name: &[u8],
        entry: &Entry,
        relative: &[u8],
    ) -> Result<PlaceOutcome, PlaceFault> {
        if outcome.as_ref().ok() != Some(&PlaceOutcome::Yes) {
            return outcome;
        }
        let meta = &entry.meta;
        let chown = |uid, gid| rustix::fs::chownat(directory, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW);
        let kept = self.owner(meta, chown)?;
        if !matches!(entry.kind, EntryKind::Symlink { .. }) {
            let mode = self.mode(meta, kept, relative);
            chmod_unopened(directory, name, mode).doing("setting the mode of")?;
        }
        rustix::fs::utimensat(directory, name, &times(meta.mtime), AtFlags::SYMLINK_NOFOLLOW)
            .doing("setting the time of")?;
        Ok(PlaceOutcome::Yes)
    }

    /// Sets all attributes of an open file or directory. The order matters: a new owner clears the setuid bit
    /// and capabilities, a mode may revoke the permission to set extended attributes, and all of it changes
    /// times.
    pub fn attributes(&self, file: BorrowedFd<'_>, meta: &Meta, relative: &[u8]) -> Result<(), PlaceFault> {
        let kept = self.owner(meta, |uid, gid| rustix::fs::fchown(file, uid, gid))?;
        for (name, value) in meta.xattrs.iter() {
            if let Err(errno) = rustix::fs::fsetxattr(file, name, value, XattrFlags::empty()) {
                self.tally.skip(
                    relative,
                    SkipReason::Xattr {
                        name: name.into(),
                        errno,
                    },
                );
            }
        }
        rustix::fs::fchmod(file, self.mode(meta, kept, relative)).doing("setting the mode of")?;
        rustix::fs::futimens(file, &times(meta.mtime)).doing("setting the time of")
    }

    /// Gives the file to its owner, if that is for us to do. Returns whether it belongs to them now.
    fn owner(
        &self,
        meta: &Meta,
        chown: impl Fn(Option<Uid>, Option<Gid>) -> rustix::io::Result<()>,
    ) -> Result<bool, PlaceFault> {
        let owner = (meta.uid, meta.gid);
        if self.sets_owners {
            match chown(Some(Uid::from_raw(meta.uid)), Some(Gid::from_raw(meta.gid))) {
                // Root of a user namespace that does not have this user.
                Err(Errno::PERM | Errno::INVAL) => {}
                outcome => return outcome.doing("setting the owner of").map(|()| true),
            }
        }
        if owner != self.user {
            self.lost_owners.store(true, Ordering::Relaxed);
        }
        Ok(owner == self.user)
    }

    /// A program must not get the rights of someone else than it was made for.
    fn mode(&self, meta: &Meta, owner_kept: bool, relative: &[u8]) -> Mode {
        const SET_ID: u32 = 0o6000;
        if owner_kept || meta.mode & SET_ID == 0 {
            return Mode::from_raw_mode(meta.mode);
        }
        self.tally.skip(relative, SkipReason::PrivilegeDropped);
        Mode::from_raw_mode(meta.mode & !SET_ID)
    }
}

fn made(outcome: rustix::io::Result<()>, action: &'static str) -> Result<PlaceOutcome, PlaceFault> {
    match outcome {
        Err(Errno::EXIST) => Ok(PlaceOutcome::Exists),
        outcome => outcome.doing(action).map(|()| PlaceOutcome::Yes),
    }
}

/// A chmod by name follows a symbolic link that someone may have put there; one through a descriptor of
/// the very node does not.
pub fn chmod_unopened(directory: BorrowedFd<'_>, name: &[u8], mode: Mode) -> rustix::io::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let node = rustix::fs::openat(directory, name, flags, Mode::empty())?;
    rustix::fs::chmod(format!("/proc/self/fd/{}", node.as_raw_fd()), mode)
}

/// Writes all bytes at an offset.
pub fn write_at(file: &OwnedFd, mut bytes: &[u8], mut offset: u64) -> Result<(), PlaceFault> {
    while !bytes.is_empty() {
        match rustix::io::pwrite(file, bytes, offset) {
            Err(Errno::INTR) => {}
            outcome => {
                let written = outcome.doing("writing")?;
                bytes = &bytes[written..];
                offset += written as u64;
            }
        }
    }
    Ok(())
}

/// Times that set the modification time and leave the access time alone.
pub fn times(mtime: Timestamp) -> Timestamps {
    Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: mtime.seconds,
            tv_nsec: mtime.nanos.into(),
        },
    }
}
