//! The layer over the host's caches: copies, created files, and marks of removed ones.
//!
//! Three directories: `files` has everything that was created or copied, at its own path; `gone` has an empty
//! file for each hidden path of the host, which also hides everything below it; `work` holds copies in
//! progress.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, Stat, Timespec, Timestamps};
use rustix::io::Errno;

use super::LISTED;
use crate::passthrough::places::{open_reached, reach_below};

const FOUND: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW);
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);

/// The directory of a layer with everything that was created or copied, at its own path.
pub const LAYER_FILES: &str = "files";

pub(super) struct CacheLayer {
    files: OwnedFd,
    gone: OwnedFd,
    work: OwnedFd,
    has_marks: AtomicBool,
    next: AtomicU64,
}

impl CacheLayer {
    pub(super) fn at(place: OwnedFd) -> Result<CacheLayer, Errno> {
        let part = |name: &str| {
            make_directory(&place, name.as_bytes(), Mode::RWXU)?;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::openat(&place, name, flags, Mode::empty())
        };
        let files = part(LAYER_FILES)?;
        let gone = part("gone")?;
        let work = part("work")?;
        let marks = entries(reach_below(gone.as_fd(), b"", LISTED))?;
        let has_marks = marks.is_some_and(|marks| !marks.is_empty()).into();
        Ok(CacheLayer {
            files,
            gone,
            work,
            has_marks,
            next: AtomicU64::default(),
        })
    }

    pub(super) fn has(&self, path: &[u8]) -> bool {
        self.reach(path).is_ok()
    }

    pub(super) fn reach(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        reach_below(self.files.as_fd(), path, FOUND)
    }

    pub(super) fn list(&self, path: &[u8]) -> Result<Option<Vec<(Vec<u8>, FileType)>>, Errno> {
        entries(reach_below(self.files.as_fd(), path, LISTED))
    }

    /// Whether any mark was ever created: if not, lookups of marks are skipped.
    pub(super) fn has_marks(&self) -> bool {
        self.has_marks.load(Ordering::Acquire)
    }

    /// Whether the host's version of a path, or of a directory above it, is hidden.
    pub(super) fn is_gone(&self, path: &[u8]) -> bool {
        if !self.has_marks() {
            return false;
        }
        match reach_below(self.gone.as_fd(), path, FOUND).and_then(|mark| rustix::fs::fstat(&mark)) {
            Ok(mark) => FileType::from_raw_mode(mark.st_mode) == FileType::RegularFile,
            // A file is in the place of a directory above it.
            Err(errno) => errno == Errno::NOTDIR,
        }
    }

    pub(super) fn mark_gone(&self, path: &[u8]) -> Result<(), Errno> {
        // Before the mark itself: a reader that sees no marks does not look for one.
        self.has_marks.store(true, Ordering::Release);
        let (directory, name) = make_parent(&self.gone, path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&directory, name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(_) => Ok(()),
            // The marks of entries below it: one mark covers all of them.
            Err(Errno::ISDIR) => {
                let beside = self.fresh_name();
                rustix::fs::renameat(&directory, name, &self.work, &*beside)?;
                remove_marks(&self.work, beside.as_bytes())?;
                rustix::fs::openat(&directory, name, flags, Mode::RUSR | Mode::WUSR).map(drop)
            }
            Err(errno) => Err(errno),
        }
    }

