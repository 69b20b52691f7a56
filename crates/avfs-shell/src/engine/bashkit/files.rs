//! A [`Vfs`] as the filesystem of the interpreter.
//!
//! Paths arrive absolute and without `..`. Errors carry the words of the operating system, because commands print
//! them.

use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use avfs_vfs::{Kind, Stat, Timestamp, Vfs, VfsError};
use bashkit::{DirEntry, FileSystem, FileSystemExt, FileType, FsUsage, Metadata, async_trait};

pub(super) struct VfsFiles {
    vfs: Vfs,
}

impl VfsFiles {
    pub(super) fn new(vfs: Vfs) -> VfsFiles {
        VfsFiles { vfs }
    }
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// The words of the operating system for an error, without its number.
fn failed(error: VfsError) -> bashkit::Error {
    use io::ErrorKind;
    let (kind, text) = match &error {
        VfsError::NotFound { .. } => (ErrorKind::NotFound, "No such file or directory"),
        VfsError::Exists { .. } => (ErrorKind::AlreadyExists, "File exists"),
        VfsError::NotADirectory { .. } => (ErrorKind::NotADirectory, "Not a directory"),
        VfsError::IsADirectory { .. } => (ErrorKind::IsADirectory, "Is a directory"),
        VfsError::NotALink { .. } | VfsError::Invalid(_) | VfsError::IntoItself { .. } => {
            (ErrorKind::InvalidInput, "Invalid argument")
        }
        VfsError::NotEmpty { .. } => (ErrorKind::DirectoryNotEmpty, "Directory not empty"),
        VfsError::TooManyLinks { .. } => (ErrorKind::Other, "Too many levels of symbolic links"),
        VfsError::Denied { .. } => (ErrorKind::PermissionDenied, "Permission denied"),
        VfsError::BadPath(_) | VfsError::TooDeep { .. } => (ErrorKind::InvalidFilename, "File name too long"),
        VfsError::Root { .. } | VfsError::Mounted { .. } => {
            (ErrorKind::ResourceBusy, "Device or resource busy")
        }
        VfsError::OverLimit { .. } => (ErrorKind::StorageFull, "No space left on device"),
        VfsError::FilesOnly { .. } => (ErrorKind::Unsupported, "Operation not supported"),
        VfsError::VersionMismatch { .. }
        | VfsError::Hook { .. }
        | VfsError::AfterHook { .. }
        | VfsError::Provider { .. }
        | VfsError::Storage { .. }
        | VfsError::StorageConflict { .. }
        | VfsError::WithinChange
        | VfsError::HookChain
        | VfsError::Host { .. } => return io::Error::other(whole(&error)).into(),
    };
    io::Error::new(kind, text).into()
}

/// An error with its causes.
fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

fn host_time(time: Timestamp) -> SystemTime {
    let seconds = Duration::from_secs(time.seconds.unsigned_abs());
    let start = if time.seconds < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(seconds)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(seconds)
    };
    start
        .and_then(|start| start.checked_add(Duration::from_nanos(time.nanos.into())))
        .unwrap_or(SystemTime::UNIX_EPOCH)
}

fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::File,
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
    }
}

fn metadata(stat: &Stat) -> Metadata {
    Metadata {
        file_type: file_type(stat.kind),
        size: stat.size,
        mode: stat.mode,
        modified: host_time(stat.mtime),
        created: host_time(stat.mtime),
    }
}

impl VfsFiles {
    /// A command of a script writes where a directory is; it does not make the directories above.
    fn check_parent(&self, path: &Path) -> bashkit::Result<()> {
        let parent = path.parent().unwrap_or(Path::new("/"));
        let stat = self.vfs.stat(bytes(parent)).map_err(failed)?;
        if stat.kind == Kind::Directory {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::NotADirectory, "Not a directory").into())
    }
}

#[async_trait]
impl FileSystemExt for VfsFiles {
    fn usage(&self) -> FsUsage {
        let usage = self.vfs.usage();
        FsUsage {
            total_bytes: usage.bytes,
            file_count: usage.entries,
            dir_count: 0,
        }
    }

