//! Moving entries between names: the only calls that change the entries of names in the directory.
//!
//! None of them follows a symbolic link, and none overwrites: a replaced entry is always under another name.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Stat, Timespec, Timestamps, XattrFlags};
use rustix::io::{Errno, Result};

use super::host::FileKey;
use crate::digest::{Extents, HostFile};
use avfs_transfer::host_file::{stat_of, xattrs};

/// A name in an open directory.
#[derive(Clone, Copy)]
pub(super) struct Spot<'a> {
    pub directory: BorrowedFd<'a>,
    pub name: &'a [u8],
}

impl<'a> Spot<'a> {
    pub(super) fn new(directory: &'a OwnedFd, name: &'a [u8]) -> Spot<'a> {
        Spot {
            directory: directory.as_fd(),
            name,
        }
    }

    pub(super) fn stat(self) -> Result<Option<Stat>> {
        match stat_of(self.directory, self.name) {
            Err(Errno::NOENT) => Ok(None),
            stat => stat.map(Some),
        }
    }

    pub(super) fn key(self) -> Result<Option<FileKey>> {
        Ok(self.stat()?.as_ref().map(FileKey::of))
    }

    pub(super) fn unlink(self) -> Result<()> {
        rustix::fs::unlinkat(self.directory, self.name, AtFlags::empty())
    }

    /// Gives an entry the present time. An entry of another owner keeps its own.
    pub(super) fn touch(self) -> Result<()> {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: rustix::fs::UTIME_NOW as _,
        };
        // With one of the two alone, the right to write would not be enough.
        let times = Timestamps {
            last_access: now,
            last_modification: now,
        };
        // A symbolic link itself is dated: its target may be anywhere.
        let set = rustix::fs::utimensat(self.directory, self.name, &times, AtFlags::SYMLINK_NOFOLLOW);
        match set {
            // Only the owner may set times; a move needs no more than the directory.
            Err(Errno::PERM | Errno::ACCESS) => Ok(()),
            set => set,
        }
    }

    pub(super) fn remove_directory(self) -> Result<()> {
        rustix::fs::unlinkat(self.directory, self.name, AtFlags::REMOVEDIR)
    }
}

/// How entries change places here: atomically, or on file systems that cannot, in two steps.
pub(super) struct Moves<'a> {
    in_two_steps: AtomicBool,
    /// Is called between two steps.
    between: &'a dyn Fn(),
}