    /// The directory of a path, created if missing, and the name in it.
    pub(super) fn parent<'a>(&self, path: &'a [u8]) -> Result<(OwnedFd, &'a [u8]), Errno> {
        make_parent(&self.files, path)
    }

    /// Copies the host's file to a name in the layer, with its mode and time. If the name exists by then,
    /// another request was faster.
    pub(super) fn copy(&self, lower: &OwnedFd, directory: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
        let stat = rustix::fs::fstat(lower)?;
        let mode = Mode::from_raw_mode(stat.st_mode & 0o777);
        let copied = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => rustix::fs::mkdirat(directory, name, mode | Mode::RWXU),
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(lower, "", Vec::new())?;
                rustix::fs::symlinkat(target, directory, name)
            }
            FileType::RegularFile => self.copy_file(lower, &stat, mode, directory, name),
            _ => Err(Errno::PERM),
        };
        if copied == Err(Errno::EXIST) {
            Ok(())
        } else {
            copied
        }
    }

    fn copy_file(
        &self,
        lower: &OwnedFd,
        stat: &Stat,
        mode: Mode,
        directory: &OwnedFd,
        name: &[u8],
    ) -> Result<(), Errno> {
        let beside = self.fresh_name();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let target = rustix::fs::openat(&self.work, &*beside, flags, Mode::RUSR | Mode::WUSR)?;
        let copy = || {
            let (mut from, mut to) = (
                File::from(open_reached(lower, OFlags::RDONLY)?),
                File::from(target.try_clone()?),
            );
            std::io::copy(&mut from, &mut to)
        };
        let moved = copy()
            .map_err(|error| error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error))
            .and_then(|_| rustix::fs::fchmod(&target, mode))
            .and_then(|()| rustix::fs::futimens(&target, &times_of(stat)))
            .and_then(|()| {
                // Complete in every attribute before it has a name that others can find.
                rustix::fs::renameat_with(&self.work, &*beside, directory, name, RenameFlags::NOREPLACE)
            });
        moved.inspect_err(|_| {
            // The error of the move is the one to report.
            let _ = rustix::fs::unlinkat(&self.work, &*beside, AtFlags::empty());
        })
    }

    /// Several processes may use one layer.
    fn fresh_name(&self) -> String {
        format!(
            "{}-{}",
            std::process::id(),
            self.next.fetch_add(1, Ordering::Relaxed)
        )
    }
}

fn times_of(stat: &Stat) -> Timestamps {
    let time = |tv_sec, nanoseconds| Timespec {
        tv_sec,
        tv_nsec: i64::from(nanoseconds as u32),
    };
    Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
    }
}

/// The entries of a directory; `None`: it does not exist.
pub(super) fn entries(directory: Result<OwnedFd, Errno>) -> Result<Option<Vec<(Vec<u8>, FileType)>>, Errno> {
    let directory = match directory {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        found => found?,
    };
    let mut all = Vec::new();
    for entry in Dir::new(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") {
            all.push((name.to_vec(), entry.file_type()));
        }
    }
    Ok(Some(all))
}

fn make_parent<'a>(top: &OwnedFd, path: &'a [u8]) -> Result<(OwnedFd, &'a [u8]), Errno> {
    let (parent, name) = match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (&b""[..], path),
    };
    match reach_below(top.as_fd(), parent, DIRECTORY) {
        Err(Errno::NOENT) => {}
        found => return Ok((found?, name)),
    }
    let (above, own) = make_parent(top, parent)?;
    make_directory(
        &above,
        own,
        Mode::RWXU | Mode::RGRP | Mode::XGRP | Mode::ROTH | Mode::XOTH,
    )?;
    Ok((reach_below(above.as_fd(), own, DIRECTORY)?, name))
}

fn make_directory(directory: &OwnedFd, name: &[u8], mode: Mode) -> Result<(), Errno> {
    match rustix::fs::mkdirat(directory, name, mode) {
        Err(Errno::EXIST) => Ok(()),
        made => made,
    }
}

/// Removes a directory of marks with its contents.
fn remove_marks(directory: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    let inner = reach_below(directory.as_fd(), name, LISTED);
    if let Ok(opened) = &inner {
        for (below, kind) in entries(opened.try_clone().map_err(|_| Errno::MFILE))?.unwrap_or_default() {
            match kind {
                FileType::Directory => remove_marks(opened, &below)?,
                _ => rustix::fs::unlinkat(opened, &*below, AtFlags::empty())?,
            }
        }
    }
    rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR)
}
