//! A storage in a directory of the host.
//!
//! Files there have no versions of their own. The adapter remembers, for each file, the version with which it stored
//! or read it last, and what the file looked like then; a file that looks different now was changed by others.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use avfs_core::TreePath;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::{StorageAdapter, StorageFault, StoredFile};
use crate::error::Result;
use crate::vfs::DEPTH_MAX;

/// Keeps files in a directory of the host. Symbolic links in it are neither followed nor shown, so nothing outside of
/// the directory is reached.
#[derive(Debug)]
pub struct FileSystemAdapter {
    root: OwnedFd,
    place: PathBuf,
    known: Mutex<HashMap<String, KnownFile>>,
}

/// What a file looked like when this adapter saw it last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KnownFile {
    version: u64,
    stamp: FileStamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    inode: u64,
    size: i64,
    changed: (i64, i64),
}

type Fault<T> = Result<T, StorageFault>;

impl FileSystemAdapter {
    /// Of a directory that exists.
    pub fn new(directory: impl Into<PathBuf>) -> std::io::Result<FileSystemAdapter> {
        let place: PathBuf = directory.into();
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&place, flags, Mode::empty())?;
        Ok(FileSystemAdapter {
            root,
            place,
            known: Mutex::default(),
        })
    }

    /// The directory.
    pub fn place(&self) -> &Path {
        &self.place
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, KnownFile>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens below the root. No link and no `..` is followed.
    fn open(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let path = if path.is_empty() { "." } else { path };
        rustix::fs::openat2(&self.root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
    }

    fn stamp(&self, path: &str) -> Result<Option<FileStamp>, Errno> {
        match self.open(path, OFlags::PATH | OFlags::NOFOLLOW) {
            Ok(file) => {
                let stat = rustix::fs::fstat(&file)?;
                if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                    return Err(Errno::ISDIR);
                }
                Ok(Some(FileStamp {
                    inode: stat.st_ino,
                    size: stat.st_size,
                    changed: (stat.st_ctime as i64, stat.st_ctime_nsec as i64),
                }))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The version of a file as it is now. A change by others counts as one version more.
    fn version_now(&self, path: &str, stamp: FileStamp) -> u64 {
        let mut known = self.known();
        let entry = known
            .entry(path.to_owned())
            .or_insert(KnownFile { version: 1, stamp });
        if entry.stamp != stamp {
            *entry = KnownFile {
                version: entry.version + 1,
                stamp,
            };
        }
        entry.version
    }

    fn list_below(&self, path: &str, depth: usize, found: &mut Vec<(String, u64)>) -> Result<(), Errno> {
        if depth > DEPTH_MAX {
            return Err(Errno::LOOP);
        }
        let directory = self.open(path, OFlags::DIRECTORY | OFlags::RDONLY)?;
        for entry in rustix::fs::Dir::read_from(&directory)? {
            let entry = entry?;
            // The paths of a storage are text. A file with another name is not one that was stored here.
            let Ok(name) = entry.file_name().to_str() else {
                continue;
            };
            if name == "." || name == ".." {
                continue;
            }
            let below = if path.is_empty() {
                name.to_owned()
            } else {
                format!("{path}/{name}")
            };
            let stat = rustix::fs::statat(&directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => self.list_below(&below, depth + 1, found)?,
                FileType::RegularFile => {
                    if let Some(stamp) = self.stamp(&below)? {
                        let version = self.version_now(&below, stamp);
                        found.push((below, version));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The directory of a file, made if it is missing.
    fn parent(&self, path: &str) -> Result<(OwnedFd, String), Errno> {
        let mut names: Vec<&str> = path.split('/').collect();
        let name = names.pop().ok_or(Errno::INVAL)?;
        let mut directory = self.open("", OFlags::DIRECTORY | OFlags::RDONLY)?;
        for parent in names {
            match rustix::fs::mkdirat(&directory, parent, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
            let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            directory = rustix::fs::openat(&directory, parent, flags, Mode::empty())?;
        }
        Ok((directory, name.to_owned()))
    }

    /// Another program sees the old file or the new one.
    fn replace(&self, path: &str, data: &[u8]) -> std::io::Result<()> {
        let (directory, name) = self.parent(path)?;
        let temporary = format!(".agentvfs-{}-{:x}", std::process::id(), data.as_ptr() as usize);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&directory, &*temporary, flags, Mode::from_raw_mode(0o666))?;
        let mut file = File::from(file);
        let written = file.write_all(data).and_then(|()| {
            rustix::fs::renameat(&directory, &*temporary, &directory, &*name)?;
            Ok(())
        });
        if written.is_err() {
            // The file beside was never visible under its own name.
            let _ = rustix::fs::unlinkat(&directory, &*temporary, AtFlags::empty());
        }
        written
    }
}

impl StorageAdapter for FileSystemAdapter {
    fn list(&self) -> Fault<Vec<(String, u64)>> {
        let mut found = Vec::new();
        self.list_below("", 0, &mut found).map_err(failed)?;
        Ok(found)
    }

    fn read(&self, path: &str) -> Fault<StoredFile> {
        check(path)?;
        let stamp = self.stamp(path).map_err(failed)?;
        let stamp = stamp.ok_or_else(|| failed(Errno::NOENT))?;
        let file = self.open(path, OFlags::RDONLY).map_err(failed)?;
        let mut data = Vec::new();
        File::from(file).read_to_end(&mut data).map_err(failed)?;
        let version = self.version_now(path, stamp);
        Ok(StoredFile { data, version })
    }

    fn write(&self, path: &str, data: &[u8], version: u64) -> Fault<()> {
        check(path)?;
        let now = self.stamp(path).map_err(failed)?;
        let known = self.known().get(path).copied();
        if let Some(stamp) = now
            && !known.is_some_and(|known| known.stamp == stamp && known.version < version)
        {
            let text = format!("{} was changed by others", self.place.join(path).display());
            return Err(StorageFault::Conflict(text.into()));
        }
        self.replace(path, data).map_err(failed)?;
        let stamp = self.stamp(path).map_err(failed)?;
        let stamp = stamp.ok_or_else(|| failed(Errno::NOENT))?;
        self.known().insert(path.to_owned(), KnownFile { version, stamp });
        Ok(())
    }

    fn delete(&self, path: &str) -> Fault<()> {
        check(path)?;
        self.known().remove(path);
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let removed = self
            .open(parent, OFlags::DIRECTORY | OFlags::RDONLY)
            .and_then(|parent| rustix::fs::unlinkat(&parent, name, AtFlags::empty()));
        match removed {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }
}

fn failed(error: impl Into<std::io::Error>) -> StorageFault {
    StorageFault::Failed(Box::new(error.into()))
}

/// A path as a storage mount writes it, and nothing else.
fn check(path: &str) -> Fault<()> {
    let parsed = TreePath::parse(path.as_bytes()).map_err(|error| StorageFault::Failed(error.into()))?;
    if parsed.is_root() || parsed.as_bytes() != path.as_bytes() {
        return Err(StorageFault::Failed(
            format!("'{path}' is not a path of a file").into(),
        ));
    }
    Ok(())
}
