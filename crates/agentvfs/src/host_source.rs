//! A directory of the host as a source: listed and read without ever leaving it.

use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use avfs_core::chunks::FILE_MAX;
use avfs_core::{Entry, EntryKind, EntryName, Meta, Stamp, Timestamp, TreePath, Xattrs};
use avfs_tree::{
    ListedDirectory, ListedEntry, ListedEntryKind, ObjectWriter, Objects, Source, SourceError, TakenFile,
};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{FileType, Mode, OFlags, RawDir, Stat};
use rustix::io::Errno;

use avfs_transfer::beneath::HostRoot;
use avfs_transfer::host_file::{self, ObjectSink, ReadTrouble};

/// How often a file that changes is read again.
const ATTEMPTS: usize = 8;
/// A change within this time after the last one may leave the times unchanged: the kernel's clock for file
/// times ticks at least a hundred times a second.
pub(crate) const TICK: Duration = Duration::from_millis(20);

pub(crate) struct HostSource {
    top: HostRoot,
    path: PathBuf,
    /// The device of the topmost directory. Numbers of devices change when a machine starts again, so stamps call
    /// this one 0.
    device: u64,
    /// Device and inode of the excluded directory.
    left_out: Option<(u64, u64)>,
}

impl HostSource {
    /// Opens the directory, if it is still the one with this inode number.
    pub(crate) fn open(path: &Path, inode: u64, left_out: Option<&Path>) -> Result<HostSource, SourceError> {
        let fail = |errno: Errno| io_error("opening", path, errno);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let top = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| {
            if is_gone(errno) {
                SourceError::Unknown
            } else {
                fail(errno)
            }
        })?;
        let stat = rustix::fs::fstat(&top).map_err(fail)?;
        if stat.st_ino != inode {
            return Err(SourceError::Unknown);
        }
        let left_out = left_out.and_then(|path| rustix::fs::stat(path).ok());
        Ok(HostSource {
            top: HostRoot::new(top, path),
            path: path.to_owned(),
            device: stat.st_dev,
            left_out: left_out.map(|stat| (stat.st_dev, stat.st_ino)),
        })
    }

    /// The attributes of a directory.
    pub(crate) fn meta_of(path: &Path) -> std::io::Result<Meta> {
        Ok(host_file::meta(&rustix::fs::stat(path)?, Xattrs::default()))
    }

    fn stamp(&self, stat: &Stat) -> Stamp {
        Stamp {
            device: if stat.st_dev == self.device {
                0
            } else {
                stat.st_dev
            },
            inode: stat.st_ino,
            size: stat.st_size as u64,
            mtime: time(stat.st_mtime, stat.st_mtime_nsec),
            ctime: ctime(stat),
            mode: stat.st_mode,
        }
    }

    fn error(&self, action: &'static str, path: &TreePath, errno: Errno) -> SourceError {
        io_error(action, &self.top.host_path(path.as_bytes()), errno)
    }

    fn listed(&self, directory: BorrowedFd<'_>, name: EntryName) -> Result<Option<ListedEntry>, Errno> {
        let stat = host_file::stat_of(directory, name.as_bytes())?;
        if self.left_out == Some((stat.st_dev, stat.st_ino)) {
            return Ok(None);
        }
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile if stat.st_size as u64 > FILE_MAX => return Ok(None),
            FileType::RegularFile => ListedEntryKind::File(self.stamp(&stat)),
            FileType::Directory => ListedEntryKind::Directory,
            FileType::Symlink | FileType::Fifo => match host_file::special(directory, name.as_bytes(), &stat)
            {
                Ok(entry) => ListedEntryKind::Other(entry.kind),
                // It is a different kind by now; later reads see it.
                Err(_) => return Ok(None),
            },
            _ => return Ok(None),
        };
        // A file with several names is several files here, and numbers of other devices mean other files.
        let is_alone = stat.st_nlink == 1 || kind == ListedEntryKind::Directory;
        let number = (is_alone && stat.st_dev == self.device).then_some(stat.st_ino);
        let meta = host_file::meta(&stat, Xattrs::default());
        Ok(Some(ListedEntry {
            name,
            meta,
            ctime: ctime(&stat),
            kind,
            number,
        }))
    }

    /// Reads a file once; `None` if it changed meanwhile.
    fn read_once(
        &self,
        directory: BorrowedFd<'_>,
        name: &EntryName,
        stamp: &Stamp,
        intake: &ObjectSink<'_>,
    ) -> Result<Option<TakenFile>, ReadTrouble> {
        let file = self.top.open_file(directory, name.as_bytes())?;
        let stat = rustix::fs::fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(ReadTrouble::Changed);
        }
        let now = self.stamp(&stat);
        if let Some(rest) = until_settled(now.ctime) {
            std::thread::sleep(rest);
            return Ok(None);
        }
        let content = match intake.dense_content(file.as_fd(), &stat) {
            Err(ReadTrouble::Changed) => return Ok(None),
            content => content?,
        };
        if self.stamp(&rustix::fs::fstat(&file)?) != now {
            return Ok(None);
        }
        if now == *stamp {
            return Ok(Some(TakenFile::AsPromised(content)));
        }
        let kind = EntryKind::File {
            size: now.size,
            content,
        };
        let entry = Entry {
            meta: host_file::meta(&stat, Xattrs::default()),
            kind,
        };
        Ok(Some(TakenFile::Moved {
            entry,
            ctime: now.ctime,
        }))
    }

    /// The entry that replaced a file.
    fn replaced(&self, directory: BorrowedFd<'_>, name: &EntryName) -> TakenFile {
        let stat = host_file::stat_of(directory, name.as_bytes());
        let Ok(stat) = stat else { return TakenFile::Gone };
        match host_file::special(directory, name.as_bytes(), &stat) {
            Ok(entry) if matches!(entry.kind, EntryKind::Symlink { .. } | EntryKind::Fifo) => {
                TakenFile::Moved {
                    entry,
                    ctime: ctime(&stat),
                }
            }
            _ => TakenFile::Gone,
        }
    }
}

