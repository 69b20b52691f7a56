//! One state of a vault, to look at.

use std::io::Write;
use std::path::Path;

use agentvfs::error::FileError;
use agentvfs::transfer::{self, DirectoryExport, TransferProgress, TransferReport};
use agentvfs::{
    EntryKind, Error, FoundEntry, ReadError, Revision, SnapshotId, TreePath, TreeReader, Vault, Version,
};

/// Reads one state of a vault. Its errors name the vault.
pub struct View {
    pub vault: Vault,
    pub snapshot: SnapshotId,
    pub reader: TreeReader,
}

impl View {
    pub fn new(vault: Vault, snapshot: SnapshotId) -> Result<View, Error> {
        Ok(View {
            reader: vault.reader_at(snapshot)?,
            vault,
            snapshot,
        })
    }

    pub fn of(revision: Revision) -> Result<View, Error> {
        let Revision { vault, snapshot, .. } = revision;
        View::new(vault, snapshot)
    }

    pub fn find(&self, path: &TreePath) -> Result<FoundEntry, Error> {
        self.reader.find(path).map_err(|error| self.fail(error))
    }

    /// The entries of a directory that was found before, by name.
    pub fn list<'a>(
        &'a self,
        path: &TreePath,
        directory: &FoundEntry,
    ) -> Result<impl Iterator<Item = Result<(agentvfs::EntryName, FoundEntry), Error>> + use<'a>, Error> {
        let listing = self
            .reader
            .list_entry(path, &directory.entry)
            .map_err(|error| self.fail(error))?;
        Ok(listing.map(|item| item.map_err(|error| self.fail(error))))
    }

    /// The size of the file at `path`; fails if it is not a file.
    pub fn file_size(&self, path: &TreePath) -> Result<u64, Error> {
        self.reader
            .file(path)
            .map(|(size, _)| size)
            .map_err(|error| self.fail(error))
    }

    pub fn read_at(&self, path: &TreePath, offset: u64, out: &mut [u8]) -> Result<usize, Error> {
        self.reader
            .read_at(path, offset, out)
            .map_err(|error| self.fail(error))
    }

    pub fn version(&self, path: &TreePath) -> Result<Version, Error> {
        Version::of_file(&self.reader, path).map_err(|error| self.fail(error))
    }

    /// The number of files, directories and links at `path`; through rules, this is unknown without a walk.
    pub fn files_at(&self, path: &TreePath) -> Result<Option<u64>, Error> {
        match self.find(path)?.entry.kind {
            EntryKind::Directory { .. } if self.reader.has_rules() => Ok(None),
            EntryKind::Directory { below, .. } => Ok(Some(below.inodes)),
            _ => Ok(Some(1)),
        }
    }

    pub fn export_tar(
        &self,
        path: &TreePath,
        out: &mut dyn Write,
        progress: &dyn TransferProgress,
    ) -> Result<TransferReport, Error> {
        Ok(transfer::export_tar(&self.reader, path, out, progress)?)
    }

    pub fn export_directory(
        &self,
        path: &TreePath,
        to: &Path,
        options: &DirectoryExport,
        progress: &dyn TransferProgress,
    ) -> Result<TransferReport, Error> {
        Ok(transfer::export_directory(
            &self.reader,
            path,
            to,
            options,
            progress,
        )?)
    }

    pub fn fail(&self, source: ReadError) -> Error {
        let vault = self.vault.name().map(|name| name.to_string()).unwrap_or_default();
        Error::File(FileError::Read { vault, source })
    }
}
