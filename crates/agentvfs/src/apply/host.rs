//! The directory to which changes are applied, in its current state.
//!
//! Everything is reached from its topmost directory by descriptors; nothing is ever reached through a
//! symbolic link below it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use avfs_core::{EntryName, Stamp, Timestamp, TreePath};
use bytes::Bytes;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, StatxFlags};
use rustix::io::Errno;

use super::print::Print;
use crate::digest::{HostFile, WHOLE_MAX, digest};
use crate::error::ApplyError;
use crate::stored_bytes::StoredBytes;
use avfs_transfer::beneath::HostRoot;
use avfs_transfer::host_file::{meta, stat_of};

/// Larger files are not merged line by line, and not kept in memory.
pub(crate) const TEXT_MAX: u64 = WHOLE_MAX;
/// How often a file that changes meanwhile is read again.
const ATTEMPTS: usize = 16;
const PIECE: usize = 1 << 20;

pub(crate) struct HostFiles {
    top: HostRoot,
    path: PathBuf,
    /// The topmost directory itself: it may be another one under its path tomorrow.
    pub key: FileKey,
}

/// Names a file of the host for as long as it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct FileKey {
    pub device: u64,
    pub inode: u64,
}

impl FileKey {
    pub(super) fn of(stat: &Stat) -> FileKey {
        FileKey {
            device: stat.st_dev,
            inode: stat.st_ino,
        }
    }
}

/// One entry as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub print: Print,
    pub owner: (u32, u32),
    pub mode: u32,
    pub mtime: Timestamp,
    pub key: FileKey,
    /// Identifies the version of the file.
    version: HostVersion,
    /// The contents of a file that is not too large.
    pub bytes: Option<Bytes>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HostVersion {
    inode: u64,
    size: u64,
    mode: u32,
    ctime: (i64, i64),
}

impl Seen {
    /// Whether it is the version of a stamp.
    pub(super) fn is(&self, stamp: &Stamp) -> bool {
        let ctime = (stamp.ctime.seconds, i64::from(stamp.ctime.nanos));
        let version = HostVersion {
            inode: stamp.inode,
            size: stamp.size,
            mode: stamp.mode,
            ctime,
        };
        self.version == version && self.mtime == stamp.mtime
    }
}

/// The entry at a path.
#[derive(Clone, Debug)]
pub(crate) enum Look {
    Nothing,
    /// A parent of it is not a directory, or is a symbolic link, or its path is too long for the kernel.
    NoWay,
    There(Box<Seen>),
}

/// In a workspace that is shown at the path of its project, the path does not lead to the project.
pub(crate) fn check_in_reach(directory: &Path) -> Result<(), ApplyError> {
    // If the table cannot be read, it is unknown whether the path is a mount.
    match avfs_fuse::mounting::is_copy(directory) {
        Ok(false) => Ok(()),
        Ok(true) | Err(_) => Err(ApplyError::OutOfReach {
            path: directory.to_owned(),
        }),
    }
}

/// The attributes of the entry at a path, without its contents.
pub(crate) enum Glance {
    Nothing,
    NoWay,
    There(Box<Stat>),
}

impl Glance {
    /// Whether it is the version of a stamp.
    pub(super) fn is(&self, stamp: &Stamp) -> bool {
        matches!(self, Glance::There(stat) if seen(Print::Other, stat, None).is(stamp))
    }
}

