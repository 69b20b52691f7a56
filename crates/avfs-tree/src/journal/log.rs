//! The file under a journal: written by its journal, read by all threads, synced without the tree's lock.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::{JournalError, JournalNote, JournalOrigin, SALT_LEN, io_error, sync_parent};

/// The file of a journal. Extents of files refer to it, so it outlives the journal that wrote it, and its
/// name in the directory, until the last of them is gone.
pub(crate) struct LogFile {
    pub(super) file: File,
    pub(super) place: PathBuf,
    /// The end of the bytes in the file; later bytes are in the journal's buffer.
    pub(super) written: AtomicU64,
    /// Up to here a sync has succeeded.
    pub(super) durable: AtomicU64,
    failed: AtomicBool,
    /// The contents of the note beside it; `None` if it has none.
    noted: Option<([u8; SALT_LEN], JournalOrigin)>,
    /// One sync at a time: threads that waited for it find their bytes durable and need no sync of their own.
    syncing: Mutex<()>,
}

impl std::fmt::Debug for LogFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LogFile({})", self.place.display())
    }
}

impl LogFile {
    pub(super) fn new(file: File, place: &Path, written: u64) -> LogFile {
        LogFile {
            file,
            place: place.to_owned(),
            written: AtomicU64::new(written),
            durable: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            noted: None,
            syncing: Mutex::new(()),
        }
    }

    /// The same with a note beside it that records how far it is durable.
    pub(super) fn noted(self, salt: [u8; SALT_LEN], origin: JournalOrigin) -> LogFile {
        LogFile {
            noted: Some((salt, origin)),
            ..self
        }
    }

    /// Everything up to here is durable from now on.
    pub(super) fn note_durable(&self, durable: u64) {
        self.durable.store(durable, Ordering::Release);
        if let Some((salt, origin)) = self.noted {
            JournalNote {
                salt,
                durable,
                origin,
            }
            .write(&self.place);
        }
    }

    /// A file that disappears with its last reference.
    pub(crate) fn nameless(directory: &Path) -> Result<LogFile, JournalError> {
        let file = tempfile::tempfile_in(directory);
        let file = file.map_err(|source| io_error("making a file beside", directory, source))?;
        Ok(LogFile::new(file, directory, 0))
    }

    /// Appends bytes. Callers take turns: they hold the lock of the tree.
    pub(crate) fn append(&self, data: &[u8]) -> Result<u64, JournalError> {
        let position = self.written();
        // A failed write leaves `written` as it is, and the next one overwrites the remains.
        let done = self.file.write_all_at(data, position);
        done.map_err(|source| io_error("writing beside", &self.place, source))?;
        self.written
            .store(position + data.len() as u64, Ordering::Release);
        Ok(position)
    }

    pub(crate) fn place(&self) -> &Path {
        &self.place
    }

    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    pub(super) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// Reads bytes that are in the file.
    pub(crate) fn read(&self, position: u64, out: &mut [u8]) -> Result<(), JournalError> {
        let read = self.file.read_exact_at(out, position);
        read.map_err(|source| io_error("reading", &self.place, source))
    }

    /// Returns once everything up to `end` survives a power loss. Needs no lock of the tree.
    pub(crate) fn sync_to(&self, end: u64) -> Result<(), JournalError> {
        if self.durable() >= end {
            return Ok(());
        }
        // Asked again below: the sync that this thread waited for may have covered its bytes.
        let _turn = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        self.check()?;
        let before = self.durable();
        let written = self.written();
        if before >= end {
            return Ok(());
        }
        // The first sync also makes the name and the size durable; later ones need only the data.
        let synced = match before {
            0 => self.file.sync_all().and_then(|()| sync_parent(&self.place)),
            _ => self.file.sync_data(),
        };
        // After a failed sync the kernel may have dropped the dirty pages and marked them clean, so a
        // second attempt could succeed without having written anything.
        if let Err(source) = synced {
            self.failed.store(true, Ordering::Release);
            return Err(io_error("syncing", &self.place, source));
        }
        self.note_durable(written);
        Ok(())
    }

    /// The error to report when the disk failed. Unless it is only full, the file is not trusted from then
    /// on.
    pub(super) fn broken(&self, action: &'static str, source: std::io::Error) -> JournalError {
        let error = io_error(action, &self.place, source);
        if !matches!(error, JournalError::Full { .. }) {
            self.failed.store(true, Ordering::Release);
        }
        error
    }

    pub(super) fn check(&self) -> Result<(), JournalError> {
        if self.failed.load(Ordering::Acquire) {
            Err(JournalError::Failed {
                place: self.place.clone(),
            })
        } else {
            Ok(())
        }
    }
}