    fn backend_kind(&self) -> &'static str {
        "agentvfs"
    }
}

#[async_trait]
impl FileSystem for VfsFiles {
    async fn read_file(&self, path: &Path) -> bashkit::Result<Vec<u8>> {
        Ok(self.vfs.read_file(bytes(path)).map_err(failed)?.to_vec())
    }

    async fn write_file(&self, path: &Path, content: &[u8]) -> bashkit::Result<()> {
        self.check_parent(path)?;
        self.vfs.write_file(bytes(path), content, None).map_err(failed)?;
        Ok(())
    }

    async fn append_file(&self, path: &Path, content: &[u8]) -> bashkit::Result<()> {
        self.check_parent(path)?;
        self.vfs.append_file(bytes(path), content, None).map_err(failed)?;
        Ok(())
    }

    async fn mkdir(&self, path: &Path, recursive: bool) -> bashkit::Result<()> {
        self.vfs.mkdir(bytes(path), recursive, recursive).map_err(failed)
    }

    async fn remove(&self, path: &Path, recursive: bool) -> bashkit::Result<()> {
        self.vfs.remove(bytes(path), recursive).map_err(failed)
    }

    async fn stat(&self, path: &Path) -> bashkit::Result<Metadata> {
        // Links are followed by the interpreter's outermost layer; below it, this is `lstat`.
        self.lstat(path).await
    }

    async fn lstat(&self, path: &Path) -> bashkit::Result<Metadata> {
        Ok(metadata(&self.vfs.lstat(bytes(path)).map_err(failed)?))
    }

    async fn read_dir(&self, path: &Path) -> bashkit::Result<Vec<DirEntry>> {
        let entries = self.vfs.ls(bytes(path)).map_err(failed)?;
        let shown = entries.into_iter().map(|entry| DirEntry {
            name: String::from_utf8_lossy(entry.name.as_bytes()).into_owned(),
            metadata: Metadata {
                file_type: file_type(entry.kind),
                size: entry.size.unwrap_or(0),
                mode: entry.mode,
                modified: host_time(entry.mtime),
                created: host_time(entry.mtime),
            },
        });
        Ok(shown.collect())
    }

    async fn exists(&self, path: &Path) -> bashkit::Result<bool> {
        match self.vfs.lstat(bytes(path)) {
            Ok(_) => Ok(true),
            Err(VfsError::NotFound { .. } | VfsError::NotADirectory { .. }) => Ok(false),
            Err(error) => Err(failed(error)),
        }
    }

    async fn rename(&self, from: &Path, to: &Path) -> bashkit::Result<()> {
        self.vfs.rename(bytes(from), bytes(to)).map_err(failed)
    }

    async fn copy(&self, from: &Path, to: &Path) -> bashkit::Result<()> {
        self.check_parent(to)?;
        if self.vfs.stat(bytes(from)).map_err(failed)?.kind == Kind::Directory {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "Is a directory").into());
        }
        self.vfs.copy(bytes(from), bytes(to), true).map_err(failed)?;
        Ok(())
    }

    async fn symlink(&self, target: &Path, link: &Path) -> bashkit::Result<()> {
        self.vfs.symlink(bytes(target), bytes(link)).map_err(failed)
    }

    async fn read_link(&self, path: &Path) -> bashkit::Result<PathBuf> {
        let target = self.vfs.read_link(bytes(path)).map_err(failed)?;
        Ok(std::ffi::OsString::from_vec(target).into())
    }

    async fn chmod(&self, path: &Path, mode: u32) -> bashkit::Result<()> {
        self.vfs.set_mode(bytes(path), mode & 0o7777).map_err(failed)
    }

    async fn set_modified_time(&self, path: &Path, time: SystemTime) -> bashkit::Result<()> {
        let nanos = match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => since.as_nanos() as i128,
            Err(before) => -(before.duration().as_nanos() as i128),
        };
        let time = Timestamp::from_nanos(nanos);
        self.vfs.set_mtime(bytes(path), time).map_err(failed)
    }
}