impl HostFiles {
    pub(super) fn open(path: &Path) -> Result<HostFiles, ApplyError> {
        let failed = |errno: Errno| match errno {
            Errno::NOTDIR => ApplyError::NotADirectory {
                path: path.to_owned(),
            },
            errno => ApplyError::host("opening", path, errno),
        };
        // Links on the way to the topmost directory are the user's own and are followed once, here.
        let path = path.canonicalize().map_err(|source| ApplyError::Host {
            action: "opening",
            path: path.to_owned(),
            source,
        })?;
        check_in_reach(&path)?;
        // Opened once: all that follows is relative to this directory, whatever its path leads to later.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let top = rustix::fs::open(&path, flags, Mode::empty()).map_err(failed)?;
        let key = FileKey::of(&rustix::fs::fstat(&top).map_err(failed)?);
        Ok(HostFiles {
            top: HostRoot::new(top, &path),
            path,
            key,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn directory(&self, path: &TreePath) -> Result<OwnedFd, ApplyError> {
        self.top
            .open_directory(path.as_bytes())
            .map_err(|errno| self.failed("opening", path, errno))
    }

    pub(super) fn failed(&self, action: &'static str, path: &TreePath, errno: Errno) -> ApplyError {
        ApplyError::host(action, self.top.host_path(path.as_bytes()), errno)
    }

    /// The deepest directory above a path that is there.
    pub(super) fn anchor(&self, path: &TreePath) -> Result<TreePath, ApplyError> {
        let mut above = path.split_last().map(|(parent, _)| parent).unwrap_or_default();
        loop {
            match self.top.open_directory(above.as_bytes()) {
                Ok(_) => return Ok(above),
                // A file or a link on the way will be replaced by a directory of the plan, or is a conflict
                // that is found later.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) if !above.is_root() => {
                    above = above.split_last().map(|(parent, _)| parent).unwrap_or_default();
                }
                Err(errno) => return Err(self.failed("opening", &above, errno)),
            }
        }
    }

    /// Whether something can be renamed from one directory to another.
    pub(super) fn is_one_mount(&self, one: &TreePath, other: &TreePath) -> Result<bool, ApplyError> {
        let mount = |path: &TreePath| {
            let (directory, wanted) = (
                self.directory(path)?,
                StatxFlags::BASIC_STATS | StatxFlags::MNT_ID,
            );
            // The device is not enough: `rename(2)` fails between two bind mounts of one file system.
            let stat = rustix::fs::statx(&directory, c"", AtFlags::EMPTY_PATH, wanted);
            let stat = stat.map_err(|errno| self.failed("reading", path, errno))?;
            Ok::<_, ApplyError>((stat.stx_dev_major, stat.stx_dev_minor, stat.stx_mnt_id))
        };
        Ok(mount(one)? == mount(other)?)
    }

    /// The names in a directory.
    pub(super) fn names(&self, path: &TreePath) -> Result<Vec<EntryName>, ApplyError> {
        let failed = |errno| self.failed("reading", path, errno);
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::new(self.directory(path)?).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            match entry.file_name().to_bytes() {
                b"." | b".." => {}
                name => names.push(EntryName::new(name).map_err(|_| failed(Errno::INVAL))?),
            }
        }
        Ok(names)
    }

    /// Whether the file system at a path ignores case. Determined with an existing name: spelled in the other
    /// case, it is the same file.
    pub(super) fn folds(&self, path: &TreePath) -> Result<bool, ApplyError> {
        let mut directory = self.anchor(path)?;
        loop {
            let names = self.names(&directory)?;
            for name in &names {
                // If both spellings are listed, they are two files, and the next name decides.
                let Some(other) = in_other_letters(name).filter(|other| !names.contains(other)) else {
                    continue;
                };
                let key = |name: &EntryName| match self.glance(&directory.join(name))? {
                    Glance::There(stat) => Ok::<_, ApplyError>(Some(FileKey::of(&stat))),
                    Glance::Nothing | Glance::NoWay => Ok(None),
                };
                // It may have gone since it was listed.
                if let Some(own) = key(name)? {
                    return Ok(key(&other)? == Some(own));
                }
            }
            // A new entry in an empty directory behaves as in the parent.
            match directory.split_last() {
                Some((above, _)) => directory = above,
                None => return Ok(self.is_known_in_other_letters()),
            }
        }
    }

    /// Whether the topmost directory is the same one when spelled in the other case.
    fn is_known_in_other_letters(&self) -> bool {
        let name = self
            .path
            .file_name()
            .and_then(|name| EntryName::new(name.as_bytes()).ok());
        let other = name.and_then(|name| in_other_letters(&name));
        let other = other.map(|other| self.path.with_file_name(OsStr::from_bytes(other.as_bytes())));
        other.is_some_and(|other| rustix::fs::stat(other).is_ok_and(|stat| FileKey::of(&stat) == self.key))
    }

    /// The current entry at a path.
    pub(super) fn look(&self, path: &TreePath) -> Result<Look, ApplyError> {
        let Some((parent, name)) = path.split_last() else {
            let stat = rustix::fs::fstat(self.directory(path)?);
            let stat = stat.map_err(|errno| self.failed("reading", path, errno))?;
            return Ok(Look::There(Box::new(seen(Print::Directory, &stat, None))));
        };
        let directory = match self.top.open_directory(parent.as_bytes()) {
            Ok(directory) => directory,
            Err(Errno::NOENT) => return Ok(Look::Nothing),
            // `LOOP` is a symbolic link: it is never followed, wherever it leads.
            Err(Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG) => return Ok(Look::NoWay),
            Err(errno) => return Err(self.failed("opening", &parent, errno)),
        };
        let looked = self.look_at(directory.as_fd(), name.as_bytes());
        let looked = looked.map_err(|errno| match errno {
            Errno::BUSY => ApplyError::Overtaken {
                path: path.clone(),
                kept: Vec::new(),
            },
            errno => self.failed("reading", path, errno),
        });
        match looked? {
            Some(seen) => Ok(Look::There(Box::new(seen))),
            None => Ok(Look::Nothing),
        }
    }

    /// The current attributes of the entry at a path.
    pub(super) fn glance(&self, path: &TreePath) -> Result<Glance, ApplyError> {
        let Some((parent, name)) = path.split_last() else {
            return Ok(Glance::NoWay);
        };
        let directory = match self.top.open_directory(parent.as_bytes()) {
            Ok(directory) => directory,
            Err(Errno::NOENT) => return Ok(Glance::Nothing),
            // A file or a link on the way means that nothing can be there, not that something is missing.
            Err(Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG) => return Ok(Glance::NoWay),
            Err(errno) => return Err(self.failed("opening", &parent, errno)),
        };
        match stat_of(directory.as_fd(), name.as_bytes()) {
            Ok(stat) => Ok(Glance::There(Box::new(stat))),
            Err(Errno::NOENT) => Ok(Glance::Nothing),
            Err(errno) => Err(self.failed("reading", path, errno)),
        }
    }

    /// The entry of a name in an open directory. Read again if it changes meanwhile; if it does not stop
    /// changing, it is busy.
    pub(super) fn look_at(&self, directory: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<Option<Seen>> {
        for _ in 0..ATTEMPTS {
            let stat = match stat_of(directory, name) {
                Err(Errno::NOENT) => return Ok(None),
                stat => stat?,
            };
            let looked = match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => self.read(directory, name),
                FileType::Symlink => target(directory, name, &stat),
                FileType::Directory => return Ok(Some(seen(Print::Directory, &stat, None))),
                _ => return Ok(Some(seen(Print::Other, &stat, None))),
            };
            match looked {
                Ok(Some(seen)) => return Ok(Some(seen)),
                // It became another kind of entry between the two calls: looked at again.
                Ok(None) | Err(Errno::NOENT | Errno::LOOP | Errno::NXIO | Errno::INVAL) => {}
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::BUSY)
    }

    /// `None`: it was changed while it was read.
    fn read(&self, directory: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<Option<Seen>> {
        let file = self.top.open_file(directory, name)?;
        let before = rustix::fs::fstat(&file)?;
        if FileType::from_raw_mode(before.st_mode) != FileType::RegularFile {
            return Ok(None);
        }
        let expected = before.st_size as u64;
        let mode = before.st_mode & 0o777;
        let (print, bytes) = if expected <= TEXT_MAX {
            let mut bytes = Vec::with_capacity(expected as usize);
            read_pieces(&file, expected, |piece| bytes.extend_from_slice(piece))?;
            (Print::of_file(&bytes, mode), Some(Bytes::from(bytes)))
        } else {
            let Some(digest) = digest(&mut HostFile(file.as_fd()), expected)? else {
                return Ok(None);
            };
            (
                Print::File {
                    size: expected,
                    digest,
                    mode,
                },
                None,
            )
        };
        // Compared with the state before: a writer in between would leave a mixture of two versions.
        let after = rustix::fs::fstat(&file)?;
        let is_whole = matches!(print, Print::File { size, .. } if size == after.st_size as u64);
        Ok((is_whole && version(&before) == version(&after)).then(|| seen(print, &after, bytes)))
    }
}

/// A name with its letters turned to capitals and back; nothing if it has none.
fn in_other_letters(name: &EntryName) -> Option<EntryName> {
    let turn = |byte: &u8| {
        if byte.is_ascii_lowercase() {
            byte.to_ascii_uppercase()
        } else {
            byte.to_ascii_lowercase()
        }
    };
    let other: Vec<u8> = name.as_bytes().iter().map(turn).collect();
    EntryName::new(&other).ok().filter(|other| other != name)
}

/// All bytes, which may be more or less than `expected` by now.
fn read_pieces(file: &OwnedFd, expected: u64, mut take: impl FnMut(&[u8])) -> rustix::io::Result<()> {
    let mut piece = vec![0; PIECE.min(expected as usize + 1)];
    loop {
        match rustix::io::read(file, &mut piece) {
            Ok(0) => return Ok(()),
            Ok(read) => take(&piece[..read]),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// The change time is useless here: renaming a file sets it.
fn version(stat: &Stat) -> (i64, i64, u64) {
    (stat.st_size, stat.st_mtime, stat.st_mtime_nsec)
}

fn target(directory: BorrowedFd<'_>, name: &[u8], stat: &Stat) -> rustix::io::Result<Option<Seen>> {
    let target = rustix::fs::readlinkat(directory, name, Vec::new())?;
    Ok(Some(seen(
        Print::Symlink {
            target: StoredBytes::from(target.as_bytes()),
        },
        stat,
        None,
    )))
}

fn seen(print: Print, stat: &Stat, bytes: Option<Bytes>) -> Seen {
    let meta = meta(stat, avfs_core::Xattrs::default());
    let version = HostVersion {
        inode: stat.st_ino,
        size: stat.st_size as u64,
        mode: stat.st_mode,
        ctime: (stat.st_ctime, stat.st_ctime_nsec as i64),
    };
    let key = FileKey::of(stat);
    Seen {
        print,
        owner: (meta.uid, meta.gid),
        mode: meta.mode,
        mtime: meta.mtime,
        key,
        version,
        bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_that_tells_all_names_apart_is_known_by_its_names() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().join("Project");
        std::fs::create_dir_all(top.join("empty/12")).unwrap();
        let host = HostFiles::open(&top).unwrap();
        let folds = |path: &str| host.folds(&TreePath::parse(path.as_bytes()).unwrap()).unwrap();
        // By names in the directory itself, in one above it, and by the name of the directory of the project.
        assert!(!folds(".VSCODE/tasks.json") && !folds("empty/12/.VSCODE/tasks.json"));
        std::fs::remove_dir_all(top.join("empty")).unwrap();
        assert!(!folds(".VSCODE/tasks.json"));
        // Two names of one file are two names.
        std::fs::write(top.join("readme"), "").unwrap();
        std::fs::hard_link(top.join("readme"), top.join("README")).unwrap();
        assert!(!folds(".VSCODE/tasks.json"));
    }
}