impl<'a> Moves<'a> {
    pub(super) fn new(between: &'a dyn Fn()) -> Moves<'a> {
        Moves {
            in_two_steps: AtomicBool::new(false),
            between,
        }
    }

    /// Whether something was done in two steps because the file system cannot do it in one.
    pub(super) fn was_in_two_steps(&self) -> bool {
        self.in_two_steps.load(Ordering::Relaxed)
    }

    /// Gives an entry a name that must be free.
    pub(super) fn to_free_name(&self, from: Spot<'_>, to: Spot<'_>) -> Result<()> {
        match rename(from, to, RenameFlags::NOREPLACE) {
            // Network file systems do not know the flag.
            Err(Errno::INVAL | Errno::NOSYS) => {}
            outcome => return outcome,
        }
        // A rollback must then expect both names.
        self.in_two_steps.store(true, Ordering::Relaxed);
        let is_directory = from
            .stat()?
            .is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
        if is_directory {
            // Over a file it fails, and over an empty directory nothing is lost.
            return rename(from, to, RenameFlags::empty());
        }
        rustix::fs::linkat(from.directory, from.name, to.directory, to.name, AtFlags::empty())?;
        (self.between)();
        from.unlink()
    }

    /// Two entries change their names. Without help of the file system, `aside` has the second one for a moment.
    pub(super) fn exchange(&self, one: Spot<'_>, other: Spot<'_>, aside: Spot<'_>) -> Result<()> {
        match rename(one, other, RenameFlags::EXCHANGE) {
            Err(Errno::INVAL | Errno::NOSYS) => {}
            outcome => return outcome,
        }
        self.in_two_steps.store(true, Ordering::Relaxed);
        rustix::fs::linkat(
            other.directory,
            other.name,
            aside.directory,
            aside.name,
            AtFlags::empty(),
        )?;
        (self.between)();
        rename(one, other, RenameFlags::empty())?;
        (self.between)();
        rename(aside, one, RenameFlags::empty())
    }
}

fn rename(from: Spot<'_>, to: Spot<'_>, flags: RenameFlags) -> Result<()> {
    if flags.is_empty() {
        rustix::fs::renameat(from.directory, from.name, to.directory, to.name)
    } else {
        rustix::fs::renameat_with(from.directory, from.name, to.directory, to.name, flags)
    }
}

/// Moves an entry within a file system.
pub(super) fn rename_within(from: Spot<'_>, to: Spot<'_>) -> Result<()> {
    rename(from, to, RenameFlags::empty())
}

/// Moves an entry into a directory of ours, or out of it: itself, or on another file system an exact copy.
pub(super) fn carry(from: Spot<'_>, to: Spot<'_>) -> Result<()> {
    match rename_within(from, to) {
        Err(Errno::XDEV) => {}
        outcome => return outcome,
    }
    copy(from, to)?;
    from.unlink()
}

/// Another name for an entry, or an exact copy where there can be none.
pub(super) fn duplicate(from: Spot<'_>, to: Spot<'_>) -> Result<()> {
    match rustix::fs::linkat(from.directory, from.name, to.directory, to.name, AtFlags::empty()) {
        // Another disk, a file of another user (`protected_hardlinks`), too many names, or no names at all.
        Err(Errno::XDEV | Errno::PERM | Errno::MLINK | Errno::OPNOTSUPP) => copy(from, to),
        outcome => outcome,
    }
}

/// Copies a file or symbolic link with everything that belongs to it. A file that is written to
/// meanwhile is copied again.
fn copy(from: Spot<'_>, to: Spot<'_>) -> Result<()> {
    let stat = stat_of(from.directory, from.name)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
        let target = rustix::fs::readlinkat(from.directory, from.name, Vec::new())?;
        rustix::fs::symlinkat(&target, to.directory, to.name)?;
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        return rustix::fs::utimensat(to.directory, to.name, &times_of(&stat), flags);
    }
    // Never through a link, and never waiting for the other end of a pipe that took the place of a file.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let source = rustix::fs::openat(from.directory, from.name, flags, Mode::empty())?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let target = rustix::fs::openat(to.directory, to.name, flags, Mode::from_raw_mode(0o600))?;
    let mut source = std::fs::File::from(source);
    let mut target = std::fs::File::from(target);
    loop {
        let before = rustix::fs::fstat(&source)?;
        copy_bytes(&mut source, &mut target)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        copy_attributes(&source, &target, &before)?;
        // Synced before the original may go.
        rustix::fs::fsync(&target)?;
        let after = rustix::fs::fstat(&source)?;
        let version = |stat: &Stat| (stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
        if version(&before) == version(&after) {
            return Ok(());
        }
    }
}

/// Copies run by run of data, so that holes stay holes.
fn copy_bytes(source: &mut std::fs::File, target: &mut std::fs::File) -> std::io::Result<()> {
    use std::io::{Read, Seek, SeekFrom};
    let size = source.metadata()?.len();
    target.set_len(0)?;
    let mut done = 0;
    while let Some(run) = HostFile(source.as_fd()).data_from(done)? {
        source.seek(SeekFrom::Start(run.start))?;
        target.seek(SeekFrom::Start(run.start))?;
        let copied = std::io::copy(&mut source.take(run.end - run.start), target)?;
        done = run.start + copied;
        if copied == 0 {
            break;
        }
    }
    target.set_len(size.max(done))
}

fn copy_attributes(source: &std::fs::File, target: &std::fs::File, stat: &Stat) -> Result<()> {
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        let owner = (
            rustix::fs::Uid::from_raw(stat.st_uid),
            rustix::fs::Gid::from_raw(stat.st_gid),
        );
        rustix::fs::fchown(target, Some(owner.0), Some(owner.1))?;
    }
    // An attribute that this file system does not support is dropped.
    let attributes = xattrs(source).unwrap_or_default();
    for (name, value) in attributes.iter() {
        let _ = rustix::fs::fsetxattr(target, name, value, XattrFlags::empty());
    }
    rustix::fs::fchmod(target, Mode::from_raw_mode(stat.st_mode & 0o7777))?;
    rustix::fs::futimens(target, &times_of(stat))
}

fn times_of(stat: &Stat) -> Timestamps {
    Timestamps {
        last_access: Timespec {
            tv_sec: stat.st_atime,
            tv_nsec: stat.st_atime_nsec as _,
        },
        last_modification: Timespec {
            tv_sec: stat.st_mtime,
            tv_nsec: stat.st_mtime_nsec as _,
        },
    }
}