impl Source for HostSource {
    fn list(&self, path: &TreePath) -> Result<ListedDirectory, SourceError> {
        let directory = match self.top.open_directory(path.as_bytes()) {
            Ok(directory) => directory,
            Err(errno) if is_gone(errno) => return Ok(ListedDirectory::default()),
            Err(errno) => return Err(self.error("listing", path, errno)),
        };
        // Before its entries: changes during the listing count as newer.
        let ctime = rustix::fs::fstat(&directory).map(|stat| ctime(&stat)).ok();
        let mut buffer = vec![MaybeUninit::uninit(); 64 << 10];
        let mut entries = RawDir::new(&directory, &mut buffer);
        let mut listed = Vec::new();
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(|errno| self.error("listing", path, errno))?;
            // Dots are not entries, and an entry that is too deep for a path cannot be reached either.
            let Ok(name) = EntryName::new(entry.file_name().to_bytes()) else {
                continue;
            };
            if path.as_bytes().len() + 1 + name.as_bytes().len() > avfs_core::PATH_MAX {
                continue;
            }
            match self.listed(directory.as_fd(), name) {
                Ok(found) => listed.extend(found),
                Err(errno) if is_gone(errno) => {}
                Err(errno) => return Err(self.error("listing", path, errno)),
            }
        }
        Ok(ListedDirectory {
            ctime,
            entries: listed,
        })
    }

    fn take(
        &self,
        path: &TreePath,
        stamp: &Stamp,
        objects: &Objects,
        writer: &ObjectWriter,
    ) -> Result<TakenFile, SourceError> {
        let Some((parent, name)) = path.split_last() else {
            return Ok(TakenFile::Gone);
        };
        let intake = ObjectSink {
            objects,
            writer,
            progress: &(),
        };
        for _ in 0..ATTEMPTS {
            let directory = match self.top.open_directory(parent.as_bytes()) {
                Ok(directory) => directory,
                Err(errno) if is_gone(errno) => return Ok(TakenFile::Gone),
                Err(errno) => return Err(self.error("opening", &parent, errno)),
            };
            match self.read_once(directory.as_fd(), &name, stamp, &intake) {
                Ok(Some(taken)) => return Ok(taken),
                Ok(None) => {}
                Err(ReadTrouble::Store(error)) => return Err(error.into()),
                Err(ReadTrouble::Skip(avfs_transfer::SkipReason::Unreadable(errno))) => {
                    return Err(self.error("reading", path, errno));
                }
                Err(ReadTrouble::Changed | ReadTrouble::Skip(_)) => {
                    return Ok(self.replaced(directory.as_fd(), &name));
                }
            }
        }
        Err(SourceError::Restless)
    }
}

impl std::fmt::Debug for HostSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.path.display())
    }
}

/// How long a file must be unchanged before its times distinguish its versions.
fn until_settled(ctime: Timestamp) -> Option<Duration> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let age = i128::try_from(now.as_nanos()).ok()? - ctime.as_nanos();
    let left = TICK.as_nanos() as i128 - age;
    // A time in the future means nothing.
    (age >= 0 && left > 0).then(|| Duration::from_nanos(left as u64))
}

fn is_gone(errno: Errno) -> bool {
    matches!(
        errno,
        // A place that leads elsewhere now is as gone as one that is missing.
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV | Errno::STALE
    )
}

fn ctime(stat: &Stat) -> Timestamp {
    time(stat.st_ctime, stat.st_ctime_nsec)
}

fn time(seconds: i64, nanos: u64) -> Timestamp {
    Timestamp {
        seconds,
        nanos: (nanos as u32).min(Timestamp::NANOS_PER_SECOND - 1),
    }
}

fn io_error(action: &'static str, place: &Path, errno: Errno) -> SourceError {
    SourceError::Io {
        action,
        place: place.display().to_string(),
        source: errno.into(),
    }
}
