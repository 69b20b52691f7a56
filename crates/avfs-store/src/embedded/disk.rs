//! The disk interface that packs use, so that tests can inject faults.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// How a pack file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileAccess {
    /// Read only.
    Read,
    /// Read and write; the file exists.
    Write,
    /// Read and write; the file must not exist yet.
    Create,
}

/// A file system for pack files.
pub trait Disk: Send + Sync {
    /// Opens a file.
    fn open(&self, path: &Path, access: FileAccess) -> io::Result<Arc<dyn DiskFile>>;

    /// Removes a file's name; processes that have it open can still read it.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Returns once the names in this directory survive a power loss.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
}

/// An open file. Calls have no implicit position: offsets are explicit.
pub trait DiskFile: Send + Sync {
    /// Fills `buffer`, or fails with `UnexpectedEof`.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes a prefix of `bytes` and returns its length.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Returns once the contents survive a power loss.
    fn sync(&self) -> io::Result<()>;

    /// Cuts the file off, or extends it with zeros.
    fn truncate(&self, length: u64) -> io::Result<()>;

    /// The length in bytes.
    fn length(&self) -> io::Result<u64>;

    /// Whether the file still has a name.
    fn is_linked(&self) -> io::Result<bool>;

    /// Takes the exclusive lock of the file until it is closed; `false` if another process holds it.
    fn try_lock(&self) -> io::Result<bool>;
}

/// The disk of this machine.
pub struct HostDisk;

impl Disk for HostDisk {
    fn open(&self, path: &Path, access: FileAccess) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).mode(0o600);
        match access {
            FileAccess::Read => {}
            FileAccess::Write => _ = options.write(true),
            // Two processes that take the same number for a pack must not write into one file.
            FileAccess::Create => _ = options.write(true).create_new(true),
        }
        Ok(Arc::new(options.open(path)?))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        // A new name is durable only once its directory is.
        File::open(path)?.sync_all()
    }
}

impl DiskFile for File {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        FileExt::write_at(self, bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        // The size is written along; times and other attributes are not needed after a crash.
        self.sync_data()
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn is_linked(&self) -> io::Result<bool> {
        Ok(self.metadata()?.nlink() > 0)
    }

    fn try_lock(&self) -> io::Result<bool> {
        match File::try_lock(self) {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(source)) => Err(source),
        }
    }
}

/// Writes all of `bytes`, even if single writes are short.
pub(crate) fn write_all_at(file: &dyn DiskFile, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                bytes = &bytes[count..];
                offset += count as u64;
            }
            Err(source) if source.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => return Err(source),
        }
    }
    Ok(())
}
