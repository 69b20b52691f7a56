//! The door to the disk that packs go through, so that tests can put faults behind it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// How a pack file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    /// Read and write; the file exists.
    Write,
    /// Read and write; the file must not exist yet.
    Create,
}

/// A place for files.
pub trait Disk: Send + Sync {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>>;

    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Returns once the names in this directory survive a power loss.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
}

/// An open file. No call moves a position: offsets are explicit.
pub trait DiskFile: Send + Sync {
    /// Fills `buffer`, or fails with `UnexpectedEof`.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes a beginning of `bytes` and returns how much.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Returns once the contents survive a power loss.
    fn sync(&self) -> io::Result<()>;

    fn truncate(&self, length: u64) -> io::Result<()>;

    fn length(&self) -> io::Result<u64>;

    /// Whether the file still has a name.
    fn is_linked(&self) -> io::Result<bool>;

    /// Takes the exclusive lock of the file until it is closed; `false` if someone else has it.
    fn try_lock(&self) -> io::Result<bool>;
}

/// The disk of this machine.
pub struct HostDisk;

impl Disk for HostDisk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).mode(0o600);
        match access {
            Access::Read => {}
            Access::Write => _ = options.write(true),
            Access::Create => _ = options.write(true).create_new(true),
        }
        Ok(Arc::new(options.open(path)?))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
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

/// Writes all of `bytes`, however short the single writes are.
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
