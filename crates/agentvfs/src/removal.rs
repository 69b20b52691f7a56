//! Removes files that programs have created in directories of ours: these may contain directories that are
//! read-only, or nested more deeply than descriptors, stacks and paths allow.

use std::ffi::{CStr, CString};
use std::io;
use std::path::Path;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags};
use rustix::io::{Errno, Result};

use avfs_transfer::host_place::chmod_unopened;

/// How many directories are open at a time. Deeper ones are first moved to the top.
const OPEN_MAX: usize = 64;
/// How many directories of one directory are remembered at a time.
const PENDING_MAX: usize = 256;
const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Removes a directory with everything below it. No link is followed.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    let opened = rustix::fs::open(path, DIRECTORY, Mode::empty());
    let top = match opened {
        Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ACCESS) => {
            rustix::fs::chmod(path, Mode::RWXU)?;
            rustix::fs::open(path, DIRECTORY, Mode::empty())?
        }
        opened => opened?,
    };
    Removal {
        top: OpenedDirectory::new(top, CString::default())?,
        below: Vec::new(),
        moved: 0,
    }
    .run()?;
    Ok(rustix::fs::unlinkat(CWD, path, AtFlags::REMOVEDIR)?)
}

struct Removal {
    top: OpenedDirectory,
    /// The directory that is being emptied, below those above it.
    below: Vec<OpenedDirectory>,
    /// How many directories were moved to the top.
    moved: u64,
}

/// A directory that is open.
struct OpenedDirectory {
    directory: OwnedFd,
    name: CString,
    /// Directories in it that are still to be removed.
    pending: Vec<CString>,
}

impl OpenedDirectory {
    /// The directory has no other name any longer, so we may give ourselves every permission.
    fn new(directory: OwnedFd, name: CString) -> Result<OpenedDirectory> {
        if rustix::fs::fstat(&directory)?.st_mode & 0o700 != 0o700 {
            rustix::fs::fchmod(&directory, Mode::RWXU)?;
        }
        Ok(OpenedDirectory {
            directory,
            name,
            pending: Vec::new(),
        })
    }

    /// Removes everything but directories, and returns the directories: in several parts if they are many.
    fn sweep(&mut self) -> Result<()> {
        for entry in rustix::fs::Dir::read_from(&self.directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if !self.is_directory(name, entry.file_type())? {
                gone(rustix::fs::unlinkat(&self.directory, name, AtFlags::empty()))?;
            } else if self.pending.len() < PENDING_MAX {
                self.pending.push(name.to_owned());
            }
        }
        Ok(())
    }

    fn is_directory(&self, name: &CStr, told: FileType) -> Result<bool> {
        match told {
            // Some file systems do not say it in a listing.
            FileType::Unknown => match rustix::fs::statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory),
                Err(errno) => Err(errno),
            },
            told => Ok(told == FileType::Directory),
        }
    }

    fn open(&self, name: CString) -> Result<OpenedDirectory> {
        let open = || rustix::fs::openat(&self.directory, &name, DIRECTORY, Mode::empty());
        let opened = match open() {
            Err(Errno::ACCESS) => {
                chmod_unopened(self.directory.as_fd(), name.as_bytes(), Mode::RWXU)?;
                open()?
            }
            opened => opened?,
        };
        OpenedDirectory::new(opened, name)
    }
}

impl Removal {
    fn run(mut self) -> Result<()> {
        loop {
            let is_deep = self.below.len() >= OPEN_MAX;
            let at = self.below.last_mut().unwrap_or(&mut self.top);
            if at.pending.is_empty() {
                at.sweep()?;
            }
            match at.pending.pop() {
                Some(name) => {
                    let next = at.open(name)?;
                    if is_deep {
                        self.move_up(&next)?
                    } else {
                        self.below.push(next)
                    }
                }
                None => {
                    let Some(emptied) = self.below.pop() else {
                        return Ok(());
                    };
                    let above = self.below.last().unwrap_or(&self.top);
                    gone(rustix::fs::unlinkat(
                        &above.directory,
                        &emptied.name,
                        AtFlags::REMOVEDIR,
                    ))?;
                }
            }
        }
    }

    /// Gives a directory of the deepest open one a name in the topmost one, where it is met again.
    fn move_up(&mut self, deep: &OpenedDirectory) -> Result<()> {
        let from: BorrowedFd<'_> = self.below.last().unwrap_or(&self.top).directory.as_fd();
        loop {
            let name = format!(".removing-{}", self.moved);
            self.moved += 1;
            let flags = RenameFlags::NOREPLACE;
            // A name that some entry has is left alone, and the next one tried.
            match rustix::fs::renameat_with(from, &deep.name, &self.top.directory, &*name, flags) {
                Err(Errno::EXIST) => {}
                outcome => return gone(outcome),
            }
        }
    }
}

/// Another process may have removed it.
fn gone(outcome: Result<()>) -> Result<()> {
    match outcome {
        Err(Errno::NOENT) => Ok(()),
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn removing_a_tree_takes_everything_in_it_and_follows_no_link() {
        let place = tempfile::tempdir().unwrap();
        let (top, outside) = (place.path().join("top"), place.path().join("outside"));
        fs::create_dir_all(top.join("a/b")).unwrap();
        fs::create_dir_all(top.join(".removing-0/c")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("kept"), "").unwrap();
        fs::write(top.join("a/b/file"), "").unwrap();
        symlink(&outside, top.join("a/link")).unwrap();
        (0..1000).for_each(|number| fs::create_dir(top.join(number.to_string())).unwrap());
        fs::set_permissions(top.join("a"), fs::Permissions::from_mode(0o500)).unwrap();
        fs::set_permissions(top.join("a/b"), fs::Permissions::from_mode(0o000)).unwrap();
        remove_tree(&top).unwrap();
        assert!(!top.exists() && outside.join("kept").exists());
        remove_tree(&top).unwrap();
    }

    #[test]
    fn removing_a_tree_of_any_depth_takes_few_descriptors_and_no_stack() {
        let place = tempfile::tempdir().unwrap();
        let mut at = rustix::fs::open(place.path(), DIRECTORY, Mode::empty()).unwrap();
        for _ in 0..5_000 {
            rustix::fs::mkdirat(&at, "deep", Mode::RWXU).unwrap();
            rustix::fs::mkdirat(&at, "beside", Mode::RWXU).unwrap();
            at = rustix::fs::openat(&at, "deep", DIRECTORY, Mode::empty()).unwrap();
        }
        drop(at);
        let top = place.path().join("deep");
        let removing = std::thread::Builder::new().stack_size(128 << 10);
        removing
            .spawn(move || remove_tree(&top))
            .unwrap()
            .join()
            .unwrap()
            .unwrap();
        assert!(!place.path().join("deep").exists());
    }
}
