//! In and out of a vault: host directories and tar archives, exact to the byte, mode, owner, time, link,
//! extended attribute and hole.
//!
//! An import turns what it reads into objects and returns a directory for the caller to graft: until
//! then no vault has changed, and a failed import leaves only objects that nothing names. An export reads
//! one immutable tree. On the host nothing is ever reached through a symbolic link below the directory
//! that the caller named.

pub(crate) mod beneath;
mod error;
mod git_read;
pub(crate) mod host_file;
pub(crate) mod host_place;
mod host_read;
mod host_tree;
mod host_write;
mod links;
mod tar_pax;
mod tar_read;
mod tar_sparse;
mod tar_stream;
mod tar_tree;
mod tar_write;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use avfs_core::{Entry, LinkId, LinkedFile};

pub use error::{Reason, Skipped, TransferError};
pub(crate) use git_read::import_revision;
pub use host_read::{DirectoryImport, import_directory};
pub use host_write::{DirectoryExport, export_directory};
pub use tar_read::{TarImport, import_tar};
pub use tar_write::export_tar;

/// Hears how far a transfer is. Called from several threads, many times a second.
pub trait Progress: Sync {
    /// So many more files and bytes are done.
    fn advance(&self, files: u64, bytes: u64);
}

/// Nobody listens.
impl Progress for () {
    fn advance(&self, _: u64, _: u64) {}
}

/// What an import made: objects in the store, and the entries that name them.
#[derive(Debug)]
pub struct Imported {
    /// The directory with its attributes, entries and totals.
    pub directory: Entry,
    /// The files with several names in it, for the link table, in ascending order.
    pub links: Vec<(LinkId, LinkedFile)>,
    pub report: Report,
}

/// What a transfer did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Names of everything but directories.
    pub files: u64,
    /// Without the topmost one.
    pub directories: u64,
    /// Contents of files; one with several names counts once.
    pub bytes: u64,
    /// What was left out or could not be kept, in order of path.
    pub skipped: Vec<Skipped>,
}

/// Counts from several threads.
#[derive(Default)]
pub(crate) struct Tally {
    files: AtomicU64,
    directories: AtomicU64,
    bytes: AtomicU64,
    skipped: Mutex<Vec<Skipped>>,
}

impl Tally {
    fn add(&self, files: u64, bytes: u64) {
        self.files.fetch_add(files, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn add_directory(&self) {
        self.directories.fetch_add(1, Ordering::Relaxed);
    }

    fn skip(&self, path: impl Into<Box<[u8]>>, reason: Reason) {
        let skipped = Skipped { path: path.into(), reason };
        self.skipped.lock().expect("no panic happens while the lock is held").push(skipped);
    }

    /// The counts so far; takes the list of what was skipped along.
    pub(crate) fn report(&self) -> Report {
        let mut skipped =
            std::mem::take(&mut *self.skipped.lock().expect("no panic happens while the lock is held"));
        skipped.sort_by(|a, b| a.path.cmp(&b.path));
        Report {
            files: self.files.load(Ordering::Relaxed),
            directories: self.directories.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            skipped,
        }
    }
}

impl Report {
    /// The report of an import, or an error if something was refused and that is not to be skipped.
    fn unless_refused(self, skip_refused: bool) -> Result<Report, TransferError> {
        if skip_refused || !self.skipped.iter().any(|skipped| skipped.reason.is_refusal()) {
            return Ok(self);
        }
        let refused = self.skipped.into_iter().filter(|skipped| skipped.reason.is_refusal());
        Err(TransferError::Refused { refused: refused.collect() })
    }
}

/// Joins two relative paths, either of which may be empty.
pub(crate) fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(directory.len() + 1 + name.len());
    path.extend_from_slice(directory);
    if !directory.is_empty() && !name.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}
