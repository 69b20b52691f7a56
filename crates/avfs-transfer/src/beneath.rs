//! A host directory below which everything happens.
//!
//! Directories are opened from the topmost one by their relative path, again each time: a walk of any depth
//! and width holds a few descriptors, and the kernel itself refuses a path that a symbolic link would lead
//! elsewhere, even if one is created at any moment.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::{Errno, Result};

/// A directory of the host, beneath which paths are opened without following links out of it.
pub struct HostRoot {
    top: OwnedFd,
    /// As the user named it, for messages.
    path: PathBuf,
    /// The kernel is older than `openat2`, or a sandbox forbids it.
    by_steps: AtomicBool,
    /// Reading leaves no trace in access times, where that is allowed.
    no_atime: AtomicBool,
}

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// How often an open is retried if a rename interferes.
const ATTEMPTS: usize = 16;

impl HostRoot {
    /// Takes an open directory. `path` names it in messages.
    pub fn new(top: OwnedFd, path: &Path) -> HostRoot {
        HostRoot {
            top,
            path: path.to_owned(),
            by_steps: AtomicBool::new(false),
            no_atime: AtomicBool::new(true),
        }
    }

    /// The name for messages of the entry at `relative`.
    pub fn host_path(&self, relative: &[u8]) -> PathBuf {
        use std::os::unix::ffi::OsStrExt;
        match relative {
            b"" => self.path.clone(),
            _ => self.path.join(std::ffi::OsStr::from_bytes(relative)),
        }
    }

    /// Opens the directory at `relative`; empty means the topmost one.
    pub fn open_directory(&self, relative: &[u8]) -> Result<OwnedFd> {
        let relative = if relative.is_empty() { b"." } else { relative };
        if !self.by_steps.load(Ordering::Relaxed) {
            match self.open_at_once(relative) {
                Err(Errno::NOSYS | Errno::PERM) => self.by_steps.store(true, Ordering::Relaxed),
                outcome => return outcome,
            }
        }
        self.open_by_steps(relative)
    }

    fn open_at_once(&self, relative: &[u8]) -> Result<OwnedFd> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let mut outcome = Err(Errno::AGAIN);
        for _ in 0..ATTEMPTS {
            outcome = rustix::fs::openat2(&self.top, relative, DIRECTORY, Mode::empty(), resolve);
            if !matches!(outcome, Err(Errno::AGAIN | Errno::INTR)) {
                break;
            }
        }
        outcome
    }

    fn open_by_steps(&self, relative: &[u8]) -> Result<OwnedFd> {
        let mut steps = relative.split(|byte| *byte == b'/');
        let first = steps.next().unwrap_or(b".");
        let mut directory = rustix::fs::openat(&self.top, first, DIRECTORY, Mode::empty())?;
        for step in steps {
            directory = rustix::fs::openat(&directory, step, DIRECTORY, Mode::empty())?;
        }
        Ok(directory)
    }

    /// Opens the file `name` of `directory` for reading; never waits, whatever it is.
    pub fn open_file(&self, directory: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        if self.no_atime.load(Ordering::Relaxed) {
            match rustix::fs::openat(directory, name, flags | OFlags::NOATIME, Mode::empty()) {
                // Only the owner of a file may ask for it.
                Err(Errno::PERM) => self.no_atime.store(false, Ordering::Relaxed),
                outcome => return outcome,
            }
        }
        rustix::fs::openat(directory, name, flags, Mode::empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beneath(path: &Path) -> HostRoot {
        HostRoot::new(rustix::fs::open(path, DIRECTORY, Mode::empty()).unwrap(), path)
    }

    #[test]
    fn a_directory_behind_a_symbolic_link_is_not_opened_either_way() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(place.path().join("top/real/below")).unwrap();
        std::fs::create_dir_all(place.path().join("outside/below")).unwrap();
        std::os::unix::fs::symlink("../outside", place.path().join("top/link")).unwrap();
        let beneath = beneath(&place.path().join("top"));
        for by_steps in [false, true] {
            beneath.by_steps.store(by_steps, Ordering::Relaxed);
            assert!(beneath.open_directory(b"").is_ok());
            assert!(beneath.open_directory(b"real/below").is_ok());
            for refused in [&b"link"[..], b"link/below"] {
                let errno = beneath.open_directory(refused).unwrap_err();
                assert!(matches!(errno, Errno::LOOP | Errno::NOTDIR), "{errno}");
            }
        }
        beneath.by_steps.store(false, Ordering::Relaxed);
        assert_eq!(beneath.open_directory(b"..").unwrap_err(), Errno::XDEV);
    }
}
