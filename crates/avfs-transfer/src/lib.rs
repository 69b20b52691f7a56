//! In and out of a vault: host directories, tar archives and images of containers, exact to the byte, mode,
//! owner, time, link, extended attribute and hole.
//!
//! An import turns its input into objects and returns a directory for the caller to graft: until then no
//! vault has changed, and a failed import leaves only unreferenced objects. An export reads one immutable
//! tree. On the host nothing is ever reached through a symbolic link below the directory that the caller
//! named.
#![warn(missing_docs, unnameable_types, unreachable_pub)]

pub mod beneath;
mod error;
mod file_import;
pub mod host_file;
pub mod host_place;
mod host_read;
mod host_tree;
mod host_write;
mod image;
mod image_config;
mod image_files;
mod image_layer;
mod image_manifest;
mod import_tree;
mod links;
mod sha256;
mod tar_pax;
mod tar_read;
mod tar_sparse;
mod tar_stream;
mod tar_write;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use avfs_core::{Entry, LinkId, LinkedFile};

pub use error::{SkipReason, SkippedEntry, TransferError};
pub use file_import::FileImport;
pub use host_read::{DirectoryImport, import_directory};
pub use host_write::{DirectoryExport, export_directory};
pub use image::{ImageImport, ImageSource, ImportedImage, MOST_BYTES, MOST_ENTRIES, import_image};
pub use image_config::ImageConfig;
pub use tar_read::{TarImport, import_tar};
pub use tar_write::export_tar;

/// Hears how far a transfer is. Called from several threads, many times a second.
pub trait TransferProgress: Sync {
    /// So many more files and bytes are done.
    fn advance(&self, files: u64, bytes: u64);
}

/// Ignores all progress.
impl TransferProgress for () {
    fn advance(&self, _: u64, _: u64) {}
}

/// The result of an import: objects in the store, and the entries that refer to them.
#[derive(Debug)]
pub struct ImportedTree {
    /// The directory with its attributes, entries and totals.
    pub directory: Entry,
    /// The files with several names in it, for the link table, in ascending order.
    pub links: Vec<(LinkId, LinkedFile)>,
    /// What was read and what was left out.
    pub report: TransferReport,
}

/// The result of a transfer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransferReport {
    /// Names of everything but directories.
    pub files: u64,
    /// Without the topmost one.
    pub directories: u64,
    /// Contents of files; one with several names counts once.
    pub bytes: u64,
    /// Entries that were omitted or could not be preserved, in order of path.
    pub skipped: Vec<SkippedEntry>,
}

/// Counts from several threads.
#[derive(Default)]
pub struct TransferTally {
    files: AtomicU64,
    directories: AtomicU64,
    bytes: AtomicU64,
    skipped: Mutex<Vec<SkippedEntry>>,
}

impl TransferTally {
    fn add(&self, files: u64, bytes: u64) {
        self.files.fetch_add(files, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn add_directory(&self) {
        self.directories.fetch_add(1, Ordering::Relaxed);
    }

    fn skip(&self, path: impl Into<Box<[u8]>>, reason: SkipReason) {
        let skipped = SkippedEntry {
            path: path.into(),
            reason,
        };
        self.skipped
            .lock()
            .expect("no panic happens while the lock is held")
            .push(skipped);
    }

    /// The counts so far; moves the list of skipped entries out.
    pub fn report(&self) -> TransferReport {
        let mut skipped = std::mem::take(
            &mut *self
                .skipped
                .lock()
                .expect("no panic happens while the lock is held"),
        );
        skipped.sort_by(|a, b| a.path.cmp(&b.path));
        TransferReport {
            files: self.files.load(Ordering::Relaxed),
            directories: self.directories.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            skipped,
        }
    }
}

impl TransferReport {
    /// The report of an import, or an error if something was refused and that is not to be skipped.
    fn unless_refused(self, skip_refused: bool) -> Result<TransferReport, TransferError> {
        if skip_refused || !self.skipped.iter().any(|skipped| skipped.reason.is_refusal()) {
            return Ok(self);
        }
        let refused = self
            .skipped
            .into_iter()
            .filter(|skipped| skipped.reason.is_refusal());
        Err(TransferError::Refused {
            refused: refused.collect(),
        })
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
